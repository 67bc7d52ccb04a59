# SPDX-License-Identifier: MIT
"""Runs training jobs for tests, to completion or until they are killed. Tests in other folders import it, too."""

import fcntl
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

BUILD = os.environ["top_builddir"]
SOURCE = os.environ["top_srcdir"]


def set_up(folder):
    """Set the variables with which programs of the build folder find each other; indices go below `folder`."""
    os.environ.update({
        "PLENUM_CACHE_DIR": os.path.join(folder, "cache"),
        "PLENUM_LIBRARY": os.path.join(BUILD, ".libs", "libplenum.so.1"),
        "PYTHONPATH": os.path.join(SOURCE, "python"),
        "PLENUM_PLENUMD": os.path.join(BUILD, "plenumd"),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        # MPI leaves many allocations behind.
        "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0",
    })
    os.environ.pop("PLENUM_LOADER", None)


def make_sample(folder, *options):
    subprocess.run([os.path.join(BUILD, "plenumctl"), "make-sample", folder, *options], check=True,
                   stdout=subprocess.DEVNULL)


def by_plenumrun(instances, replicas, *program):
    return [os.path.join(BUILD, "plenumrun"), "-x", "ASAN_OPTIONS", "-n", str(instances), "--num-replicas",
            str(replicas), *program]


def without_mpirun(folder):
    """Return an environment in which plenumrun starts instances itself: PATH is a folder of links without mpirun."""
    programs = os.path.join(folder, "programs")
    os.makedirs(programs, exist_ok=True)
    for place in os.environ["PATH"].split(os.pathsep):
        for name in os.listdir(place) if os.path.isdir(place) else ():
            link = os.path.join(programs, name)
            if name != "mpirun" and not os.path.lexists(link):
                os.symlink(os.path.join(place, name), link)
    return {**os.environ, "PATH": programs}


def run(words, env=None):
    """Run a job to its end and return its output."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, env=env)
    if done.returncode:
        raise AssertionError(f"status {done.returncode}: {done.stderr}")
    return done.stdout


def result_of(out):
    """Return the hashes of samples and weights that the training examples print at the end."""
    return re.search(r"^(?:\[default\d\]:)?hash (\w{16})  weights (\w{16})$", out, re.MULTILINE).groups()


def steps_of(log):
    """Return [(step, line)] of a log."""
    lines = open(log).read().split("\n")[:-1]
    return [(int(line.split()[0]), line) for line in lines if line]


def instances_of(program, mark):
    """Return the ids of a program's processes that have `mark` among their arguments."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
        except OSError:
            continue
        if words[0] == program.encode() and mark.encode() in words:
            found.append(int(pid))
    return sorted(found)


class PacedLog:
    """A log that is a pipe of one page. A program that writes to it can be at most a few dozen steps ahead of the
    test, so it cannot finish before the test kills it."""

    def __init__(self, path):
        self.path, self.steps, self.rest = path, [], b""
        os.mkfifo(path)
        self.fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        fcntl.fcntl(self.fd, 1031, 4096)  # F_SETPIPE_SZ

    def _read(self, size):
        """Read the available bytes and return whether there were any."""
        try:
            data = os.read(self.fd, size)
        except BlockingIOError:
            return False
        *lines, self.rest = (self.rest + data).split(b"\n")
        self.steps += [(int(line.split()[0]), line.decode()) for line in lines]
        return bool(data)

    def until(self, job, at):
        """Read until the log has reached step `at`, or the job has ended."""
        end = time.monotonic() + 300
        seen = len(self.steps)
        while not any(step >= at for step, _ in self.steps[seen:]):
            if not self._read(100):
                if job.poll() is not None:
                    break
                time.sleep(0.001)
            if time.monotonic() > end:
                job.kill()
                raise AssertionError(f"step {at} was not reached")

    def drain(self):
        """Read the rest after the job has ended, and drop a partial last line."""
        while self._read(65536):
            pass
        self.rest = b""

    def close(self):
        os.close(self.fd)


def run_and_kill(words, program, log, at, victim):
    """Start a job, and kill one of its instances when its log has reached step `at`; return its standard error."""
    job = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    log.until(job, at)
    pids = instances_of(program, log.path)
    if job.poll() is not None or len(pids) < 2:
        raise AssertionError(f"the job ended by itself: {job.communicate()[1]}")
    os.kill(pids[victim], signal.SIGKILL)
    _, err = job.communicate(timeout=300)
    log.drain()
    left = instances_of(program, log.path)
    if left:
        raise AssertionError(f"processes {left} are left")
    return err


def run_and_stop(words, log, at):
    """Start a job, send it SIGTERM when its log has reached step `at`, and return its exit status and output."""
    with tempfile.TemporaryFile("w+") as out:
        job = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT)
        log.until(job, at)
        job.send_signal(signal.SIGTERM)
        log.until(job, 2**63)
        log.drain()
        out.seek(0)
        return job.returncode, out.read()


def run_paced(words, log):
    """Run a job to its end, read its log, and return its output."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        job = subprocess.Popen(words, stdout=out, stderr=err)
        log.until(job, 2**63)
        log.drain()
        out.seek(0)
        err.seek(0)
        if job.returncode:
            raise AssertionError(f"status {job.returncode}: {err.read()}")
        return out.read()


def python_program(name):
    return [sys.executable, os.path.join(SOURCE, "examples", name)]
