# SPDX-License-Identifier: MIT
"""docs/guide.md: its code is run exactly as written, from top to bottom, and has the described results."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from pages import SOURCE, Page, read
import tap

tap.require("numpy", programs=["mpirun"])
torch = tap.find("torch")

PAGES = ("architecture", "datasets", "glossary", "guide", "install", "messages", "operator", "packed", "pipelines",
         "popdist", "recipes", "security", "training")


class GuideTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="plenum-test-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.page = Page(read("docs/guide.md"), cls.folder, skip=lambda code: torch is None and "loader.py" in code)
        cls.of = staticmethod(cls.page.of)

    def test_programs(self):
        """every program of the page is run, and no code is left out"""
        self.page.check_programs(self, {"sh", "python", "sbatch"})

    def test_first(self):
        """one process, two, and plenumctl compute the same hash"""
        out = self.of("--num-replicas 4 python3 first.py photos")
        hashes = re.findall(r"\b[0-9a-f]{16}\b", out)
        self.assertEqual(len(hashes), 3, out)
        self.assertEqual(len(set(hashes)), 1, out)
        self.assertIn("instance 1 of 2: replicas from 2 on, 48 samples", out)
        self.hash = hashes[0]

    def test_same_run(self):
        """the run on packed data and the run in two parts compute the same hash"""
        (want,) = set(re.findall(r"\b[0-9a-f]{16}\b", self.of("first.py photos\nplenumrun")))
        self.assertIn(want, self.of("plenumctl hash packed"))
        self.assertIn(want, self.of("resume.py"))

    def test_preview(self):
        """preview writes a sheet"""
        with open(os.path.join(self.folder, "sheet.jpg"), "rb") as f:
            self.assertEqual(f.read(2), b"\xff\xd8")

    def test_plan(self):
        """--dry-run divides the replicas among the hosts as the guide describes"""
        out = self.of("--dry-run")
        for host in range(4):
            self.assertRegex(out, rf"(?m)^h{host} ")
        self.assertIn("8 instances on 4 hosts, 32 replicas", out)

    def test_slurm(self):
        """the job script starts as many instances as Slurm has tasks"""
        ((_, code),) = [block for block in self.page.blocks if block[0] == "sbatch"]
        environment = dict(os.environ, SLURM_JOB_ID="1", SLURM_JOB_NODELIST="n[0-1]", SLURM_NNODES="2",
                           SLURM_TASKS_PER_NODE="4(x2)", SLURM_NTASKS_PER_NODE="4")
        done = subprocess.run(["/bin/bash", "-eu", "-c",
                               code.replace("plenumrun ", "plenumrun --dry-run --print-topology=json ")],
                              env=environment, capture_output=True, text=True, timeout=300)
        plan = json.loads(done.stdout)
        self.assertEqual((plan["num_instances"], plan["num_replicas"], [h["name"] for h in plan["hosts"]]),
                         (8, 32, ["n0", "n1"]))

    @unittest.skipIf(torch is None, "PyTorch is not installed for this Python")
    def test_loader(self):
        """the replacement for a DataLoader works"""
        self.assertEqual(self.of("python3 loader.py"), "epoch 0: 6 batches\nepoch 1: 6 batches\n")

    def test_evaluation(self):
        """every sample counts once"""
        self.assertEqual(self.of("evaluate.py"), "48 of 48 right\n")

    def test_archives(self):
        """the archive has the folder's samples"""
        self.assertRegex(self.of("tar cf"), r"\b48\b")

    def test_links(self):
        """everything that the pages refer to exists"""
        for name in ["README.md"] + [f"docs/{page}.md" for page in PAGES]:
            text = read(name)
            heads = {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^#+ (.*)$", text, re.M)}
            for target in re.findall(r"\]\(([^)]+)\)", text):
                if target.startswith("#"):
                    self.assertIn(target[1:], heads, name)
                elif "://" not in target:
                    self.assertTrue(os.path.exists(os.path.join(SOURCE, os.path.dirname(name), target.split("#")[0])),
                                    f"{name}: {target}")


if __name__ == "__main__":
    tap.main()
