# SPDX-License-Identifier: MIT
# names.py - print the files in the first batch of an epoch, and their classes.
import sys
import pyplenum

with pyplenum.Stream(sys.argv[1], "eval", seed=1, micro_batch=4, epochs=1) as stream:
    batch = stream.next()
    for name, label in zip(stream.names(batch.samples.reshape(-1)), batch.labels.reshape(-1)):
        print(name, stream.classes[label] if stream.classes else label)
