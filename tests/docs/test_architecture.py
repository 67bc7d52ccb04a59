# SPDX-License-Identifier: MIT
"""Pages about the code name only files that exist."""

import glob
import os
import re
import sys
import unittest

SOURCE = os.environ["top_srcdir"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))

import tap  # noqa: E402

ROOMS = ("common", "include/plenum", "launcher", "libdist", "loader", "python", "tests", "bench", "scripts",
         "examples", "docs")


def named(page):
    """Return the names of the project's files and folders in a page: `common/order/order.c`, or `order.c` alone."""
    with open(os.path.join(SOURCE, page), encoding="utf-8") as f:
        text = f.read()
    paths = set(re.findall(r"\b(?:%s)/[a-z\d_/.]*\.(?:c|h|md|py|sh|tsv)\b" % "|".join(ROOMS), text))
    return paths, set(re.findall(r"`(\w+\.[ch])`", text))


class Architecture(unittest.TestCase):
    def test_names(self):
        """all files that are named exist"""
        files = {os.path.basename(path) for room in ROOMS
                 for path in glob.glob(os.path.join(SOURCE, room, "**"), recursive=True)}
        missing = []
        for page in ("docs/architecture.md", "docs/decoding.md", "docs/launcher.md", "docs/states.md",
                     "docs/tour.md", "HACKING.md"):
            paths, names = named(page)
            self.assertGreater(len(paths), 9, page)
            missing += [f"{page}: {path}" for path in sorted(paths)
                        if not os.path.exists(os.path.join(SOURCE, path))]
            missing += [f"{page}: {name}" for name in sorted(names - files)]
        self.assertEqual(missing, [])


if __name__ == "__main__":
    tap.main()
