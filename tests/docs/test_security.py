# SPDX-License-Identifier: MIT
"""Each test file and each test case that security.md cites as evidence exists."""

import os
import re
import sys
import unittest

SOURCE = os.environ["top_srcdir"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))

import tap  # noqa: E402


def read(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as f:
        return f.read()


class SecurityTest(unittest.TestCase):
    def test_proofs(self):
        """each guarantee names tests and cases that exist"""
        lines = [line for line in read("docs", "security.md").split("## What holds")[1].split("## ")[0].splitlines()
                 if line.startswith("| ")][2:]
        self.assertGreater(len(lines), 15)
        for line in lines:
            proofs = re.findall(r"`(tests/[\w/.]+)`(?:: ([\w, ]+))?", line)
            self.assertTrue(proofs, line)
            for path, cases in proofs:
                text = read(path)
                for case in filter(None, cases.split(", ")):
                    self.assertRegex(text, rf"\b{case.strip()}\b", f"{path} has no such case")

    def test_links(self):
        """links from and to the page are valid"""
        for page in ("docs/security.md", "SECURITY.md"):
            for target in re.findall(r"\]\(([\w./]+)\)", read(page)):
                self.assertTrue(os.path.exists(os.path.join(SOURCE, os.path.dirname(page), target)),
                                f"{page}: {target}")
        for page in ("README.md", "docs/architecture.md", "docs/operator.md"):
            self.assertIn("security.md)", read(page))

    def test_address(self):
        """reports are sent to the maintainers"""
        address = re.search(r"AC_INIT\(\[\w+\], \[[\d.]+\], \[([^]]+)\]", read("configure.ac")).group(1)
        self.assertIn(address, read("SECURITY.md"))


if __name__ == "__main__":
    tap.main()
