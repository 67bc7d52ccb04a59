#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compare pyplenum.normalise() with torch on one thread: bench/normalise_torch.py [--json] [IMAGES [SIDE]]

    PLENUM_LIBRARY=.libs/libplenum.so.1 PYTHONPATH=../python python3 bench/normalise_torch.py

In each round, both convert the same int8 NHWC batches to floats, one after the other. torch uses the usual expression,
(x.float() + 128).sub_(mean).div_(std) of a permuted batch, with .contiguous() for planes and .to() for halves, into new
memory. normalise() writes to an array that was written to before ("out"), or creates a new one like torch ("new").
Prints the median, minimum and maximum of the rounds' ratios of the process's CPU time.
"""

import json
import statistics
import sys
import time

import numpy as np
import torch

import pyplenum

ROUNDS = 9
MEAN, STD = [v * 255 for v in (0.485, 0.456, 0.406)], [v * 255 for v in (0.229, 0.224, 0.225)]


def timed(way):
    begin = time.process_time()
    way()
    return time.process_time() - begin


def main() -> None:
    as_json = "--json" in sys.argv
    numbers = [int(word) for word in sys.argv[1:] if word != "--json"]
    count, side = (numbers + [64, 224][len(numbers):])[:2]
    torch.set_num_threads(1)
    images = np.random.default_rng(0).integers(-128, 128, (count, side, side, 3), np.int8)
    x = torch.from_numpy(images)
    results = []
    for layout in ("nchw", "nhwc"):
        shape = (3, 1, 1) if layout == "nchw" else (3,)
        mean, std = torch.tensor(MEAN).reshape(shape), torch.tensor(STD).reshape(shape)
        for dtype, kind, bits in (("float32", torch.float32, "f4"), ("float16", torch.float16, "f2"),
                                  ("bfloat16", torch.bfloat16, "u2")):
            def by_torch(layout=layout, mean=mean, std=std, kind=kind):
                y = x.permute(0, 3, 1, 2) if layout == "nchw" else x
                return (y.float() + 128).sub_(mean).div_(std).to(kind).contiguous()

            out = np.zeros((count, 3, side, side) if layout == "nchw" else images.shape, bits)
            ways = {"out": lambda: pyplenum.normalise(images, dtype=dtype, layout=layout, out=out),
                    "new": lambda: pyplenum.normalise(images, dtype=dtype, layout=layout)}
            by_torch()
            ratios = {name: [] for name in ways}
            for _ in range(ROUNDS):
                for name, way in ways.items():
                    ratios[name].append(timed(by_torch) / timed(way))
            for name, r in ratios.items():
                results.append({"to": layout, "type": dtype, "memory": name, "min": min(r),
                                "median": statistics.median(r), "max": max(r)})
    if as_json:
        print(json.dumps({"images": count, "side": side, "rounds": ROUNDS, "torch": torch.__version__,
                          "rows": results}))
        return
    print(f"{count} images of {side}x{side} pixels, {ROUNDS} rounds; torch {torch.__version__}; times as fast as torch")
    for r in results:
        print(f"{r['to']:5} {r['type']:9} {r['memory']:4} {r['median']:7.1f}   ({r['min']:.1f} to {r['max']:.1f})")


main()
