# SPDX-License-Identifier: MIT
"""Runs make html and checks that every page exists, that no link is broken, and that the search index has words."""

import os
import shutil
import subprocess
import sys
import unittest

BUILD = os.environ["top_builddir"]
SOURCE = os.environ["top_srcdir"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))

import tap  # noqa: E402

MANUAL = os.path.join(BUILD, "html", "manual")
for program in ("make", "mandoc"):
    if shutil.which(program) is None:
        tap.skip_all(f"{program} is not installed")
for module in ("sphinx", "myst_parser", "furo", "numpy"):
    if subprocess.run([os.environ["PYTHON"], "-c", f"import {module}"], stderr=subprocess.DEVNULL).returncode != 0:
        tap.skip_all(f"{os.environ['PYTHON']} has no {module}")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


class Html(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = subprocess.run(["make", "-s", "-C", BUILD, "html"], capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL)

    def test_made(self):
        """the pages are built without a warning or a broken link"""
        self.assertEqual(self.made.returncode, 0, self.made.stdout + self.made.stderr)
        self.assertIn(" 0 dead", self.made.stdout)

    def test_pages(self):
        """each page and each manual page exists, and is in the table of contents"""
        index = read(MANUAL, "index.html")
        for folder in ("docs", "docs/man"):
            for name in os.listdir(os.path.join(SOURCE, folder)):
                if folder == "docs/man" or name.endswith(".md"):
                    page = f"{os.path.basename(folder)}/{name[:-3] if folder == 'docs' else name}.html"
                    self.assertIn(f'href="{page}"', index)
                    self.assertIn("<h1>", read(MANUAL, page))

    def test_api(self):
        """functions of C and of Python are described, with their docstrings"""
        self.assertIn("plenum_stream_next", read(MANUAL, "man", "plenum_stream.3.html"))
        self.assertIn("PLENUM_API", read(MANUAL, "include", "plenum", "stream.h.html"))
        page = read(MANUAL, "python", "pyplenum.html")
        for name in ("Job.allreduce", "Stream.seek", "Batch", "progress"):
            self.assertIn(f'id="pyplenum.{name}"', page)
        self.assertIn("prefetch_depth", page)
        self.assertIn('id="pyplenum.torch.Loader.state_dict"', read(MANUAL, "python", "pyplenum.torch.html"))

    def test_search(self):
        """the search index has a word of the manual pages"""
        self.assertIn("heartbeat", read(MANUAL, "searchindex.js"))

    def test_alone(self):
        """pages load nothing from other sites"""
        for name in ("index.html", "python/pyplenum.html", "search.html"):
            page = read(MANUAL, name)
            for word in ('src="http', 'rel="stylesheet" href="http', 'href="http://fonts', "@import"):
                self.assertNotIn(word, page)

    def test_dead(self):
        """a broken link is detected"""
        page = os.path.join(MANUAL, "docs", "dead.html")
        try:
            for link in ("nowhere.html", "guide.html#nowhere"):
                with open(page, "w", encoding="utf-8") as file:
                    file.write(f'<a href="{link}">x</a>')
                found = subprocess.run([os.environ["PYTHON"], os.path.join(SOURCE, "docs", "html", "deadlinks.py"),
                                        MANUAL],
                                       capture_output=True, text=True)
                self.assertEqual(found.returncode, 1)
                self.assertIn(f"docs/dead.html: {link} leads nowhere", found.stdout)
        finally:
            os.unlink(page)


tap.main()
