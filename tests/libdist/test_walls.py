# SPDX-License-Identifier: MIT
"""libdist's walls: what each file may include, and where states are written."""

import glob
import os
import re
import sys
import unittest

SOURCE = os.environ["top_srcdir"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))

import tap  # noqa: E402

# Only these files may include each of these headers.
MAY_INCLUDE = {
    "libdist/stream_core.h": {"loader_table.h", "stream.c", "stream_core.c", "together.c"},
    "libdist/loader_table.h": {"loader_table.c", "loaders.c", "lookup.c", "names.c", "schedule.c"},
}
# The connection, memory, verification and float conversion know nothing about streams, loader accounts or batch order.
KNOWS_NOT = {"session.c": {"schedule.h", "stream.h", "names.h", "lookup.h"},
             "slot.c": {"session.h", "loaders.h", "schedule.h", "stream.h"},
             "verify.c": {"session.h", "loaders.h", "schedule.h", "stream.h"},
             "normalise.c": {"session.h", "loaders.h", "schedule.h", "slot.h", "stream.h"}}
STATES = {"SLOT": "slot.c", "SESSION": "session.c"}


def sources():
    """{name: text} of libdist's files."""
    found = {}
    for path in glob.glob(os.path.join(SOURCE, "libdist", "*.[ch]")):
        with open(path, encoding="utf-8") as f:
            found[os.path.basename(path)] = f.read()
    return found


def includes(text):
    return re.findall(r'^#include "([^"]+)"', text, re.M)


class Walls(unittest.TestCase):
    def test_private_headers(self):
        """only its own files include a private header"""
        files = sources()
        for header, allowed in MAY_INCLUDE.items():
            self.assertIn(os.path.basename(header), files)
            self.assertEqual({name for name, text in files.items() if header in includes(text)}, allowed, header)

    def test_ignorance(self):
        """connections, slots and verification are independent"""
        files = sources()
        for name, unknown in KNOWS_NOT.items():
            headers = [n for n in includes(files[name]) if n.startswith("libdist/")]
            reached = set()
            while headers:
                header = os.path.basename(headers.pop())
                if header not in reached:
                    reached.add(header)
                    headers += [n for n in includes(files[header]) if n.startswith("libdist/")]
            self.assertEqual(reached & unknown, set(), name)

    def test_states(self):
        """each state is written in only one place"""
        for name, text in sources().items():
            for states, owner in STATES.items():
                self.assertEqual(re.findall(rf"\bstate = {states}_\w+", text), [], f"{name}: {owner} moves")
        self.assertEqual({name for name, text in sources().items() if re.search(r"->state = ", text)},
                         set(STATES.values()))

    def test_locale(self):
        """no number is parsed by the program's locale, which may have a decimal comma"""
        for folder in ("libdist", "common"):
            for path in glob.glob(os.path.join(SOURCE, folder, "*.c")):
                with open(path, encoding="utf-8") as f:
                    self.assertEqual(re.findall(r"\b(?:strtod|strtof|strtold|atof|v?f?scanf)\(", f.read()), [], path)

    def test_environment(self):
        """the library is not configured through the environment of its own process"""
        for path in glob.glob(os.path.join(SOURCE, "loader", "*", "*.c")):
            with open(path, encoding="utf-8") as f:
                self.assertIsNone(re.search(r'setenv\("PLENUM_(SOURCE|VERIFY_BATCHES)', f.read()), path)


if __name__ == "__main__":
    tap.main()
