# SPDX-License-Identifier: MIT
"""Checks that every installed program and library is hardened as configure reports."""

import os
import re
import shutil
import subprocess
import sys
import unittest

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))

import tap  # noqa: E402

PROGRAMS = ("plenumd", "plenumctl", "plenumrun")


def setting(name):
    with open(os.path.join(BUILD, "Makefile"), encoding="utf-8") as f:
        return re.search(rf"^{name} = ?(.*)$", f.read(), re.M).group(1).split()


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], capture_output=True, text=True, check=True).stdout


@unittest.skipIf(not shutil.which("readelf"), "no readelf")
@unittest.skipIf(os.environ.get("PLENUM_SANITIZED"), "sanitizers replace these checks by their own")
class HardeningTest(unittest.TestCase):
    def setUp(self):
        self.flags = setting("HARDEN_CFLAGS") + setting("HARDEN_LDFLAGS")
        if not self.flags:
            self.skipTest("configured with --disable-hardening, or for a compiler that takes none of the flags")
        found = [os.path.join(BUILD, ".libs", name) for name in os.listdir(os.path.join(BUILD, ".libs"))]
        self.libraries = [p for p in found
                          if re.search(r"/libplenum[^/]*\.so$", os.path.realpath(p).rstrip(".0123456789"))]
        self.files = [os.path.join(BUILD, name) for name in PROGRAMS] + self.libraries
        self.assertGreater(len(self.libraries), 0)

    def test_relocations(self):
        """relocation tables are read-only before main() runs, and no stack is executable"""
        if "-Wl,-z,now" not in self.flags:
            self.skipTest("this linker does not take -z now")
        for path in self.files:
            with self.subTest(path):
                self.assertIn("NOW", readelf("-d", path))
                segments = readelf("-l", path)
                self.assertIn("GNU_RELRO", segments)
                self.assertRegex(segments, r"GNU_STACK .* RW +0x")

    def test_position(self):
        """programs are loaded at a different address each time"""
        if "--enable-default-pie" not in subprocess.run([*setting("CC"), "-v"], capture_output=True, text=True).stderr:
            self.skipTest("this compiler does not build position-independent executables by default")
        for name in PROGRAMS:
            self.assertRegex(readelf("-h", os.path.join(BUILD, name)), r"Type: +DYN")

    def test_functions(self):
        """the stack protector and the checked functions of the C library are in use"""
        symbols = {path: readelf("-s", path) for path in self.files}
        if "-fstack-protector-strong" in self.flags:
            for path in self.files:
                self.assertIn("__stack_chk_fail", symbols[path], path)
        if "-D_FORTIFY_SOURCE=3" in self.flags:
            for name in PROGRAMS:
                self.assertRegex(symbols[os.path.join(BUILD, name)], r"__(v?snprintf|memcpy|read|recv|fprintf)_chk",
                                 name)


if __name__ == "__main__":
    tap.main()
