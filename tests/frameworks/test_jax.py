# SPDX-License-Identifier: MIT
"""Tests JAX with Streams: examples/frameworks/jax_photos.py, and when JAX releases a batch's memory."""

import os
import re
import sys

import frameworks

frameworks.need("JAX", "numpy", "jax")
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

import pyplenum  # noqa: E402
import tap  # noqa: E402
from frameworks import COUNT, FrameworkCase  # noqa: E402

DEVICES = 4
BY_REPLICA = NamedSharding(Mesh(jax.devices(), ("replica",)), PartitionSpec("replica"))
PUTS = {"device_put": lambda array: jax.device_put(array, BY_REPLICA),
        "of the process": lambda array: jax.make_array_from_process_local_data(BY_REPLICA, array),
        "asarray": jnp.asarray, "DLPack": jax.dlpack.from_dlpack, "copy": lambda array: jnp.array(array, copy=True)}


@jax.jit
def sums(images):
    """Return a number for each image, in a computation that takes long."""
    x = images.astype(jnp.int32)
    return jax.lax.fori_loop(0, 50, lambda _, y: (y + x) // 2, x).sum((1, 2, 3))


class JaxTest(FrameworkCase):
    def stream(self, **options):
        return pyplenum.Stream(self.photos, "rrc(64) flip(0.5)", seed=7, micro_batch=2, job=DEVICES, last="drop",
                               dtype="uint8", **options)

    def test_example(self):
        """the example has the same losses on one device, on four, and in two processes of four, with eight samples per
        step"""
        program = [sys.executable, f"{frameworks.EXAMPLES}/jax_photos.py", self.photos]
        four = self.run_ok(*program, "--epochs", "2", XLA_FLAGS="--xla_force_host_platform_device_count=4")
        one = self.run_ok(*program, "--epochs", "2", "--micro-batch", "8", XLA_FLAGS="")
        two = self.run_ok("plenumrun", "--num-instances", "2", "--num-replicas", "8", *program, "--epochs", "2",
                          "--micro-batch", "1", XLA_FLAGS="--xla_force_host_platform_device_count=4")
        losses = [[(epoch, round(float(loss), 3)) for epoch, loss in re.findall(r"epoch (\d): loss ([0-9.]+)", out)]
                  for out in (one, four, two)]
        self.assertEqual(losses[0], losses[1], one + four)
        self.assertEqual(losses[0], losses[2], one + two)
        self.assertEqual([epoch for epoch, _ in losses[0]], ["0", "1"])

    def test_shares(self):
        """each device gets its replica's samples"""
        with self.stream() as stream:
            batch = next(stream)
            for array in (batch.images, batch.samples.reshape(-1)):
                by_device = PUTS["of the process"](array).addressable_shards
                for replica, shard in enumerate(by_device):
                    self.assertEqual(shard.device, jax.devices()[replica])
                    self.assertTrue(np.array_equal(shard.data, array[2 * replica:2 * replica + 2]))

    def test_early_rewriting(self):
        """a slot is not reused while JAX still needs it, even if the program released the batch and JAX computes
        asynchronously"""
        for name, put in PUTS.items():
            with self.subTest(name), self.stream(epochs=6) as stream:
                want, pending = [], []
                while True:
                    try:
                        batch = next(stream)
                    except StopIteration:
                        break
                    except pyplenum.SlotsHeldError:  # JAX still reads the slots' memory
                        jax.block_until_ready(pending)
                        jnp.zeros(1).block_until_ready()  # JAX releases memory only during calls
                        continue
                    want.append(sums(jnp.asarray(batch.images.copy())))
                    pending.append(sums(put(batch.images)))
                    batch.release()
                self.assertEqual(len(pending), 6 * COUNT // 8)
                for one, two in zip(want, pending):
                    self.assertTrue(np.array_equal(one, two))

    def test_kept(self):
        """arrays that are kept never change: they are copies, or hold their slots, which then raises SlotsHeldError"""
        held = set()
        for name, put in PUTS.items():
            with self.subTest(name), self.stream() as stream:
                want, kept = [], []
                try:
                    for _ in range(2 * stream.slots):
                        batch = next(stream)
                        want.append(batch.images.copy())
                        kept.append(put(batch.images))
                        del batch
                except pyplenum.SlotsHeldError:
                    held.add(name)
                for one, two in zip(want, kept):
                    self.assertTrue(np.array_equal(one, two))
        self.assertLessEqual({"DLPack"}, held)
        self.assertNotIn("copy", held)

    def test_epochs(self):
        """each epoch has every sample once, len() counts batches, and a cursor from mid-epoch resumes the epoch"""
        with self.stream(epochs=2) as stream:
            self.assertEqual((len(stream), stream.steps_per_epoch), (12, 6))
            shown = [batch.samples.reshape(-1).tolist() for batch in stream]
            self.check_epochs(sum(shown, []))
            stream.seek_to(0)
            for number, batch in enumerate(stream):
                if number == 2:
                    break
            cursor = stream.cursor
            del batch
            with self.stream(epochs=2) as other:
                other.seek(cursor)
                self.assertEqual([batch.samples.reshape(-1).tolist() for batch in other], shown[3:])

    def test_interrupt(self):
        """Ctrl-C interrupts the loop, and the stream can be continued"""
        self.assertEqual(self.interrupted(__file__, "--interrupted", self.photos).splitlines()[-1], "12 batches")


def interrupted(photos):
    count = 0
    with pyplenum.Stream(photos, "rrc(16)", micro_batch=8, epochs=2) as stream:
        try:
            for count, batch in enumerate(stream, 1):
                total = jax.device_put(batch.images).sum()
                if count == 3:
                    frameworks.ready()
        except KeyboardInterrupt:
            pass
        for batch in stream:
            total = jax.device_put(batch.images).sum()
            total.block_until_ready()
            count += 1
    print(f"{count} batches")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        interrupted(sys.argv[2])
    else:
        tap.main()
