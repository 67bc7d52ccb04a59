# SPDX-License-Identifier: MIT
"""Provides what tests of plenumd as a service share: a data set, a simulated service manager, and clients."""

import functools
import json
import os
import pwd
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = os.environ["top_builddir"]
SOURCE = os.environ["top_srcdir"]
sys.path[:0] = [os.path.join(SOURCE, "tests", "python"), os.path.dirname(os.path.abspath(__file__))]

from rawclient import connect  # noqa: E402

PLENUMD, CTL, RUN, FEED = (os.path.join(BUILD, name) for name in ("plenumd", "plenumctl", "plenumrun", "examples/feed"))
STREAM = ["--pipeline", "rrc(48)flip(0.5)", "--seed", "3", "--micro-batch", "4"]
LIMIT = 300  # seconds for anything that must happen


ERROR = 9  # type of a frame


def frame(kind, payload=b"", request=0):
    return struct.pack("<IHHQ", len(payload), kind, 0, request) + payload


def text(s):
    return struct.pack("<I", len(s)) + s.encode()


HELLO = frame(1, b"plenum\0\0" + struct.pack("<HH", 1, 4) + text("") + text("a raw client") + text(""))


def clean_environment():
    names = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "PLENUM_LOADER",
             "JOURNAL_STREAM")
    return {k: v for k, v in os.environ.items() if k not in names}


def wait_for(what, condition):
    end = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {LIMIT} s")
        time.sleep(0.02)


def stop(process):
    """Stop a child with SIGSTOP, and return when it has stopped."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


@functools.cache
def why_no_other_users():
    """Return why the tests cannot run programs as another user, or None."""
    if os.geteuid() != 0:
        return "only root can be other users"
    nobody = pwd.getpwnam("nobody")
    try:
        done = subprocess.run([FEED, "--help"], user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=(),
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        can = done.returncode == 0
    except PermissionError:
        can = False
    return None if can else "other users cannot enter the folder in which this was built"


class Manager:
    """Simulates a service manager: its notification socket, and the lines that it has received."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.lines = []

    def hear(self, seconds):
        while select.select([self.socket], [], [], seconds)[0]:
            self.lines += self.socket.recv(4096).decode().splitlines()
            seconds = 0

    def wait(self, line):
        end = time.monotonic() + LIMIT
        while line not in self.lines:
            assert time.monotonic() < end, f"no {line} came, only {self.lines}"
            self.hear(0.1)
        self.lines.remove(line)


class ServiceCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="plenum-test-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.environment = dict(clean_environment(), PLENUM_CACHE_DIR=os.path.join(self.folder, "cache"))
        self.socket = os.path.join(self.folder, "sock")
        self.data = os.path.join(self.folder, "data")
        self.log = os.path.join(self.folder, "log")

    def need_other_users(self):
        if why_no_other_users():
            self.skipTest(why_no_other_users())

    def make_data(self, images=10, size=96):
        self.run_ok(CTL, "make-sample", self.data, "--classes", "4", "--images", str(images), "--size", str(size))

    def run_ok(self, *command):
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, f"{command}: {done.stderr}")
        return done.stdout

    def listener(self, kind=socket.SOCK_STREAM, path=None):
        s = socket.socket(socket.AF_UNIX, kind)
        s.bind(path or self.socket)
        if kind == socket.SOCK_STREAM:
            s.listen(64)
        self.addCleanup(s.close)
        return s

    def plenumd(self, *arguments, handed=(), manager=None, watchdog_us=0, **more):
        """Start a loader, which inherits the sockets `handed` as from a service manager."""
        environment = dict(self.environment, **more)
        if manager:
            environment["NOTIFY_SOCKET"] = manager.path
        if watchdog_us:
            environment["WATCHDOG_USEC"] = str(watchdog_us)
        copies = [os.dup(s.fileno()) for s in handed]
        moves = " ".join(f"{3 + i}<&{fd}" for i, fd in enumerate(copies))
        say = f"LISTEN_PID=$$ LISTEN_FDS={len(copies)}; export LISTEN_PID LISTEN_FDS;" if copies else ""
        with open(self.log, "a") as log:
            p = subprocess.Popen(["/bin/sh", "-c", f'{say} exec "$0" "$@" {moves}', PLENUMD, "--threads", "2",
                                  *arguments],
                                 env=environment, stdin=subprocess.DEVNULL, stderr=log, pass_fds=copies)
        for fd in copies:
            os.close(fd)
        self.addCleanup(self.end, p)
        return p

    def end(self, p):
        if p.poll() is None:
            p.kill()
        p.wait()

    def loaders_of_jobs(self):
        """Return the ids of the loaders that jobs of this test started, recognised by the test's cache folder in their
        environment."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/comm") as comm, open(f"/proc/{pid}/environ", "rb") as environment:
                    if comm.read() == "plenumd\n" and f"PLENUM_CACHE_DIR={self.folder}/".encode() in environment.read():
                        found.append(int(pid))
            except OSError:
                pass  # another user's process, or one that has just ended
        return found

    def run_job(self, *arguments):
        """Start a plenumrun job with its own loader, and return its process."""
        if not shutil.which("mpirun"):
            self.skipTest("mpirun is not installed")
        log = open(self.log, "a")
        self.addCleanup(log.close)
        job = subprocess.Popen([RUN, "--allow-run-as-root", *arguments],
                               env=dict(self.environment, PLENUM_PLENUMD=PLENUMD), stdin=subprocess.DEVNULL,
                               stdout=log, stderr=log)
        self.addCleanup(self.end_job, job)
        wait_for("the job's loader", lambda: self.loaders_of_jobs() or job.poll() is not None)
        self.assertIsNone(job.poll(), self.said())
        return job

    def end_job(self, job):
        if job.poll() is None:
            job.terminate()
        job.wait(LIMIT)

    def listening(self):
        with socket.socket(socket.AF_UNIX) as s:
            return s.connect_ex(self.socket) == 0

    def serve(self, *arguments, **more):
        p = self.plenumd("--socket", f"unix:{self.socket}", *arguments, **more)
        wait_for("a loader that listens", lambda: self.listening() or p.poll() is not None)
        self.assertIsNone(p.poll(), self.said())
        return p

    def serve_tcp(self, *arguments, **more):
        """Start a loader, self.p, that also listens on a free TCP port; return the port's address."""
        told = len(self.said()) if os.path.exists(self.log) else 0
        p = self.p = self.plenumd("--socket", f"unix:{self.folder}/tcp-{told}", "--listen", "0", "--root", self.folder,
                                  *arguments, **more)
        wait_for("a loader that listens", lambda: "listening on tcp:" in self.said()[told:] or p.poll() is not None)
        self.assertIsNone(p.poll(), self.said())
        return re.search(r"listening on (\S+)", self.said()[told:]).group(1)

    def connect(self, address, limit=LIMIT):
        kind, _, place = address.partition(":")
        s = socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET)
        self.addCleanup(s.close)
        s.settimeout(limit)
        connect(s, place if kind == "unix" else tuple([place.rsplit(":", 1)[0], int(place.rsplit(":", 1)[1])]))
        return s

    def resident(self, p, *kinds):
        """Return the sum, in KiB, of these lines of the loader's /proc/PID/status."""
        with open(f"/proc/{p.pid}/status") as f:
            return sum(int(line.split()[1]) for line in f if line.startswith(kinds))

    def said(self):
        with open(self.log, errors="replace") as f:  # a client's name may be any bytes
            return f.read()

    def feed(self, *arguments, data=None):
        p = subprocess.Popen([FEED, data or self.data, *STREAM, "--loader", f"unix:{self.socket}", "--json",
                              *arguments],
                             env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end_feed, p)
        return p

    def end_feed(self, p):
        self.end(p)
        p.stdout.close()
        p.stderr.close()

    def fed(self, p):
        """Return the result of a feed, which must have succeeded, and its messages."""
        out, err = p.communicate(timeout=2 * LIMIT)
        self.assertEqual(p.returncode, 0, err)
        return json.loads(out), err

    def alone(self, epochs):
        return self.run_ok(CTL, "hash", self.data, *STREAM, "--epochs", str(epochs)).strip()
