# SPDX-License-Identifier: MIT
"""The launcher's rooms: who may include what."""

import glob
import os
import re
import sys
import unittest

SOURCE = os.environ["top_srcdir"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))

import tap  # noqa: E402

# What stands above the rooms: leaves, which know nothing of the launcher, and what plenumrun and the processes that it
# starts have in common.
LEAVES = {"numa", "ports", "ranges", "subnet", "texts", "topology"}
BETWEEN = {"control", "dial", "environ", "handover", "host", "lines", "network", "proctree", "script", "signals",
           "status"}
# Each room, and whom it may know besides itself and common/.
MAY_KNOW = {
    "leaves": set(),
    "between": {"leaves"},
    "plan": {"leaves"},
    "shim": {"leaves", "between"},
    "remote": {"leaves", "between", "plan"},
    "job": {"leaves", "between", "plan", "remote", "shim"},
    "main": {"between", "job", "remote", "shim"},
}
# Headers that few may see, with these few.
MAY_INCLUDE = {
    "launcher/plan/cmdline.h": {"launcher/job/launch.c", "launcher/plan/cmdline.c", "launcher/plan/configfile.c"},
    "launcher/shim/guard.h": {"launcher/job/starter.c", "launcher/shim/inner.c", "launcher/shim/guard.c",
                              "launcher/shim/shim.c"},
    "launcher/shim/sweep.h": {"launcher/job/starter.c", "launcher/shim/shim.c", "launcher/shim/sweep.c"},
    "launcher/shim/shim.h": {"launcher/main.c", "launcher/shim/inner.c", "launcher/shim/shim.c"},
}


def sources():
    """{path: [headers that it includes]} of the launcher."""
    found = {}
    for path in glob.glob(os.path.join(SOURCE, "launcher", "**", "*.[ch]"), recursive=True):
        with open(path, encoding="utf-8") as f:
            found[os.path.relpath(path, SOURCE)] = re.findall(r'^#include "([^"]+)"', f.read(), re.M)
    return found


def room_of(path):
    """The room of a file of the launcher; None of others."""
    parts = path.split("/")
    if parts[0] != "launcher":
        return None
    if len(parts) == 3:
        return parts[1]
    name = os.path.splitext(parts[1])[0]
    return "leaves" if name in LEAVES else "between" if name in BETWEEN else name


class Rooms(unittest.TestCase):
    def test_rooms(self):
        """every file has a room"""
        self.assertEqual({room_of(path) for path in sources()}, set(MAY_KNOW))

    def test_walls(self):
        """a room includes those that it may know"""
        for path, headers in sources().items():
            room = room_of(path)
            for header in headers:
                if header == "config.h":
                    continue
                self.assertIn(header.split("/")[0], ("common", "launcher"), path)
                other = room_of(header)
                self.assertTrue(other is None or other == room or other in MAY_KNOW[room],
                                f"{path} ({room}) includes {header} ({other})")

    def test_private_headers(self):
        """some headers are for few"""
        found = sources()
        for header, few in MAY_INCLUDE.items():
            self.assertEqual({path for path, headers in found.items() if header in headers}, few, header)


if __name__ == "__main__":
    tap.main()
