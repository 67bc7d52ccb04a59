# SPDX-License-Identifier: MIT
"""docs/pipelines.md has every stage that common/pipeline/ knows, and no other; its examples are correct."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

from pages import BUILD, Page, blocks, operations, read
import tap

SOURCE_TEXT = "".join(read(f"common/pipeline/{part}.c")
                      for part in ("pipeline", "pipeline_crop", "pipeline_mix", "pipeline_ops", "pipeline_policy",
                                   "pipeline_text", "pipeline_zoom", "views"))
TEXT = read("docs/pipelines.md")
CTL = os.path.join(BUILD, "plenumctl")
PRESETS = {"train", "eval", "torchvision_v2", "timm_a1", "dino_global", "mae", "cifar", "maskrcnn", "ssd", "ssdlite"}


def hashed(pipeline):
    return subprocess.run([CTL, "hash", "generated:8", "--pipeline", pipeline], capture_output=True, text=True,
                          timeout=300)


class PipelinesTest(unittest.TestCase):
    def test_stages(self):
        """the page explains exactly the words that the parser knows"""
        known = set(re.findall(r'(?:parser_word|begin_stage)\(&?p, "(\w[\w-]*)"\)', SOURCE_TEXT))
        fills = {"random", "pixel"}
        keys = {"scale", "ratio", "interpolation", "fill", "boxes", "block"}
        known |= keys & set(re.findall(r'parser_key\(p, "(\w+)"\)', SOURCE_TEXT))
        known -= {"fast-v1", "p", "value"} | fills
        known |= set(operations())
        known |= set(re.findall(r'\[PIPELINE_V\d\] = "(\w+)"', SOURCE_TEXT))
        heads = re.findall(r"^\| (`[a-z_0-9]+`(?:, `[a-z_]+`)*) \|", TEXT.split("## 2.")[0], re.M)
        explained = {name for head in heads for name in re.findall(r"`(\w+)`", head)} - PRESETS
        arguments = set(re.findall(r"^\| \| `([a-z]+)=", TEXT, re.M))
        self.assertEqual(explained | arguments, known)
        self.assertEqual(arguments, keys)
        for word in fills:
            self.assertIn(f"`value={word}`", TEXT)

    def test_presets(self):
        """the presets expand as documented"""
        body = re.search(r"presets\[\]\[2\] = \{\n(.*?)\n\};", SOURCE_TEXT, re.S).group(1)
        body = re.sub(r'"\n +"', "", body)  # strings that span several lines
        table = re.findall(r'^    \{"(\w+)",\s+"([^"]+)"\},$', body, re.M)
        self.assertEqual({name for name, _ in table}, PRESETS)
        self.assertTrue(table)
        self.assertEqual(re.findall(r"^\| `(\w+)` \| `([^`]+)` \|$", TEXT.replace("\\|", "|"), re.M), table)

    def test_ranges(self):
        """the page and the parser have the same numbers"""
        side = re.search(r"PIPELINE_SIDE_MAX = (\d+)", read("common/pipeline/pipeline.h")).group(1)
        term = re.search(r"define TERM_MAX (\d+)", SOURCE_TEXT).group(1)
        self.assertIn(f"1 to {side};", TEXT)
        self.assertIn(f"up to {term} ", TEXT)
        for text, ok in (("rrc(8192)", True), ("rrc(8193)", False), ("rrc(0)", False),
                         ("rrc(8, ratio=1/100:100)", True), ("rrc(8, ratio=1/101:100)", False),
                         ("rrc(8, scale=0:1)", False), ("rrc(8) flip(0)", True), ("rrc(8) flip(1.01)", False),
                         ("rrc(8, scale=0.5:1.1)", False)):
            self.assertEqual(hashed(text).returncode == 0, ok, text)
        self.assertEqual(hashed("rrc(8)").stdout,
                         hashed("rrc(8, scale=0.08:1, ratio=3/4:1.3333333333333333) flip(0)").stdout)

    def test_examples(self):
        """pipelines on the page are valid, and those documented as rejected are rejected"""
        (good,), (bad,) = ([code for language, code in blocks(TEXT) if language == kind]
                           for kind in ("pipeline", "refused"))
        for line in good.splitlines():
            done = hashed(line)
            if re.search(r"iou_crop|^ssd", line):  # generated samples have no boxes
                self.assertRegex(done.stderr, "^plenumctl hash: iou_crop depends on boxes", line)
                continue
            self.assertEqual(done.returncode, 0, f"{line}: {done.stderr}")
        for line in bad.splitlines():
            done = hashed(line)
            self.assertEqual(done.returncode, 1, line)
            self.assertIn("pipeline: ", done.stderr, line)

    def test_lines(self):
        """the shell lines run"""
        folder = tempfile.mkdtemp(prefix="plenum-test-")
        self.addCleanup(shutil.rmtree, folder)
        page = Page(TEXT, folder)
        self.assertRegex(page.of("plenumctl preview"), r"\b[0-9a-f]{16}\n$")
        page.check_programs(self, {"pipeline", "refused", "sh"})

    def test_pointed_to(self):
        """manual pages and messages refer to this page"""
        for name in ("docs/man/plenumctl.1", "docs/man/plenum.7", "docs/messages.md", "docs/guide.md",
                     "docs/training.md", "README.md"):
            self.assertTrue("pipelines.md" in read(name), name)

    def test_everywhere(self):
        """pipelines on other pages are valid"""
        for name in ("README.md", "docs/guide.md", "docs/training.md", "docs/recipes.md", "docs/datasets.md",
                     "docs/architecture.md"):
            for text in set(re.findall(r"`((?:rrc|resize)\([^`]*\))`", read(name))):
                if not re.search(r"\b[A-Z]\b|…|\.\.", text):
                    self.assertEqual(hashed(text).returncode, 0, f"{name}: {text}")


if __name__ == "__main__":
    tap.main()
