# SPDX-License-Identifier: MIT
"""docs/sweeps.md: its code is run exactly as written, from top to bottom."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from pages import blocks, read, set_up
import tap

tap.require("numpy", programs=["mpirun"])

SRUN = """#!/bin/sh
exec "$@"
"""
TASKS, EPOCHS, SAMPLES = 2, 3, 48


class SweepsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="plenum-test-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.blocks = blocks(read("docs/sweeps.md"))
        cls.write(os.path.join(set_up(cls.folder, cls.blocks), "srun"), SRUN)
        os.environ["XDG_RUNTIME_DIR"] = cls.folder

    @classmethod
    def write(cls, name, text):
        """Write a program; a relative name is one in the page's folder."""
        with open(os.path.join(cls.folder, name), "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(f.name, 0o755)

    def script(self, has_optuna):
        """Return the page's lines as one script, which ends the loader, too."""
        lines = ["set -eu", "trap 'kill %1; wait' EXIT"]
        for language, code in self.blocks:
            if language == "sbatch":
                self.write("array.sh", code)
                lines += [f"SLURM_ARRAY_TASK_ID={task} ./array.sh" for task in range(TASKS)]
            elif language == "sh" and (has_optuna or "optuna" not in code and "search.py" not in code):
                lines.append(code)
        return "\n".join(lines + ['plenumctl status "$PLENUM_LOADER" --json'])

    def test_page(self):
        """every program of the page runs, with the loader that the page starts"""
        self.assertEqual({language for language, _ in self.blocks}, {"sh", "python", "sbatch"})
        has_optuna = tap.find("optuna") is not None and shutil.which("optuna") is not None
        done = subprocess.run(["/bin/bash", "-c", self.script(has_optuna)], cwd=self.folder, capture_output=True,
                              text=True, timeout=600, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stderr)
        trials = re.findall(r"rate (\S+) trial (\d): \d+% right", done.stdout)
        self.assertEqual(sorted(trials), sorted([(rate, "1") for rate in ("0.1", "0.03", "0.01", "0.003")]
                                                + [("0.01", str(task)) for task in range(TASKS)]))
        loader = json.loads(done.stdout[done.stdout.index("\n{"):])["loader"]
        self.assertGreaterEqual(loader["samples"], len(trials) * EPOCHS * SAMPLES)
        if has_optuna:
            self.assertIn("Trial 19 finished", done.stderr)


if __name__ == "__main__":
    tap.main()
