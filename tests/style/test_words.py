# SPDX-License-Identifier: MIT
"""Comments, messages and pages avoid words and openings that have to be read twice.

Each row of WORDS and OPENINGS gives a reason, a sentence that is rejected, and one that says the same and is not. The
test reads pages without their code, text lines of manual pages, and comments and strings of C, Python and shell. A
string counts if it has a space: file names, options and keys are no sentences. Run it alone to see all places:

    top_srcdir=. python3 tests/style/test_words.py
"""

import collections
import io
import os
import re
import sys
import tokenize
import unittest

SOURCE = os.environ["top_srcdir"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))

import tap  # noqa: E402

# (pattern, reason, rejected, accepted)
WORDS = (
    (r"(?<!-)\bnobody\b(?![.-])", "a missing person as the subject: use the passive, or 'no client', 'no other thread'",
     "Nobody else reads it.", "No other thread reads it."),
    (r"\bwhoever\b", "name the party: any client, the caller, the owner",
     "Whoever connects is served.", "Any client that connects is served."),
    (r"\bwho asks\b", "name the party",
     "Who asks gets -ENODATA.", "Returns -ENODATA when the position is not known."),
    (r"(?:^|[.;:] )(?-i:Who) (?![^.]*\?)", "'who' is no subject of a statement: name the party",
     "Who has the key may connect.", "Clients with the key may connect."),
    (r"(?:^|[;:(] ?)(?-i:who) (?:is|has|asks|does|owns|comes|ends|may)\b(?![^.;]*\?)", "name the party",
     "Denied; who is not root may not.", "Denied; only root may."),
    (r"\b(?:is|are) none of (?!the\b|ours\b|its\b|this\b|these\b)", "say is not one of",
     "'x' is none of global, block.", "'x' is not one of global and block."),
    (r"\b(?:is|are) of (?:another|different|other) versions?\b", "say has a different version",
     "The loader is of another version.", "The loader has a different version."),
    (r"\bfor (?:this|that|the) \w+(?: \w+)? alone\b", "say only",
     "It is for the command line alone.", "It is only for the command line."),
    (r"\bof before\b", "say older, previous or existing",
     "Loaders of before skip it.", "Older loaders skip it."),
    (r"\bbeforehand\b", "say in advance, earlier or already",
     "It is checked beforehand.", "It is checked in advance."),
    (r"\banew\b", "say again, or rebuild, redraw, restart",
     "The index is made anew.", "The index is rebuilt."),
    (r"\b(?:is|are|was|were|be|been|being) told\b", "say receives, learns, is notified, or that it is reported",
     "The client is told the size.", "The client receives the size."),
    (r"\btells\b", "say reports, returns, prints or shows",
     "NAME tells the file.", "NAME returns the file."),
    (r"\bso many\b", "name the number: at most N, N of them",
     "A string is a length and so many bytes.", "A string is a length and that number of bytes."),
    (r"\blikewise\b", "say also, or repeat the short fact",
     "Likewise for views.", "The same limit applies to views."),
    (r"\bheed(?:s|ed|ing)?\b", "say honours, obeys or follows",
     "plenumd heeds the quota.", "plenumd obeys the quota."),
    (r"\bmend(?:s|ed|ing)?\b", "say fix or repair",
     "Only the last version is mended.", "Only the last version is fixed."),
    (r"\b(?:stands?|stood|standing) for\b", "say means, resolves to or represents",
     "The name stands for two loaders.", "The name resolves to two loaders."),
    (r"\bwhat is (?!(?:wrong|missing)\b|[^.]*\?)", "name the thing: the data, the error, invalid input",
     "What is bad is skipped.", "Corrupt samples are skipped."),
    (r"\ball else\b", "say everything else or the rest",
     "All else is the same.", "Everything else is the same."),
    (r"(?:^|[.;] )(?-i:Else)\b|, else (?!if\b)", "say otherwise",
     "Else it is read.", "Otherwise it is read."),
    (r"\bin the place of\b", "say instead of, or replaces",
     "A loader in the place of workers.", "A loader instead of workers."),
    (r"\bthe way of\b", "say path, route or method",
     "The way of a batch.", "The path of a batch."),
    (r"\bma(?:kes?|de|king) (?:(?:a|the|its|all|each|every|some|many|more|as many) )?batch(?:es)?\b",
     "a loader renders, produces or delivers a batch",
     "A loader that makes a batch.", "A loader that renders a batch."),
    (r"\b(?:goes|going|went|gone) on\b|\bgo on\b", "say continues, resumes or keeps running",
     "The job goes on.", "The job continues."),
    (r"\b(?:comes?|came|coming) back\b", "say reconnects, returns or restarts",
     "The loader comes back.", "The loader reconnects."),
    (r"(?<!there )\b(?:is|are|was|were) no (?!longer|more|less|fewer|later|larger|smaller|faster|slower|"
     r"better|worse|way|different|need)", "say is not a ..., or has no ...",
     "A link is no file.", "A link is not a file."),
    (r"(?<!here )\bis nothing[.,;]", "say ignored, empty or zero",
     "NULL is nothing.", "NULL is ignored."),
    (r"\bpass(?:es|ed)? over\b", "say skips",
     "Hidden files are passed over.", "Hidden files are skipped."),
    (r"\bshare[sd]? out\b", "say divides or distributes",
     "Cores are shared out.", "Cores are divided."),
    (r"\b(?:two|one|which|none) of both\b", "say either, neither or which of the two",
     "One of both is enough.", "Either is enough."),
    (r"\bin the midst of\b", "say during",
     "Not in the midst of a run.", "Never during a run."),
    (r"\bat the least\b", "say at least",
     "After 0.1 s at the least.", "After at least 0.1 s."),
    (r"\bse(?:e|es|en) to (?:it|that)\b", "say ensures or makes sure",
     "wire.c sees to that.", "wire.c ensures it."),
    (r"\b(?:knows?|tells?|knew) not\b", "say does not know, or cannot report",
     "It knows not its rank.", "It does not know its rank."),
    (r"\b(?:become|becomes|became) of\b", "say happens to, or the state of",
     "What became of the loader.", "What happened to the loader."),
    (r"\b(?:is|are|was|were|be) asked for\b", "say requested",
     "The batch is asked for.", "The batch is requested."),
    (r"\b(?:is|are|was|were|be) waited for\b", "say that the caller waits for it",
     "The thread is waited for.", "The caller waits for the thread."),
    (r"\b(?:its|their|his) like\b", "name them, or say and similar variables",
     "RANK and its like.", "RANK and similar variables."),
    (r"\bin (?:its|their) stead\b", "say instead",
     "It answers in its stead.", "It answers instead."),
    (r"\b(?:whereof|thereof|whence|thence|hereof)\b", "archaic: say of which, from there",
     "A file and the owner thereof.", "A file and its owner."),
    (r"\bby chance\b", "say randomly",
     "Chosen by chance.", "Chosen randomly."),
    (r"\bname spaces?\b", "one word: namespace",
     "In its own name space.", "In its own namespace."),
    (r"\banother (?:[\w-]+ ){0,3}than\b", "say a different X from, or an X other than",
     "It has another size than the image.", "Its size differs from the image's."),
    (r"\b(?:an error|an?) text\b(?!-| (?:file|PPM|mode|form|line|editor|field)s?\b)",
     "say a string, a message, or text",
     "Append a text.", "Append a string."),
    (r"\b(?:file|folder|socket|key|right)s? of (?:root|"
     r"(?:this|that|another|the same) user|(?:other|the other) users)\b", "say owned by root, root's, the user's",
     "A file of root.", "A file owned by root."),
    (r"\bsomebody\b", "name the party: a user, another process",
     "Somebody else's file.", "Another user's file."),
    (r"(?<!-)--- (?:who|what|how|whom) (?:it|they)\b", "a heading is a noun: 'limits', not 'how much it may take'",
     "--- who it is ---", "--- user ---"),
)
# Like above, for the beginning of a comment.
OPENINGS = (
    (r"Of\b", "begin with the subject", "Of a cell: the column.", "The cell's column."),
    (r"The same[,.:;]", "name the function or field that this one resembles", "The same, of all lists.",
     "Like find(), but searches every list."),
    (r"As (?!soon\b|long\b|far\b|many\b|much\b)", "begin with the subject; say because or like",
     "As wire.c does it.", "Works like wire.c."),
    (r"Who\b", "name the party", "Who owns the slot.", "The owner of the slot."),
    (r"(?:That|Those) of\b", "begin with the thing itself", "Those of the loader.", "The loader's descriptors."),
    (r"Likewise\b", "repeat the short fact", "Likewise.", "Loop thread only."),
)

TOPS = ("bench", "common", "docs", "examples", "include", "launcher", "libdist", "loader", "python", "scripts",
        "systemd", "tests")


def files():
    found = [name for name in os.listdir(SOURCE) if name.endswith(".md") or name == "NEWS"]
    for top in TOPS:
        for folder, folders, names in os.walk(os.path.join(SOURCE, top)):
            folders[:] = [name for name in folders
                          if not name.startswith((".", "build", "__pycache__")) and not name.endswith(".egg-info")]
            found += [os.path.relpath(os.path.join(folder, name), SOURCE) for name in names if ".pb-c." not in name]
    return sorted(path for path in found if not os.path.islink(os.path.join(SOURCE, path)))


Text = collections.namedtuple("Text", "line words comment")  # words in one line; does it begin a comment?


def blank(match):
    """Return the same number of empty lines."""
    return "\n" * match.group(0).count("\n")


def of_page(text):
    """Yield paragraphs, items and rows of a page, without code, addresses and comments."""
    text = re.sub(r"^```.*?^```$|^(?: {4}[^\n]*\n)+(?=\n|\Z)|<!--.*?-->", blank, text, flags=re.M | re.S)
    text = re.sub(r"`[^`]*`", lambda m: "x" + blank(m), text)
    text = re.sub(r"\]\([^)]*\)", lambda m: "]" + blank(m), text)
    for match in re.finditer(r"(?:^[^\n]*\S[^\n]*\n?)+", text, re.M):
        at = text.count("\n", 0, match.start()) + 1
        for part in re.split(r"(?m)^(?=\s*(?:[*-]|\d+\.) |\|)", match.group(0)):
            for words in part.split(" | ") if part.startswith("|") else [part]:
                yield Text(at, re.sub(r"^(?:[*-]|\d+\.|\|) *", "", " ".join(words.split())), False)
            at += part.count("\n")


def of_manual(text):
    """Yield text lines of a manual page."""
    for number, line in enumerate(text.split("\n"), 1):
        if line and not line.startswith((".", "'")):
            yield Text(number, re.sub(r"\\f[BIRP]|\\&", "", line).replace("\\-", "-"), False)


def of_c(text):
    """Yield comments, and strings that have a space."""
    token = r"/\*.*?\*/|//[^\n]*|(?:\"(?:\\.|[^\"\\\n])*\"\s*)+|'(?:\\.|[^'\\])+'"
    for match in re.finditer(token, text, re.S):
        words, line = match.group(0), text.count("\n", 0, match.start()) + 1
        if words.startswith("/"):
            yield Text(line, " ".join(re.sub(r"^[ \t]*\*+|/\*+<?|\*+/|//", " ", words, flags=re.M).split()), True)
        elif words.startswith('"') and " " in words.strip():
            yield Text(line, re.sub(r'"\s*"|^"|"$', "", words.strip()), False)


def of_python(text):
    strings = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", None)}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield Text(token.start[0], token.string.lstrip("#! "), True)
        elif token.type in strings and " " in token.string:
            words = re.sub(r"^[a-zA-Z]*(?:\"\"\"|'''|\"|')", "", token.string)
            yield Text(token.start[0], " ".join(words.split()), words != token.string and '"""' in token.string)


def of_shell(text):
    for number, line in enumerate(text.split("\n"), 1):
        match = re.search(r"(?:^|\s)# (.*)", line)
        if match:
            yield Text(number, match.group(1), True)


def texts(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8", errors="replace") as file:
        text = file.read()
    if path.endswith(".md") or path == "NEWS":
        return of_page(text)
    if re.search(r"\.[1-8]$", path):
        return of_manual(text)
    if path.endswith((".c", ".h", ".inc")):
        return of_c(text)
    if path.endswith(".py") or re.match(r"#!.*python", text):
        return of_python(text)
    if path.endswith((".sh", ".mk")) or path.startswith("systemd/") or re.match(r"#!.*sh\b", text):
        return of_shell(text)
    return ()


def rejected(text):
    """Return the reasons why this text is rejected, each with the words."""
    rows = [(re.search(pattern, text.words, re.I), reason) for pattern, reason, _, _ in WORDS]
    if text.comment:
        rows += [(re.match(pattern, text.words), reason) for pattern, reason, _, _ in OPENINGS]
    return [f"'{match.group(0).strip()}': {reason}" for match, reason in rows if match]


def hits(path):
    return [f"{path}:{text.line}: {reason}" for text in texts(path) for reason in rejected(text)]


class Words(unittest.TestCase):
    def test_table(self):
        """each row rejects its own example, and accepts the correct one"""
        for rows, comment in ((WORDS, False), (OPENINGS, True)):
            for pattern, reason, wrong, right in rows:
                self.assertTrue(any(reason in each for each in rejected(Text(1, wrong, comment))), pattern)
                self.assertEqual(rejected(Text(1, right, True)), [], pattern)

    def test_readers(self):
        """sentences are found at their lines, and code is ignored"""
        page = "# A\n\nIt goes\non.\n\n    goes on\n\n```sh\ngoes on\n```\n* `goes on` a\n* goes on\n| a | goes on |\n"
        self.assertEqual([t.line for t in of_page(page) if rejected(t)], [3, 12, 13])
        code = 'int a; /* Of a,\n * that goes\n * on. */\nf("go" " on", "nobody", \'"\'); // As it is\n'
        self.assertEqual([(t.line, len(rejected(t))) for t in of_c(code)], [(1, 2), (4, 1), (4, 1)])
        self.assertEqual([t.line for t in of_python('x = "it goes on"\n\n# whoever\ny = "nobody"\n') if rejected(t)],
                         [1, 3])
        self.assertEqual([t.line for t in of_shell("a=b # anew\necho anew\n") if rejected(t)], [1])
        self.assertEqual([t.line for t in of_manual(".It goes on\nIt goes on\n") if rejected(t)], [2])

    def test_words(self):
        """no text has a word or opening that is rejected"""
        read = [path for path in files() if path != "tests/style/test_words.py"]
        self.assertIn("README.md", read)
        self.assertEqual("\n".join(hit for path in read for hit in hits(path)), "", "write what a native would say")


if __name__ == "__main__":
    tap.main()
