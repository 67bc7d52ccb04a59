# SPDX-License-Identifier: MIT
"""docs/recipes.md and README.md: their programs are run exactly as written, and have the described results."""

import os
import re
import shutil
import tempfile
import unittest

from pages import Page, read
import tap

tap.require("numpy", "torch", programs=["mpirun"])


class RecipesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="plenum-test-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.page = Page(read("docs/recipes.md"), cls.folder)

    def test_programs(self):
        """every program of the page is run"""
        self.page.check_programs(self, {"sh", "python"})
        self.assertGreaterEqual(len(re.findall(r"^# \w+\.py - ", self.page.text, re.M)), 5)
        self.assertTrue(os.path.isdir(os.path.join(self.folder, "photos")))

    def test_augment(self):
        """batches are augmented throughout an epoch"""
        self.assertEqual(self.page.of("augment.py"), "6 batches\n")

    def test_mixup(self):
        """labels of mixed images add up to one"""
        self.assertEqual(self.page.of("mixup.py"), "4 classes\n")

    def test_crops(self):
        """crops of two sizes come from the same images, with one process and with two"""
        out = self.page.of("dino.py")
        self.assertEqual(out.count("12 steps of 4 images"), 1)
        self.assertEqual(out.count("6 steps of 4 images"), 2)

    def test_progressive(self):
        """sizes change with the epoch"""
        self.assertEqual(self.page.of("progressive.py"),
                         "".join(f"epoch {e}: {32 if e < 2 else 48} pixels\n" for e in range(4)))

    def test_fields(self):
        """captions, several labels and boxes belong to their images, and are verified"""
        out = self.page.of("fields.py")
        self.assertRegex(out, "6 batches, each with captions and boxes, such as '(a|a photo of a) ")
        self.assertIn("problems     0", out)

    def test_count(self):
        """each sample counts once, with one process and with two"""
        self.assertEqual(self.page.of("count.py"), "48 of 48 right\n" * 2)


class ReadmeTest(unittest.TestCase):
    def test_readme(self):
        """README.md's program runs, and the hash over two processes equals that of one thread"""
        folder = tempfile.mkdtemp(prefix="plenum-test-")
        self.addCleanup(shutil.rmtree, folder)
        page = Page(read("README.md"), folder)
        page.check_programs(self, {"sh", "python"})
        out = page.of("hello.py")
        self.assertEqual(out.count("320 images, 10 batches for this process\n"), 1, out)
        self.assertEqual(out.count("320 images, 5 batches for this process\n"), 2, out)
        self.assertEqual(len(set(re.findall(r"\b[0-9a-f]{16}\b", out))), 1, out)
        self.assertEqual(len(re.findall(r"\b[0-9a-f]{16}\b", out)), 2, out)

    def test_examples(self):
        """README.md shows programs of examples/"""
        for name in "hello.py", "sum.py":
            self.assertIn("```python\n" + read(f"examples/{name}").split("\n", 1)[1] + "```", read("README.md"))


if __name__ == "__main__":
    tap.main()
