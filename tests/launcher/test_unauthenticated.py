# SPDX-License-Identifier: MIT
"""Clients that connect to plenumrun without being shims: neither a large number of them nor a lack of descriptors keeps
a job from starting."""

import os
import re
import resource
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = os.environ["top_builddir"]
sys.path.insert(0, os.path.join(os.environ["top_srcdir"], "tests", "python"))

import tap  # noqa: E402

RUN = os.path.join(BUILD, "plenumrun")
LIMIT = 300


@unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed")
class Strangers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="plenum-test-")
        self.addCleanup(shutil.rmtree, self.folder)

    def slow_mpirun(self):
        """Return an environment in which mpirun waits until the file `go` exists. It creates `begun` when it waits."""
        path = os.path.join(self.folder, "mpirun")
        with open(path, "w") as f:
            f.write(f'#!/bin/sh\n[ "$1" != --version ] || exec {shutil.which("mpirun")} --version\n'
                    f': >{self.folder}/begun\nwhile [ ! -e {self.folder}/go ]; do sleep 0.1; done\nexec '
                    f'{shutil.which("mpirun")} "$@"\n')
        os.chmod(path, stat.S_IRWXU)
        return dict(os.environ, PATH=self.folder + ":" + os.environ["PATH"])

    def listener_of(self, p, pattern):
        """Return the address of a socket of plenumrun's, once it exists."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end and p.poll() is None:
            with open("/proc/net/unix") as f:
                names = {fields[6]: fields[7] for fields in map(str.split, f) if len(fields) > 7}
            for fd in os.listdir(f"/proc/{p.pid}/fd"):
                try:
                    inode = re.match(r"socket:\[(\d+)\]", os.readlink(f"/proc/{p.pid}/fd/{fd}"))
                except FileNotFoundError:
                    continue
                if inode and re.fullmatch(pattern, names.get(inode[1], "")):
                    return "\0" + names[inode[1]][1:]
            time.sleep(0.05)
        raise AssertionError("it is not listening")

    def control_of(self, p):
        """Return the address at which plenumrun expects its instances, once it listens there."""
        return self.listener_of(p, "@plenumrun-(?!job-)(?!.*-collectives$).*")

    def test_many(self):
        """a job starts even if strangers hold more connections than are allowed"""
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        p = subprocess.Popen([RUN, "--allow-run-as-root", "-n", "2", "echo", "ran"], env=self.slow_mpirun(),
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        name = self.control_of(p)
        for _ in range(600):
            s = socket.socket(socket.AF_UNIX)
            self.addCleanup(s.close)
            s.connect(name)
        with open(os.path.join(self.folder, "go"), "w"):
            pass
        out, err = p.communicate(timeout=LIMIT)
        self.assertEqual((p.returncode, out), (0, "ran\nran\n"), err)

    def test_pause(self):
        """if descriptors run out, plenumrun says so once and does not spin, even if plenumctl connects to it"""
        errors = os.path.join(self.folder, "errors")
        # poll() accepts no more descriptors than the limit
        others = [os.open("/dev/null", os.O_RDONLY) for _ in range(32)]
        with open(errors, "w") as f:
            p = subprocess.Popen([RUN, "--allow-run-as-root", "-n", "2", "echo", "ran"], env=self.slow_mpirun(),
                                 stdout=subprocess.PIPE, stderr=f, text=True, pass_fds=others)
        for fd in others:
            os.close(fd)
        self.addCleanup(p.kill)
        self.control_of(p)
        job_socket = self.listener_of(p, "@plenumrun-job-.*")
        before = resource.prlimit(p.pid, resource.RLIMIT_NOFILE)
        used = self.descriptors_at_rest(p)
        resource.prlimit(p.pid, resource.RLIMIT_NOFILE, (min(set(range(len(used) + 1)) - used), before[1]))
        with open(os.path.join(self.folder, "go"), "w"):
            pass
        end = time.monotonic() + LIMIT
        while not os.path.getsize(errors) and time.monotonic() < end and p.poll() is None:
            time.sleep(0.05)
        # plenumctl job list connects to each job; it cannot be accepted either
        client = socket.socket(socket.AF_UNIX)
        self.addCleanup(client.close)
        client.connect(job_socket)
        spent = self.cpu_of(p)
        time.sleep(3)  # CPU time is measured over this interval
        spent = self.cpu_of(p) - spent
        resource.prlimit(p.pid, resource.RLIMIT_NOFILE, before)
        out, _ = p.communicate(timeout=LIMIT)
        with open(errors) as f:
            err = f.read()
        self.assertEqual((p.returncode, out), (0, "ran\nran\n"), err)
        self.assertEqual(err, "plenumrun: warning: no instance can connect at the moment: Too many open files\n")
        self.assertLess(spent, 0.15)  # of 3 s; a busy loop would use more of the CPU

    def descriptors_at_rest(self, p):
        """Return the descriptors that plenumrun holds once it waits for its instances."""
        end, last, now = time.monotonic() + LIMIT, None, set()
        while (now != last or not os.path.exists(os.path.join(self.folder, "begun"))) and time.monotonic() < end:
            time.sleep(0.5)
            last, now = now, {int(fd) for fd in os.listdir(f"/proc/{p.pid}/fd")}
        return now

    @staticmethod
    def cpu_of(p):
        """Return the CPU time used, in seconds."""
        with open(f"/proc/{p.pid}/stat") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def test_descriptors(self):
        """a job with more instances than descriptors is rejected before anything starts"""
        p = subprocess.run(["sh", "-c", 'ulimit -n 64 && exec "$@"', "sh", RUN, "--allow-run-as-root", "-n", "100",
                            "true"],
                           capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(p.returncode, 125, p.stderr)
        # each needs a connection, and a descriptor for its process while it uses the memory for collectives
        self.assertIn("100 instances need 232 open files here, but only 64 are allowed", p.stderr)


class Shim(unittest.TestCase):
    """A shim whose connection is closed before plenumrun has answered: plenumrun had no room, because strangers flood
    it."""

    def start(self, listener):
        port = listener.getsockname()[1]
        shim = {"CONTROL": f"tcp:127.0.0.1:{port}", "TOKEN": "ab" * 32, "JOB": "job", "LOADER": "0", "STATUS": "none",
                "GRACE": "1000", "IGNORED": "0", "RANK": "0"}
        # a shim that has lost plenumrun ends its program
        p = subprocess.Popen(["sh", "-c", 'trap : TERM; "$0" --shim & wait $!; wait $!', RUN],
                             stderr=subprocess.PIPE, text=True,
                             env=dict(os.environ, **{"PLENUM_SHIM_" + name: value for name, value in shim.items()}))
        self.addCleanup(p.stderr.close)
        self.addCleanup(p.kill)
        return p

    def test_again(self):
        """the shim connects again, and sends the same message"""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(LIMIT)
            p = self.start(listener)
            for _ in range(3):
                listener.accept()[0].close()
            said = listener.accept()[0]
            said.settimeout(LIMIT)
            self.assertEqual(said.recv(24)[16:], b"plnmrun\0")
        said.close()  # and that port has no listener any more
        self.assertNotEqual(p.wait(LIMIT), 0)
        self.assertIn("cannot reach plenumrun at tcp:127.0.0.1:", p.stderr.read())

    def test_known(self):
        """a shim that plenumrun has answered does not connect again: losing the connection ends it"""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(LIMIT)
            p = self.start(listener)
            one = listener.accept()[0]
            one.sendall(b"\0\0\0\0" + (19).to_bytes(2, "little") + b"\0" * 10)  # BEAT
            one.shutdown(socket.SHUT_WR)
            self.assertNotEqual(p.wait(LIMIT), 0)
            one.close()
            self.assertEqual(p.stderr.read(), "")
            listener.setblocking(False)
            with self.assertRaises(BlockingIOError):
                listener.accept()


if __name__ == "__main__":
    tap.main()
