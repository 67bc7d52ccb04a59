# SPDX-License-Identifier: MIT
"""Finds which C file calls which, for the tests that keep calls free of cycles."""

import glob
import os
import re

# A definition starts in the first column, and is not static.
DEFINITION = re.compile(r"^(?!static\b)[a-z][\w ]*[ *](\w+)\([^;{}]*\)\n\{", re.M)
NO_CODE = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|^#include[^\n]*', re.M | re.S)


def read_folder(folder):
    """Return {name: text} of a folder's C files; those in folders below it are folder/name."""
    found = {}
    for path in glob.glob(os.path.join(folder, "**", "*.[ch]"), recursive=True):
        with open(path, encoding="utf-8") as f:
            found[os.path.relpath(path, folder)] = f.read()
    return found


def includes(text):
    """Return the project's headers that a file includes."""
    return re.findall(r'^#include "([^"]+)"', text, re.M)


def calls(files):
    """Return {name: names of the C files whose functions it uses} for {name: text}."""
    code = {name: NO_CODE.sub("", text) for name, text in files.items() if name.endswith(".c")}
    owner = {function: name for name, text in code.items() for function in DEFINITION.findall(text)}
    used = {name: set(re.findall(r"\w+", text)) & set(owner) for name, text in code.items()}
    return {name: {owner[function] for function in functions} - {name} for name, functions in used.items()}


def circles(graph):
    """Return the sets of files that all reach each other, largest first."""
    reached = {}
    for name in graph:
        todo, found = list(graph[name]), set()
        while todo:
            at = todo.pop()
            if at not in found:
                found.add(at)
                todo += graph[at]
        reached[name] = found
    sets = {frozenset(b for b in reached[a] if a in reached[b]) for a in graph if a in reached[a]}
    return sorted((sorted(s) for s in sets), key=len, reverse=True)
