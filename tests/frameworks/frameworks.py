# SPDX-License-Identifier: MIT
"""Finds a Python that has a framework, makes a data set, and runs programs of examples/frameworks for tests.

If this Python lacks a framework, need() searches the virtual environments below $PLENUM_FRAMEWORKS, which
"make check-frameworks" creates.
"""

import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BUILD, SOURCE = os.environ["top_builddir"], os.environ["top_srcdir"]
EXAMPLES = os.path.join(SOURCE, "examples", "frameworks")
sys.path[:0] = [os.path.join(SOURCE, "tests", "python"), os.path.join(SOURCE, "tests", "e2e"),
                os.path.join(SOURCE, "python"), EXAMPLES]
os.environ["PLENUM_LIBRARY"] = os.path.join(BUILD, ".libs", "libplenum.so.1")
# Each process uses one OpenMP thread, and no framework uses a network or a GPU.
os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="",
                  JAX_PLATFORMS="cpu", KERAS_BACKEND="tensorflow")

import jobs  # noqa: E402
import tap  # noqa: E402

COUNT = 48
LIMIT_S = 300


def need(framework, *modules):
    """Restart the test in a Python that has these modules, if this one lacks any; skip all tests if none has them."""
    if os.environ.get("PLENUM_SANITIZED"):
        tap.skip_all("a sanitized library cannot be loaded into an ordinary Python")
    if all(tap.find(module) for module in modules):
        return
    here = os.environ.pop("PLENUM_FRAMEWORKS", "")
    for python in sorted(glob.glob(os.path.join(here, "*", "bin", "python3"))) if here else ():
        if subprocess.run([python, "-c", f"import {', '.join(modules)}"], capture_output=True).returncode == 0:
            os.execv(python, [python, *sys.argv])
    tap.skip_all(f"{framework} is not installed for this Python: make check-frameworks installs it")


def ready():
    """Announce that Ctrl-C may be sent now, and wait for it: see FrameworkCase.interrupted()."""
    print("ready", flush=True)
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        time.sleep(0.05)
    sys.exit("Ctrl-C did not arrive")


class FrameworkCase(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="plenum-test-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        jobs.set_up(cls.folder)
        os.environ.update(HOME=cls.folder, PATH=f"{os.path.dirname(sys.executable)}:{BUILD}:{os.environ['PATH']}")
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "XLA_FLAGS"):
            os.environ.pop(name, None)
        cls.photos = os.path.join(cls.folder, "photos")
        jobs.make_sample(cls.photos, "--classes", "4", "--images", "12", "--size", "64")

    def path(self, name):
        return os.path.join(self.folder, f"{self._testMethodName}-{name}")

    def run_ok(self, *words, **environment):
        """Run a program, which must succeed. Return what it wrote to standard output and standard error."""
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S,
                              cwd=self.folder, env={**os.environ, **environment})
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def run_example(self, name, *arguments, **environment):
        return self.run_ok(sys.executable, os.path.join(EXAMPLES, name), *arguments, **environment)

    def interrupted(self, program, *arguments):
        """Return the output of a program that gets SIGINT when it is ready(), and must exit with status 0. As in a
        terminal or Jupyter, all processes of its group get the signal, including a loader that it has started."""
        with subprocess.Popen([sys.executable, program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, cwd=self.folder, start_new_session=True) as program:
            out = ""
            try:
                for line in program.stdout:
                    out += line
                    if line == "ready\n":
                        os.killpg(program.pid, signal.SIGINT)
                self.assertEqual(program.wait(LIMIT_S), 0, out)
            finally:
                if program.poll() is None:
                    os.killpg(program.pid, signal.SIGKILL)
        return out

    def check_epochs(self, shown, per_epoch=COUNT):
        """Check that each epoch has every sample once, and that each epoch's order is different."""
        epochs = [shown[i:i + per_epoch] for i in range(0, len(shown), per_epoch)]
        for epoch in epochs:
            self.assertEqual(sorted(epoch), list(range(per_epoch)))
        self.assertEqual(len({tuple(epoch) for epoch in epochs}), len(epochs))
