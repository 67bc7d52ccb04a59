#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Train a linear classifier with only NumPy, on any number of processes: Plenum without a framework.

    plenumctl make-sample /tmp/sample
    python3 numpy_feed.py /tmp/sample
    plenumrun --num-instances 2 --num-replicas 4 python3 numpy_feed.py /tmp/sample
    python3 numpy_feed.py /tmp/sample --jax

Batches are NumPy views of the memory that the loader wrote. The program normalises them into an array of floats that it
reuses for every batch, and adds up gradients in place with the job's allreduce. With --jax, JAX compiles the step and
reads the floats through DLPack without a copy. Samples that pad the last step of an epoch have weight 0, so every
sample counts once per epoch, on any number of processes.
"""

import argparse
import sys
from typing import Any, Callable, Tuple

import numpy as np

import pyplenum

# (weights, images as float32 NHWC, labels, weight of each sample) -> (loss, correct answers, gradient), all as sums.
Step = Callable[[Any, Any, Any, Any], Tuple[Any, Any, Any]]


def features(xp: Any, images: Any) -> Any:
    """Return the 4 x 4 means of each channel and a constant 1: [N, 49] for any image size."""
    n, side = images.shape[0], images.shape[1] // 4 * 4
    cells = images[:, :side, :side, :].reshape(n, 4, side // 4, 4, side // 4, 3).mean(axis=(2, 4))
    return xp.concatenate([cells.reshape(n, -1), xp.ones((n, 1), xp.float32)], axis=1)


def make_step(xp: Any) -> Step:
    def step(weights: Any, images: Any, labels: Any, counts: Any) -> Tuple[Any, Any, Any]:
        x = features(xp, images)
        scores = x @ weights
        scores = scores - scores.max(axis=1, keepdims=True)
        logs = scores - xp.log(xp.exp(scores).sum(axis=1, keepdims=True))
        chosen = (labels[:, None] == xp.arange(weights.shape[1])[None, :]).astype(xp.float32)
        loss = -(logs * chosen).sum(axis=1)
        right = scores.argmax(axis=1) == labels
        gradient = x.T @ ((xp.exp(logs) - chosen) * counts[:, None])
        return (loss * counts).sum(), (right * counts).sum(), gradient

    return step


def jax_step() -> Step:
    import jax
    import jax.numpy as jnp

    compiled = jax.jit(make_step(jnp))

    def step(weights: Any, images: Any, labels: Any, counts: Any) -> Tuple[Any, Any, Any]:
        results = compiled(weights, jax.dlpack.from_dlpack(images), labels, counts)
        # JAX computes asynchronously: wait for it before the floats are overwritten.
        return tuple(np.asarray(r) for r in results)  # type: ignore[return-value]

    return step


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("dataset", help="a folder with one sub-folder per class")
    p.add_argument("--pipeline", default="rrc(32, scale=0.5:1) flip(0.5)", help="(default: %(default)s)")
    p.add_argument("--micro-batch", type=int, default=16, help="samples per replica and step (default: %(default)s)")
    p.add_argument("--epochs", type=int, default=10, help="(default: %(default)s)")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--lr", type=float, default=0.1)
    p.add_argument("--jax", action="store_true", help="compute with JAX")
    args = p.parse_args()

    job = pyplenum.job()
    step = jax_step() if args.jax else make_step(np)
    with pyplenum.Stream(args.dataset, args.pipeline, epochs=args.epochs, seed=args.seed,
                         micro_batch=args.micro_batch) as stream:
        weights = np.zeros((49, stream.num_classes), np.float32)
        of_epoch = np.zeros(3)  # samples, loss, correct answers
        floats = None
        for number, batch in enumerate(pyplenum.progress(stream), 1):
            counts = batch.valid.reshape(-1).astype(np.float32)
            floats = pyplenum.normalise(batch.images, out=floats)
            loss, right, gradient = step(weights, floats, batch.labels.reshape(-1), counts)
            sums = np.concatenate([np.ravel(gradient), [counts.sum()]]).astype(np.float32)
            job.allreduce(sums)
            weights -= args.lr * (sums[:-1] / sums[-1]).reshape(weights.shape)
            of_epoch += counts.sum(), loss, right
            del batch  # returns the slot to the loader
            if number % stream.steps_per_epoch == 0:
                job.allreduce(of_epoch)
                if job.instance_index == 0:
                    print(f"epoch {number // stream.steps_per_epoch:3}  {of_epoch[0]:.0f} samples  "
                          f"loss {of_epoch[1] / of_epoch[0]:.4f}  accuracy {of_epoch[2] / of_epoch[0]:.3f}", flush=True)
                of_epoch[:] = 0
    job.same(weights)  # raises an error that names the instance if weights have drifted apart
    return 0


if __name__ == "__main__":
    sys.exit(main())
