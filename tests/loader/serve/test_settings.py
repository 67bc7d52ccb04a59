# SPDX-License-Identifier: MIT
"""Tests plenumd.conf: its keys, its error messages, and SIGHUP."""

import json
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from service import LIMIT, PLENUMD, SOURCE, Manager, ServiceCase, wait_for  # noqa: E402
import tap  # noqa: E402

COMMAND_LINE_ONLY = {"config", "check-config", "job", "listen-fd", "http-fd", "client-fd", "leash-fd",
                     "start-fd", "help", "version"}


def options():
    """Return every option of plenumd --help, as {name: whether it takes a value}."""
    text = subprocess.run([PLENUMD, "--help"], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^  (?:-\w,|   ) --([\w-]+)( [A-Z]+)?", text, re.M)
    return {name: bool(value) for name, value in found}


class SettingsTest(ServiceCase):
    def setUp(self):
        super().setUp()
        self.conf = os.path.join(self.folder, "plenumd.conf")

    def write(self, *lines):
        with open(self.conf, "w") as f:
            f.write("".join(line + "\n" for line in lines))

    def check(self, *lines):
        self.write(*lines)
        p = subprocess.run([PLENUMD, "--config", self.conf, "--check-config"], capture_output=True, text=True)
        return p.returncode, p.stdout, p.stderr

    def test_every_option(self):
        """every option is a key, or documented as command line only"""
        values = {"socket": "unix:@x", "socket-mode": "0660", "pin": "node", "root": self.folder, "cache-dir": "/tmp",
                  "ring-limit": "1G", "drain-timeout": "3s", "log-format": "json", "listen": "127.0.0.1:0",
                  "tls-key": "/key",
                   "socket-group": "root", "user": "root", "decoder": "libjpeg"}
        known = options()
        self.assertLessEqual(COMMAND_LINE_ONLY - {"help", "version"}, set(known))
        for name, has_value in known.items():
            value = values.get(name, "2") if has_value else "yes"
            code, out, err = self.check(f"{name} = {value}")
            if name in COMMAND_LINE_ONLY:
                self.assertEqual(code, 1, name)
                self.assertRegex(err, f"plenumd.conf:1: .*({name} is only for the command line|no key '{name}')")
            else:
                self.assertEqual((code, err), (0, ""), name)

    def test_cache_memory(self):
        """a cache in memory must leave memory for the rest, and cannot be combined with one on a disk"""
        self.assertEqual(self.check("cache-memory = 1M", "memory-budget = 1G")[0], 0)
        for lines, message in ((("cache-memory = 1G", "memory-budget = 1G"), "leaves nothing of --memory-budget"),
                               (("cache-memory = 900T",), "is not less than the memory of this host"),
                               (("cache-memory = 1G", "cache-size = 1G"), "cannot be combined")):
            code, _, err = self.check(*lines)
            self.assertEqual(code, 1)
            self.assertIn(message, err)

    def test_documented(self):
        """plenumd.conf(5) and the installed file have every key, and no other"""
        keys = set(options()) - COMMAND_LINE_ONLY
        with open(os.path.join(SOURCE, "docs", "man", "plenumd.conf.5"), encoding="utf-8") as f:
            section = f.read().split(".Sh KEYS")[1].split(".Sh ")[0]
        documented = set(re.findall(r"^\.It Cm (\S+)$", section, re.M))
        self.assertEqual(documented, keys)
        with open(os.path.join(SOURCE, "systemd", "plenumd.conf"), encoding="utf-8") as f:
            installed = f.read()
        for key in re.findall(r"^#?([a-z-]+) = ", installed, re.M):
            self.assertIn(key, keys)
        # The installed file's examples are valid, once their folders and users are replaced by existing ones.
        installed = re.sub(r"/data\S*", self.folder, installed).replace("alice,@radiology", "root,@root")
        code, _, err = self.check(*re.sub(r"^#([a-z-]+ = )", r"\1", installed, flags=re.M).splitlines())
        self.assertEqual((code, err), (0, ""))

    def test_faults(self):
        """each fault is reported with its line and a remedy"""
        code, out, err = self.check(
            # 6
            "# a comment", "", " threads = 2", "ring-limit = 2G ; a comment", f"root = {self.folder}",
            # 13
            f"root = {self.folder}", "root = /nowhere", "ring-limt = 3", "[section]", "all-cpus = maybe",
            # 20
            "threads = 3", "garbage", "job = yes", "pin = x", "io-threads = abc", "io-threads = 0", "root = data",
            "socket =", "socket = tcp:1", "x" * 5000 + " = 1",
            "cache-dir = /tmp", "cache-dir = /tmp", "cache-limit = 10\0G")
        self.assertEqual((code, out), (1, ""))
        said = {}
        for line in err.splitlines():
            n, text = re.fullmatch(r"plenumd: error: .*/plenumd\.conf:(\d+): (.*)", line).groups()
            said.setdefault(int(n), []).append(text)
        expected = {7: "/nowhere: No such file.*mount", 8: "did you mean ring-limit",
                    9: "sections are not supported: remove this line", 10: "all-cpus needs yes or no",
                    11: "already set on line 3", 12: "correct it", 13: "only for the command line",
                    14: "one of core, node, none", 15: "whole number", 16: "io-threads must be 1 to 1024|line 15",
                    17: "begins with '/'", 18: "needs a value: socket = ADDRESS", 19: "socket is already set|unix:",
                    20: "longer than", 22: "already set on line 21", 23: "zero byte: is this a text file"}
        self.assertEqual(sorted(said), sorted(expected), err)
        for n, pattern in expected.items():
            self.assertTrue(any(re.search(pattern, text) for text in said[n]), f"{n}: {said[n]}")

    def test_missing(self):
        """a missing file is reported"""
        p = subprocess.run([PLENUMD, "--config", self.conf], capture_output=True, text=True)
        self.assertEqual(p.returncode, 1)
        self.assertIn("plenumd.conf: No such file or directory; create the file", p.stderr)

    def test_command_line_wins(self):
        """the command line overrides the file, and its roots replace the file's"""
        self.make_data()
        other = os.path.join(self.folder, "other")
        os.mkdir(other)
        self.write("threads = 1", f"root = {self.data}", "socket = unix:@not-this-one")
        self.serve("--config", self.conf, "--root", other)
        wait_for("the first message", lambda: "2 threads decode" in self.said())  # --threads 2 of serve()
        _, err = self.feed("--epochs", "1").communicate(timeout=LIMIT)
        self.assertIn("is not below", err)

    def test_json_log(self):
        """--log-format json prints one object per line, whatever a message contains"""
        p = self.serve("--log-format", "json")
        client = self.feed("--epochs", "1", data="/no\nwhere \"x\" \\")
        client.communicate(timeout=LIMIT)
        p.send_signal(signal.SIGTERM)
        p.wait(LIMIT)
        lines = [json.loads(line) for line in self.said().splitlines()]
        self.assertGreaterEqual(len(lines), 2)
        for line in lines:
            self.assertEqual(set(line) - {"client", "client_uid", "client_pid", "dataset"},
                             {"time", "level", "program", "message"})
            self.assertRegex(line["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        (refused,) = [line for line in lines if '"x" \\' in line["message"]]
        self.assertEqual(refused["client_pid"], str(client.pid))
        self.assertEqual(refused["client_uid"], str(os.getuid()))
        self.assertEqual(refused["dataset"], "/no\nwhere \"x\" \\")
        self.assertIn("client", refused)
        self.assertNotIn("client", lines[0], "a line that is not about a client names none")

    def hup(self, p, manager):
        p.send_signal(signal.SIGHUP)
        manager.wait("READY=1")

    def test_reload(self):
        """SIGHUP rereads the file without affecting streams, whose hash is the same"""
        self.make_data()
        other = os.path.join(self.folder, "other")
        os.mkdir(other)
        manager = Manager(self.folder)
        self.write(f"root = {self.data}")
        p = self.serve("--config", self.conf, manager=manager)
        manager.wait("READY=1")
        feed = self.feed("--epochs", "20", "--pause", "20")
        wait_for("a client", lambda: "client " in self.said())
        self.write("garbage")
        self.hup(p, manager)
        self.assertIn("plenumd.conf:1: this is not 'key = value'", self.said())
        self.assertIn("the settings are unchanged", self.said())
        self.assertEqual(self.fed(self.feed("--epochs", "1"))[0]["hash"], self.alone(1))
        self.write(f"root = {other}", "pin = node", "ring-limit = 4G")
        self.hup(p, manager)
        self.assertIn("pin was changed; this takes effect when the loader is restarted", self.said())
        self.assertNotIn("ring-limit was changed", self.said())
        _, err = self.feed("--epochs", "1").communicate(timeout=LIMIT)
        self.assertIn("is not below a --root", err)
        for _ in range(20):
            self.hup(p, manager)
        result, err = self.fed(feed)
        self.assertEqual((result["hash"], result["incidents"]), (self.alone(20), 0))
        self.write(f"root = {self.data}")
        self.hup(p, manager)
        self.assertEqual(self.fed(self.feed("--epochs", "1"))[0]["hash"], self.alone(1))
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(LIMIT), 0)

    def test_reload_without_roots(self):
        """SIGHUP cannot remove the last root while the loader serves TCP without a key"""
        self.make_data()
        manager = Manager(self.folder)
        for kept in ([], ["listen = 0"]):  # also if the file no longer names the socket
            self.write(f"root = {self.folder}/cache", "listen = 0")
            os.makedirs(f"{self.folder}/cache", exist_ok=True)
            told = len(self.said()) if os.path.exists(self.log) else 0
            p = self.serve("--config", self.conf, manager=manager)
            manager.wait("READY=1")
            address = re.search(r"listening on (tcp:\S+)", self.said()[told:]).group(1)
            self.write(*kept)
            self.hup(p, manager)
            self.assertIn("any client that connects there could read everything that this user can", self.said()[told:])
            self.assertIn("the settings are unchanged", self.said()[told:])
            _, err = self.feed("--epochs", "1", "--loader", address).communicate(timeout=LIMIT)
            self.assertIn("is not below a --root", err)
            self.end(p)


if __name__ == "__main__":
    if "built without libinih" in subprocess.run([PLENUMD, "--config", "/dev/null", "--check-config"],
                                                 capture_output=True, text=True).stderr:
        tap.skip_all("plenumd was built without libinih")
    tap.main()
