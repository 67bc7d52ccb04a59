# SPDX-License-Identifier: MIT
"""The functions that docs/tour.md names exist, in the files that it names."""

import glob
import os
import re
import sys
import unittest

SOURCE = os.environ["top_srcdir"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))

import tap  # noqa: E402


def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read()


def defined(path):
    """Return the functions that a file defines."""
    text = read(path)
    if path.endswith(".py"):
        return set(re.findall(r"^ *def (\w+)\(", text, re.M))
    # A definition begins at the margin, and no semicolon comes before its body.
    return set(re.findall(r"^[a-z][\w ]*[ *](\w+)\([^;{}]*\)\n\{", text, re.M))


class Tour(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.page = read("docs/tour.md")
        cls.files = {}
        for folder in ("common", "examples", "launcher", "libdist", "loader"):
            for path in glob.glob(os.path.join(SOURCE, folder, "**", "*.c"), recursive=True):
                name = os.path.relpath(path, SOURCE)
                cls.files[name] = defined(name)

    def test_rows(self):
        """each row's files exist and define the row's functions, and no other file does"""
        rows = re.findall(r"^\| (`[^|]*`) \| (.*) \|$", self.page, re.M)
        self.assertGreater(len(rows), 20)
        for files, text in rows:
            known = {path: defined(path) for path in re.findall(r"`([\w/]+\.\w+)`", files)}
            named = set(re.findall(r"`(\w+)\(\)`", text))
            self.assertEqual(named - set().union(*known.values()), set(), f"not in {files}")
            for path, functions in known.items():
                self.assertTrue(named & functions, f"the row has no function of {path}")

    def test_backtraces(self):
        """the functions in backtraces, breakpoints and text exist"""
        every = set().union(*self.files.values())
        named = set(re.findall(r"\(gdb\) tbreak (\w+)", self.page))
        for line in re.findall(r"^ {4}(\w+(?: <- \w+)+)$", self.page, re.M):
            named.update(line.split(" <- "))
        self.assertGreater(len(named), 40)
        prose = set(re.findall(r"`(\w+)\(\)`", re.sub(r"^\|.*", "", self.page, flags=re.M)))
        self.assertEqual((named | prose) - every, set())


if __name__ == "__main__":
    tap.main()
