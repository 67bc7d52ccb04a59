#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""states.py [SOURCE] - renew the drawings of docs/states.md from the tables in the code.

A table of states is an array of struct state_row (common/util/state.h) in a .c file. The page names each table by the
prefix of its states: `<!-- states: DOOR -->`.
Everything from there to `<!-- end -->` is generated: a drawing, and the meaning of each state, which is the comment of
its enumerator. `<!-- drawing: FILE.c -->` takes the drawing from the comment at the top of a file that has no such
table. tests/docs/test_states.py checks that the page is up to date and has every table."""

import os
import re
import sys

FOLDERS = ("common", "launcher", "libdist", "loader")
PAGE = os.path.join("docs", "states.md")


class Table:
    def __init__(self, name, path, rows):
        self.name, self.path = name, path
        self.prefix = os.path.commonprefix(list(rows)).rpartition("_")[0]
        self.next = rows  # {state: the states that may follow it}

    def short(self, state):
        return state[len(self.prefix):].lstrip("_")


def sources(top):
    """Return {path: text} of all sources."""
    found = {}
    for folder in FOLDERS:
        for at, _, names in os.walk(os.path.join(top, folder)):
            for name in names:
                if name.endswith((".c", ".h")):
                    path = os.path.join(at, name)
                    with open(path, encoding="utf-8") as file:
                        found[os.path.relpath(path, top)] = file.read()
    return found


def rows_of(body):
    """Return the rows of a table of states, or None if this is another kind of array."""
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    parts = re.split(r"\[([A-Z][A-Z\d_]*)\] =", body)
    states, values = parts[1::2], parts[2::2]
    if parts[0].strip() or len(states) < 3:
        return None
    rows = {}
    for state, value in zip(states, values):
        words = re.findall(r"[A-Za-z_]\w*", re.sub(r'"[^"]*"', "", value))
        rows[state] = [word for word in words if word != "STATE"]
        if not set(rows[state]) <= set(states):
            return None
    return rows if any(rows.values()) else None


def tables(files):
    """Return {prefix of the states: Table} of all sources."""
    found = {}
    for path, text in sorted(files.items()):
        for name, body in re.findall(r"^static const struct state_row (\w+)\[\w*\] = \{\n(.*?)^\};", text, re.M | re.S):
            rows = rows_of(body)
            if rows:
                table = Table(name, path, rows)
                if table.prefix in found:
                    raise LookupError(f"{found[table.prefix].path} and {path} both have states of {table.prefix}")
                found[table.prefix] = table
    return found


def meaning(files, state):
    """Return the comment of an enumerator, or "" if it has none."""
    for text in files.values():
        match = re.search(rf"^ +{state},? +/\* (.*?) \*/$", text, re.M | re.S)
        if match:
            return re.sub(r"\s*\n[\s*]*", " ", match.group(1))
    return ""


def draw(table):
    """Draw the states in a row. An arrow leads to the next one; below, each other target has a line."""
    states = list(table.next)
    lanes = []  # (target, its sources)
    for target in states:
        some = [s for i, s in enumerate(states) if target in table.next[s] and states[i + 1:i + 2] != [target]]
        if some:
            lanes.append((target, some))
    ports = {state: [lane for lane, (target, some) in enumerate(lanes) if state in (target, *some)]
             for state in states}
    column, line = {}, ""
    for i, state in enumerate(states):
        column[state] = len(line)
        line += table.short(state).ljust(2 * len(ports[state]) - 1)
        if i + 1 < len(states):
            line += " --> " if states[i + 1] in table.next[state] else "     "
    grid = [list(line)] + [[" "] * len(line) for _ in range(len(lanes) + 1)]

    def port(state, lane):
        return column[state] + 2 * ports[state].index(lane)

    for lane, (target, some) in enumerate(lanes):
        ends = [port(state, lane) for state in (target, *some)]
        for x in range(min(ends), max(ends) + 1):
            grid[lane + 2][x] = "-"
    for lane, (target, some) in enumerate(lanes):
        for state in (target, *some):
            x = port(state, lane)
            for y in range(1, lane + 2):
                grid[y][x] = "^" if y == 1 and state == target else "|"
            grid[lane + 2][x] = "+"
    return "".join(f"    {''.join(row).rstrip()}\n" for row in grid)


def section(table, files):
    text = f"`{table.name}` in `{table.path}`:\n\n{draw(table)}\n"
    means = [(state, meaning(files, state)) for state in table.next]
    text += "".join(f"* {table.short(state)}: {words}\n" for state, words in means if words)
    return text if any(words for _, words in means) else text.rstrip("\n") + "\n"


def drawing(name, files):
    """Return the drawing in the comment at the top of a file."""
    path = next((path for path in files if os.path.basename(path) == name), None)
    if path is None:
        raise LookupError(f"{PAGE} names {name}, which does not exist")
    comment = re.search(r"/\* .*?\*/", files[path].split("\n", 1)[1], re.S).group(0)
    blocks = re.findall(r"(?:^ \* {5,}.*\n|^ \*\n(?= \* {5}))+", comment, re.M)
    block = next((block for block in blocks if "->" in block or "─" in block), None)
    if block is None:
        raise LookupError(f"{path} has no drawing at its top")
    return f"From `{path}`:\n\n" + re.sub(r"^ \* ?", "", block, flags=re.M).strip("\n") + "\n"


def renew(text, files):
    """Return the page as it should be, and the prefixes of the tables that it has."""
    known, shown = tables(files), []

    def one(match):
        kind, name = match.groups()
        if kind == "drawing":
            made = drawing(name, files)
        elif name in known:
            shown.append(name)
            made = section(known[name], files)
        else:
            raise LookupError(f"{PAGE}: no table has states of {name}; there are {', '.join(sorted(known))}")
        return f"<!-- {kind}: {name} -->\n{made}<!-- end -->\n"

    return re.sub(r"^<!-- (states|drawing): (\S+) -->\n.*?^<!-- end -->\n", one, text, flags=re.M | re.S), shown


def main():
    top = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    files = sources(top)
    with open(os.path.join(top, PAGE), encoding="utf-8") as file:
        text, shown = renew(file.read(), files)
    with open(os.path.join(top, PAGE), "w", encoding="utf-8") as file:
        file.write(text)
    for prefix, table in sorted(tables(files).items()):
        if prefix not in shown:
            print(f"{PAGE} has no <!-- states: {prefix} --> for {table.name} of {table.path}")


if __name__ == "__main__":
    main()
