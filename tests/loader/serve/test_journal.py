# SPDX-License-Identifier: MIT
"""Checks that log messages are datagrams to systemd's journal when the loader's standard error is the journal, and
lines otherwise. The journal's socket has a fixed path, so the test runs in a mount namespace with its own /run."""

import os
import re
import shutil
import socket
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from service import LIMIT, ServiceCase, wait_for  # noqa: E402
import tap  # noqa: E402

INSIDE = "PLENUM_TEST_INSIDE"
if INSIDE not in os.environ:
    for way in (["unshare", "--mount"], ["unshare", "--map-root-user", "--mount"]):
        enter = [*way, "--propagation", "private", "--", "/bin/sh", "-c", 'mount -t tmpfs tmpfs /run && exec "$@"',
                 "sh"]
        if shutil.which("unshare") and subprocess.run([*enter, "true"], capture_output=True).returncode == 0:
            os.environ[INSIDE] = "1"
            os.execvp("unshare", [*enter, sys.executable, os.path.abspath(__file__)])
    tap.skip_all("cannot create a mount namespace")


class JournalTest(ServiceCase):
    def setUp(self):
        super().setUp()
        os.makedirs("/run/systemd/journal", exist_ok=True)
        self.addCleanup(shutil.rmtree, "/run/systemd/journal")
        open(self.log, "w").close()
        of = os.stat(self.log)
        self.stream = f"{of.st_dev}:{of.st_ino}"

    def journal(self):
        s = self.listener(socket.SOCK_DGRAM, "/run/systemd/journal/socket")
        s.settimeout(LIMIT)
        return s

    def entries(self, s):
        """Return the entries that the journal has received: [{field: value}]."""
        s.setblocking(False)
        found = []
        while True:
            try:
                data = s.recv(65536).decode("utf-8", "surrogateescape")
            except BlockingIOError:
                return found
            self.assertTrue(data.endswith("\n"), data)
            fields = [line.split("=", 1) for line in data[:-1].split("\n")]
            for field in fields:
                self.assertEqual(len(field), 2, data)
                self.assertRegex(field[0], r"^[A-Z][A-Z_]*$")
            self.assertEqual(len({name for name, _ in fields}), len(fields), data)
            found.append(dict(fields))

    def refused(self, name):
        p = self.feed("--epochs", "1", "--loader-timeout", "1", data=name)
        p.wait(LIMIT)
        self.assertNotEqual(p.returncode, 0)
        return p

    def test_entries(self):
        """each message is one datagram with its fields, whatever a data set is called"""
        s = self.journal()
        p = self.serve(JOURNAL_STREAM=self.stream)
        client = self.refused("/no\nPRIORITY=0\nwhere")
        self.refused("/" + "long/" * 200)
        self.refused("/caf\udce9")
        found = self.entries(s)
        self.assertEqual({e["SYSLOG_IDENTIFIER"] for e in found}, {"plenumd"})
        self.assertEqual({e["PRIORITY"] for e in found}, {"6"})
        self.assertNotIn("PLENUM_CLIENT", found[0])
        self.assertIn("threads decode", found[0]["MESSAGE"])
        broken, long, odd = [e for e in found if "refused" in e["MESSAGE"]]
        self.assertEqual(broken["PLENUM_DATASET"], "/no?PRIORITY=0?where")
        self.assertEqual(broken["PLENUM_CLIENT_PID"], str(client.pid))
        self.assertEqual(broken["PLENUM_CLIENT_UID"], str(os.getuid()))
        self.assertIn(f"pid {client.pid}", broken["PLENUM_CLIENT"])
        self.assertTrue(long["PLENUM_DATASET"].startswith("/long/long/"))
        self.assertGreater(len(long["PLENUM_DATASET"]), 300)
        self.assertEqual(odd["PLENUM_DATASET"], "/caf\udce9")
        self.assertEqual(self.said(), "", "and no lines")
        # The last messages are lines, because the journal cannot attribute entries of a process that has exited.
        self.make_data()
        self.feed("--epochs", "100000", "--pause", "10")
        wait_for("a client", lambda: any("batches of" in e["MESSAGE"] for e in self.entries(s)))
        p.terminate()
        p.wait(LIMIT)
        self.assertRegex(self.said(), r"(?m)^<6>ending: batches that are under way are finished first")
        self.assertFalse(any("ending" in e["MESSAGE"] for e in self.entries(s)))

    def test_no_journal(self):
        """without a journal listening, messages are lines with priorities"""
        self.serve(JOURNAL_STREAM=self.stream)
        self.refused("/nowhere")
        for line in self.said().splitlines():
            self.assertRegex(line, r"^<[346]>")
        self.assertRegex(self.said(), r"(?m)^<6>client .* refused: ")

    def test_other_stream(self):
        """an inherited variable about another stream has no effect"""
        s = self.journal()
        self.serve(JOURNAL_STREAM="1:2")
        self.refused("/nowhere")
        self.assertEqual(self.entries(s), [])
        self.assertTrue(all(re.match(r"plenumd: ", line) for line in self.said().splitlines()), self.said())

    def test_json(self):
        """--log-format json always prints lines"""
        s = self.journal()
        self.serve("--log-format", "json", JOURNAL_STREAM=self.stream)
        self.refused("/nowhere")
        self.assertEqual(self.entries(s), [])
        self.assertTrue(all(line.startswith("{") for line in self.said().splitlines()))


if __name__ == "__main__":
    tap.main()
