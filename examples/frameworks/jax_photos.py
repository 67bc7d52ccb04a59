#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""JAX: each local device is a replica and receives its share of every step.

    plenumctl make-sample photos
    python3 jax_photos.py photos
    XLA_FLAGS=--xla_force_host_platform_device_count=4 python3 jax_photos.py photos
    plenumrun --num-instances 2 --num-replicas 8 -x XLA_FLAGS=--xla_force_host_platform_device_count=4 \\
        python3 jax_photos.py photos

A batch's arrays are views of the memory that the loader wrote. JAX copies them to an accelerator; on the CPU it
computes on them directly. JAX holds the arrays, and with them their slot of the ring, until it has finished. Python
runs ahead of JAX, so the loop waits for the previous step and holds at most two batches. To keep images, use
jnp.array(x, copy=True).
"""

import argparse
import os

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import pyplenum


@jax.jit
def step(weights, images, labels):
    def mean_loss(weights):
        x = jax.image.resize(images.astype(jnp.float32) / 255, (len(images), 8, 8, 3), "linear")
        logs = jax.nn.log_softmax(x.reshape(len(images), -1) @ weights)
        return -jnp.take_along_axis(logs, labels[:, None], axis=1).mean()

    loss, gradient = jax.value_and_grad(mean_loss)(weights)
    return weights - 0.1 * gradient, loss


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("dataset")
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--micro-batch", type=int, default=2, help="samples per device and step (default: %(default)s)")
    args = p.parse_args()
    job = pyplenum.job()
    if job.num_instances > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}", job.num_instances,
                                   job.instance_index)
    mesh = Mesh(jax.devices(), ("replica",))
    by_replica, everywhere = NamedSharding(mesh, PartitionSpec("replica")), NamedSharding(mesh, PartitionSpec())

    def put(array):                                                # [R * M, ...], the samples of this process
        return jax.make_array_from_process_local_data(by_replica, array)

    with pyplenum.Stream(args.dataset, "rrc(32) flip(0.5)", seed=7, micro_batch=args.micro_batch, last="drop",
                         dtype="uint8", job=jax.local_device_count() if job.num_instances == 1 else job,
                         epochs=args.epochs) as stream:
        weights = jax.device_put(jnp.zeros((8 * 8 * 3, stream.num_classes)), everywhere)
        before = weights
        for number, batch in enumerate(stream, 1):
            weights, loss = step(weights, put(batch.images), put(batch.labels.reshape(-1)))
            before.block_until_ready()
            before = loss
            if number % stream.steps_per_epoch == 0 and job.instance_index == 0:
                print(f"epoch {number // stream.steps_per_epoch - 1}: loss {loss:.4f} on {jax.device_count()} devices",
                      flush=True)


if __name__ == "__main__":
    main()
