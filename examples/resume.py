# SPDX-License-Identifier: MIT
# resume.py - stop in the middle of an epoch, and go on from there, each time that it is called.
import os
import sys
import pyplenum

dataset, checkpoint = sys.argv[1:3]
with pyplenum.Stream(dataset, "rrc(224) flip(0.5)", seed=1, micro_batch=16, epochs=2) as stream:
    if os.path.exists(checkpoint):
        with open(checkpoint, "rb") as file:
            stream.seek(file.read())       # refused where data set, pipeline, seed or order are others
    print(f"from epoch {stream.place.epoch}, position {stream.place.position}")
    for number, batch in enumerate(stream):
        print(f"{batch.hash():016x}")      # train here
        if number == 4:                    # ... until something stops it
            break
    with open(checkpoint + ".new", "wb") as file:
        file.write(stream.cursor)          # 32 bytes: of the next step, whatever the number of processes
    os.replace(checkpoint + ".new", checkpoint)
