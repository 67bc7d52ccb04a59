# SPDX-License-Identifier: MIT
"""Checks that examples/train.py and numpy_feed.py have the same steps and losses with any number of processes and
restarts, and that simclr.py, clip.py and segment.py learn."""

import importlib.util
import os
import re
import shutil
import sys
import tempfile
import unittest

SOURCE = os.environ["top_srcdir"]
sys.path[:0] = [os.path.join(SOURCE, "tests", "python"), os.path.join(SOURCE, "tests", "e2e")]

import jobs  # noqa: E402
import tap  # noqa: E402
import torchrun  # noqa: E402

tap.require("torch", programs=["mpirun"])

import numpy as np  # noqa: E402

import made  # noqa: E402

STEPS = 50
BATCH = 16  # R * M


def setUpModule():
    global T
    T = tempfile.mkdtemp(prefix="plenum-test-")
    jobs.set_up(T)
    # 161 samples: an epoch has ten steps and a remainder, which is dropped.
    jobs.make_sample(os.path.join(T, "data"), "--classes", "7", "--images", "23", "--size", "64")


def tearDownModule():
    shutil.rmtree(T)


def by_torchrun(instances):
    return torchrun.command(instances, T)


def by_plenumrun(instances, replicas):
    return jobs.by_plenumrun(instances, replicas, sys.executable)


def command(launcher, replicas, log, *options):
    return [*launcher, os.path.join(SOURCE, "examples", "train.py"), os.path.join(T, "data"), "--pipeline",
            "rrc(32) flip(0.5)", "--micro-batch", str(BATCH // replicas), "--steps", str(STEPS), "--log", log, *options]


def train(name, launcher, replicas, *options, env=None):
    """Run train.py. Return the samples and loss of each step, and the output."""
    log = os.path.join(T, f"log-{name}")
    out = jobs.run(command(launcher, replicas, log, *options), env)
    steps = [line.split() for _, line in jobs.steps_of(log)]
    assert [int(s[0]) for s in steps] == list(range(STEPS))
    return [[int(n) for n in s[2:]] for s in steps], [float.fromhex(s[1]) for s in steps], out


class TrainTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.samples, cls.losses, cls.out = train("alone", by_plenumrun(1, 1), 1, "--double", "--evaluate",
                                                 os.path.join(T, "data"))

    def test_samples(self):
        """one process: every epoch has each sample at most once, and the loss falls"""
        for first in range(0, STEPS, 10):
            epoch = sum(self.samples[first:first + 10], [])
            self.assertEqual(len(epoch), 160)
            self.assertEqual(len(set(epoch)), 160)
        self.assertNotEqual(self.samples[:10], self.samples[10:20])
        self.assertLess(sum(self.losses[-10:]), 0.8 * sum(self.losses[:10]))

    def compare(self, instances, replicas, launcher=None):
        name = f"{instances}-{replicas}-{'torchrun' if launcher else 'plenumrun'}"
        samples, losses, out = train(name, launcher or by_plenumrun(instances, replicas), replicas, "--double",
                                     "--evaluate", os.path.join(T, "data"))
        self.assertEqual(samples, self.samples)
        for step, (loss, alone) in enumerate(zip(losses, self.losses)):
            self.assertLessEqual(abs(loss - alone), 1e-9, f"step {step}")
        self.assertEqual(jobs.result_of(out)[0], jobs.result_of(self.out)[0], "the hash of the delivered samples")
        evaluation = r"evaluation: (\d+) samples, loss (\d\.\d+), accuracy (\d\.\d+)"
        self.assertEqual(re.search(evaluation, out).group(1), "161", "every sample must count once")
        self.assertEqual(re.search(evaluation, out).groups(), re.search(evaluation, self.out).groups())

    def test_replicas(self):
        """1 instance of 4 replicas has one process's samples in every step, and its losses within 1e-9"""
        self.compare(1, 4)

    def test_two(self):
        """2 instances of 2 replicas have one process's samples in every step, and its losses within 1e-9"""
        self.compare(2, 4)

    def test_four(self):
        """4 instances of 1 replica have one process's samples in every step, and its losses within 1e-9"""
        self.compare(4, 4)

    def test_torchrun(self):
        """2 processes of torchrun have one process's samples in every step, and its losses within 1e-9"""
        self.compare(2, 2, by_torchrun(2))

    def test_without_mpirun(self):
        """2 instances have the same samples, losses, hash and weights, whether plenumrun or mpirun starts them"""
        by_mpirun = train("mpirun", by_plenumrun(2, 2), 2)
        by_itself = train("itself", by_plenumrun(2, 2), 2, env=jobs.without_mpirun(T))
        self.assertEqual(by_itself[:2], by_mpirun[:2])
        self.assertEqual(jobs.result_of(by_itself[2]), jobs.result_of(by_mpirun[2]))

    def test_kills(self):
        """a run that is killed twice and resumed has an uninterrupted run's samples, losses, hash and weights"""
        more = ("--steps", "160")  # the job must not have finished when it is killed
        log, checkpoint = jobs.PacedLog(os.path.join(T, "log-kills")), os.path.join(T, "run.pt")
        whole = os.path.join(T, "log-whole")
        want = jobs.result_of(jobs.run(command(by_plenumrun(2, 2), 2, whole, *more)))
        words = command(by_plenumrun(2, 2), 2, log.path, *more, "--checkpoint", checkpoint, "--checkpoint-every", "7",
                        "--resume")
        for victim, at in ((1, 12), (0, 50)):
            self.assertIn("signal 9", jobs.run_and_kill(words, sys.executable, log, at, victim))
        out = jobs.run_paced(words, log)
        log.close()
        self.assertIn("resuming from step", out)
        self.assertEqual(jobs.result_of(out), want)
        steps = dict(jobs.steps_of(whole))
        self.assertEqual({step for step, _ in log.steps}, set(steps))
        for step, line in log.steps:
            self.assertEqual(line, steps[step])


    def test_stops(self):
        """a run that is stopped twice and resumed has an uninterrupted run's samples, losses, hash and weights"""
        more = ("--steps", "160")  # the job must not have finished when it is stopped
        log, checkpoint = jobs.PacedLog(os.path.join(T, "log-stops")), os.path.join(T, "stopped.pt")
        whole = os.path.join(T, "log-uninterrupted")
        want = jobs.result_of(jobs.run(command(by_plenumrun(2, 2), 2, whole, *more)))
        words = command(by_plenumrun(2, 2), 2, log.path, *more, "--checkpoint", checkpoint, "--resume")
        for at in (12, 50):
            status, out = jobs.run_and_stop(words, log, at)
            self.assertEqual(status, 75, out)
            self.assertIn(f"stopped before step {len(log.steps)}\n", out)
        out = jobs.run_paced(words, log)
        log.close()
        self.assertEqual(jobs.result_of(out), want)
        self.assertEqual(log.steps, jobs.steps_of(whole))


class NumpyTest(unittest.TestCase):
    def run_it(self, launcher, micro_batch, *options):
        out = jobs.run([*launcher, *jobs.python_program("numpy_feed.py")[-1:], os.path.join(T, "data"), "--epochs", "5",
                        "--micro-batch", str(micro_batch), *options])
        epochs = re.findall(r"^epoch +(\d+)  (\d+) samples  loss (\S+)  accuracy (\S+)$", out, re.MULTILINE)
        self.assertEqual([(int(e[0]), int(e[1])) for e in epochs], [(i, 161) for i in range(1, 6)])
        return [float(e[2]) for e in epochs]

    def test_numpy(self):
        """numpy_feed.py has the same losses in 1, 2 and 3 processes, and counts each sample once per epoch"""
        alone = self.run_it([sys.executable], 12)
        self.assertLess(alone[-1], 0.7 * alone[0])
        for instances in (2, 3):
            losses = self.run_it(by_plenumrun(instances, instances), 12 // instances)
            for one, other in zip(alone, losses):
                self.assertAlmostEqual(one, other, delta=2e-3)

    @unittest.skipIf(importlib.util.find_spec("jax") is None, "JAX is not installed for this Python")
    def test_jax(self):
        """numpy_feed.py has the same losses with JAX"""
        for one, other in zip(self.run_it([sys.executable], 12), self.run_it([sys.executable], 12, "--jax")):
            self.assertAlmostEqual(one, other, delta=2e-3)


class SimclrTest(unittest.TestCase):
    """Tests examples/simclr.py."""

    def losses(self, instances):
        out = jobs.run([*by_plenumrun(instances, instances), os.path.join(SOURCE, "examples", "simclr.py"),
                        os.path.join(T, "data"), "--micro-batch", str(32 // instances), "--epochs", "6"])
        return [float(loss) for loss in re.findall(r"^epoch \d+: loss (\d+\.\d+)$", out, re.M)]

    def test_simclr(self):
        """simclr.py learns to distinguish images, in one process and in two"""
        for instances in (1, 2):
            losses = self.losses(instances)
            self.assertEqual(len(losses), 6)
            self.assertLess(losses[-1], losses[0] - 0.1)


class FieldsTest(unittest.TestCase):
    """Tests examples/clip.py and segment.py. Each picture has a rectangle in one of six colours, named in the caption
    and shown by the mask."""

    COLOURS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (40, 50, 230), "yellow": (230, 220, 40),
               "white": (250, 250, 250), "black": (5, 5, 5)}

    @classmethod
    def setUpClass(cls):
        rng = np.random.default_rng(1)
        samples = []
        for i in range(192):
            number = i % len(cls.COLOURS)
            name, colour = list(cls.COLOURS.items())[number]
            picture = rng.integers(90, 160, (48, 40, 3)).astype(np.uint8)
            mask = np.zeros((48, 40), np.uint8)
            top, left = rng.integers(0, 20, 2)
            picture[top:top + 24, left:left + 20] = colour
            mask[top:top + 24, left:left + 20] = 1 + number
            samples.append((f"{i:03d}", {"png": made.png(picture), "seg.png": made.png(mask), "cls": b"0",
                                         "txt": f"a {name} rectangle".encode()}))
        cls.data = os.path.join(T, "pairs.tar")
        made.write_tar(cls.data, samples)

    def run_it(self, program, instances, *options):
        return jobs.run([*by_plenumrun(instances, instances), os.path.join(SOURCE, "examples", program), self.data,
                         "--micro-batch", str(24 // instances), "--epochs", "8", *options])

    def test_clip(self):
        """clip.py learns which caption belongs to an image, in one process and in two"""
        for instances in (1, 2):
            out = self.run_it("clip.py", instances)
            losses = [float(loss) for loss in re.findall(r"^epoch \d+: loss (\d+\.\d+)$", out, re.M)]
            self.assertEqual(len(losses), 8)
            self.assertLess(losses[-1], losses[0] - 0.5)

    def test_segment(self):
        """segment.py learns which pixels belong to the rectangle, in one process and in two"""
        for instances in (1, 2):
            out = self.run_it("segment.py", instances, "--mask", "seg.png", "--classes", "7", "--pipeline",
                              "rrc(32, scale=0.5:1) flip(0.5)")
            shares = [float(share) for share in re.findall(r"^epoch \d+: (\d+\.\d+) % of pixels$", out, re.M)]
            self.assertEqual(len(shares), 8)
            self.assertGreater(shares[-1], 90)

    def test_together(self):
        """instances with the same pictures but different captions are rejected when they open together"""
        picture = made.png(np.zeros((8, 8, 3), np.uint8))
        for folder, text in (("one", b"here"), ("two", b"there")):
            os.mkdir(os.path.join(T, folder))
            made.write_tar(os.path.join(T, folder, "p.tar"), [("0", {"png": picture, "cls": b"0", "txt": text})])
        program = os.path.join(T, "open.py")
        with open(program, "w") as f:
            f.write(f"""
import sys, pyplenum
folder = sys.argv[1 + pyplenum.job().instance_index]
try:
    pyplenum.Stream(f"tar:{T}/{{folder}}/p.tar", "eval", together=True, fields=["caption:txt"])
    print("opened")
except pyplenum.PlenumError as error:
    print(error)
""")
        self.assertEqual(jobs.run([*by_plenumrun(2, 2), program, "one", "one"]).count("opened"), 2)
        out = jobs.run([*by_plenumrun(2, 2), program, "one", "two"])
        self.assertEqual(len(re.findall("instance 0 .* and instance 1 .* have different fields", out)), 2, out)


if __name__ == "__main__":
    tap.main()
