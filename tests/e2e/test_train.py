"""examples/train.py and numpy_feed.py: the same steps and losses, whatever the number of processes and how often they die."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
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
    "PLENUM_LIBRARY": os.path.join(BUILD, ".libs", "libplenum.so.1"),
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


def by_plenumrun(instances, replicas):
    return [os.path.join(BUILD, "plenumrun"), "-n", str(instances), "--num-replicas", str(replicas), sys.executable]


def by_torchrun(instances):
    # Standard output goes through files: torch 1.13 knows nothing else with Python 3.11.
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(instances),
            "--redirects", "1", "--tee", "1", "--log_dir", tempfile.mkdtemp(dir=T)]


def command(launcher, replicas, log, *options):
    return [*launcher, os.path.join(SOURCE, "examples", "train.py"), os.path.join(T, "data"), "--pipeline",
            "rrc(32) flip(0.5)", "--micro-batch", str(BATCH // replicas), "--steps", str(STEPS), "--log", log, *options]


def run(words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise AssertionError(f"status {done.returncode}: {done.stderr}")
    return done.stdout


def train(name, launcher, replicas, *options):
    """Run it; returns the samples of each step and its loss, and what it printed."""
    log = os.path.join(T, f"log-{name}")
    out = run(command(launcher, replicas, log, *options))
    steps = [line.split() for line in open(log)]
    assert [int(s[0]) for s in steps] == list(range(STEPS))
    return [[int(n) for n in s[2:]] for s in steps], [float.fromhex(s[1]) for s in steps], out


def result_of(out):
    """Hash of the samples and of the weights."""
    return re.search(r"^hash (\w{16})  weights (\w{16})$", out, re.MULTILINE).groups()


def instances_of(mark):
    """Processes of Python that have this among their arguments."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
        except OSError:
            continue
        if words[0] == sys.executable.encode() and mark.encode() in words:
            found.append(int(pid))
    return sorted(found)


class TrainTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.samples, cls.losses, cls.out = train("alone", by_plenumrun(1, 1), 1, "--double", "--evaluate",
                                                 os.path.join(T, "data"))

    def test_samples(self):
        """one process: every epoch shows each sample at most once, and learning takes place"""
        for first in range(0, STEPS, 10):
            epoch = sum(self.samples[first:first + 10], [])
            self.assertEqual(len(epoch), 160)
            self.assertEqual(len(set(epoch)), 160)
        self.assertNotEqual(self.samples[:10], self.samples[10:20])
        self.assertLess(sum(self.losses[-10:]), 0.8 * sum(self.losses[:10]))

    def compare(self, instances, replicas, launcher=None):
        name = f"{instances}-{replicas}-{'torchrun' if launcher else 'plenumrun'}"
        samples, losses, out = train(name, launcher or by_plenumrun(instances, replicas), replicas, "--double", "--evaluate",
                                     os.path.join(T, "data"))
        self.assertEqual(samples, self.samples)
        for step, (loss, alone) in enumerate(zip(losses, self.losses)):
            self.assertLessEqual(abs(loss - alone), 1e-9, f"step {step}")
        got = result_of(re.sub(r"^\[default\d\]:", "", out, flags=re.MULTILINE))
        self.assertEqual(got[0], result_of(self.out)[0], "the hash of what was delivered")
        evaluation = r"evaluation: (\d+) samples, loss (\d\.\d+), accuracy (\d\.\d+)"
        self.assertEqual(re.search(evaluation, out).group(1), "161", "every sample counts once")
        self.assertEqual(re.search(evaluation, out).groups(), re.search(evaluation, self.out).groups())

    def test_replicas(self):
        """1 instance of 4 replicas: the same samples in every step, losses within 1e-9"""
        self.compare(1, 4)

    def test_two(self):
        """2 instances of 2 replicas: the same samples in every step, losses within 1e-9"""
        self.compare(2, 4)

    def test_four(self):
        """4 instances of 1 replica: the same samples in every step, losses within 1e-9"""
        self.compare(4, 4)

    def test_torchrun(self):
        """2 processes of torchrun: the same samples in every step, losses within 1e-9"""
        self.compare(2, 2, by_torchrun(2))

    def test_kills(self):
        """killed twice and resumed each time: the same samples, losses, hash and weights, to the last bit"""
        log, checkpoint = os.path.join(T, "log-kills"), os.path.join(T, "run.pt")
        whole = os.path.join(T, "log-whole")
        want = result_of(run(command(by_plenumrun(2, 2), 2, whole)))
        words = command(by_plenumrun(2, 2), 2, log, "--checkpoint", checkpoint, "--checkpoint-every", "7", "--resume")
        for victim, at in ((1, 12), (0, 31)):
            job = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            end = time.monotonic() + 200
            while not os.path.exists(log) or not any(int(line.split()[0]) >= at for line in open(log) if line.strip()):
                self.assertIsNone(job.poll(), "it ended by itself")
                self.assertLess(time.monotonic(), end)
                time.sleep(0.002)
            os.kill(instances_of(log)[victim], signal.SIGKILL)
            _, err = job.communicate(timeout=100)
            self.assertNotEqual(job.returncode, 0)
            self.assertIn("signal 9", err)
            self.assertEqual(instances_of(log), [])
        out = run(words)
        self.assertIn("going on from step", out)
        self.assertEqual(result_of(out), want)
        steps = {line.split(maxsplit=1)[0]: line for line in open(whole)}
        seen = open(log).read().split("\n")
        for line in seen[:-1]:
            if line.count(" ") == BATCH + 1:  # a line may have been cut off by the kill
                self.assertEqual(line + "\n", steps[line.split()[0]])
        self.assertGreaterEqual({line.split()[0] for line in seen if line}, set(steps))


if __name__ == "__main__":
    tap.main()
