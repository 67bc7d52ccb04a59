"""For the tests of training here: jobs that are run, and jobs that are killed."""

import os
import re
import signal
import subprocess
import sys
import time

BUILD = os.environ["top_builddir"]
SOURCE = os.environ["top_srcdir"]


def set_up(folder):
    """What programs of the build folder need to find each other; indices go below `folder`."""
    os.environ.update({
        "PLENUM_CACHE_DIR": os.path.join(folder, "cache"),
        "PLENUM_LIBRARY": os.path.join(BUILD, ".libs", "libplenum.so.0"),
        "PYTHONPATH": os.path.join(SOURCE, "python"),
        "PLENUM_PLENUMD": os.path.join(BUILD, "plenumd"),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        # MPI leaves a good deal allocated.
        "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0",
    })
    os.environ.pop("PLENUM_LOADER", None)


def make_sample(folder, *options):
    subprocess.run([os.path.join(BUILD, "plenumctl"), "make-sample", folder, *options], check=True,
                   stdout=subprocess.DEVNULL)


def by_plenumrun(instances, replicas, *program):
    return [os.path.join(BUILD, "plenumrun"), "-x", "ASAN_OPTIONS", "-n", str(instances), "--num-replicas",
            str(replicas), *program]


def run(words):
    """Run a job to its end; what it printed."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise AssertionError(f"status {done.returncode}: {done.stderr}")
    return done.stdout


def result_of(out):
    """Hash of the samples and of the weights, as the training examples print them at the end."""
    return re.search(r"^(?:\[default\d\]:)?hash (\w{16})  weights (\w{16})$", out, re.MULTILINE).groups()


def steps_of(log):
    """The whole lines of a log, by the number of the step; one that was cut off by a kill is left out."""
    lines = open(log).read().split("\n")[:-1]
    return [(int(line.split()[0]), line) for line in lines if line]


def last_step(log):
    """How far a log has come, or -1. Looked at often: only its end is read."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 2000))
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return -1
    return int(lines[-2].split()[0]) if len(lines) > 2 else -1


def instances_of(program, mark):
    """Processes of a program that have this among their arguments."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
        except OSError:
            continue
        if words[0] == program.encode() and mark.encode() in words:
            found.append(int(pid))
    return sorted(found)


def run_and_kill(words, program, log, at, victim):
    """Start a job, kill one of its instances when its log has come to step `at`, and wait for the end of all.

    Returns what it wrote to standard error, or None when it came to its end before.
    """
    job = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 200
    while job.poll() is None and last_step(log) < at:
        if time.monotonic() > end:
            job.kill()
            raise AssertionError(f"step {at} did not come")
        time.sleep(0.001)
    pids = instances_of(program, log)
    if job.poll() is None and pids:
        os.kill(pids[victim % len(pids)], signal.SIGKILL)
    _, err = job.communicate(timeout=100)
    left = instances_of(program, log)
    if left:
        raise AssertionError(f"processes {left} are left")
    return err if job.returncode else None


def python_program(name):
    return [sys.executable, os.path.join(SOURCE, "examples", name)]
