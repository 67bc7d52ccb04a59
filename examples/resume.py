# SPDX-License-Identifier: MIT
# resume.py - stop in mid-epoch, and continue from there on the next call.
import os
import sys
import pyplenum

dataset, checkpoint = sys.argv[1:3]
with pyplenum.Stream(dataset, "rrc(224) flip(0.5)", seed=1, micro_batch=16, epochs=2) as stream:
    if os.path.exists(checkpoint):
        with open(checkpoint, "rb") as file:
            stream.seek(file.read())       # rejected if data set, pipeline, seed or order differ
    print(f"from epoch {stream.place.epoch}, position {stream.place.position}")
    for number, batch in enumerate(stream):
        print(f"{batch.hash():016x}")      # train here
        if number == 4:                    # stop after five batches
            break
    with open(checkpoint + ".new", "wb") as file:
        file.write(stream.cursor)          # 32 bytes: the next step, for any number of processes
    os.replace(checkpoint + ".new", checkpoint)
