# SPDX-License-Identifier: MIT
"""The gate that limits how many logins to other hosts are made at once (launcher/remote/agent.c)."""

import fcntl
import os
import struct
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))

import tap  # noqa: E402

PLENUMRUN = os.path.join(BUILD, "plenumrun")
F_OFD_SETLK = 37
LIMIT_S = 300  # when something hangs


def wait_until(condition):
    limit = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > limit:
            raise AssertionError("the condition was not met in time")
        time.sleep(0.01)


def waiters(inode):
    """Returns the number of processes that wait for a lock of this file."""
    with open("/proc/locks", encoding="ascii") as file:
        return sum("->" in line and f":{inode} " in line for line in file)


class Gate(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.login = os.path.join(self.folder.name, "login")
        with open(self.login, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\necho $1 >>{self.folder.name}/begun\ncat >/dev/null\n")
        os.chmod(self.login, 0o700)
        self.gate = os.memfd_create("gate")
        self.inode = os.fstat(self.gate).st_ino

    def tearDown(self):
        os.close(self.gate)
        self.folder.cleanup()

    def start(self, gate):
        return subprocess.Popen(
            [PLENUMRUN, "--agent", "h1", "true"], stdin=subprocess.DEVNULL,
            env=dict(os.environ, PLENUM_SHIM_AGENT=self.login, PLENUM_SHIM_AGENT_HOSTS0="h1",
                     PLENUM_SHIM_TOKEN="secret", PLENUM_SHIM_AGENT_GATE=gate))

    def begun(self):
        path = os.path.join(self.folder.name, "begun")
        return len(open(path, encoding="utf-8").readlines()) if os.path.exists(path) else 0

    def test_a_login_waits_for_a_place(self):
        """a login waits while all places are taken, and is made when they are free"""
        fcntl.fcntl(self.gate, F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        agents = [self.start(f"/proc/{os.getpid()}/fd/{self.gate}") for _ in range(5)]
        wait_until(lambda: waiters(self.inode) == 5)
        self.assertEqual(self.begun(), 0)
        fcntl.fcntl(self.gate, F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0))
        self.assertEqual([agent.wait(LIMIT_S) for agent in agents], [0] * 5)
        self.assertEqual(self.begun(), 5)

    def test_no_gate(self):
        """a login is made if there is no gate"""
        self.assertEqual(self.start("/proc/0/fd/0").wait(LIMIT_S), 0)
        self.assertEqual(self.begun(), 1)


if __name__ == "__main__":
    tap.main()
