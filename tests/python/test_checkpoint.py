# SPDX-License-Identifier: MIT
"""Tests pyplenum.Checkpoint: a process of an earlier start cannot replace a checkpoint of a later one."""

import doctest
import errno
import os
import random
import sys
import tempfile
import unittest
from unittest import mock

import tap

tap.require("numpy")
sys.path.insert(0, os.path.join(os.environ["top_srcdir"], "python"))
import pyplenum  # noqa: E402
import pyplenum.checkpoint  # noqa: E402


def start(path, job="", generation=""):
    """Return the Checkpoint that a process of this start of a job creates."""
    with mock.patch.dict(os.environ, {"PLENUM_JOB_ID": job, "PLENUM_GENERATION": str(generation)}):
        return pyplenum.Checkpoint(path)


def save(checkpoint, text):
    with checkpoint.replace() as path, open(path, "w", encoding="utf-8") as file:
        file.write(text)


def read(checkpoint):
    if checkpoint.newest is None:
        return None
    with open(checkpoint.newest, encoding="utf-8") as file:
        return file.read()


class CheckpointTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.path = folder.name, os.path.join(folder.name, "run.pt")

    def names(self):
        return sorted(os.listdir(self.folder))

    def test_resume(self):
        """each start resumes from the last checkpoint, and removes it after its own first one"""
        first = start(self.path)
        self.assertIsNone(first.newest)
        save(first, "a")
        save(first, "b")
        second = start(self.path)
        self.assertEqual(read(second), "b")
        third = start(self.path)
        self.assertEqual(read(third), "b", "the second start has written nothing")
        save(third, "c")
        self.assertEqual(self.names(), ["run.pt.3", "run.pt.3.claim"])
        self.assertEqual(read(third), "c")

    def test_plain_file(self):
        """a file without a number, written by other means, is the oldest checkpoint"""
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("plain")
        self.assertEqual(read(start(self.path)), "plain")
        save(start(self.path), "x")
        self.assertEqual(read(start(self.path)), "x")
        with open(self.path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "plain", "it is not ours to remove")

    def test_other_names(self):
        """files with similar names are neither read nor removed"""
        others = ["run.pt.01", "run.pt.7.bak", "run.pt.x", "arun.pt.9", "run_pt.9", "run.pt.9.claimed"]
        for name in others:
            with open(os.path.join(self.folder, name), "w", encoding="utf-8"):
                pass
        checkpoint = start(self.path)
        self.assertIsNone(checkpoint.newest)
        save(start(self.path), "x")
        self.assertEqual(set(others) - set(self.names()), set())

    def test_failed_write(self):
        """a failed write leaves the last checkpoint, and no file of its own"""
        checkpoint = start(self.path)
        save(checkpoint, "a")
        with self.assertRaisesRegex(ValueError, "no space"), checkpoint.replace() as path:
            with open(path, "w", encoding="utf-8") as file:
                file.write("half")
            raise ValueError("no space")
        self.assertEqual(self.names(), ["run.pt.1", "run.pt.1.claim"])
        with self.assertRaises(FileNotFoundError), checkpoint.replace():
            pass  # writes nothing
        self.assertEqual(read(start(self.path)), "a")

    def test_late(self):
        """a process of an earlier start cannot replace a newer checkpoint, wherever it was stopped"""
        old = start(self.path, "job", 1)
        save(old, "old")
        new = start(self.path, "job", 2)
        self.assertEqual(read(new), "old")
        with self.assertRaises(pyplenum.PlenumError) as caught:
            save(old, "late")
        self.assertEqual(caught.exception.errno, errno.ESTALE)
        self.assertIn("start 2 of this job has begun, and this process belongs to start 1", str(caught.exception))
        with mock.patch.object(old, "_check"):  # it was stopped between its check and its rename
            save(old, "later")
            save(new, "new")
            self.assertEqual(read(start(self.path, "job", 3)), "new")
            save(old, "latest")
        self.assertEqual(read(start(self.path, "job", 4)), "new")
        with self.assertRaises(pyplenum.PlenumError):  # it was stopped before it took a number
            start(self.path, "job", 3)
        self.assertEqual(read(start(self.path, "requeued", 1)), "new", "another job comes after all of them")

    def test_two_jobs(self):
        """a job gets an error if another one has replaced its checkpoint"""
        one, other = start(self.path, "one", 1), start(self.path, "other", 1)
        save(one, "one")
        save(other, "other")
        with self.assertRaises(pyplenum.PlenumError) as caught:
            save(one, "lost")
        self.assertEqual(caught.exception.errno, errno.ESTALE)
        self.assertIn("run.pt.2 was written by a later start, and this process has number 1", str(caught.exception))
        self.assertEqual(self.names(), ["run.pt.2", "run.pt.2.claim"])

    def test_foreign_claims(self):
        """claims that are damaged, or are not files, do not keep a job from starting"""
        for number, text in enumerate((b"", b"job", b"job x", b"job -1", b"\xff\xfe", b"\0" * 9), 1):
            with open(f"{self.path}.{number}.claim", "wb") as file:
                file.write(text)
        os.mkdir(f"{self.path}.7.claim")
        checkpoint = start(self.path, "job", 1)
        self.assertEqual(checkpoint.number, 8)
        save(checkpoint, "x")
        self.assertEqual(read(start(self.path, "job", 2)), "x")

    def test_broken_link(self):
        """an unreachable checkpoint causes an error, and is not mistaken for a run without one"""
        os.symlink(os.path.join(self.folder, "unmounted", "run.pt"), self.path)
        with self.assertRaises(FileNotFoundError):
            read(start(self.path))

    def test_full_disk(self):
        """a start that cannot take a number leaves no file"""
        with mock.patch("os.fsencode", side_effect=OSError(errno.ENOSPC, "full")), self.assertRaises(OSError):
            start(self.path)
        self.assertEqual(self.names(), [])

    def test_names(self):
        """the name may be bytes, but not empty"""
        save(start(os.fsencode(self.path)), "x")
        self.assertEqual(read(start(self.path)), "x")
        with self.assertRaises(ValueError):
            start("")

    def test_same_number(self):
        """processes that take a number at the same time get different ones"""
        real, taken = os.link, []

        def link(source, target):
            if not taken:
                taken.append(True)
                taken.append(start(self.path).number)
            return real(source, target)

        with mock.patch("os.link", link):
            number = start(self.path).number
        self.assertEqual((taken[1], number), (1, 2))

    def test_any_order(self):
        """whatever the order of starts and writes, the checkpoint of the last start that wrote is read"""
        rng = random.Random(7)
        for case in range(300):
            path, starts, generation, job = f"{self.path}-{case}", [], 0, "a"
            last, want = -1, None  # the last start that wrote, and what it wrote last
            for step in range(rng.randrange(2, 25)):
                if not starts or rng.random() < 0.3:
                    if rng.random() < 0.2:
                        job, generation = job + "a", 0
                    generation += 1
                    starts.append(start(path, job, generation))
                    self.assertEqual(read(starts[-1]), want)
                else:
                    writer = rng.randrange(len(starts)) if rng.random() < 0.4 else len(starts) - 1
                    with mock.patch.object(starts[writer], "_check"):  # it was stopped after its check
                        save(starts[writer], f"{writer}: {step}")
                    if writer >= last:
                        last, want = writer, f"{writer}: {step}"
            self.assertEqual(read(start(path, job + "a", 1)), want)

    def test_docstring(self):
        """the example of the docstring is correct"""
        self.assertEqual(doctest.testmod(pyplenum.checkpoint).failed, 0)


if __name__ == "__main__":
    tap.main()
