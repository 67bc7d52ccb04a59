# SPDX-License-Identifier: MIT
"""The launcher's folders ("rooms"), and what each of them may include."""

import glob
import os
import re
import sys
import unittest

SOURCE = os.environ["top_srcdir"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))

import tap  # noqa: E402

# Each room, and the rooms that it may include in addition to itself and common/.
MAY_KNOW = {
    "values": set(),
    "host": {"values"},
    "control": {"values", "host"},
    "plan": {"values"},
    "shim": {"values", "host", "control"},
    "remote": {"values", "host", "control", "plan"},
    "job": {"values", "host", "control", "plan", "remote", "shim"},
    "plenumrun": {"host", "control", "job", "remote", "shim"},
}
# Headers that only a few files may include, with those files.
MAY_INCLUDE = {
    "launcher/plan/cmdline.h": {"launcher/job/elastic.c", "launcher/job/job_hosts.c", "launcher/job/launch.c",
                                "launcher/plan/cmdline.c", "launcher/plan/configfile.c"},
    "launcher/shim/guard.h": {"launcher/job/starter.c", "launcher/job/stop_command.c", "launcher/shim/inner.c",
                              "launcher/shim/guard.c", "launcher/shim/shim.c"},
    "launcher/host/sweep.h": {"launcher/host/sweep.c", "launcher/job/starter.c", "launcher/remote/login.c",
                              "launcher/shim/shim.c"},
    "launcher/shim/inner_priv.h": {"launcher/shim/inner.c", "launcher/shim/inner_hung.c",
                                   "launcher/shim/inner_output.c", "launcher/shim/inner_pace.c",
                                   "launcher/shim/inner_start.c", "launcher/shim/inner_stop.c"},
    "launcher/shim/shim.h": {"launcher/plenumrun.c", "launcher/shim/inner_priv.h", "launcher/shim/shim.c"},
}


def sources():
    """Return {path: [included headers]} for the launcher's files."""
    found = {}
    for path in glob.glob(os.path.join(SOURCE, "launcher", "**", "*.[ch]"), recursive=True):
        with open(path, encoding="utf-8") as f:
            found[os.path.relpath(path, SOURCE)] = re.findall(r'^#include "([^"]+)"', f.read(), re.M)
    return found


def room_of(path):
    """Return the room of a launcher file; None for other files."""
    parts = os.path.splitext(path)[0].split("/")
    return parts[1] if parts[0] == "launcher" else None


class Rooms(unittest.TestCase):
    def test_rooms(self):
        """every file belongs to a room"""
        self.assertEqual({room_of(path) for path in sources()}, set(MAY_KNOW))

    def test_walls(self):
        """a room includes only rooms it may include"""
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
        """some headers are restricted to a few files"""
        found = sources()
        for header, few in MAY_INCLUDE.items():
            self.assertEqual({path for path, headers in found.items() if header in headers}, few, header)


if __name__ == "__main__":
    tap.main()
