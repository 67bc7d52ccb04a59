# SPDX-License-Identifier: MIT
"""plenumctl plan --jobs: the predicted CPU time, gain and memory of jobs that share renderings, compared with the model
of the documentation in fractions; and the options with which jobs share nothing."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from fractions import Fraction

SOURCE = os.environ.get("top_srcdir", ".")
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))

import tap  # noqa: E402

CTL = os.path.join(os.environ.get("top_builddir", "."), "plenumctl")
MEMORY = 1 << 20
NEAR = 3e-6  # numbers have six decimals


def ctl(*arguments):
    return subprocess.run([CTL, *arguments], capture_output=True, text=True, check=False)


class PlanJobsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="plenum-test-")
        os.environ["PLENUM_CACHE_DIR"] = os.path.join(cls.folder.name, "cache")
        cls.data = os.path.join(cls.folder.name, "data")
        made = ctl("make-sample", cls.data, "--classes", "2", "--images", "3", "--size", "64")
        assert made.returncode == 0, made.stderr

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def plan(self, *arguments):
        p = ctl("plan", self.data, "--json", *arguments)
        self.assertEqual(p.returncode, 0, p.stderr)
        return json.loads(p.stdout)

    def check_rows(self, plan, jobs, spread):
        """Compare the rows with the model: each job but the first renders what the memory does not cover."""
        most = spread * plan["rendering_bytes"]
        copy = Fraction(plan["copy_us"]) / Fraction(plan["image_us"])
        for row in plan["rows"]:
            covered = min(Fraction(row["share_memory"], most), 1)
            cpu = 1 + (jobs - 1) * ((1 - covered) + covered * copy)
            self.assertAlmostEqual(row["copied"], float(covered), delta=NEAR)
            self.assertAlmostEqual(row["cpu_of_one"], float(cpu), delta=jobs * 1e-4)  # copy_us is rounded
            self.assertAlmostEqual(row["gain"], jobs / row["cpu_of_one"], delta=NEAR)

    def test_model(self):
        """The rows follow the model for several numbers of jobs, spreads and sizes of images"""
        for jobs, spread, side in [(1, 1, 32), (2, 10, 224), (8, 1000, 224), (64, 7, 96), (3, 1 << 20, 32)]:
            plan = self.plan("--jobs", str(jobs), "--spread", str(spread), "--pipeline", f"rrc({side})",
                             "--image-time", "1ms", "--share-memory", str(MEMORY))["sharing"]
            self.assertEqual((plan["jobs"], plan["spread"], plan["image_us"]), (jobs, spread, 1000))
            self.assertGreater(plan["rendering_bytes"], 3 * side * side)
            self.assertLess(plan["rendering_bytes"], 3 * side * side + 1024)
            memory = [row["share_memory"] for row in plan["rows"]]
            most = spread * plan["rendering_bytes"]
            self.assertEqual([memory[0], memory[-1]], [0, MEMORY])
            self.assertEqual(memory[1:5], [most // 4, most // 4 * 2, most // 4 * 3, most])
            self.check_rows(plan, jobs, spread)
            self.assertEqual((plan["rows"][0]["cpu_of_one"], plan["rows"][0]["gain"]), (jobs, 1))

    def test_views_count(self):
        """All images of all views count towards the memory"""
        plan = self.plan("--jobs", "2", "--pipeline", "view(a, 2, rrc(48)) view(b, 1, rrc(24))")["sharing"]
        self.assertEqual(plan["spread"], 1000)
        self.assertEqual(plan["rendering_bytes"] // 3 // (2 * 48 * 48 + 24 * 24), 1)
        self.assertGreater(plan["image_us"], 0)

    def test_plan(self):
        """Jobs that show a plan share as much as those that show its data set"""
        file = os.path.join(self.folder.name, "plan")
        with open(file, "w", encoding="utf-8") as f:
            f.write(f"set x 1 {self.data}\n")
        arguments = ("--jobs", "3", "--image-time", "1ms")
        p = ctl("plan", "@" + file, "--json", *arguments)
        self.assertEqual(p.returncode, 0, p.stderr)
        sharing = json.loads(p.stdout)["sharing"]
        self.assertEqual(sharing["rendering_bytes"], self.plan(*arguments)["sharing"]["rendering_bytes"])
        self.check_rows(sharing, 3, 1000)

    def test_text_has_the_numbers_of_json(self):
        """The text has the rows of the JSON, after the estimate of a rendering"""
        p = ctl("plan", self.data, "--jobs", "4", "--spread", "100", "--image-time", "2ms", "--share-memory", "1M")
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertIn("4 jobs show the same pixels, at most 100 samples apart\na rendering takes 2000 us", p.stdout)
        self.assertRegex(p.stdout, r"\n +0 B +0% +4\.00 +1\.00\n")
        self.assertRegex(p.stdout, r"\nwith --share-memory:\n +1\.0 MiB +[0-9]+% ")

    def test_beside_a_throughput(self):
        """The estimate of a throughput follows in the same object"""
        both = self.plan("--jobs", "2", "--micro-batch", "4", "--micro-batch-time", "4ms", "--image-time", "1ms")
        self.assertEqual(both["sharing"]["jobs"], 2)
        self.assertEqual([row["replicas"] for row in both["rows"]], [1, 2, 4, 8, 16])
        self.assertNotIn("sharing", self.plan("--micro-batch", "4", "--micro-batch-time", "4ms"))

    def test_refusals(self):
        """Jobs that would share nothing are refused with the reason"""
        for arguments, reason in [(["generated:30"], "the data set is generated"),
                                  ([self.data, "--repeat", "2"], "they have --repeat")]:
            p = ctl("plan", *arguments, "--jobs", "2")
            self.assertEqual(p.returncode, 1, p.stdout)
            self.assertIn(f"these jobs would share no pixels, because {reason}\n", p.stderr)
        for arguments, reason in [(["--jobs", "2"], "--jobs needs a data set"), ([self.data, "--jobs", "0"], "jobs"),
                                  ([self.data, "--jobs", "2", "--spread", "0"], "spread")]:
            p = ctl("plan", *arguments)
            self.assertEqual(p.returncode, 2, p.stdout)
            self.assertIn(reason, p.stderr)


if __name__ == "__main__":
    tap.main()
