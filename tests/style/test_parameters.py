# SPDX-License-Identifier: MIT
"""No function takes more than six parameters, except those in WIDE and loops for one kind of processor. Values that
belong together are a struct.

Function definitions are read without a compiler, so macros that define functions are not seen. Run it alone to see all
places:

    top_srcdir=. python3 tests/style/test_parameters.py
"""

import os
import re
import sys
import unittest

SOURCE = os.environ["top_srcdir"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))

import tap  # noqa: E402

LIMIT = 6
TOPS = ("bench", "common", "examples", "include", "launcher", "libdist", "loader", "python", "tests")

# Loops, portable or for one kind of processor, must have the signatures of the tables that list them.
KERNELS = re.compile(r"_(?:avx2|neon|portable)\.c$")

# {file: {function: reason}}
WIDE = {
    "libdist/collectives/comm.c": {"plenum_reduce_scatter": "the library's interface"},
    "libdist/normalise.c": {"plenum_normalise": "the library's interface"},
    "loader/serve/http.c": {"on_request": "libmicrohttpd's signature"},
    "tests/common/job/test_jobloader.c": {"__wrap_syscall": "libc's signature"},
    "tests/libdist/test_job.c": {"carry_allreduce": "the signature of a carrier"},
    "tests/libdist/collectives/comm_world.c": {"carry_allreduce": "the signature of a carrier",
                                               "MPI_Recv": "MPI's signature"},
}

SKIPPED = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:\\\n|/\*.*?\*/|[^\n])*',
                     re.S | re.M)


def close_of(text, begin):
    """Return the position of the parenthesis that closes the one at `begin`."""
    depth = 0
    for at in range(begin, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
    return len(text)


def split(arguments):
    """Return the parts between top-level commas."""
    parts, depth = [""], 0
    for c in arguments:
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(c, 0)
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts]


def signature(head):
    """Return (name, parameters) if this text before a brace declares a function, otherwise None."""
    at, found = 0, None
    while True:
        m = re.compile(r"([A-Za-z_]\w*)?\s*\(").search(head, at)
        if not m or "=" in head[:m.start()]:
            return found
        end = close_of(head, m.end() - 1)
        if m.group(1) and m.group(1) not in ("__attribute__", "_Alignas", "__asm__"):
            found = (m.group(1), split(head[m.end():end]))
        at = end + 1


def functions(text):
    """Yield (line, name, parameters) of each function that is defined."""
    text = SKIPPED.sub(lambda m: ("''" if m.group()[0] in "\"'" else " ") + "\n" * m.group().count("\n"), text)
    text = re.sub(r"\bextern\s*''\s*\{", lambda m: "\n" * m.group().count("\n"), text)
    begin = depth = 0
    for m in re.finditer(r"[{};]", text):
        if m.group() == "{":
            if depth == 0:
                found = signature(text[begin:m.start()])
                if found:
                    at = re.compile(rf"\b{found[0]}\s*\(").search(text, begin).start()
                    yield (text.count("\n", 0, at) + 1, *found)
            depth += 1
            continue
        if m.group() == "}":
            depth = max(depth - 1, 0)
        if depth == 0:
            begin = m.end()


def sources():
    for top in TOPS:
        for folder, folders, names in os.walk(os.path.join(SOURCE, top)):
            folders[:] = [name for name in folders if not name.startswith((".", "build"))]
            for name in sorted(names):
                if name.endswith((".c", ".h", ".cc")) and ".pb-c." not in name:
                    yield os.path.relpath(os.path.join(folder, name), SOURCE)


def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read()


EXAMPLE = '''
#define MADE(a, b, c, d, e, f, g) { a(b, c) }
static const struct row rows[] = {{f(1), 2}};
/* int commented(int a, int b) { */
extern "C" {
__attribute__((format(printf, 2, 3))) static int *one(const char *text, ...)
{
    if (call(1, 2, 3)) {
        ;
    }
}
}
struct plain {
    void (*field)(int a, int b, int c, int d, int e, int f, int g);
};
int two(int (*call)(int a, int b, int c), struct pair p[static 2], char c)
{ return ','; }
Test(suite, name, .init = start) { }
'''


@unittest.skipIf(os.environ.get("PLENUM_SANITIZED"), "the ordinary build checks the sources")
class Parameters(unittest.TestCase):
    def test_parser(self):
        """the parser finds functions, and counts their parameters"""
        self.assertEqual([(line, name, len(parameters)) for line, name, parameters in functions(EXAMPLE)],
                         [(6, "one", 2), (16, "two", 3), (18, "Test", 3)])

    def test_parameters(self):
        """no function has more than six parameters"""
        wide, count, unused = [], 0, {(path, name) for path, names in WIDE.items() for name in names}
        for path in sources():
            if KERNELS.search(path):
                continue
            for line, name, parameters in functions(read(path)):
                count += 1
                if len(parameters) <= LIMIT:
                    continue
                if name in WIDE.get(path, {}):
                    unused.discard((path, name))
                else:
                    wide.append(f"{path}:{line}: {name}() has {len(parameters)} parameters")
        self.assertGreater(count, 5000)
        self.assertEqual("\n".join(wide), "", "use a struct")
        self.assertEqual(unused, set(), "needs no exemption")


if __name__ == "__main__":
    tap.main()
