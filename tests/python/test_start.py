# SPDX-License-Identifier: MIT
"""Tests loaders that do not start, or might not end: the program's error, and that no process remains.

PLENUM_STARTS=N is the number of programs that are killed while their loader starts (10), PLENUM_SEED=N the seed of the
moments, printed on failure.
"""

import ctypes
import errno
import os
import platform
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import tap

BUILD = os.path.abspath(os.environ["top_builddir"])
SOURCE = os.path.abspath(os.environ["top_srcdir"])
tap.require("numpy")
PLENUMD = os.environ.get("PLENUM_PLENUMD", os.path.join(BUILD, "plenumd"))
LIMIT = 300  # far longer than anything takes, so only a hang fails
PROGRAM = """
import os, sys
sys.path.insert(0, sys.argv[2])
import pyplenum
exec(os.environ.get("BEFORE", ""))
try:
    with pyplenum.Stream(sys.argv[1], "rrc(32)", micro_batch=4, epochs=1,
                         loader_timeout=float(os.environ.get("LOADER_TIMEOUT", 600))) as s:
        print("samples:", sum(b.num_valid for b in s))
except pyplenum.PlenumError as e:
    print(e)
"""
PIDFD_OPEN, SCHED_GETAFFINITY = 434, 204  # of x86-64


def refuse(number, code):
    """Make this system call fail with the error `code` from now on, in this process and those that it starts."""
    instructions = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050000 | code), (0x06, 0, 0, 0x7fff0000)]
    text = b"".join(struct.pack("HBBI", *i) for i in instructions)
    bytes_ = ctypes.create_string_buffer(text, len(text))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    libc = ctypes.CDLL(None, use_errno=True)
    program = Program(len(instructions), ctypes.addressof(bytes_))
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, ctypes.byref(program)) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


def limit(what, number):
    resource.setrlimit(what, (number, number))


on_x86 = unittest.skipUnless(platform.machine() == "x86_64", "numbers of system calls are those of x86-64")


class ProgramCase(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="plenum-test-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.data = os.path.join(self.folder, "data")
        subprocess.run([os.path.join(BUILD, "plenumctl"), "make-sample", self.data, "--classes", "2", "--images", "8",
                        "--size", "64"], check=True, stdout=subprocess.DEVNULL)
        names = ("PLENUM_LOADER", "RANK", "WORLD_SIZE", "BEFORE")
        self.environment = {k: v for k, v in os.environ.items() if k not in names}
        self.environment |= {"PLENUM_LIBRARY": os.path.join(BUILD, ".libs", "libplenum.so.1"),
                             "PLENUM_CACHE_DIR": os.path.join(self.folder, "cache"), "PLENUM_PLENUMD": PLENUMD}

    def loader(self, text):
        """Write a program that replaces plenumd."""
        path = os.path.join(self.folder, "loader")
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, 0o755)
        return path

    def command(self):
        return [sys.executable, "-W", "ignore", "-c", PROGRAM, self.data, os.path.join(SOURCE, "python")]

    def run_program(self, before=None, **variables):
        """Return the output of a program that opens a stream with its own loader."""
        done = subprocess.run(self.command(), capture_output=True, text=True, timeout=LIMIT, preexec_fn=before,
                              env=self.environment | variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout


class StartTest(ProgramCase):
    def expect_failure(self, text, *parts, before=None, **variables):
        said = self.run_program(before, **variables, **({"PLENUM_PLENUMD": self.loader(text)} if text else {}))
        for part in parts:
            self.assertIn(part, said)
        self.assertNotIn("no loader answered", said)

    def test_ends(self):
        """when a loader exits during its start, the exception has its status and its last message"""
        cases = [("echo first >&2; echo 'my last words' >&2; exit 3", "exited with code 3", "my last words"),
                 ("printf 'no newline' >&2; exit 127", "exited with code 127", "no newline"),
                 ("exit 0", "exited with code 0"),
                 ("kill -SEGV $$", "signal 11 (Segmentation fault)"),
                 ("kill -ABRT $$", "signal 6 (Aborted)"),
                 ("kill -KILL $$", "signal 9 (Killed)", "because memory ran out")]
        for text, *parts in cases:
            with self.subTest(text):
                self.expect_failure(f"#!/bin/sh\n{text}\n", "while it was starting", *parts)

    def test_cannot_be_executed(self):
        """if the loader cannot be executed, the error gives the reason"""
        for text, part in (("nothing\n", "Exec format error"), ("#!/nonexistent/sh\n", "No such file or directory")):
            with self.subTest(part):
                self.expect_failure(text, "could not be started", part)

    def test_broken_library(self):
        """if a shared library cannot be loaded, the exception has the dynamic linker's message"""
        os.mkdir(os.path.join(self.folder, "lib"))
        with open(os.path.join(self.folder, "lib", "libuv.so.1"), "w") as f:
            f.write("broken")
        self.expect_failure(f"#!/bin/sh\nLD_LIBRARY_PATH={self.folder}/lib exec {PLENUMD} \"$@\"\n",
                            "error while loading shared libraries", "libuv.so.1")

    def test_stack(self):
        """a small stack (ulimit -s) does not cause a failure"""
        for kib in (96, 128, 512):
            with self.subTest(kib=kib):
                said = self.run_program(lambda kib=kib: limit(resource.RLIMIT_STACK, kib << 10))
                self.assertEqual(said, "samples: 16\n")

    def test_descriptors(self):
        """with few descriptors left, the program works or fails with 'Too many open files'"""
        before = ("import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\nfds = []\n"
                  "try:\n    while True: fds.append(os.dup(0))\nexcept OSError: pass\n"
                  "for fd in fds[-{}:]: os.close(fd)")
        served = []
        for left in range(3, 24):
            with self.subTest(left=left):
                said = self.run_program(BEFORE=before.format(left))
                if said != "samples: 16\n":
                    self.assertIn("Too many open files", said)
                    self.assertNotIn("no loader answered", said)
                served.append(said == "samples: 16\n")
        self.assertEqual(served, sorted(served), "with more descriptors, no start may fail that succeeded with fewer")
        self.assertTrue(served[-1])
        self.expect_failure(None, "Too many open files", before=lambda: limit(resource.RLIMIT_NOFILE, 16))

    @on_x86
    def test_no_pidfd(self):
        """loaders start, and failures are reported, if the kernel or seccomp rejects pidfd_open()"""
        for code in (errno.EPERM, errno.ENOSYS):
            with self.subTest(errno.errorcode[code]):
                self.assertEqual(self.run_program(lambda code=code: refuse(PIDFD_OPEN, code)), "samples: 16\n")
                self.expect_failure("#!/bin/sh\nexit 5\n", "exited with code 5",
                                    before=lambda code=code: refuse(PIDFD_OPEN, code))

    def test_carriage_return(self):
        """if the loader is a script with CR LF at its line ends, the error says so"""
        self.expect_failure("#!/bin/sh\r\nexit 5\r\n", "a script whose first line ends with CR LF, as on Windows")

    def test_slow(self):
        """if a loader hangs before it runs, the timeout error says so"""
        said = self.run_program(PLENUM_PLENUMD=self.loader("#!/bin/sh\nexec sleep 1000\n"), LOADER_TIMEOUT="6")
        self.assertIn("has been starting for", said)
        self.assertIn("has not begun to run", said)

    def test_stopped(self):
        """a loader stopped by a signal is reported as stopped, not as slow"""
        said = self.run_program(PLENUM_PLENUMD=self.loader("#!/bin/sh\nkill -STOP $$\n"), LOADER_TIMEOUT="6")
        self.assertIn("it is stopped: resume it with kill -CONT", said)
        self.assertNotIn("has not begun to run", said)

    @on_x86
    def test_topology(self):
        """if sched_getaffinity() fails, hwloc may loop: then the error says that the loader reads the topology"""
        said = self.run_program(lambda: refuse(SCHED_GETAFFINITY, errno.EPERM), LOADER_TIMEOUT="6")
        self.assertTrue("samples: 16" in said or "is reading the topology of this machine" in said, said)

    def killed(self, moment, before=None, **variables):
        """Kill a program `moment` seconds after its loader was started; wait until its standard error is closed."""
        begun, theirs = os.pipe()
        loader = self.loader(f"#!/bin/sh\necho begun >&2\n{variables.pop('loader', '')}\nexec {PLENUMD} \"$@\"\n")
        with subprocess.Popen(self.command(), stdout=subprocess.DEVNULL, stderr=theirs, preexec_fn=before,
                              env=self.environment | {"PLENUM_PLENUMD": loader} | variables) as p:
            os.close(theirs)
            with open(begun) as f:
                self.assertEqual(f.readline(), "begun\n")
                time.sleep(moment)  # the moment is random
                p.send_signal(signal.SIGKILL)
                f.read()

    def test_killed(self):
        """a loader ends with its program, at whatever moment of its start the program is killed"""
        seed = int(os.environ.get("PLENUM_SEED", random.randrange(1 << 32)))
        rng = random.Random(seed)
        for i in range(int(os.environ.get("PLENUM_STARTS", 10))):
            with self.subTest(seed=seed, round=i):
                self.killed(rng.choice((0, 0.1)) * rng.random())

    def test_killed_while_it_hangs(self):
        """a loader that hangs in its dynamic linker or in hwloc ends with its program, with and without pidfds"""
        ways = [None]
        if platform.machine() == "x86_64":
            ways += [lambda: refuse(PIDFD_OPEN, errno.EPERM), lambda: refuse(SCHED_GETAFFINITY, errno.EPERM)]
        for i, before in enumerate(ways):
            with self.subTest(way=i):
                self.killed(0, before, loader="exec sleep 1000")
                self.killed(0.2, before)


class DescriptorsTest(ProgramCase):
    """Tests programs with closed standard descriptors, a full disk or a small stack."""

    def test_ends(self):
        """plenumd without standard descriptors works, and exits with 0"""
        for closed in ((0, 1, 2), (0, 1), (2,), (0,)):
            with self.subTest(closed=closed):
                path = os.path.join(self.folder, f"socket{len(closed)}{closed[0]}")
                p = subprocess.Popen([PLENUMD, "--socket", "unix:" + path, "--threads", "1"], env=self.environment,
                                     preexec_fn=lambda fds=closed: [os.close(fd) for fd in fds])
                self.addCleanup(p.kill)
                said = self.run_program(PLENUM_LOADER="unix:" + path)
                self.assertEqual(said, "samples: 16\n")
                p.terminate()
                self.assertEqual(p.wait(LIMIT), 0)

    def test_result(self):
        """plenumctl fails if its result cannot be written"""
        command = [os.path.join(BUILD, "plenumctl"), "hash", "--pipeline", "rrc(32)", self.data]
        with open("/dev/full", "w") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=self.environment)
        self.assertEqual((done.returncode, done.stderr),
                         (1, "plenumctl: error: cannot write to standard output: No space left on device\n"))
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, preexec_fn=lambda: os.close(1),
                              env=self.environment)
        self.assertEqual((done.returncode, done.stderr),
                         (1, "plenumctl: error: cannot write to standard output: Bad file descriptor\n"))

    def test_small_stack(self):
        """plenumrun reports that its stack is too small, and does not crash"""
        for kib in (64, 96, 255):
            done = subprocess.run([os.path.join(BUILD, "plenumrun"), "-n", "1", "true"], capture_output=True, text=True,
                                  preexec_fn=lambda kib=kib: limit(resource.RLIMIT_STACK, kib << 10))
            self.assertEqual((done.returncode, done.stderr),
                             (125, f"plenumrun: error: the stack of a process is limited to {kib} KiB here "
                                   "(ulimit -s), but 256 KiB is needed\n"))


if __name__ == "__main__":
    tap.main()
