# SPDX-License-Identifier: MIT
"""plenumrun on a terminal: Ctrl-C, Ctrl-Z and progress bars. Also runs an unmodified PyTorch program."""

import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = os.environ["top_builddir"]
SOURCE = os.environ["top_srcdir"]
RUN = os.path.join(BUILD, "plenumrun")
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))

import tap  # noqa: E402

if shutil.which("mpirun") is None:
    tap.skip_all("mpirun is not installed")
os.environ.update({"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "LC_ALL": "C", "TERM": "dumb"})
for name in ("PLENUM_LOADER", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS"):
    os.environ.pop(name, None)


def setUpModule():
    global T
    T = tempfile.mkdtemp(prefix="plenum-test-")
    os.chdir(T)


def tearDownModule():
    os.chdir("/")
    shutil.rmtree(T)


class Terminal:
    """A program on its own terminal."""

    def __init__(self, *command):
        self.text = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execv(command[0], command)

    def read(self, seconds):
        """Return the output that arrives within this time, or until the terminal is closed."""
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if not ready:
            return b""
        try:
            more = os.read(self.fd, 65536)
        except OSError:
            more = b""
        self.text += more
        return more

    def expect(self, pattern, seconds=20):
        end = time.monotonic() + seconds
        while not re.search(pattern, self.text):
            if time.monotonic() > end:
                raise AssertionError(f"{pattern!r} did not come: {self.text!r}")
            self.read(0.1)

    def type(self, keys):
        os.write(self.fd, keys)

    def end(self, seconds=20):
        """Return its exit status, as a shell reports it."""
        end = time.monotonic() + seconds
        while True:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise AssertionError(f"it does not end: {self.text!r}")
        while self.read(0.1):
            pass
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


def screen(text):
    """Return the lines that a terminal shows after these bytes."""
    lines, line, column = [], "", 0
    for part in re.findall(r"\r\n|\n|\r|\x1b\[K|[^\r\n\x1b]", text.decode()):
        if part in ("\r\n", "\n"):
            lines.append(line)
            line, column = "", 0
        elif part == "\r":
            column = 0
        elif part == "\x1b[K":
            line = line[:column]
        else:
            line = line[:column].ljust(column) + part + line[column + 1:]
            column += 1
    return lines + [line] if line else lines


class TerminalTest(unittest.TestCase):
    def test_interrupt(self):
        """Ctrl-C shows what the instances are doing, and ends them"""
        t = Terminal(RUN, "-n", "2", "sh", "-c", "echo up $RANK; exec sleep 1000")
        t.expect(rb"up 0")
        t.expect(rb"up 1")
        t.type(b"\x03")
        self.assertEqual(t.end(), 130)
        lines = screen(t.text)
        title = next(i for i, line in enumerate(lines) if "Instance" in line and "Last output" in line)
        for i in (0, 1):
            self.assertRegex(lines[title + 1 + i], rf"^ +{i} .* [0-9]+ +running +[0-9.]+ s +[0-9.]+ s")
        self.assertTrue(any("SIGINT: ending the job" in line for line in lines[title + 2:]), lines)
        self.assertRegex(lines[-1], r"the job was ended by SIGINT; instance [01] on host .* was ended by signal 2")

    def test_interrupt_twice(self):
        """a second Ctrl-C kills instances that ignore the first"""
        t = Terminal(RUN, "-n", "2", "sh", "-c", "trap '' INT TERM; echo up; while :; do sleep 0.1; done")
        t.expect(rb"up\r\nup")
        t.type(b"\x03")
        t.expect(rb"send the signal again to kill it")
        t.type(b"\x03")
        self.assertEqual(t.end(), 130)

    def test_stop(self):
        """plenumrun stops and continues together with its programs"""
        job = subprocess.Popen([RUN, "-n", "2", "--heartbeat-timeout", "1", "sh", "-c",
                                "while :; do echo $RANK; sleep 0.05; done"], stdout=subprocess.PIPE)
        self.addCleanup(job.stdout.close)
        self.assertTrue(job.stdout.readline())
        job.send_signal(signal.SIGTSTP)
        end = time.monotonic() + 300
        while open(f"/proc/{job.pid}/stat").read().rsplit(")", 1)[1].split()[0] != "T":
            self.assertLess(time.monotonic(), end, "it did not stop")
            time.sleep(0.02)
        time.sleep(2)  # longer than the heartbeat: a stopped job is not lost
        os.set_blocking(job.stdout.fileno(), False)
        while job.stdout.read(1 << 16):
            pass
        time.sleep(0.5)  # to see that no more output follows
        self.assertFalse(job.stdout.read(1 << 16), "its programs print while it is stopped")
        job.send_signal(signal.SIGCONT)
        os.set_blocking(job.stdout.fileno(), True)
        seen = set()
        while seen != {b"0\n", b"1\n"}:  # each prints its own name, twenty times a second
            seen.add(job.stdout.readline())
            self.assertLessEqual(seen, {b"0\n", b"1\n"})
            self.assertLess(time.monotonic(), end + 300, "only one of them continues")
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(300), 143)

    def test_bars(self):
        """progress bars of several instances: the last line shows one, and each ends as one line"""
        program = r"""
i=0
while [ $i -le 20 ]; do
    printf '\r%d%% of %s' $((i * 5)) $RANK; sleep 0.05; i=$((i + 1))
    [ $i != 10 ] || [ $RANK = 1 ] || echo a line >&2
done
echo
"""
        t = Terminal(RUN, "-n", "2", "--tag-output=%i:", "sh", "-c", program)
        self.assertEqual(t.end(), 0)
        self.assertIn(b"\x1b[K", t.text)
        shown = set(re.findall(rb"\r\x1b\[K([01]): ([0-9]+)% of ([01])", t.text))
        self.assertGreater(len(shown), 4, "a bar is shown while it grows")
        self.assertTrue(all(i == rank for i, _, rank in shown), shown)
        lines = [line.rstrip() for line in screen(t.text)]
        self.assertEqual(sorted(lines), ["0: 100% of 0", "0: a line", "1: 100% of 1"])

    def test_bar_in_a_pipe(self):
        """output to other destinations is unchanged"""
        done = subprocess.run([RUN, "-n", "2", "sh", "-c", r"printf '1\r2\r'; sleep 0.2; echo 3"], capture_output=True)
        self.assertEqual(done.stdout, b"1\r2\r3\n" * 2)


class TorchTest(unittest.TestCase):
    def test_ddp(self):
        """an unmodified DistributedDataParallel program over gloo"""
        if os.environ.get("PLENUM_SANITIZED"):
            self.skipTest("takes long")
        try:
            import torch.distributed
        except ImportError:
            self.skipTest("PyTorch is not installed for this Python")
        if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
            self.skipTest("this PyTorch has no gloo")
        done = subprocess.run([RUN, "-n", "3", sys.executable, os.path.join(SOURCE, "tests/launcher/ddp.py")],
                              capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = sorted(done.stdout.splitlines())
        self.assertEqual([line.split(":")[0] for line in lines], [f"rank {i} of 3, local {i}" for i in range(3)])
        self.assertEqual({line.split(": ")[1] for line in lines}, {lines[0].split(": ")[1]})
        self.assertIn("the same weights", lines[0])

    def test_port(self):
        """MASTER_PORT is unused"""
        done = subprocess.run([RUN, "-n", "1", "printenv", "MASTER_PORT"], capture_output=True, text=True, check=True)
        with socket.socket() as s:
            s.bind(("127.0.0.1", int(done.stdout)))


if __name__ == "__main__":
    tap.main()
