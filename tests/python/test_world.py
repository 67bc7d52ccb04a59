# SPDX-License-Identifier: MIT
"""Tests Python in jobs of several instances: runs world.py under mpirun, plenumrun and torchrun."""

import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ["top_srcdir"]
sys.path.append(os.path.join(SOURCE, "tests", "e2e"))

import jobs  # noqa: E402
import tap  # noqa: E402
import torchrun  # noqa: E402

BUILD = os.environ["top_builddir"]
tap.require("numpy")
torch = tap.find("torch")

CTL = os.path.join(BUILD, "plenumctl")
WORLD = os.path.join(SOURCE, "tests", "python", "world.py")
mpirun = unittest.skipIf(shutil.which("mpirun") is None, "mpirun is not installed")
needs_torch = unittest.skipIf(torch is None, "PyTorch is not installed for this Python")


def setUpModule():
    global T, HASH
    T = tempfile.mkdtemp(prefix="plenum-test-")
    os.environ.pop("PLENUM_LOADER", None)
    os.environ.update({
        "PLENUM_LIBRARY": os.path.join(BUILD, ".libs", "libplenum.so.1"),
        "PYTHONPATH": os.path.join(SOURCE, "python"),
        "PLENUM_CACHE_DIR": os.path.join(T, "cache"),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMP_NUM_THREADS": "1",
    })
    data = os.path.join(T, "data")
    subprocess.run([CTL, "make-sample", data, "--images", "7", "--size", "64"], check=True, stdout=subprocess.DEVNULL)
    HASH = subprocess.run([CTL, "hash", data, "--pipeline", "rrc(16)", "--epochs", "2"], check=True,
                          capture_output=True, text=True).stdout.strip()


def tearDownModule():
    shutil.rmtree(T)


def by_mpirun(n):
    old = "(Open MPI) 4." in subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout
    daemons = ["--mca", "oob_tcp_if_include", "lo"] if old else []  # newer versions find lo themselves
    return ["mpirun", "--oversubscribe", *daemons, "--mca", "pml", "ob1", "--mca", "btl",
            "self,vader", "--bind-to", "none", "-n", str(n), sys.executable]


def by_torchrun(n):
    return torchrun.command(n, T)


class WorldTest(unittest.TestCase):
    def run_world(self, launcher, *arguments, env=None):
        folder = tempfile.mkdtemp(dir=T)
        os.symlink(os.path.join(T, "data"), os.path.join(folder, "data"))
        done = subprocess.run([*launcher, WORLD, *arguments, folder, HASH], capture_output=True, text=True,
                              timeout=300, env=env)
        lines = []
        for name in glob.glob(os.path.join(folder, "said-*")):
            with open(name) as f:
                lines += f.read().splitlines()
        return done, lines

    def check_all(self, launcher, count, env=None):
        done, lines = self.run_world(launcher, "all", env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(lines.count("done"), count, done.stderr)
        self.assertEqual(lines.count("bar"), 1, "only instance 0 must show a bar")

    @mpirun
    def test_mpirun(self):
        """all checks pass in 3 instances of mpirun"""
        self.check_all(by_mpirun(3), 3)

    @mpirun
    def test_plenumrun(self):
        """all checks pass in 2 instances of plenumrun"""
        self.check_all([os.path.join(BUILD, "plenumrun"), "-n", "2", sys.executable], 2)

    def test_without_mpirun(self):
        """all checks pass in 2 instances of plenumrun without mpirun"""
        self.check_all([os.path.join(BUILD, "plenumrun"), "-n", "2", sys.executable], 2, jobs.without_mpirun(T))

    @needs_torch
    def test_torchrun(self):
        """all checks pass in 3 instances of torchrun, whose collectives use torch.distributed"""
        self.check_all(by_torchrun(3), 3)

    @needs_torch
    def test_refused(self):
        """under torchrun, a collective before torch.distributed is initialised is rejected, not run alone"""
        done, _ = self.run_world(by_torchrun(2), "refused")
        self.assertEqual(done.returncode, 0, done.stderr)

    @mpirun
    def test_late(self):
        """a missing instance is named by both others"""
        done, lines = self.run_world(by_mpirun(3), "late")
        self.assertEqual(lines.count("timed out"), 2, done.stderr)

    @needs_torch
    def test_late_torchrun(self):
        """under torchrun, a missing instance is named, too"""
        done, lines = self.run_world(by_torchrun(3), "late")
        self.assertEqual(lines.count("timed out"), 2, done.stderr)


tap.main()
