# SPDX-License-Identifier: MIT
"""docs/messages.md has a line for every message with which the sources say that something is wrong, and for no other."""

import ast
import os
import re
import sys
import unittest

SOURCE = os.environ["top_srcdir"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))

import tap  # noqa: E402

# Whoever calls one of these tells a person what is wrong.
CALLS = "error_set|error_prefix|log_error|log_warn|refuse|session_refuse|fault|lose|leave|probe_fail|supervise_fail_with|png_error"
TOKEN = re.compile(r'"(?P<text>(?:[^"\\]|\\.)*)"|(?P<call>\b(?:CALLS)\()|\'(?:\\.|[^\'\\])\'|/\*.*?\*/|//[^\n]*|[()]'.replace(
    "CALLS", CALLS), re.S)
CONVERSION = re.compile(r"%%|%[-+ #0]*[\d.*]*(?:hh|h|ll|l|z|j)?[diouxXcsfgep]|PRIu64|PRIx64")


def files(folders, ending):
    for folder in folders:
        for where, _, names in os.walk(os.path.join(SOURCE, folder)):
            for name in names:
                if name.endswith(ending):
                    path = os.path.join(where, name)
                    with open(path, encoding="utf-8") as f:
                        yield os.path.relpath(path, SOURCE), f.read()


def texts_of(code):
    """The texts of a file of C, literals that follow each other as one: [(text, is it an argument of one of CALLS?)]."""
    found, end, depth, begun = [], -1, 0, []
    for m in TOKEN.finditer(code):
        if m["text"] is not None:
            if found and end >= 0 and not code[end:m.start()].strip():
                found[-1] = (found[-1][0] + m["text"], found[-1][1])
            else:
                found.append((m["text"], bool(begun)))
            end = m.end()
            continue
        if m["call"]:
            begun.append(depth)
        depth += {"(": 1, ")": -1}.get(m[0][-1:], 0) if m["call"] or m[0] in "()" else 0
        if begun and depth == begun[-1]:
            begun.pop()
    return found


def plain(text):
    """As it stands in the page: … for what differs."""
    return CONVERSION.sub(lambda m: "%" if m[0] == "%%" else "…", text.replace('\\"', '"').replace("\\\\", "\\"))


def said():
    """{message: file} of all calls, and of Python's raise, that tell what is wrong."""
    found = {}
    for path, text in files(("common", "libdist", "loader", "launcher"), ".c"):
        for message, tells in texts_of(text):
            if tells:
                message = plain(message)
                # Something of its own: not the frame of another message, its end, or a word in it.
                if len(re.sub(r"[^A-Za-z]", "", message)) >= 8 and " " in message.strip() and message[0] not in " ,;":
                    found.setdefault(message, path)
    for path, text in files(("python",), ".py"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                for argument in node.exc.args:
                    parts = argument.values if isinstance(argument, ast.JoinedStr) else [argument]
                    message = "".join(str(p.value) if isinstance(p, ast.Constant) and isinstance(p.value, str) else "…" for p in parts)
                    if re.search(r"[a-z]", message) and " " in message.strip():
                        found.setdefault(message, path)
    return found


def everything():
    """All texts of the sources, as one."""
    texts = [plain(t) for _, text in files(("common", "libdist", "loader", "launcher"), ".c") for t, _ in texts_of(text)]
    texts += [re.sub(r'"\s*f?"', "", re.sub(r"\{[^{}]*\}", "…", text)) for _, text in files(("python",), ".py")]
    return "\n".join(texts)


def page():
    with open(os.path.join(SOURCE, "docs", "messages.md"), encoding="utf-8") as f:
        rows = re.findall(r"^\| (`.*?) \| (.*) \|$", f.read(), re.M)
    return [(pattern, remedy) for cell, remedy in rows for pattern in re.findall(r"`([^`]+)`", cell)]


def expression(pattern):
    return re.compile(".*?".join(re.escape(piece) for piece in pattern.split("…")))


class MessagesTest(unittest.TestCase):
    maxDiff = None

    def test_all(self):
        """every message has a line"""
        patterns = [expression(p) for p, _ in page()]
        missing = [f"{path}: {message}" for message, path in sorted(said().items(), key=lambda i: i[1])
                   if not any(p.search(message) for p in patterns)]
        self.assertEqual("\n".join(missing), "")

    def test_none_else(self):
        """and every line is about a message that there is"""
        texts = everything()
        self.assertEqual([p for p, _ in page() if not expression(p).search(texts)], [])

    def test_it_looks(self):
        """this test finds the messages"""
        found = said()
        self.assertGreater(len(found), 350)
        self.assertIn("the data set has no sample …", found)
        self.assertIn("this job was not started by plenumrun or mpirun, so torch.distributed must carry its collectives: call "
                      "torch.distributed.init_process_group() first (in C: set a carrier)", found)
        self.assertNotIn("", [remedy for _, remedy in page()])

    def test_patterns(self):
        """no line is so short that it would be about everything"""
        self.assertEqual([p for p, _ in page() if len(re.sub(r"[^A-Za-z_]", "", p)) < 4], [])


if __name__ == "__main__":
    tap.main()
