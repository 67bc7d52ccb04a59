# SPDX-License-Identifier: MIT
"""Helpers for tests that run the programs of a page exactly as printed there."""

import os
import re
import subprocess
import sys

BUILD = os.environ["top_builddir"]
SOURCE = os.environ["top_srcdir"]
sys.path[:0] = [os.path.join(SOURCE, "tests", "python"), os.path.join(SOURCE, "tests", "e2e")]

import jobs  # noqa: E402


def read(name):
    with open(os.path.join(SOURCE, name), encoding="utf-8") as f:
        return f.read()


def blocks(text):
    """Return the fenced blocks of a page as (language, code)."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S)


def operations():
    """Return the words of operations that may follow a pipeline's crop."""
    rows = read("common/pipeline/pipeline_ops.c").split("    OP(SOLARIZE_ADD,")[0]
    return re.findall(r'^    OP\([A-Z_]+, "(\w+)",', rows, re.M)


def set_up(folder, found):
    """Write the Python programs of a page to a folder, and put this Python and the programs of the build into PATH.
    Return the folder that comes first in PATH."""
    jobs.set_up(folder)
    programs = os.path.join(folder, "bin")
    os.mkdir(programs)
    os.symlink(sys.executable, os.path.join(programs, "python3"))
    os.environ["PATH"] = f"{programs}:{BUILD}:{os.environ['PATH']}"
    for language, code in found:
        if language == "python":
            name = re.match(r"# (\w+\.py) - ", code).group(1)
            with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                f.write(code)
    return programs


class Page:
    """A page whose programs are written to a folder, and whose shell lines are run there from top to bottom."""

    def __init__(self, text, folder, skip=lambda code: False):
        self.text, self.blocks, self.out = text, blocks(text), {}
        set_up(folder, self.blocks)
        for language, code in self.blocks:
            if language == "sh" and not skip(code):
                self.out[code] = self._run(folder, code)

    @staticmethod
    def _run(folder, code):
        done = subprocess.run(["/bin/sh", "-eu", "-c", code], cwd=folder, capture_output=True, text=True, timeout=300,
                              stdin=subprocess.DEVNULL)
        if done.returncode:
            raise AssertionError(f"status {done.returncode}: {code}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def of(self, words):
        """Return the output of the only block that contains these words."""
        (code,) = [code for code in self.out if words in code]
        return self.out[code]

    def check_programs(self, case, languages):
        """Check that a line of the page runs each program, and that every block is in a known language."""
        for name in re.findall(r"^# (\w+\.py) - ", self.text, re.M):
            case.assertRegex("\n".join(code for _, code in self.blocks), rf"python3 {name} ")
        case.assertEqual({language for language, _ in self.blocks}, languages)
        case.assertEqual(self.text.count("\n```"), 2 * len(self.blocks))
