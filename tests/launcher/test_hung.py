# SPDX-License-Identifier: MIT
"""--progress-timeout: instances that make no progress are shown with their stacks, and ended."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))

import tap  # noqa: E402

STOPPER = os.path.join(BUILD, "tests", "launcher", "stopper")
FOREVER = "1000000000"
LIMIT_S = 300  # when something hangs


class Job:
    def __init__(self, *words, options=(), program=(STOPPER, FOREVER), out=None):
        self.folder = tempfile.TemporaryDirectory(prefix="plenum-test-")
        self.result = os.path.join(self.folder.name, "result")
        self.out, self.errors = tempfile.TemporaryFile("a+"), tempfile.TemporaryFile("a+")
        self.process = subprocess.Popen(
            [os.path.join(BUILD, "plenumrun"), "--starter", "own", "--allow-run-as-root", "-n", "2", "--loader", "none",
             "--grace", "1", "--progress-timeout", "2", "--result", self.result, *options, *program, *words],
            stdin=subprocess.PIPE, stdout=out or self.out, stderr=self.errors, text=True)

    def read(self, file):
        file.seek(0)
        return file.read()

    def said(self):
        return self.read(self.errors)

    def wait_for(self, file, pattern):
        end = time.monotonic() + LIMIT_S
        while not (match := re.search(pattern, self.read(file))):
            assert time.monotonic() < end and self.process.poll() is None, self.said()
            time.sleep(0.02)
        return match

    def end(self):
        status = self.process.wait(LIMIT_S)
        self.process.stdin.close()
        return status

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.out.close()
        self.errors.close()
        self.folder.cleanup()


class Hung(unittest.TestCase):
    def start(self, *words, **options):
        job = Job(*words, **options)
        self.addCleanup(job.close)
        return job

    def test_hangs(self):
        """the instance that hangs is shown and blamed, not the one that waits for it in a collective"""
        job = self.start("together", "hang=1:5")
        self.assertEqual(job.end(), 125, job.said())
        self.assertRegex(job.said(), r"warning: instance 1 on host \S+ has made no progress for \d+\.\d s:\n"
                                     r"  process \d+ \(stopper\): sleeping\n    thread \d+ \(stopper\): sleeping")
        self.assertRegex(job.said(), r"error: instance 1 on host \S+ made no progress for \d+\.\d s "
                                     r"\(--progress-timeout\)\n$")
        self.assertNotIn("instance 0 on host", job.said())
        with open(job.result, encoding="utf-8") as file:
            result = json.load(file)
        self.assertEqual((result["exit_status"], result["first_failed_instance"]), (125, 1))
        self.assertNotIn("stacks", result["instances"][0])
        self.assertIn("(stopper): sleeping", result["instances"][1]["stacks"])

    def test_independent(self):
        """an instance that hangs is seen although the others make progress"""
        job = self.start("work", "hang=1:5")
        self.assertEqual(job.end(), 125, job.said())
        self.assertRegex(job.said(), r"error: instance 1 on host \S+ made no progress for \d+\.\d s ")
        self.assertNotIn("instance 0 on host", job.said())

    def test_names(self):
        """names that the program chooses cannot act on the terminal"""
        folder = tempfile.TemporaryDirectory(prefix="plenum-test-")
        self.addCleanup(folder.cleanup)
        program = os.path.join(folder.name, "a\x1b[2Jb\x9b")
        os.symlink(STOPPER, program)
        job = self.start(program=(program, FOREVER, "hang=0:5", "hang=1:5"))
        self.assertEqual(job.end(), 125, job.said())
        self.assertRegex(job.said(), r"\n  process \d+ \(a\?\[2Jb\?\): sleeping\n    thread \d+ ")
        self.assertNotIn("\x1b", job.said())

    def test_stopped(self):
        """an instance that a signal has stopped hangs, even in a collective, and is ended"""
        job = self.start("together")
        job.wait_for(job.out, "instance 0 is in step 3")
        with open(f"/proc/{job.process.pid}/task/{job.process.pid}/children", encoding="ascii") as file:
            tree = file.read().split()
        programs = []
        while tree:
            pid = tree.pop()
            with open(f"/proc/{pid}/comm", encoding="ascii") as file:
                if file.read() == "stopper\n":
                    programs.append(int(pid))
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
                tree += file.read().split()
        os.kill(programs[0], signal.SIGSTOP)
        self.assertEqual(job.end(), 125, job.said())
        self.assertIn(f"process {programs[0]} (stopper): stopped by a signal\n", job.said())
        self.assertRegex(job.said(), r"made no progress for \d+\.\d s, because a signal has stopped it "
                                     r"\(--progress-timeout\)\n$")

    def test_restart(self):
        """a job with an instance that hangs is restarted like any other that fails"""
        job = self.start("together", "hang=0:2", options=["--max-restarts", "1"])
        self.assertEqual(job.end(), 125, job.said())
        self.assertIn("the job starts again (1 of 1 times)", job.said())
        self.assertEqual(job.said().count("error: instance 0"), 2)

    def test_unknown(self):
        """a program that does not use libplenum is not ended, and one warning says so"""
        job = self.start(program=("sh", "-c", "[ $RANK = 1 ] || read line"))
        job.wait_for(job.errors, "warning: --progress-timeout has no effect on instance 0 ")
        job.process.stdin.write("end\n")
        job.process.stdin.flush()
        self.assertEqual(job.end(), 0, job.said())
        self.assertEqual(job.said().count("\n"), 1, job.said())

    def test_late(self):
        """a program whose first step comes after the limit is watched from then on"""
        begin = '[ $RANK = 1 ] || read line; exec "$0" "$@"'
        job = self.start(program=("sh", "-c", begin, STOPPER, FOREVER, "together", "hang=0:5"))
        job.wait_for(job.errors, "warning: --progress-timeout has no effect on instance 0 ")
        job.process.stdin.write("begin\n")
        job.process.stdin.flush()
        self.assertEqual(job.end(), 125, job.said())
        self.assertRegex(job.said(), r"error: instance 0 on host \S+ made no progress for \d+\.\d s ")

    def test_blocked(self):
        """instances that wait for the reader of their output do not hang"""
        job = self.start(program=(STOPPER, FOREVER), out=subprocess.PIPE)
        time.sleep(6)  # three times the limit: nothing happens
        self.assertIsNone(job.process.poll(), job.said())
        lines = threading.Thread(target=job.process.stdout.read)
        lines.start()
        job.process.send_signal(signal.SIGTERM)
        self.assertEqual(job.end(), 75, job.said())
        lines.join()
        self.assertNotIn("no progress", job.said())


if __name__ == "__main__":
    tap.main()
