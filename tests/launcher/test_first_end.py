# SPDX-License-Identifier: MIT
"""Whatever the order in which shims report, the cause of a failed job is the program that ended first, not one that
failed because it waited for that program in a collective."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))

import tap  # noqa: E402

STOPPER = os.path.join(BUILD, "tests", "launcher", "stopper")
LIMIT_S = 10


def wait_until(what, holds):
    end = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < end, what()
        time.sleep(0.02)


def parent_of(pid):
    with open(f"/proc/{pid}/stat") as f:
        return int(f.read().rpartition(")")[2].split()[1])


def state_of(pid):
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rpartition(")")[2].split()[0]


class FirstEnd(unittest.TestCase):
    def start(self, *words, **environment):
        self.errors = tempfile.TemporaryFile("a+")
        self.addCleanup(self.errors.close)
        job = subprocess.Popen([os.path.join(BUILD, "plenumrun"), "-v", "--allow-run-as-root", "--loader", "none", "-n",
                                "3", *words], stdin=subprocess.DEVNULL, stdout=self.errors, stderr=self.errors,
                               env={**os.environ, **environment})
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        return job

    def said(self):
        self.errors.seek(0)
        return self.errors.read()

    def find(self, pattern):
        wait_until(lambda: pattern + ": " + self.said(), lambda: re.search(pattern, self.said()))
        return re.search(pattern, self.said())

    def check(self, *words, **environment):
        """Kill instance 1 while its shim cannot report it. The others wait for it in a barrier, and fail first."""
        job = self.start(*words, STOPPER, "1000000000", "together", "say=1:5", "hang=1:5",
                         **environment)
        victim = int(self.find(r"instance 1 on host \S+: process (\d+),")[1])
        self.find(r"(?m)^step 5$")
        shim = parent_of(victim)
        os.kill(shim, signal.SIGSTOP)
        wait_until(lambda: "the shim does not stop", lambda: state_of(shim) == "T")
        os.kill(victim, signal.SIGKILL)
        self.find(r"instance [02] on host \S+ exited with code 5")
        os.kill(shim, signal.SIGCONT)
        self.assertEqual(job.wait(LIMIT_S), 128 + signal.SIGKILL, self.said())
        last = self.said().splitlines()[-1]
        self.assertRegex(last, r"error: instance 1 on host \S+ was ended by signal 9 \(Killed\)", self.said())

    def test_own(self):
        """an instance that was killed is the cause, although its shim reports that last"""
        self.check("--starter", "own")

    @unittest.skipIf(shutil.which("mpirun") is None, "mpirun is not installed")
    def test_mpirun(self):
        """an instance that was killed is the cause, also if mpirun has started the instances"""
        self.check()

    @unittest.skipUnless(os.path.exists(os.path.join(BUILD, "libplenum-tls.la")), "Plenum was built without TLS")
    def test_hosts(self):
        """also if the hosts are connected by TCP"""
        here = os.path.abspath(os.path.join(SOURCE, "tests", "launcher", "hosts_here"))
        # The leak checker does not read the memory in which TLS keys, and with them contexts, are kept.
        self.check("--host", "h1:2,h2:1", "--collectives", "tcp", "-x", "ASAN_OPTIONS", COUNTS="2 1",
                   ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0",
                   SHIM=os.path.join(BUILD, "plenumrun"), OMPI_MCA_plm_rsh_agent=os.path.join(here, "agent"),
                   PATH=here + ":" + os.environ["PATH"])


if __name__ == "__main__":
    tap.main()
