# SPDX-License-Identifier: MIT
"""Checks that bash, zsh and fish complete the options of plenumrun, plenumd and plenumctl that are in --help."""

import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

BUILD = os.environ["top_builddir"]
SOURCE = os.environ["top_srcdir"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))

import tap  # noqa: E402

COMPLETION = os.path.join(SOURCE, "common", "options", "completion")
os.environ["PATH"] = BUILD + ":" + os.environ["PATH"]
os.environ.update({"LC_ALL": "C", "HISTFILE": "", "PLENUM_OF_THIS_TEST": "1"})


def setUpModule():
    global T
    T = tempfile.mkdtemp(prefix="plenum-test-")
    os.chdir(T)
    os.mkdir("folder")
    open("file.xml", "w").close()
    os.environ.update({"HOME": T, "XDG_CONFIG_HOME": T, "XDG_DATA_HOME": T, "XDG_CACHE_HOME": T, "ZDOTDIR": T})


def tearDownModule():
    os.chdir("/")
    shutil.rmtree(T)


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout


def help_entries(*command):
    """Return {option: (letter or None, its description in --help)}."""
    entries, name = {}, None
    for line in run(*command, "--help").splitlines():
        head = re.match(r"  (?:-(.),|   ) --([a-z-]+)(.*)", line)
        if head:
            name = "--" + head.group(2)
            entries[name] = (head.group(1), head.group(3))
        elif name and line.startswith(" " * 20):
            entries[name] = (entries[name][0], entries[name][1] + " " + line.strip())
        else:
            name = None
    return entries


def commands():
    return re.findall(r"^  ([a-z-]+)  ", run("plenumctl", "--help").split("commands:")[1], re.M)


def command_lines():
    return [("plenumrun",), ("plenumd",)] + [("plenumctl", name) + (("stream",) if name == "bench" else ())
                                             for name in commands()]


def asked(program, *words):
    """Return the first line of a program's output, and the words of the others."""
    lines = run(program, "--complete", *words).splitlines()
    return lines[0], [line.split("\t")[0] for line in lines[1:]]


class Programs(unittest.TestCase):
    def test_options(self):
        """every option of --help is completed, and no other"""
        for program, *words in command_lines():
            self.assertEqual(asked(program, *words, "--"), ("words", list(help_entries(program, *words))),
                             (program, *words))
        letters = {"-" + letter for letter, _ in help_entries("plenumrun").values() if letter and letter != "h"}
        self.assertEqual({word for word in asked("plenumrun", "-")[1] if word[1] != "-"}, letters)

    def test_words(self):
        """an option's possible values are in its --help, and the option accepts them"""
        seen = 0
        for program, *words in command_lines():
            for option, (_, text) in help_entries(program, *words).items():
                kind, values = asked(program, *words, option + "=")
                for value in values if kind == "words" else []:
                    self.assertTrue(value.startswith(option + "="), value)
                    self.assertIn(value.partition("=")[2].rstrip(":"), text, (program, *words, option))
                    seen += 1
        self.assertGreater(seen, 40)
        for option in ("--process-placement", "--mem-policy", "--numa-aware", "--smt", "--stdin", "--loader",
                       "--print-topology"):
            for value in asked("plenumrun", option + "=")[1]:
                subprocess.run(["plenumrun", value, "--dry-run", "--allow-run-as-root", "--no-host-check", "--host",
                                "localhost", "true"], check=True, stdout=subprocess.DEVNULL)
        for option in ("--decoder", "--pin", "--log-format"):
            for value in asked("plenumd", option + "=")[1]:
                run("plenumd", value, "--version")

    def test_where(self):
        """options end where another program's command line begins, and after --"""
        self.assertEqual(asked("plenumrun", "-n", "2", "--tag-output", "python3", "-")[0], "command 4")
        self.assertEqual(asked("plenumrun", "--grace=3", "-vn2", "python3", "--h")[0], "command 3")
        self.assertEqual(asked("plenumrun", "-n", "2", "--", "-x")[0], "command 4")
        self.assertEqual(asked("plenumrun", "--grace", "")[0], "words")
        self.assertEqual(asked("plenumctl", "nonsense", ""), ("words", []))
        self.assertEqual(asked("plenumctl", "pack", "--json", "a", "")[0], "directories")
        self.assertEqual(asked("plenumctl", "pack", "a", "b", ""), ("words", []))


class Terminal:
    """A shell on a terminal that is large enough for everything that the shell lists."""

    def __init__(self, *command):
        import fcntl
        import termios

        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm"
            os.execvp(command[0], command)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 2000, 300, 0, 0))
        self.count = 0

    def ask(self, keys):
        """Type these keys, then a command that prints a marker. Return everything that was shown before the marker."""
        self.count += 1
        # The existing command line is discarded first; the marker's text is not typed literally.
        os.write(self.fd, keys.encode() + b"\x01\x0b" + f"echo mark''{self.count}.\r".encode())
        text, mark = b"", f"mark{self.count}.".encode()
        while mark not in text:
            if not select.select([self.fd], [], [], 120)[0]:
                raise AssertionError(f"the shell is not answering: {text}")
            text += os.read(self.fd, 65536)
        return re.sub(r"\x1b(\[[0-9;?]*[A-Za-z]|[()].|[=>])|[\x00-\x1f]", "\n", text.decode(errors="replace"))

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


class Shell:
    """The tests. Subclasses define how a shell is queried: offers() returns the words that it shows for a line."""

    def check_options(self):
        for command in command_lines():
            offered = {word for word in self.offers(" ".join(command) + " --") if re.fullmatch("--[a-z-]*[a-z]", word)}
            # shells that show the texts of --help may show options that those texts mention
            named = set(re.findall("--[a-z-]*[a-z]", run(*command, "--help")))
            self.assertEqual(offered - named, set(), command)
            self.assertEqual(set(help_entries(*command)) - offered, set(), command)
        self.assertLessEqual(set(commands()), self.offers("plenumctl "))

    def check_values(self):
        for line, there, absent in (
            ("plenumrun -n 2 --max-r", "--max-restarts", "--mem-policy"),
            ("plenumrun --process-placement s", "spreadnuma socket", "compact"),
            ("plenumrun --mem-policy=", "local bind", "file.xml"),
            ("plenumrun --print-topology=", "text json", "file.xml"),
            ("plenumrun --topology ", "file.xml folder", "--host"),
            ("plenumrun --topology=f", "file.xml folder", "--host"),
            ("plenumrun --output-dir fold", "folder", "file.xml"),
            ("plenumrun --output-dir=fold", "folder", "file.xml"),
            ("plenumrun --grace ", "", "file.xml"),
            ("plenumrun --export PLENUM_OF_THIS_T", "PLENUM_OF_THIS_TEST", "file.xml"),
            ("plenumrun -n 2 --tag-output plenumct", "plenumctl", "--host"),
            ("plenumrun -n 2 plenumctl ha", "hash", "--host"),
            ("plenumrun --grace=3 plenumctl verify --decoder=", "both", "--host"),
            ("plenumd --user roo", "root", "file.xml"),
            ("plenumd -", "-q --quiet", "file.xml"),
            ("plenumctl hash fi", "file.xml", "folder"),
            ("plenumctl hash file.xml --shuffle ", "global none block:", "file.xml"),
            ("plenumctl make-sample ", "folder", "file.xml"),
        ):
            offered = self.offers(line)
            for word in there.split():
                self.assertIn(word, offered, line)
            self.assertNotIn(absent, offered, line)


def words_of(text, line):
    """Return the words that a terminal shows besides the typed line; of --option=value, also the value alone."""
    typed = line.split()
    # the shell shows a completed line again as a whole
    found = {word.rstrip("/") for row in text.split("\n") for word in row.replace("$ ", " ").split()}
    found |= {word.partition("=")[2].rstrip("/") for word in found}
    return found - set(typed) - {typed[-1].partition("=")[2]}


@unittest.skipUnless(shutil.which("bash"), "bash is not installed")
class Bash(Shell, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shell = Terminal("bash", "--norc", "--noprofile", "-i")
        cls.shell.ask("PS1='$ '; bind 'set bell-style none'; bind 'set show-all-if-ambiguous on'; bind 'set "
                      "page-completions off'; bind 'set completion-query-items 0'; bind 'set enable-bracketed-paste "
                      "off'\r")
        # bash-completion, if it is installed, completes the command line after plenumrun's options
        cls.shell.ask(f". /usr/share/bash-completion/bash_completion 2>/dev/null; . '{COMPLETION}/plenum.bash'\r")

    @classmethod
    def tearDownClass(cls):
        cls.shell.close()

    def offers(self, line):
        return words_of(self.shell.ask(line + "\t"), line)

    def test_options(self):
        """bash: every option of --help is offered, and no other"""
        self.check_options()

    def test_values(self):
        """bash completes values, files, folders, and the command after plenumrun"""
        if not os.path.exists("/usr/share/bash-completion/bash_completion"):
            self.skipTest("bash-completion is not installed")
        self.check_values()


@unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
class Zsh(Shell, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.mkdir(os.path.join(T, ".functions"))
        shutil.copy(os.path.join(COMPLETION, "plenum.zsh"), os.path.join(T, ".functions", "_plenum"))
        cls.shell = Terminal("zsh", "-f", "-i")
        cls.shell.ask("PS1='$ '; unsetopt automenu listambiguous beep promptsp; unset zle_bracketed_paste; "
                      "LISTMAX=100000; bindkey -e\r")
        cls.shell.ask(f"fpath=({T}/.functions $fpath); autoload -U compinit; compinit -u -D\r")

    @classmethod
    def tearDownClass(cls):
        cls.shell.close()

    def offers(self, line):
        # Ctrl-L makes zsh redraw the whole line; otherwise, it writes only the addition.
        return words_of(self.shell.ask(line + "\t\x0c"), line)

    def test_options(self):
        """zsh: every option of --help is offered, and no other"""
        self.check_options()

    def test_values(self):
        """zsh completes values, files, folders, and the command after plenumrun"""
        self.check_values()


@unittest.skipUnless(shutil.which("fish"), "fish is not installed")
class Fish(Shell, unittest.TestCase):
    def offers(self, line):
        # Each line has a candidate, a tab and a description; after "--name=", the candidate begins with that.
        rows = run("fish", "--no-config", "-c", f"source '{COMPLETION}/plenum.fish'; complete -C '{line}'").splitlines()
        words = {row.split("\t")[0].rstrip("/") for row in rows}
        return words | {word.partition("=")[2] for word in words}

    def test_options(self):
        """fish: every option of --help is offered, and no other"""
        self.check_options()

    def test_values(self):
        """fish completes values, files, folders, and the command after plenumrun"""
        self.check_values()


tap.main()
