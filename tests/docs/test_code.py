# SPDX-License-Identifier: MIT
"""The code in operator.md, preparing.md and protocol.md runs, the messages that operator.md explains exist, and
protocol.md agrees with common/net/wire.h."""

import os
import re
import subprocess
import sys

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "loader", "serve"))

from service import LIMIT, ServiceCase  # noqa: E402
import tap  # noqa: E402


def document(name):
    with open(os.path.join(SOURCE, "docs", name), encoding="utf-8") as f:
        return f.read()


def blocks(name, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", document(name), re.M | re.S)


class CodeTest(ServiceCase):
    def test_operator(self):
        """the shell lines of operator.md run"""
        (code,) = blocks("operator.md", "sh")
        path = f"{BUILD}:{os.environ['PATH']}"  # finds the programs that were built
        done = subprocess.run(["/bin/sh", "-eu", "-c", code], cwd=self.folder, env=dict(self.environment, PATH=path),
                              timeout=10 * LIMIT, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("plenumd.conf is valid", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^real  *[1-9]")
        self.assertRegex(done.stdout,
                         "since the start: [1-9][0-9]* samples, 0 bad ones replaced, 0 batches failed, "
                         "0 clients rejected")

    def test_preparing(self):
        """the shell lines of preparing.md run"""
        (code,) = blocks("preparing.md", "sh")
        path = f"{BUILD}:{os.environ['PATH']}"
        done = subprocess.run(["/bin/sh", "-eu", "-c", code], cwd=self.folder, env=dict(self.environment, PATH=path),
                              timeout=10 * LIMIT, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?m)^resized  *[1-9]\d* by --shortest 256 --quality 90 --subsampling 420; ")

    def test_protocol_client(self):
        """the client of protocol.md receives the labels that plenumctl prints"""
        (code,) = blocks("protocol.md", "python")
        self.make_data(images=2)
        self.serve()
        out = self.run_ok(sys.executable, "-c", code, self.socket, self.data)
        self.assertEqual(out, self.run_ok(sys.executable, "-c", code, self.serve_tcp(), self.data))
        self.assertRegex(out, r"^8 samples of 4 classes; status 0; labels \([0-3], [0-3], [0-3], [0-3]\)$")

    def test_protocol_numbers(self):
        """protocol.md names each message of wire.h with its number, and the version"""
        with open(os.path.join(SOURCE, "common", "net", "wire.h"), encoding="utf-8") as f:
            header = f.read()
        names = re.findall(r"^    WIRE_(\w+)(?: = 1)?,", header.split("enum wire_type {")[1].split("};")[0], re.M)
        table = re.findall(r"^\| ([A-Z_]+) \| (\d+) \|", document("protocol.md"), re.M)
        self.assertEqual(table, [(name, str(i + 1)) for i, name in enumerate(names)])
        major, minor = (re.search(rf"WIRE_{w} = (\d+)", header).group(1) for w in ("MAJOR", "MINOR"))
        self.assertIn(f"version {major}.{minor}.", document("protocol.md"))

    def test_messages(self):
        """the messages that operator.md explains exist"""
        text = ""
        for room in ("common", "launcher", "libdist", "loader"):
            for folder, _, names in os.walk(os.path.join(SOURCE, room)):
                for name in names:
                    if name.endswith(".c"):
                        with open(os.path.join(folder, name), encoding="utf-8") as f:
                            text += re.sub(r'"\s*"', "", f.read())
        for words in ("no such socket: is plenumd running?", "it serves only user %u: its operator",
                      "is not below a --root of this loader", "goes beyond the",
                      "is being stopped or restarted", "the status page cannot be served at",
                      "no file descriptor is left for a new client"):
            self.assertIn(words, text)


if __name__ == "__main__":
    tap.main()
