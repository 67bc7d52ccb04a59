# SPDX-License-Identifier: MIT
"""Sources are formatted as .editorconfig, .clang-format, .shellcheckrc, ruff.toml and mypy's table in pyproject.toml
require."""

import os
import re
import shutil
import subprocess
import sys
import unittest

SOURCE = os.environ["top_srcdir"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))

import tap  # noqa: E402

TOPS = (".ci", "bench", "common", "docs", "examples", "include", "launcher", "libdist", "loader", "python", "scripts",
        "tests")
CLANG_FORMAT = "14"  # other versions format a few lines differently


def files():
    """Return the paths of all sources, relative to the top."""
    found = [name for name in os.listdir(SOURCE) if name.endswith(".md")]
    for top in TOPS:
        for folder, folders, names in os.walk(os.path.join(SOURCE, top)):
            folders[:] = [name for name in folders
                          if not name.startswith((".", "build", "__pycache__")) and not name.endswith(".egg-info")]
            found += [os.path.relpath(os.path.join(folder, name), SOURCE) for name in names if ".pb-c." not in name]
    return sorted(path for path in found if not os.path.islink(os.path.join(SOURCE, path)))


def of_interpreter(paths, ending, program):
    """Yield the paths of scripts with this extension, or none, whose first line names this program; for .py, all."""
    for path in paths:
        if path.endswith(".py") and ending == ".py":
            yield path
        elif path.endswith(ending) or "." not in os.path.basename(path):
            with open(os.path.join(SOURCE, path), "rb") as file:
                first = file.readline(200)
            if re.match(rb"#!.*\b%s" % program, first):
                yield path


def c_files():
    """Yield (path, text) of each C file outside tests and examples."""
    for path in files():
        if path.endswith((".c", ".h")) and not path.startswith(("tests/", "examples/")):
            with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
                yield path, file.read()


def widths():
    """Return [(extensions, characters per line)] of .editorconfig."""
    with open(os.path.join(SOURCE, ".editorconfig"), encoding="utf-8") as file:
        sections = re.findall(r"^\[\*\.\{?([\w,]+)\}?\]\n((?:\w.*\n)*)", file.read(), re.M)
    return [(tuple("." + ending for ending in endings.split(",")),
             int(re.search(r"max_line_length = (\d+)", body).group(1)))
            for endings, body in sections]


def too_wide(path, width, shell):
    """Yield the numbers of lines that are too wide. Exempt are tables, code in pages, single long words, code that
    clang-format skips, and quoted words in shell scripts."""
    laid_out, fenced = True, False
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\n")
            if "clang-format o" in line:
                laid_out = "clang-format on" in line
            if path.endswith(".md"):
                fenced ^= line.lstrip().startswith("```")
                if fenced or line.startswith("    ") or line.lstrip().startswith("|"):
                    continue
            if line.startswith(".") and re.search(r"\.[1-8]$", path):
                continue
            if shell:
                line = re.sub(r"'[^']*'|\"(?:\\.|[^\"\\])*\"", "''", line)
            if len(line) > width and laid_out and re.search(r"\S\s+\S", line.lstrip("#*/ \t")[:width - 8]):
                yield number


def say(done):
    return done.stdout[-4000:] + done.stderr[-4000:]


@unittest.skipIf(os.environ.get("PLENUM_SANITIZED"), "the ordinary build checks the sources")
class Style(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.files = files()

    def run_on(self, program, *words, cwd=SOURCE):
        if shutil.which(program) is None:
            self.skipTest(f"{program} is not installed")
        done = subprocess.run([program, *words], cwd=cwd, capture_output=True, text=True)
        self.assertEqual((done.returncode, say(done) if done.returncode else ""), (0, ""), program)

    def test_width(self):
        """no line is wider than .editorconfig says"""
        wide = []
        for endings, width in widths():
            paths = {path for path in self.files if path.endswith(endings)}
            if ".sh" in endings:
                paths.update(of_interpreter(self.files, ".sh", rb"(?:ba)?sh\b"), ["scripts/packages"])
            if ".py" in endings:
                paths.update(of_interpreter(self.files, ".py", rb"python"))
            for path in sorted(paths):
                wide += [f"{path}:{number}" for number in too_wide(path, width, ".sh" in endings)]
        self.assertEqual("\n".join(wide), "", "lines too wide")

    def test_crumbs(self):
        """no string that is split over lines has a short line in the middle"""
        crumb = re.compile(r' "\n +"[^"\n]{1,24} "\n +"')
        found = []
        for path in self.files:
            if path.endswith((".c", ".h")):
                with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
                    text = file.read()
                found += [f"{path}:{text.count(chr(10), 0, m.start()) + 2}" for m in crumb.finditer(text)]
        self.assertEqual(found, [])

    def test_length(self):
        """no C file outside tests and examples has more than 900 lines"""
        long = {path: len(text.splitlines()) for path, text in c_files() if text.count("\n") > 900}
        self.assertEqual(long, {})

    def test_names(self):
        """no name of a C file, struct, enum or union is used twice outside tests and examples"""
        uses = {}
        for path, text in c_files():
            for name in [os.path.basename(path)] + re.findall(r"^(?:struct|enum|union) (\w+) \{", text, re.M):
                uses.setdefault(name, []).append(path)
        self.assertEqual({name: paths for name, paths in uses.items() if len(paths) > 1}, {})

    def test_clang_format(self):
        """clang-format would change nothing"""
        if shutil.which("clang-format") is None:
            self.skipTest("clang-format is not installed")
        version = subprocess.run(["clang-format", "--version"], capture_output=True, text=True).stdout
        if f" {CLANG_FORMAT}." not in version:
            self.skipTest(f"this test needs clang-format {CLANG_FORMAT}, not {version.strip()}")
        self.run_on("clang-format", "--dry-run", "--Werror",
                    *(path for path in self.files if path.endswith((".c", ".h"))))

    def test_shellcheck(self):
        """shellcheck has no warnings"""
        self.run_on("shellcheck", "-x", "-S", "warning", "-f", "gcc",
                    *of_interpreter(self.files, ".sh", rb"(?:ba)?sh\b"))

    def test_ruff(self):
        """ruff has no warnings"""
        self.run_on("ruff", "check", "--no-cache", "--quiet", *of_interpreter(self.files, ".py", rb"python"))

    def test_mypy(self):
        """mypy has no errors in pyplenum"""
        self.run_on("mypy", "--cache-dir=/dev/null", cwd=os.path.join(SOURCE, "python"))


if __name__ == "__main__":
    tap.main()
