# SPDX-License-Identifier: MIT
"""Checks that the short programs of examples/ print the results of `plenumctl` and the library."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ["top_srcdir"]
sys.path[:0] = [os.path.join(SOURCE, "tests", "python"), os.path.join(SOURCE, "tests", "e2e")]

import jobs  # noqa: E402
import tap  # noqa: E402

tap.require("numpy")

IMAGES = 4 * 13


def setUpModule():
    global T
    T = tempfile.mkdtemp(prefix="plenum-test-")
    jobs.set_up(T)
    jobs.make_sample(os.path.join(T, "data"), "--classes", "4", "--images", "13", "--size", "64")


def tearDownModule():
    shutil.rmtree(T)


def program(name):
    return [os.path.join(jobs.BUILD, "examples", name)]


def script(name):
    return [sys.executable, os.path.join(SOURCE, "examples", name)]


def by_two(words):
    return jobs.run(jobs.by_plenumrun(2, 2, *words), jobs.without_mpirun(T)).splitlines()


def ctl(*words):
    return jobs.run([os.path.join(jobs.BUILD, "plenumctl"), *words])


class SamplesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.data = os.path.join(T, "data")
        cls.want = ctl("hash", cls.data, "--pipeline", "rrc(224) flip(0.5)", "--seed", "1").split()[0]

    def test_hello(self):
        """hello.c receives as many images as there are, in one instance and in two"""
        self.assertEqual(jobs.run([*program("hello"), self.data]), f"{IMAGES} images\n")
        counts = [int(line.split()[-2]) for line in by_two([*program("hello"), self.data])]
        self.assertEqual((len(counts), sum(counts)), (2, IMAGES))

    def test_hello_without_data(self):
        """hello.c reports an error and fails"""
        done = subprocess.run([*program("hello"), os.path.join(T, "nothing")], capture_output=True, text=True,
                              timeout=300)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(os.path.join(T, "nothing"), done.stderr)

    def test_sum(self):
        """sum.py and poll.c print the hash that one thread computes"""
        self.assertEqual(jobs.run([*script("sum.py"), self.data]), self.want + "\n")
        self.assertEqual([line.split()[-1] for line in by_two([*script("sum.py"), self.data])], [self.want])
        self.assertEqual(jobs.run([*program("poll"), self.data]), self.want + "\n")

    def test_resume(self):
        """resume.py: the parts of a run add up to the whole run"""
        checkpoint, hashes = os.path.join(T, "checkpoint"), []
        for _ in range(2):
            first, *parts = jobs.run([*script("resume.py"), self.data, checkpoint]).splitlines()
            hashes += [int(part, 16) for part in parts]
        self.assertEqual(first, "from epoch 1, position 16")
        self.assertEqual(len(hashes), 8)  # four of each epoch: the last is padded
        want = ctl("hash", self.data, "--pipeline", "rrc(224) flip(0.5)", "--seed", "1", "--epochs", "2").split()
        self.assertIn(f"{sum(hashes) % 2**64:016x}", want)

    def test_names(self):
        """names.py prints file names and classes"""
        lines = [line.rsplit(" ", 1) for line in jobs.run([*script("names.py"), self.data]).splitlines()]
        self.assertEqual(len(lines), 4)
        for name, label in lines:
            self.assertTrue(os.path.isfile(name), name)
            self.assertEqual(os.path.dirname(name), os.path.join(self.data, label))

    def test_collectives(self):
        """collectives.c: both instances get the sum"""
        self.assertEqual(sorted(by_two(program("collectives"))),
                         ["instance 0 of 2: the sum is 3", "instance 1 of 2: the sum is 3"])


if __name__ == "__main__":
    tap.main()
