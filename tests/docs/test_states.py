# SPDX-License-Identifier: MIT
"""docs/states.md shows every state table of the code, unchanged."""

import os
import re
import sys
import unittest

SOURCE = os.environ["top_srcdir"]
sys.path[:0] = [os.path.join(SOURCE, "tests", "python"), os.path.join(SOURCE, "docs")]
sys.dont_write_bytecode = True

import states  # noqa: E402
import tap  # noqa: E402

DOOR = """static const struct state_row door_states[] = {
    /* A comment that names DOOR_CLOSED. */
    [DOOR_OPEN] = {"open", STATE(DOOR_CLOSED)},
    [DOOR_CLOSED] = {"closed", STATE(DOOR_LOCKED) | STATE(DOOR_OPEN)},
    [DOOR_LOCKED] = {"locked", STATE(DOOR_OPEN) | STATE(DOOR_GONE)}, /* with the key */
    [DOOR_GONE] = {"gone", 0},
};
static const unsigned colours[3] = {
    [RED] = 1,
    [GREEN] = 2,
    [BLUE] = 3,
};
"""

DRAWING = """
    OPEN --> CLOSED --> LOCKED --> GONE
    ^        |          |
    +--------+----------+
"""


class States(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.files = states.sources(SOURCE)
        with open(os.path.join(SOURCE, states.PAGE), encoding="utf-8") as file:
            cls.page = file.read()

    def test_page(self):
        """the page equals the output of docs/states.py"""
        self.assertEqual(states.renew(self.page, self.files)[0], self.page, "run docs/states.py")

    def test_complete(self):
        """each table has a section, and each section in the overview exists"""
        _, shown = states.renew(self.page, self.files)
        self.assertGreater(len(shown), 4)
        self.assertEqual(sorted(shown), sorted(states.tables(self.files)))
        headings = {re.sub(r"\W+", "-", title.lower()) for title in re.findall(r"^### (.*)$", self.page, re.M)}
        self.assertEqual(headings, {link.replace("#", "") for link in re.findall(r"\]\((#[\w-]+)\)", self.page)})

    def test_reading(self):
        """both forms of state tables are recognised, and other arrays are not"""
        found = states.tables({"door.c": DOOR})
        self.assertEqual(list(found), ["DOOR"])
        self.assertEqual(found["DOOR"].next["DOOR_LOCKED"], ["DOOR_OPEN", "DOOR_GONE"])
        self.assertEqual("\n" + states.draw(found["DOOR"]), DRAWING)


if __name__ == "__main__":
    tap.main()
