# SPDX-License-Identifier: MIT
"""docs/messages.md has a line for every error message in the sources, and no other line."""

import ast
import os
import re
import sys
import unittest

SOURCE = os.environ["top_srcdir"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))

import tap  # noqa: E402

FOLDERS = ("common", "libdist", "loader", "launcher")

# common/util/message.h defines the mark, which precedes a function's name, as in "log_warn(".
MARKED = re.compile(r"^MESSAGE(?:_FORMAT\(\d+, \d+\))?\s+(?P<static>static )?[\w\s*]*?\b(?P<name>\w+)\(", re.M)
# Only these C library functions write to standard error without a mark, and log_about() receives the level.
AT = {"fprintf": r"\s*stderr\b", "dprintf": r"\s*STDERR_FILENO\b", "log_about": r"\s*LOG_LEVEL_(?:ERROR|WARN)\b"}

# Functions whose strings are not messages; those of a single file are given with the file's name.
OTHERS = {
    "makes a part of a message": "snprintf sscanf strstr str_format progress ctl_show_progress tell augment_text.c:add "
        "field_json.c:wants plan_need_word plan_need_number orderplan.c:put credentials.c:copy credentials.c:set_keys "
        "endpoint.c:use engine.c:done",
    "prints a result, a help text or a page": "printf fprintf fputs put_line put_parts print_word http.c:say "
        "cmd_job.c:write_metric metrics.c:put_one metrics.c:head metrics.c:put_histogram MHD_add_response_header "
        "http.c:MHD_add_response_header preview_html.c:put",
    "says that all is well": "log_info log_debug log_about notify_send stop_now interlude.c:end_job",
    "has a detail of a message, after its colon": "parser_error parser_close "
        "pipeline_ops.c:OP ctl_start missing_in_time selftest.c:test_images supervise_not_started ctl_fail",
    "is for the compiler": "_Static_assert __asm__",
}
OTHER = set(" ".join(OTHERS.values()).split())

TOKEN = re.compile(
    r'"(?P<text>(?:[^"\\]|\\.)*)"|(?P<call>\b[A-Za-z_]\w*)\s*\(|\'(?:\\.|[^\'\\])\'|/\*.*?\*/|//[^\n]*|[()]', re.S)
FRAME = re.compile(r"^(?:plenum[a-z]*(?: [a-z…-]+)?|…): |; see --help|\\n")  # a message's prefix and end
CONVERSION = re.compile(r"%%|%[-+ #0]*[\d.*]*(?:hh|h|ll|l|z|j)?[diouxXcsfgep]|PRIu64|PRIx64")


def files(folders, ending):
    for folder in folders:
        for where, _, names in os.walk(os.path.join(SOURCE, folder)):
            for name in names:
                if name.endswith(ending):
                    path = os.path.join(where, name)
                    with open(path, encoding="utf-8") as f:
                        yield os.path.relpath(path, SOURCE), f.read()


def marked():
    """Return the names of the functions that have the mark; for static ones "file.c:name"."""
    return {(os.path.basename(path) + ":" if m["static"] else "") + m["name"]
            for path, code in files(FOLDERS, (".c", ".h")) for m in MARKED.finditer(code)}


MESSAGES = marked()


def texts_of(path, code):
    """Return the string literals of a C file, joining adjacent ones: [(text, names of the calls around it, is one of
    them marked?)]."""
    found, end, open_calls = [], -1, []
    file = os.path.basename(path)
    for m in TOKEN.finditer(code):
        if m["text"] is not None:
            if found and end >= 0 and not code[end:m.start()].strip():
                found[-1] = (found[-1][0] + m["text"], *found[-1][1:])
            else:
                calls = [name for name, _ in open_calls if name]
                found.append((m["text"], calls, any(tells for _, tells in open_calls)))
            end = m.end()
        elif m["call"]:
            name = m["call"]
            tells = {name, f"{file}:{name}"} & MESSAGES or name in AT and re.match(AT[name], code[m.end():])
            open_calls.append((name, bool(tells)))
        elif m[0] == "(":
            open_calls.append(("", False))
        elif m[0] == ")" and open_calls:
            open_calls.pop()
    return found


def plain(text):
    """Return the text as written in the page, with … for the variable parts."""
    return CONVERSION.sub(lambda m: "%" if m[0] == "%%" else "…", text.replace('\\"', '"').replace("\\\\", "\\"))


def said():
    """Return {message: file} for all calls that report an error, and for all `raise` statements."""
    found = {}
    for path, text in files(FOLDERS, ".c"):
        for message, _, tells in texts_of(path, text):
            if tells:
                message = plain(message)
                # The message must have words besides its prefix and end.
                own = FRAME.sub("", message)
                if len(re.sub(r"[^A-Za-z]", "", own)) >= 8 and " " in own.strip() and message[0] not in " ,;":
                    found.setdefault(message, path)
    for path, text in files(("python",), ".py"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                for argument in node.exc.args:
                    parts = argument.values if isinstance(argument, ast.JoinedStr) else [argument]
                    message = "".join(str(p.value) if isinstance(p, ast.Constant) and isinstance(p.value, str) else "…"
                                      for p in parts)
                    if re.search(r"[a-z]", message) and " " in message.strip():
                        found.setdefault(message, path)
    return found


def everything():
    """Return all string literals of the sources, concatenated."""
    texts = [plain(t) for path, text in files(FOLDERS, ".c") for t, _, _ in texts_of(path, text)]
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
        """every line matches an existing message"""
        texts = everything()
        self.assertEqual([p for p, _ in page() if not expression(p).search(texts)], [])

    def test_it_looks(self):
        """this test finds the messages"""
        found = said()
        self.assertGreater(len(found), 350)
        self.assertIn("the data set has no sample …", found)
        self.assertIn("this job was not started by plenumrun or mpirun, so torch.distributed must carry its "
                      "collectives: call torch.distributed.init_process_group() first (in C: set a carrier)", found)
        self.assertNotIn("", [remedy for _, remedy in page()])

    def test_marks(self):
        """every function that is passed a message is marked MESSAGE (common/util/message.h), or is listed in OTHERS"""
        unknown = {f"{path}: {calls[-1]}()" for path, code in files(FOLDERS, ".c")
                   for text, calls, tells in texts_of(path, code)
                   if calls and not tells and len(re.findall(r"[a-z]+ ", text)) >= 2
                   and not {calls[-1], f"{os.path.basename(path)}:{calls[-1]}"} & OTHER}
        self.assertEqual(sorted(unknown), [])

    def test_patterns(self):
        """no line is short enough to match every message"""
        self.assertEqual([p for p, _ in page() if len(re.sub(r"[^A-Za-z_]", "", p)) < 4], [])


if __name__ == "__main__":
    tap.main()
