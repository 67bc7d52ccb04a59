# SPDX-License-Identifier: MIT
"""Tests NVRx's in-process restart with examples/frameworks/nvrx_photos.py: after ranks fail or are killed, the steps
that led to the weights have shown each sample exactly once."""

import datetime
import logging
import os
import sys

import frameworks

frameworks.need("NVRx", "numpy", "torch", "nvidia_resiliency_ext.inprocess")

import nvidia_resiliency_ext.inprocess as inprocess  # noqa: E402
import torch  # noqa: E402

import elastic  # noqa: E402
import tap  # noqa: E402
from frameworks import FrameworkCase  # noqa: E402
from ports import free_port  # noqa: E402

import nvrx_photos as example  # noqa: E402

logging.disable(logging.WARNING)
SOON = datetime.timedelta(milliseconds=100)


def seconds(count):
    return datetime.timedelta(seconds=count)


def member(photos, checkpoint, port, number):
    """Return a rank's body: the example's main(), which waits for permission before each step."""
    def body(tell, may_go):
        os.environ.update(RANK=str(number), WORLD_SIZE="3", MASTER_ADDR="localhost", MASTER_PORT=str(port))

        class Stream(example.pyplenum.Stream):
            generation, rank, size, began = 0, 0, 1, None

            def reshape(self, rank, size, at=None):
                super().reshape(rank, size, at)
                self.rank, self.size, self.began, where = rank, size, None, super().place
                tell("restart", generation=self.generation, epoch=where.epoch, position=where.position)

            @property
            def place(self):  # asked by the example before each step
                where = super().place
                if self.began:
                    tell("commit", generation=self.generation, tag=0)
                    self.began = None
                order = may_go(epoch=where.epoch)
                if order == "x":
                    raise RuntimeError("this rank fails once")
                return where if order else where._replace(epoch=1 << 60)

            def next(self, timeout=None):
                where = super().place
                batch = super().next(timeout)
                tell("take", position=where.position, rank=self.rank, size=self.size, **elastic.report(batch))
                self.began = True
                return batch

        inner = example.train.__wrapped__

        @inprocess.Wrapper(monitor_thread_interval=SOON, monitor_process_interval=SOON, progress_watchdog_interval=SOON,
                           last_call_wait=SOON, soft_timeout=seconds(150), hard_timeout=seconds(200),
                           barrier_timeout=seconds(250), heartbeat_timeout=seconds(100))
        def train(stream, start, args, call: inprocess.CallWrapper = None):
            stream.generation = call.iteration
            inner(stream, start, args, call)

        example.pyplenum.Stream, example.train = Stream, train
        sys.argv = ["nvrx_photos.py", photos, "--epochs", "1000000", "--micro-batch", str(elastic.MICRO_BATCH),
                    "--checkpoint", checkpoint]
        example.main()
    return body


class NvrxTest(FrameworkCase):
    def setUp(self):
        port = free_port("")
        self.job = elastic.Run(self.path("log"))
        self.addCleanup(lambda: self.job.kill(*self.job.ranks))
        for number in range(3):
            self.job.start(number, member(self.photos, self.path("run.pt"), port, number))

    def until_taken(self, name, step=0):
        """Wait until this rank is within a step, and at least this number of steps has been committed."""
        self.job.until(lambda rank, line: line["kind"] == "take" and rank.name == name and len(self.job.steps) >= step)

    def check(self):
        """End the run, and check that each sample was shown once, in order."""
        self.job.finish()
        shown, total, sizes = self.job.lineage()
        order, whole = elastic.expected(self.photos, self.job.last_epoch)
        self.assertEqual((shown, total), (order, whole["hash"]))
        self.assertEqual(len(order), whole["samples"])
        return sizes

    def test_killed_in_a_step(self):
        """if a rank is killed within a step, the others continue from the checkpoint, also after a second one fails"""
        self.until_taken(2, 12)
        self.job.kill(2)
        self.job.until_size(2)
        self.job.orders[1] = "x"
        self.job.until(lambda rank, line: line["kind"] == "restart" and line["generation"] == 2)
        self.job.until_size(2)
        self.assertEqual(set(self.check()), {2, 3})

    def test_first_step(self):
        """if a rank is killed within the first step, before there is a checkpoint, the others start again"""
        self.until_taken(1)
        self.job.kill(1)
        self.job.until_size(2)
        self.assertEqual(set(self.check()), {2})

    def test_failed(self):
        """a rank whose step raises an exception continues together with the others"""
        self.until_taken(0, 7)
        self.job.orders[1] = "x"
        self.job.until(lambda rank, line: line["kind"] == "restart" and line["generation"] == 1)
        self.assertEqual(set(self.check()), {3})


if __name__ == "__main__":
    tap.main()
