# SPDX-License-Identifier: MIT
"""Runs random programs of collectives (random_calls.py) over MPI and shared memory, which give the same results.

PLENUM_COLLECTIVE_PROGRAMS=N runs N programs (240).
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import tap

SOURCE = os.environ["top_srcdir"]
BUILD = os.environ["top_builddir"]
tap.require("numpy")

PROGRAMS = int(os.environ.get("PLENUM_COLLECTIVE_PROGRAMS", "240"))
SEED = int(os.environ.get("PLENUM_COLLECTIVE_SEED", "1"))
SIZES = (2, 3, 4, 5) if PROGRAMS >= 1000 else (2, 5)


def setUpModule():
    global T
    T = tempfile.mkdtemp(prefix="plenum-test-")
    os.environ.pop("PLENUM_LOADER", None)
    os.environ.update({
        "PLENUM_LIBRARY": os.path.join(BUILD, ".libs", "libplenum.so.1"),
        "PYTHONPATH": os.path.join(SOURCE, "python"),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMP_NUM_THREADS": "1",
    })


def tearDownModule():
    shutil.rmtree(T)


class CollectivesTest(unittest.TestCase):
    logs = {}  # by carrier and number of instances

    def run_programs(self, carrier, starter):
        each = -(-PROGRAMS // len(SIZES))
        differ = 0
        for size in SIZES:
            folder = tempfile.mkdtemp(dir=T)
            done = subprocess.run([os.path.join(BUILD, "plenumrun"), "--starter", starter, "--loader", "none", "-n",
                                   str(size), sys.executable,
                                   os.path.join(SOURCE, "tests", "python", "random_calls.py"), folder, str(SEED),
                                   str(each)], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            logs = []
            for i in range(size):
                with open(os.path.join(folder, f"log-{i}"), encoding="utf-8") as file:
                    logs.append(file.read().splitlines())
            self.assertEqual([len(log) for log in logs], [each] * size)
            for verdicts in zip(*logs):  # of all instances on one program
                kinds = {verdict[:verdict.find(":")] if verdict.startswith("differs") else "well"
                         for verdict in verdicts}
                self.assertEqual(len(kinds), 1, verdicts)
                differ += kinds != {"well"}
            self.logs[carrier, size] = logs
        print(f"# {carrier}: {each * len(SIZES)} programs, {differ} of which differ between instances")

    def test_memory(self):
        """over shared memory: all instances get NumPy's result, or an error that names the calls"""
        self.run_programs("memory", "own")

    @unittest.skipIf(shutil.which("mpirun") is None, "mpirun is not installed")
    def test_mpi(self):
        """over MPI: results and errors equal those over shared memory, bit for bit"""
        self.run_programs("MPI", "mpirun")
        for size in SIZES:
            if ("memory", size) in self.logs:
                self.assertEqual(self.logs["MPI", size], self.logs["memory", size])


tap.main()
