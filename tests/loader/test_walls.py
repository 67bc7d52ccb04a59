# SPDX-License-Identifier: MIT
"""Check the loader's walls: which files may call each other, and which may access sessions."""

import os
import sys
import unittest

SOURCE = os.environ["top_srcdir"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))

import tap  # noqa: E402
import walls  # noqa: E402

SERVE = os.path.join(SOURCE, "loader", "serve")
# Only these files may include each of these headers.
MAY_INCLUDE = {
    "loader/serve/queue_priv.h": {"queue.c", "queue_begin.c", "queue_item.c", "queue_users.c", "readahead.c",
                                  "sharing.c"},
    "loader/serve/queue_item.h": {"queue.c", "queue_begin.c", "queue_item.c", "sharing.h"},
    "loader/serve/session_priv.h": {"session.c", "session_events.c", "session_facts.c", "session_frames.c",
                                    "session_open.c", "session_peer.c", "session_refuse.c", "session_send.c"},
}
# The files of a session, the highest first: each calls only those after it.
SESSION = ["session_events.c", "session_frames.c", "session_open.c", "session_send.c", "session_peer.c",
           "session_refuse.c", "session.c", "session_facts.c"]
# These see sessions only through session_facts.h.
BY_FACTS = {"quota.c", "monitor.c", "snapshot.c", "http.c", "metrics.c", "thumbnail.c"}


class Walls(unittest.TestCase):
    def test_helper(self):
        """calls and circles are found, and comments and strings are not calls"""
        files = {"a.c": "int a_go(void)\n{\n    return b_go();\n}\n",
                 "b.c": 'int b_go(void)\n{\n    /* a_go() */\n    return c_go("a_go");\n}\n',
                 "c.c": "static int c(void)\n{\n    return a_go();\n}\n\nint c_go(void)\n{\n    return c();\n}\n",
                 "d.c": "void d_go(void)\n{\n    a_go();\n}\n"}
        self.assertEqual(walls.calls(files), {"a.c": {"b.c"}, "b.c": {"c.c"}, "c.c": {"a.c"}, "d.c": {"a.c"}})
        self.assertEqual(walls.circles(walls.calls(files)), [["a.c", "b.c", "c.c"]])

    def test_circles(self):
        """no files of serve call each other in a circle"""
        self.assertEqual(walls.circles(walls.calls(walls.read_folder(SERVE))), [])

    def test_session(self):
        """the files of a session have an order, and call only downwards"""
        graph = walls.calls(walls.read_folder(SERVE))
        for at, name in enumerate(SESSION):
            self.assertEqual(graph[name] & set(SESSION[:at]), set(), name)

    def test_facts(self):
        """quotas, the monitor and the status see sessions only through their facts"""
        graph = walls.calls(walls.read_folder(SERVE))
        for name in BY_FACTS:
            self.assertEqual(graph[name] & set(SESSION) - {"session_facts.c"}, set(), name)

    def test_private_headers(self):
        """only its own files include a private header"""
        files = walls.read_folder(SERVE)
        for header, allowed in MAY_INCLUDE.items():
            self.assertIn(os.path.basename(header), files)
            self.assertEqual({name for name, text in files.items() if header in walls.includes(text)}, allowed, header)


if __name__ == "__main__":
    tap.main()
