# SPDX-License-Identifier: MIT
"""Checks that examples/train.c gives the same result, however the work is divided and however often it is killed."""

import os
import random
import shutil
import sys
import tempfile
import unittest

SOURCE = os.environ["top_srcdir"]
sys.path[:0] = [os.path.join(SOURCE, "tests", "python"), os.path.join(SOURCE, "tests", "e2e")]

import jobs  # noqa: E402
import tap  # noqa: E402

if shutil.which("mpirun") is None:
    tap.skip_all("mpirun is not installed")

PROGRAM = os.path.join(jobs.BUILD, "examples", "train")
STEPS = 400
KILLS = 20
BATCH = 16  # R * M
PIPELINE = "rrc(32, scale=0.5:1)"


def setUpModule():
    global T
    T = tempfile.mkdtemp(prefix="plenum-test-")
    jobs.set_up(T)
    jobs.make_sample(os.path.join(T, "data"), "--classes", "7", "--images", "23", "--size", "64")


def tearDownModule():
    shutil.rmtree(T)


def command(instances, replicas, log, *options):
    return jobs.by_plenumrun(instances, replicas, PROGRAM, os.path.join(T, "data"), "--pipeline", PIPELINE,
                             "--micro-batch", str(BATCH // replicas), "--steps", str(STEPS), "--seed", "5", "--log",
                             log, *options)


class TrainTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.whole = os.path.join(T, "log-whole")
        cls.want = jobs.result_of(jobs.run(command(2, 2, cls.whole)))
        cls.steps = dict(jobs.steps_of(cls.whole))

    def test_learning(self):
        """train.c uses every sample once in the first epoch, and learns"""
        self.assertEqual(sorted(self.steps), list(range(STEPS)))
        samples = [n for step in range(11) for n in self.steps[step].split()[2:]]
        self.assertEqual(len(set(samples[:161])), 161, "the first epoch has each of the 161 samples once")
        losses = [float.fromhex(self.steps[step].split()[1]) for step in range(STEPS)]
        self.assertLess(sum(losses[-50:]), 0.5 * sum(losses[:50]))

    def test_other_shares(self):
        """1 and 4 instances have the samples and hash of 2, and nearly the same losses in the first steps"""
        for instances, replicas in ((1, 1), (1, 4), (4, 4)):
            log = os.path.join(T, f"log-{instances}-{replicas}")
            out = jobs.run(command(instances, replicas, log))
            self.assertEqual(jobs.result_of(out)[0], self.want[0])
            for step, line in jobs.steps_of(log):
                words, other = line.split(), self.steps[step].split()
                self.assertEqual(words[2:], other[2:], f"step {step}")
                if step < 20:  # rounding errors grow from step to step
                    self.assertAlmostEqual(float.fromhex(words[1]), float.fromhex(other[1]), places=4)

    def test_without_mpirun(self):
        """2 instances have the same samples, losses, hash and weights, whether plenumrun or mpirun starts them"""
        log = os.path.join(T, "log-local")
        self.assertEqual(jobs.result_of(jobs.run(command(2, 2, log), jobs.without_mpirun(T))), self.want)
        self.assertEqual(dict(jobs.steps_of(log)), self.steps)

    def test_kills(self):
        """a run that is killed at 20 random steps and resumed has an uninterrupted run's samples, losses, hash and
        weights"""
        log, checkpoint = jobs.PacedLog(os.path.join(T, "log-kills")), os.path.join(T, "run.bin")
        words = command(2, 2, log.path, "--checkpoint", checkpoint, "--checkpoint-every", "3", "--resume")
        seed = random.randrange(2**32)
        chance = random.Random(seed)
        print(f"# the steps of kills are drawn with seed {seed}")
        for at in sorted(chance.sample(range(STEPS - 120), KILLS)):
            self.assertIn("signal 9", jobs.run_and_kill(words, PROGRAM, log, at, chance.randrange(2)))
        out = jobs.run_paced(words, log)
        log.close()
        self.assertIn("resuming from step", out)
        self.assertEqual(jobs.result_of(out), self.want)
        self.assertEqual({step for step, _ in log.steps}, set(range(STEPS)))
        for step, line in log.steps:
            self.assertEqual(line, self.steps[step])

    def test_resume_with_other_instances(self):
        """a run of 2 instances resumed by 3 has each sample of the interrupted epoch once"""
        log, checkpoint = os.path.join(T, "log-other"), os.path.join(T, "other.bin")
        jobs.run([*command(2, 2, log), "--checkpoint", checkpoint, "--steps", "15"])
        out = jobs.run([*jobs.by_plenumrun(3, 3, PROGRAM, os.path.join(T, "data"), "--pipeline",
                                          PIPELINE, "--micro-batch", "5", "--seed", "5"),
                        "--steps", "200", "--log", log, "--checkpoint", checkpoint, "--resume"])
        self.assertIn("resuming from step 15", out)
        lines = jobs.steps_of(log)
        self.assertEqual([step for step, _ in lines], list(range(200)))
        # Steps have 16 samples at first: 11 steps for epoch 0, and 4 steps with 64 samples of epoch 1. The other 97
        # samples of epoch 1 follow in steps of 15.
        first = [n for _, line in lines[11:15] for n in line.split()[2:]]
        rest = [n for _, line in lines[15:22] for n in line.split()[2:]][:97]
        self.assertEqual(len(set(first + rest)), 161)

    def test_bad_checkpoints(self):
        """a malformed checkpoint, or one of a run with a different seed, is rejected with a message"""
        path = os.path.join(T, "bad.bin")
        words = [*command(1, 1, os.path.join(T, "log-bad")), "--checkpoint", path, "--resume"]
        for content, sentence in ((b"x" * 10, "cannot be read"), (b"x" * 5000, "not a checkpoint of train")):
            with open(path, "wb") as file:
                file.write(content)
            with self.assertRaisesRegex(AssertionError, sentence):
                jobs.run(words)
        os.unlink(path)
        jobs.run([*words, "--steps", "2"])
        with self.assertRaisesRegex(AssertionError, "another data set, pipeline, seed or order"):
            jobs.run([*words, "--seed", "6"])


if __name__ == "__main__":
    tap.main()
