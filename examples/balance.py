#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Train on an imbalanced folder without and with weights="class:1/2"; print accuracy, overall and of the rarest class.

    plenumctl make-sample sample --images 60 --size 48 --seed 1
    rm -f sample/waves/*-000[1-9]?.jpg      # one class with few samples
    python3 balance.py sample               # or your own folder whose classes differ in size
"""

import sys

import numpy as np
import pyplenum

STEPS, BATCH, SIDE = 300, 32, 12


def features(batch):
    """Return the pixels, scaled to -1 ... 1, and a constant 1."""
    x = batch.pixels.reshape(BATCH, -1).astype(np.float32) / 128
    return np.concatenate([x, np.ones((BATCH, 1), np.float32)], axis=1)


def batches(data, select, epochs=None, **options):
    with pyplenum.Stream(data, f"resize({SIDE}) center_crop({SIDE})", micro_batch=BATCH, epochs=epochs, select=select,
                         **options) as stream:
        for batch in stream:
            yield features(batch), batch.labels.reshape(-1), batch.valid.reshape(-1)


def train(data, classes, **options):
    w = np.zeros((3 * SIDE * SIDE + 1, classes), np.float32)
    for step, (x, labels, _) in zip(range(STEPS), batches(data, "not fold 0/5", **options)):
        p = np.exp(x @ w - (x @ w).max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        p[np.arange(BATCH), labels] -= 1
        w -= 0.02 * x.T @ p / BATCH
    return w


def accuracy(data, w, classes):
    right, count = np.zeros(classes), np.zeros(classes)
    for x, labels, valid in batches(data, "fold 0/5", epochs=1):
        np.add.at(right, labels[valid], (x @ w).argmax(axis=1)[valid] == labels[valid])
        np.add.at(count, labels[valid], 1)
    return right.sum() / count.sum(), right / np.maximum(count, 1)


def main(data):
    with pyplenum.Stream(data, "none") as stream:
        sizes = np.bincount(stream.targets, minlength=stream.num_classes)
        rare = int(sizes.argmin())
        print(f"{len(sizes)} classes; {stream.classes[rare]} has {sizes[rare]} of {sizes.sum()} samples")
    for weights in (None, "class:1/2"):
        whole, each = accuracy(data, train(data, len(sizes), weights=weights), len(sizes))
        print(f"weights {weights}: accuracy {whole:.3f}, {stream.classes[rare]} {each[rare]:.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
