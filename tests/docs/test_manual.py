# SPDX-License-Identifier: MIT
"""Options and library functions that man pages define exist, and those that exist are defined."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
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
    """Return the options of a --help text: the beginning of each line, up to two spaces."""
    found = set()
    for line in text.splitlines():
        if re.match(r" +-", line):
            found |= set(OPTION.findall(line.strip().split("  ")[0]))
    return found


def page_options(path):
    """Return the definitions of a man page: [(section, subsection, options of one entry)]."""
    section = subsection = ""
    entries = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            heading = re.match(r"\.S([hs]) (.*)", line)
            if heading:
                name = heading.group(2)
                section, subsection = (name, "") if heading.group(1) == "h" else (section, name)
            elif line.startswith(".It Fl"):
                names = re.findall(r"Fl (-?[A-Za-z][\w-]*)", line)
                entries.append((section, subsection, {"-" + name for name in names}))
    return entries


def page(name):
    return os.path.join(SOURCE, "docs", "man", name)


def union(sets):
    return set().union(*sets)


class ManualTest(unittest.TestCase):
    def agree(self, program, name, hidden=()):
        shown, defined = help_options(help_text(program)), union(o for _, _, o in page_options(page(name)))
        self.assertEqual(shown - defined, set(), f"{program} --help lists options that {name} does not define")
        self.assertEqual(defined - shown, set(hidden), f"{name} defines options that {program} --help does not list")

    def test_plenumd(self):
        """plenumd --help and plenumd(8) have the same options"""
        self.agree("plenumd", "plenumd.8")

    def test_plenumrun(self):
        """plenumrun --help and plenumrun(1) have the same options"""
        # Users of other launchers know an option by these names.
        self.agree("plenumrun", "plenumrun.1", hidden=("--np", "-np"))

    def test_other_names(self):
        """plenumrun also accepts its options' other names"""
        plan = run(os.path.join(BUILD, "plenumrun"), "--allow-run-as-root", "--dry-run", "--np", "2",
                   "--ipus-per-replica", "3", "--print-topology=json", "true")
        self.assertIn('"index": 1', plan)

    def test_plenumctl(self):
        """each plenumctl COMMAND --help and plenumctl(1) have the same options"""
        commands = re.findall(r"^  (\S+) ", help_text("plenumctl").split("commands:")[1], re.M)
        entries = page_options(page("plenumctl.1"))
        sections = {ss for s, ss, _ in entries if s == "COMMANDS"}
        self.assertEqual(sections - set(commands), set(), "a section of a command that does not exist")
        common = union(o for s, _, o in entries if s == "COMMON OPTIONS")
        every = set()
        for command in commands:
            shown = help_options(help_text("plenumctl", command))
            own = union(o for s, ss, o in entries if s == "COMMANDS" and ss == command)
            self.assertEqual(shown - own - common, set(),
                             f"plenumctl {command} --help lists options that the page does not define")
            self.assertEqual(own - shown, set(), f"the page defines options for {command} that --help does not list")
            every |= shown
        self.assertEqual(common - every, set(), "common options that no command has")

    def test_commands(self):
        """plenumctl(1) has a section for every command"""
        with open(page("plenumctl.1"), encoding="utf-8") as file:
            text = file.read()
        for command in re.findall(r"^  (\S+) ", help_text("plenumctl").split("commands:")[1], re.M):
            self.assertIn(f"\n.Ss {command}\n", text)

    def test_size(self):
        """every --help fits 80 columns"""
        for command in (("plenumrun",), ("plenumd",), ("plenumctl",)):
            for line in help_text(*command).splitlines():
                if len(line.split()) == 1:
                    continue  # a path that depends on the installation
                self.assertLessEqual(len(line), 80, line)

    def test_elsewhere(self):
        """README and the other documents name only existing options"""
        known = union(help_options(help_text(p)) for p in ("plenumrun", "plenumd", "plenumctl"))
        for command in re.findall(r"^  (\S+) ", help_text("plenumctl").split("commands:")[1], re.M):
            known |= help_options(help_text("plenumctl", command))
        known |= help_options(help_text("examples/feed"))
        for name in ("README.md", "NEWS"):
            for block in re.findall(r"plenum(?:run|d|ctl)\b[^`\n]*",
                                    open(os.path.join(SOURCE, name), encoding="utf-8").read()):
                named = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", block.split(" python")[0]))
                self.assertEqual(named - known, set(), f"{name}: {block}")


class LibraryTest(unittest.TestCase):
    """Compares the pages of section 3 with include/plenum/*.h."""

    PAGES = ("libplenum", "plenum_batch", "plenum_collectives", "plenum_cursor", "plenum_job", "plenum_normalise",
             "plenum_stream")
    FAMILIES = set(PAGES) - {"plenum_normalise"}  # pages not named after a function
    maxDiff = None

    def setUp(self):
        self.headers = {}
        folder = os.path.join(SOURCE, "include", "plenum")
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                self.headers[name] = f.read()
        self.code = re.sub(r"/\*.*?\*/", "", "".join(self.headers.values()), flags=re.S)
        self.pages = {}
        for name in self.PAGES:
            with open(page(name + ".3"), encoding="utf-8") as f:
                self.pages[name] = f.read()

    def test_functions(self):
        """the synopses and names of the pages have all functions of the library, and no others"""
        declared = [" ".join(m.split()) for m in re.findall(r"PLENUM_API\s+([^;]*?\));", self.code, re.S)
                    if "#" not in m]
        shown, names = [], []
        for text in self.pages.values():
            names += [n for n in re.findall(r"^\.Nm (plenum_\w+)", text.split(".Sh LIBRARY")[0], re.M)
                      if n not in self.FAMILIES]
            for kind, name, arguments in re.findall(r"^\.Ft (.*)\n\.Fo (\w+)\n((?:\.Fa .*\n)*)\.Fc$", text, re.M):
                words = ", ".join(re.findall(r'"(.*)"', arguments))
                shown.append(f"{kind}{'' if kind.endswith('*') else ' '}{name}({words})")
        self.assertGreater(len(declared), 25)
        self.assertEqual(sorted(shown), sorted(declared))
        self.assertEqual(sorted(names), sorted(re.search(r"(\w+)\(", d).group(1) for d in declared))

    def test_exported(self):
        """the pages cover all functions that the library exports"""
        library = os.path.join(BUILD, ".libs", "libplenum.so.1")
        exported = {line.split()[2].split("@")[0] for line in run("nm", "-D", "--defined-only", library).splitlines()
                    if " T plenum_" in line}
        self.assertEqual({n for n in exported if not n.startswith("plenum__")},
                         set(re.findall(r"^\.Fo (\w+)$", "".join(self.pages.values()), re.M)))

    def test_library(self):
        """the path from which scripts and documents load the built library exists"""
        for name in ("scripts/demo", "bench/python_iteration.py"):
            with open(os.path.join(SOURCE, name), encoding="utf-8") as f:
                for library in re.findall(r"\.libs/libplenum\.so[.0-9]*", f.read()):
                    self.assertTrue(os.path.exists(os.path.join(BUILD, library)), f"{name}: {library}")

    def test_structures(self):
        """each structure's fields, and no others, are explained in their order"""
        text = "".join(self.pages.values())
        structures = re.findall(r"^struct (plenum_\w+) \{\n(.*?)^\};", self.code, re.M | re.S)
        self.assertGreater(len(structures), 8)
        for name, body in structures:
            if name == "plenum_error":
                continue
            fields = []
            for declaration in body.split(";"):
                function = re.search(r"\(\*(\w+)\)", declaration)
                fields += ([function.group(1)] if function
                           else re.findall(r"(\w+)(?:\[\w+\])?\s*(?=,|$)", declaration.strip()))
            (listed,) = re.findall(rf"^\.Vt struct {name} :\n\.Bl .*\n((?:(?!\.El).*\n)*)", text, re.M)
            self.assertEqual(re.findall(r"^\.It Va (\w+)$", listed, re.M), fields, name)

    def test_constants(self):
        """all constants are named, and no others"""
        declared = set(re.findall(r"^\s+(PLENUM_\w+)[,\n ]",
                                  "".join(re.findall(r"^enum \w+ \{(.*?)^\};", self.code, re.M | re.S)), re.M))
        declared |= {"PLENUM_FOREVER", "PLENUM_VIEWS_MAX"}
        self.assertGreater(len(declared), 20)
        shown = set(re.findall(r"^\.(?:It )?(?:Pq )?(?:Pf \( )?Dv (PLENUM_\w+)", "".join(self.pages.values()), re.M))
        self.assertEqual(shown, declared)

    def test_errors(self):
        """the headers and the pages list the same errors"""
        for header, names in (("job.h", ["plenum_job"]), ("comm.h", ["plenum_collectives"]),
                              ("stream.h", ["plenum_stream", "plenum_batch", "plenum_cursor"]),
                              ("normalise.h", ["plenum_normalise"])):
            said = set(re.findall(r"-(E[A-Z]{2,})\b", self.headers[header]))
            shown = set(re.findall(r"^\.It Bq Er (E\w+)", "".join(self.pages[name] for name in names), re.M))
            self.assertEqual(shown, said, header)

    def test_format(self):
        """all pages are formatted without warnings"""
        if not shutil.which("groff"):
            self.skipTest("groff is not installed")
        for name in os.listdir(os.path.join(SOURCE, "docs", "man")):
            # -dAD=l disables justification, because not every line of a prototype can be filled.
            done = subprocess.run(["groff", "-mandoc", "-Tutf8", "-ww", "-dAD=l", page(name)],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.stderr, "", name)

    def test_example(self):
        """the program of libplenum(3) compiles, and prints what the page says"""
        compiler = shutil.which("gcc") or shutil.which("cc")
        if not compiler or os.environ.get("PLENUM_SANITIZED"):
            self.skipTest("no compiler, or a sanitized library")
        code = re.search(r"^\.Bd -literal -offset indent\n(.*?)^\.Ed$", self.pages["libplenum"],
                         re.M | re.S).group(1).replace("\\e", "\\")
        with tempfile.TemporaryDirectory(prefix="plenum-test-") as folder:
            source, program, data = (os.path.join(folder, n) for n in ("program.c", "program", "data"))
            with open(source, "w", encoding="utf-8") as f:
                f.write(code)
            run(compiler, "-Wall", "-Wextra", "-Werror", "-I" + os.path.join(SOURCE, "include"), source, "-o", program,
                "-L" + os.path.join(BUILD, ".libs"), "-lplenum")
            run(os.path.join(BUILD, "plenumctl"), "make-sample", data, "--classes", "2", "--images", "5", "--size",
                "64")
            environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(BUILD, ".libs"), PLENUM_CACHE_DIR=folder,
                               PLENUM_PLENUMD=os.path.join(BUILD, "plenumd"))
            environment.pop("PLENUM_LOADER", None)
            out = subprocess.run([program, data], check=True, capture_output=True, text=True, env=environment,
                                 timeout=300).stdout
            self.assertEqual(out, run(os.path.join(BUILD, "plenumctl"), "hash", data, "--cache-dir", folder,
                                      "--pipeline", "rrc(48) flip(0.5)", "--epochs", "2"))


if __name__ == "__main__":
    tap.main()
