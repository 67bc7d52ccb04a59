"""examples/train.py: the same steps and the same losses, whatever the number of processes."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = os.environ["top_builddir"]
SOURCE = os.environ["top_srcdir"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))

import tap  # noqa: E402

if os.environ.get("PLENUM_SANITIZED"):
    tap.skip_all("a sanitized library cannot be loaded into an ordinary Python")
if shutil.which("mpirun") is None:
    tap.skip_all("mpirun is not installed")
try:
    import torch  # noqa: F401
except ImportError:
    tap.skip_all("PyTorch is not installed for this Python")

os.environ.update({
    "PLENUM_LIBRARY": os.path.join(BUILD, ".libs", "libplenum.so.0"),
    "PYTHONPATH": os.path.join(SOURCE, "python"),
    "PLENUM_PLENUMD": os.path.join(BUILD, "plenumd"),
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
})
os.environ.pop("PLENUM_LOADER", None)

STEPS = 50
BATCH = 16  # R * M


def setUpModule():
    global T
    T = tempfile.mkdtemp(prefix="plenum-test-")
    os.environ["PLENUM_CACHE_DIR"] = os.path.join(T, "cache")
    # 161 samples: an epoch has ten steps and a rest, which is dropped.
    subprocess.run([os.path.join(BUILD, "plenumctl"), "make-sample", os.path.join(T, "data"), "--classes", "7",
                    "--images", "23", "--size", "64"], check=True, stdout=subprocess.DEVNULL)


def tearDownModule():
    shutil.rmtree(T)


def train(instances, replicas):
    """Run it; returns the samples of each step and its loss."""
    log = os.path.join(T, f"log-{instances}-{replicas}")
    command = [os.path.join(BUILD, "plenumrun"), "-n", str(instances), "--num-replicas", str(replicas), sys.executable,
               os.path.join(SOURCE, "examples", "train.py"), os.path.join(T, "data"), "--pipeline", "rrc(32) flip(0.5)",
               "--micro-batch", str(BATCH // replicas), "--steps", str(STEPS), "--double", "--log", log]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise AssertionError(f"status {done.returncode}: {done.stderr}")
    steps = [line.split() for line in open(log)]
    assert [int(s[0]) for s in steps] == list(range(STEPS))
    return [[int(n) for n in s[2:]] for s in steps], [float.fromhex(s[1]) for s in steps]


class TrainTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.samples, cls.losses = train(1, 1)

    def test_samples(self):
        """one process: every epoch shows each sample at most once, and learning takes place"""
        for first in range(0, STEPS, 10):
            epoch = sum(self.samples[first:first + 10], [])
            self.assertEqual(len(epoch), 160)
            self.assertEqual(len(set(epoch)), 160)
        self.assertNotEqual(self.samples[:10], self.samples[10:20])
        self.assertLess(sum(self.losses[-10:]), 0.8 * sum(self.losses[:10]))

    def compare(self, instances, replicas):
        samples, losses = train(instances, replicas)
        self.assertEqual(samples, self.samples)
        for step, (loss, alone) in enumerate(zip(losses, self.losses)):
            self.assertLessEqual(abs(loss - alone), 1e-9, f"step {step}")

    def test_replicas(self):
        """1 instance of 4 replicas: the same samples in every step, losses within 1e-9"""
        self.compare(1, 4)

    def test_two(self):
        """2 instances of 2 replicas: the same samples in every step, losses within 1e-9"""
        self.compare(2, 4)

    def test_four(self):
        """4 instances of 1 replica: the same samples in every step, losses within 1e-9"""
        self.compare(4, 4)


if __name__ == "__main__":
    tap.main()
