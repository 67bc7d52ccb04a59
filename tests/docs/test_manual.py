"""Every option that a man page defines exists, and every option that exists is defined there."""

import os
import re
import subprocess
import sys
import unittest

BUILD = os.environ["top_builddir"]
SOURCE = os.environ["top_srcdir"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))

import tap  # noqa: E402

OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout


def help_text(*command):
    return run(os.path.join(BUILD, command[0]), *command[1:], "--help")


def help_options(text):
    """The options of a --help text: what stands at the beginning of a line, up to two blanks."""
    found = set()
    for line in text.splitlines():
        if re.match(r" +-", line):
            found |= set(OPTION.findall(line.strip().split("  ")[0]))
    return found


def page_options(path):
    """What a man page defines: [(section, subsection, options of one entry)]."""
    section = subsection = ""
    entries, lines = [], open(path, encoding="utf-8").read().splitlines()
    for i, line in enumerate(lines):
        heading = re.match(r"\.S([Hh]|[Ss]) (.*)", line)
        if heading:
            name = heading.group(2).replace("\\-", "-").strip('"')
            section, subsection = (name, "") if heading.group(1) in "Hh" else (section, name)
        elif line.startswith(".It Fl"):  # mdoc(7)
            entries.append((section, subsection, set(re.findall(r"Fl (-?[A-Za-z][\w-]*)", line))))
            entries[-1] = (*entries[-1][:2], {"-" + name for name in entries[-1][2]})
        elif line == ".TP":  # man(7)
            text = re.sub(r"\\f.", " ", lines[i + 1].replace("\\-", "-"))
            entries.append((section, subsection, set(OPTION.findall(text))))
    return [(s, ss, options) for s, ss, options in entries if options]


def page(name):
    return os.path.join(SOURCE, "docs", "man", name)


def union(sets):
    return set().union(*sets)


class ManualTest(unittest.TestCase):
    def agree(self, program, name, hidden=()):
        shown, defined = help_options(help_text(program)), union(o for _, _, o in page_options(page(name)))
        self.assertEqual(shown - defined, set(), f"{program} --help names what {name} does not define")
        self.assertEqual(defined - shown, set(hidden), f"{name} defines what {program} --help does not name")

    def test_plenumd(self):
        """plenumd --help and plenumd(8)"""
        self.agree("plenumd", "plenumd.8")

    def test_plenumrun(self):
        """plenumrun --help and plenumrun(1)"""
        # Names by which other launchers' users know an option.
        self.agree("plenumrun", "plenumrun.1", hidden=("--np", "-np"))

    def test_other_names(self):
        """plenumrun takes the other names of its options, too"""
        plan = run(os.path.join(BUILD, "plenumrun"), "--allow-run-as-root", "--dry-run", "--np", "2", "--ipus-per-replica", "3",
                   "--print-topology=json", "true")
        self.assertIn('"index": 1', plan)

    def test_plenumctl(self):
        """plenumctl COMMAND --help and plenumctl(1), command by command"""
        commands = re.findall(r"^  (\S+) ", help_text("plenumctl").split("commands:")[1], re.M)
        entries = page_options(page("plenumctl.1"))
        sections = {ss for s, ss, _ in entries if s == "COMMANDS"}
        self.assertEqual(sections - set(commands), set(), "a section of a command that does not exist")
        common = union(o for s, _, o in entries if s == "COMMON OPTIONS")
        every = set()
        for command in commands:
            shown = help_options(help_text("plenumctl", command))
            own = union(o for s, ss, o in entries if s == "COMMANDS" and ss == command)
            self.assertEqual(shown - own - common, set(), f"plenumctl {command} --help names what the page does not define")
            self.assertEqual(own - shown, set(), f"the page defines for {command} what --help does not name")
            every |= shown
        self.assertEqual(common - every, set(), "common options that no command has")

    def test_commands(self):
        """plenumctl(1) has a section for every command"""
        text = open(page("plenumctl.1"), encoding="utf-8").read().replace("\\-", "-")
        for command in re.findall(r"^  (\S+) ", help_text("plenumctl").split("commands:")[1], re.M):
            self.assertIn(f"\n.SS {command}\n", text)

    def test_size(self):
        """every --help fits 80 columns"""
        for command in (("plenumrun",), ("plenumd",), ("plenumctl",)):
            for line in help_text(*command).splitlines():
                self.assertLessEqual(len(line), 80, line)

    def test_elsewhere(self):
        """README and the other documents name no option that no program has"""
        known = union(help_options(help_text(p)) for p in ("plenumrun", "plenumd", "plenumctl"))
        for command in re.findall(r"^  (\S+) ", help_text("plenumctl").split("commands:")[1], re.M):
            known |= help_options(help_text("plenumctl", command))
        known |= help_options(help_text("examples/feed"))
        for name in ("README.md", "NEWS"):
            for block in re.findall(r"plenum(?:run|d|ctl)\b[^`\n]*", open(os.path.join(SOURCE, name), encoding="utf-8").read()):
                named = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", block.split(" python")[0]))
                self.assertEqual(named - known, set(), f"{name}: {block}")


if __name__ == "__main__":
    tap.main()
