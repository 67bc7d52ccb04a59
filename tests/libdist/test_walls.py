# SPDX-License-Identifier: MIT
"""Checks libdist's modules: what each file may include, and where states are written."""

import glob
import os
import re
import sys
import unittest

SOURCE = os.environ["top_srcdir"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))

import tap  # noqa: E402
import walls  # noqa: E402

# Only these files may include each of these headers.
MAY_INCLUDE = {
    "libdist/stream_core.h": {"amend.c", "amended.c", "batch.h", "cursor_check.c", "loader_table.h", "stream.c",
                              "stream_core.c", "stream_options.c", "together.c"},
    "libdist/loader_session_core.h": {"loader_session.c", "loader_session_input.c"},
    "libdist/loader_table.h": {"loader_table.c", "loaders.c", "lookup.c", "names.c", "schedule.c"},
}
# The only files of the rest of the library that the collectives may use.
COLLECTIVES_KNOW = {"libdist/job_priv.h", "libdist/pacing.h"}
# Connections, the I/O thread, slots, verification and float conversion include no header about streams, loader accounts
# or batch order, not even through other headers; nor does the stream's core, apart from its own header.
STREAMS = {"batch.h", "loader_table.h", "loaders.h", "lookup.h", "names.h", "schedule.h", "stream_core.h",
           "stream_open.h", "stream_options.h"}
KNOWS_NOT = {"loader_session.c": STREAMS,
             "loader_session_input.c": STREAMS,
             "io.c": STREAMS | {"loader_session.h", "slot.h"},
             "stream_core.c": STREAMS - {"stream_core.h"} | {"io.h", "loader_session.h"},
             "slot.c": STREAMS | {"loader_session.h"},
             "batch_verify.c": STREAMS | {"loader_session.h"},
             "normalise.c": STREAMS | {"loader_session.h", "slot.h"}}
STATES = {"SLOT": "slot.c", "SESSION": "loader_session.c", "ENTRY": "schedule.c"}


def sources():
    return walls.read_folder(os.path.join(SOURCE, "libdist"))


class Walls(unittest.TestCase):
    def test_private_headers(self):
        """only its own files include a private header"""
        files = sources()
        for header, allowed in MAY_INCLUDE.items():
            self.assertIn(os.path.relpath(header, "libdist"), files)
            self.assertEqual({name for name, text in files.items() if header in walls.includes(text)}, allowed, header)

    def test_circles(self):
        """no file calls one that calls it back, directly or through others"""
        graph = walls.calls(sources())
        self.assertIn("schedule.c", graph["loaders.c"])
        self.assertEqual(walls.circles(graph), [])

    def test_collectives(self):
        """the collectives include only job_priv.h and pacing.h from the rest of the library"""
        for name, text in sources().items():
            if name.startswith("collectives/"):
                known = {n for n in walls.includes(text) if n.startswith("libdist/")}
                self.assertEqual({n for n in known if not n.startswith("libdist/collectives/")} - COLLECTIVES_KNOW,
                                 set(), name)

    def test_ignorance(self):
        """connections, the I/O thread, slots and verification are independent"""
        files = sources()
        for name, unknown in KNOWS_NOT.items():
            headers = [n for n in walls.includes(files[name]) if n.startswith("libdist/")]
            known = set()
            while headers:
                header = os.path.relpath(headers.pop(), "libdist")
                if header not in known:
                    known.add(header)
                    headers += [n for n in walls.includes(files[header]) if n.startswith("libdist/")]
            self.assertEqual(known & unknown, set(), name)

    def test_states(self):
        """each state is written in only one place"""
        for name, text in sources().items():
            for states, owner in STATES.items():
                self.assertEqual(re.findall(rf"\bstate = {states}_\w+", text), [], f"{name}: {owner} moves")
        self.assertEqual({name for name, text in sources().items() if re.search(r"->state = ", text)},
                         set(STATES.values()))

    def test_locale(self):
        """no number is parsed with the program's locale, which may have a decimal comma"""
        for folder in ("libdist", "common"):
            for path in glob.glob(os.path.join(SOURCE, folder, "**", "*.c"), recursive=True):
                with open(path, encoding="utf-8") as f:
                    self.assertEqual(re.findall(r"\b(?:strtod|strtof|strtold|atof|v?f?scanf)\(", f.read()), [], path)

    def test_environment(self):
        """the library is not configured through the environment of its own process"""
        for path in glob.glob(os.path.join(SOURCE, "loader", "**", "*.c"), recursive=True):
            with open(path, encoding="utf-8") as f:
                self.assertIsNone(re.search(r'setenv\("PLENUM_(SOURCE|VERIFY_BATCHES)', f.read()), path)


if __name__ == "__main__":
    tap.main()
