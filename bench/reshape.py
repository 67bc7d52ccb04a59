#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measure how long a stream takes to continue with other replicas: bench/reshape.py [--json] DATASET

    PLENUM_LIBRARY=.libs/libplenum.so.1 PLENUM_PLENUMD=$PWD/plenumd PYTHONPATH=../python python3
    bench/reshape.py DATASET

A loader renders training images (224 x 224, batches of 32, 4 in advance). Each round makes each of these changes, in
random order and after some batches, and measures the time from the change to the next batch:

    reshape     the open stream changes its share
    seek        the open stream keeps its share and seeks to where it is, so this is the time to render a batch
    reopen      the stream is closed, and another one with the new share is opened and seeks to the same place

Prints median, 90th percentile and maximum in milliseconds, ratios of medians, and how many changes took 100 ms or more.
"""

import json
import random
import statistics
import sys
import time

import pyplenum

ROUNDS, SHAPE = 60, {"pipeline": "train", "micro_batch": 32, "prefetch_depth": 4}


def by_reshape(stream, data, size):
    stream.reshape(size - 1, size)
    return stream


def by_seek(stream, data, size):
    stream.seek(stream.cursor)
    return stream


def by_reopening(stream, data, size):
    at = stream.cursor
    stream.close()
    stream = pyplenum.Stream(data, rank=size - 1, world_size=size, **SHAPE)
    stream.seek(at)
    return stream


ROWS = {"reshape": by_reshape, "seek": by_seek, "reopen": by_reopening}


def main() -> None:
    words = [word for word in sys.argv[1:] if word != "--json"]
    if len(words) != 1:
        sys.exit(__doc__)
    data, times, draw = words[0], {name: [] for name in ROWS}, random.Random(1)
    stream = pyplenum.Stream(data, rank=0, world_size=4, **SHAPE)
    for _ in range(ROUNDS):
        for name in draw.sample(sorted(ROWS), len(ROWS)):
            for _ in range(draw.randint(2, 8)):
                stream.next().release()
            size = draw.randint(1, 8)
            begin = time.perf_counter()
            stream = ROWS[name](stream, data, size)
            stream.next().release()
            times[name].append((time.perf_counter() - begin) * 1e3)
    found = {name: {"median": statistics.median(t), "p90": statistics.quantiles(t, n=10)[-1], "max": max(t),
                    "of seek": statistics.median(t) / statistics.median(times["seek"]),
                    "100 ms or more": sum(each >= 100 for each in t)} for name, t in times.items()}
    if "--json" in sys.argv:
        print(json.dumps(found))
        return
    print(f"{'':10}{'median':>9}{'p90':>9}{'max':>9}{'of seek':>9}   100 ms or more, of {ROUNDS}")
    for name, row in found.items():
        print(f"{name:10}{row['median']:9.1f}{row['p90']:9.1f}{row['max']:9.1f}{row['of seek']:9.2f}"
              f"   {row['100 ms or more']}")


if __name__ == "__main__":
    main()
