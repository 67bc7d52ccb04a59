# SPDX-License-Identifier: MIT
"""--status-port: the status page of the loader that a job starts for itself, and who may start that loader."""

import contextlib
import http.client
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = os.environ["top_builddir"]
sys.path.insert(0, os.path.join(os.environ["top_srcdir"], "tests", "python"))

import tap  # noqa: E402
from ports import free_port  # noqa: E402

RUN = [os.path.join(BUILD, "plenumrun"), "--allow-run-as-root", "--starter", "own"]
PLENUMD = os.path.join(BUILD, "plenumd")
LIMIT = 300


def wait_for(what, condition):
    end = time.monotonic() + LIMIT
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {LIMIT} s")
        time.sleep(0.02)
    return value


def get(port, path):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
    try:
        c.request("GET", path)
        answer = c.getresponse()
        return answer.status, answer.read()
    finally:
        c.close()


def loaders_at(inode):
    """Return the plenumd processes that hold this socket."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/exe") != os.path.realpath(PLENUMD):
                continue
            fds = os.listdir(f"/proc/{pid}/fd")
        except OSError:  # it has ended
            continue
        for fd in fds:
            with contextlib.suppress(OSError):  # the connection may have been closed
                if os.readlink(f"/proc/{pid}/fd/{fd}") == f"socket:[{inode}]":
                    found.append(int(pid))
    return found


def inode_of_port(port):
    with open("/proc/net/tcp") as f:
        for fields in map(str.split, f):
            if fields[1] == f"0100007F:{port:04X}" and fields[3] == "0A":
                return int(fields[9])
    return None


class JobCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="plenum-test-")
        self.addCleanup(shutil.rmtree, self.folder)
        names = ("PLENUM_LOADER", "PLENUM_PLENUMD")
        self.environment = dict({k: v for k, v in os.environ.items() if k not in names}, PLENUM_PLENUMD=PLENUMD)

    def job(self, *arguments):
        """Start a job that runs until its input ends; return it and the first line that it printed."""
        p = subprocess.Popen([*RUN, *arguments, "sh", "-c", "echo $PLENUM_LOADER; exec cat"], env=self.environment,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.kill, p)
        return p, p.stdout.readline().strip()

    def kill(self, p):
        if p.poll() is None:
            p.kill()
        for f in (p.stdin, p.stdout, p.stderr):
            f.close()
        p.wait()

    def end(self, p):
        _, err = p.communicate(timeout=LIMIT)
        self.assertEqual(p.returncode, 0, err)
        return err


@unittest.skipIf("without" in subprocess.run([PLENUMD, "--http-port", "1", "--socket",
                                              f"unix:/nonexistent-{os.getpid()}/s"], capture_output=True,
                                             text=True).stderr, "built without libmicrohttpd")
class Page(JobCase):
    def port_of(self, p):
        m = re.fullmatch(r"plenumrun: status page: http://127\.0\.0\.1:(\d+)/\n", line := p.stderr.readline())
        self.assertTrue(m, line)
        return int(m.group(1))

    def test_page(self):
        """the page exists as long as the job, on the same port, even if the loader dies"""
        p, _ = self.job("--status-port", "0")
        port = self.port_of(p)
        inode = inode_of_port(port)
        self.assertEqual(loaders_at(inode), [])  # it starts when the page is first opened
        for end in (None, signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
            if end:
                (before,) = loaders_at(inode)
                os.kill(before, end)
                wait_for("its end", lambda: before not in loaders_at(inode))
            wait_for("the page", lambda: get(port, "/readyz")[0] == 200)
            status, body = get(port, "/status.json")
            self.assertEqual(status, 200)
            self.assertIn("loader", json.loads(body))
            self.assertIn(b"<html", get(port, "/")[1].lower())
        err = self.end(p)
        self.assertNotIn("status page", err)  # it was shown earlier
        with self.assertRaises(ConnectionRefusedError):
            get(port, "/")

    def test_program_fetches(self):
        """a program can read its own job's page, on the requested port"""
        port = free_port()
        done = subprocess.run([*RUN, "-n", "2", "--status-port", str(port), sys.executable, "-c",
                               "import sys, urllib.request as u; "
                               "print(u.urlopen(sys.argv[1]).read().decode(), end='')",
                               f"http://127.0.0.1:{port}/healthz"], env=self.environment, capture_output=True,
                              text=True, timeout=LIMIT)
        self.assertEqual((done.returncode, done.stdout), (0, "alive\nalive\n"), done.stderr)
        self.assertEqual(done.stderr, f"plenumrun: status page: http://127.0.0.1:{port}/\n")

    def test_no_loader(self):
        """a reader gets an error when no loader starts"""
        self.environment["PLENUM_PLENUMD"] = "/bin/false"
        p, _ = self.job("--status-port", "0")
        port = self.port_of(p)
        self.assertEqual(get(port, "/"), (503, b"the loader has not started"))

    def test_port_in_use(self):
        """a port in use ends the job before its programs start, with a one-line error"""
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            port = s.getsockname()[1]
            done = subprocess.run([*RUN, "-n", "2", "--status-port", str(port), "echo", "started"],
                                  env=self.environment, capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual((done.returncode, done.stdout), (125, ""))
        self.assertRegex(done.stderr, r"^plenumrun: error: --status-port on host \S+: the status page cannot be "
                                      rf"served at 127\.0\.0\.1:{port}: Address already in use; choose another "
                                      r"port, or 0 for any free one\n$")

    def test_other_loaders(self):
        """a job without its own loader has no page, and reports that before it starts"""
        for loader in ("none", "unix:/nonexistent"):
            done = subprocess.run([*RUN, "--loader", loader, "--status-port", "0", "echo", "started"],
                                  env=self.environment, capture_output=True, text=True, timeout=LIMIT)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("--status-port is for a loader that the job starts itself", done.stderr)


class Strangers(JobCase):
    @unittest.skipIf(os.geteuid() != 0, "only root can be other users")
    def test_strangers(self):
        """another user's connections are closed, and start no loader"""
        p, loader = self.job()
        name = "\0" + loader.removeprefix("unix:@")
        knock = ("import os, socket, sys\n"
                 "os.setuid(int(sys.argv[2]))\n"
                 "for _ in range(300):\n"
                 "    s = socket.socket(socket.AF_UNIX)\n"
                 "    s.connect(chr(0) + sys.argv[1])\n"
                 "    print(s.recv(99))\n"
                 "    s.close()\n")
        done = subprocess.run([sys.executable, "-c", knock, name[1:], str(pwd.getpwnam("nobody").pw_uid)],
                              capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual((done.returncode, done.stdout), (0, "b''\n" * 300), done.stderr)
        with open("/proc/net/unix") as f:
            (inode,) = {int(fields[6]) for fields in map(str.split, f) if fields[-1] == "@" + name[1:]
                        and fields[3] == "00010000"}
        self.assertEqual(loaders_at(inode), [])
        with socket.socket(socket.AF_UNIX) as s:  # our own connection starts one
            s.connect(name)
            s.settimeout(LIMIT)
            s.sendall(b"this is not data" * 2)
            self.assertNotEqual(s.recv(4096), b"")
        self.assertEqual(len(loaders_at(inode)), 1)
        self.assertNotIn("nobody", self.end(p))


if __name__ == "__main__":
    tap.main()
