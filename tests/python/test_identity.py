# SPDX-License-Identifier: MIT
"""Tests where a process's rank comes from: torch.distributed, the program, or nowhere (ranks.py, in two processes).

One case spawns its processes. The others fork them from this process, which has already imported PyTorch.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import tap

BUILD = os.environ["top_builddir"]
SOURCE = os.environ["top_srcdir"]
os.environ["OMP_NUM_THREADS"] = "1"
tap.require("numpy", "torch")
os.environ["PLENUM_LIBRARY"] = os.path.join(BUILD, ".libs", "libplenum.so.1")
sys.path.insert(0, os.path.join(SOURCE, "python"))

import torch.multiprocessing  # noqa: E402

import ranks  # noqa: E402

RANKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ranks.py")
ALL = list(range(21))
SHARES = [ALL[0::2], ALL[1::2]]  # an evaluation's samples are dealt round-robin


def setUpModule():
    global T
    T = tempfile.mkdtemp(prefix="plenum-test-")
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PLENUM_LOADER"):
        os.environ.pop(name, None)
    os.environ["PLENUM_CACHE_DIR"] = os.path.join(T, "cache")
    subprocess.run([os.path.join(BUILD, "plenumctl"), "make-sample", os.path.join(T, "data"), "--classes", "3",
                    "--images", "7", "--size", "64"], check=True, stdout=subprocess.DEVNULL)


def tearDownModule():
    shutil.rmtree(T)


class IdentityTest(unittest.TestCase):
    maxDiff = None

    def spawn(self, case, folder):
        done = subprocess.run([sys.executable, RANKS, case, folder], capture_output=True, text=True, timeout=300,
                              env={**os.environ, "PYTHONPATH": os.path.join(SOURCE, "python")})
        self.assertEqual(done.returncode, 0, done.stderr)

    def fork(self, case, folder):
        both = torch.multiprocessing.start_processes(ranks.run, (case, folder), nprocs=ranks.RANKS, join=False,
                                                     start_method="fork")
        deadline = time.monotonic() + 300
        try:
            while not both.join(1):
                self.assertLess(time.monotonic(), deadline, "a rank hangs")
        finally:
            for process in both.processes:
                process.kill()

    def told(self, case, start=None):
        """Return the reports of the two ranks."""
        folder = tempfile.mkdtemp(dir=T)
        os.symlink(os.path.join(T, "data"), os.path.join(folder, "data"))
        (start or self.fork)(case, folder)
        result = []
        for rank in range(ranks.RANKS):
            with open(os.path.join(folder, f"told-{rank}")) as file:
                result.append(json.load(file))
        return result

    def check_places(self, told, launcher):
        for rank, one in enumerate(told):
            self.assertEqual(one["samples"], SHARES[rank])
            self.assertEqual((one["launcher"], one["place"]), (launcher, [2, rank, 2, rank]))
            self.assertEqual(one["gathered"], [0, 1])

    def test_adopted(self):
        """spawned processes with a process group have their shares, know their local ranks, and collectives work"""
        self.check_places(self.told("adopted", self.spawn), "torch.distributed")

    def test_lightning(self):
        """Lightning's processes are rejected before there is a process group, and get their shares once there is one"""
        told = self.told("lightning")
        self.check_places(told, "torch.distributed")
        for one in told:
            self.assertIn("WORLD_SIZE is 2, but RANK is not set", one["before"])

    def test_explicit(self):
        """rank= and world_size= work for a loader and for a job"""
        told = self.told("explicit")
        self.check_places(told, "program")
        for rank, one in enumerate(told):
            self.assertEqual((one["again"], one["all"]), (SHARES[rank], ALL))
            self.assertIn(f"this process is already instance {rank} of 2 (according", one["other"])
            self.assertIn("call torch.distributed.init_process_group() first", one["early"])

    def test_late(self):
        """a group created after the stream is an error at the next batch, unless the program has specified the share"""
        for rank, one in enumerate(self.told("late")):
            for refused in one["spawned"]:
                self.assertIn("multiprocessing has started this process", refused)
                self.assertIn("rank=0, world_size=1", refused)
            for name in ("loop", "stream", "job", "open"):
                self.assertIn(f"rank {rank} of 2, but when the job was opened it was instance 0 of 1", one[name], name)
            self.assertIn("call init_process_group() before", one["stream"])
            self.assertEqual(one["whole"], ALL)

    def test_contradicted(self):
        """a group that contradicts the launcher is rejected"""
        for rank, one in enumerate(self.told("contradicted")):
            for name in ("open", "job"):
                if rank == 0:
                    self.assertIn("rank 0 of 2", one[name])
                self.assertIn("(according to torchrun)", one[name])

    def test_absent(self):
        """a rank that opens nothing is named, and no other rank waits forever"""
        told = self.told("absent")
        self.assertIn("rank 1 of torch.distributed has opened neither a job nor a stream", told[0]["open"])

    def test_forked(self):
        """a child of a rank is rejected unless it specifies its share"""
        told = self.told("forked")
        self.check_places(told, "torch.distributed")
        for rank, one in enumerate(told):
            refused, share, whole = one["child"]
            self.assertIn(f"process {one['pid']}, from which this one was forked, is instance {rank} of 2", refused)
            self.assertIn("rank=0, world_size=1", refused)
            self.assertEqual((share, whole), (SHARES[rank], ALL))

    def test_workers(self):
        """a DataLoader's workers get an error, or their shares if these are specified"""
        for one in self.told("workers"):
            self.assertIn("forked from the one that opened the stream", one["handed"])
            self.assertIn("cannot be copied or pickled", one["spawned"])
            self.assertIn("each worker process of a DataLoader would be given all", one["opened"])
            self.assertEqual(sorted(one["shares"]), ALL)


tap.main()
