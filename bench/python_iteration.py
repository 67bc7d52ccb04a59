#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measure the cost of a ready batch in Python: bench/python_iteration.py [--json] [BATCHES]

    PLENUM_LIBRARY=.libs/libplenum.so.1 PLENUM_PLENUMD=$PWD/plenumd PYTHONPATH=../python python3
    bench/python_iteration.py

All batches are one constant batch in the ring (PLENUM_SOURCE=synthetic), so there is no waiting. Each round runs:

    next            only gets the batch
    arrays          also gets its six arrays
    tensors         also gets images, labels and valid flags as torch tensors
    torch.Loader    a loop over a pyplenum.torch.Loader
    copy            copies the pixels of such a batch once, which Plenum saves

Prints median, minimum and maximum of the rounds, in microseconds per batch. This is elapsed time, because the CPU time
of the process would include the library's own thread.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 9
SHAPE = {"pipeline": "train", "micro_batch": 32}


def sample(folder: str) -> str:
    data = os.path.join(folder, "data")
    ctl = os.environ.get("PLENUM_PLENUMCTL", "./plenumctl")
    subprocess.run([ctl, "make-sample", data, "--images", "8", "--size", "64"], check=True, stdout=subprocess.DEVNULL)
    return data


def main() -> None:
    as_json = "--json" in sys.argv
    numbers = [word for word in sys.argv[1:] if word != "--json"]
    count = int(numbers[0]) if numbers else 2000
    os.environ["PLENUM_SOURCE"] = "synthetic"
    import pyplenum

    try:
        import torch
        import pyplenum.torch
    except ImportError:
        torch = None

    with tempfile.TemporaryDirectory() as folder:
        os.environ["PLENUM_CACHE_DIR"] = folder
        data = sample(folder)
        stream = pyplenum.Stream(data, **SHAPE)
        rows = {
            "next": lambda: next(stream),
            "arrays": lambda: [getattr(b, f) for b in [next(stream)]
                               for f in ("images", "labels", "samples", "positions", "valid", "epochs")],
        }
        if torch is not None:
            rows["tensors"] = lambda: pyplenum.torch.tensors(next(stream))
            loader = pyplenum.torch.Loader(data, **SHAPE)

            def batches():
                while True:
                    yield from loader

            endless = batches()
            rows["torch.Loader"] = lambda: next(endless)
        held = next(stream).images
        rows["copy"] = held.copy
        times = {name: [] for name in rows}
        for _ in range(ROUNDS):
            for name, row in rows.items():
                n = count if name != "copy" else max(1, count // 20)
                begin = time.perf_counter()
                for _ in range(n):
                    row()
                times[name].append((time.perf_counter() - begin) / n * 1e6)
        if as_json:
            print(json.dumps({"batch_bytes": held.nbytes, "rounds": ROUNDS, "batches": count, "microseconds_a_batch": {
                name: {"min": min(t), "median": statistics.median(t), "max": max(t)} for name, t in times.items()}}))
            return
        print(f"batches of {held.shape[0]} images of {held.shape[1]} x {held.shape[2]} pixels, "
              f"{held.nbytes / 2**20:.1f} MiB; {ROUNDS} rounds of {count}")
        for name, t in times.items():
            print(f"{name:14} {statistics.median(t):9.1f} us   ({min(t):.1f} to {max(t):.1f})")


main()
