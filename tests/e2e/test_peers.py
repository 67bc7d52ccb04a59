# SPDX-License-Identifier: MIT
"""Checks the part of bench/peers/compare that needs no peer: made-up objects, and Plenum's text of each recipe."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
PEERS = os.path.join(SOURCE, "bench", "peers")
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(SOURCE, "tests", "python"), PEERS]

import tap  # noqa: E402

if tap.find("PIL") is None:
    tap.skip_all("Pillow is not installed for this Python")

import recipes  # noqa: E402

CTL = os.path.join(BUILD, "plenumctl")


def setUpModule():
    global T, PHOTOS, OBJECTS
    T = tempfile.mkdtemp(prefix="plenum-test-")
    os.environ["PLENUM_CACHE_DIR"] = os.path.join(T, "cache")
    PHOTOS, OBJECTS = os.path.join(T, "photos"), os.path.join(T, "objects.json")
    subprocess.run([CTL, "make-sample", PHOTOS, "--classes", "2", "--images", "3", "--size", "64"], check=True,
                   stdout=subprocess.DEVNULL)
    make(OBJECTS)


def tearDownModule():
    shutil.rmtree(T)


def make(path):
    subprocess.run([sys.executable, os.path.join(PEERS, "boxes.py"), PHOTOS, path], check=True)


class PeersTest(unittest.TestCase):
    def test_objects(self):
        """boxes.py writes the same valid COCO file each time, with objects in every photograph"""
        make(os.path.join(T, "again.json"))
        with open(OBJECTS) as one, open(os.path.join(T, "again.json")) as other:
            text = one.read()
            self.assertEqual(text, other.read())
        data = json.loads(text)
        self.assertEqual({o["image_id"] for o in data["annotations"]}, set(range(1, 7)))
        self.assertGreater(len(data["annotations"]), 6)
        done = subprocess.run([CTL, "verify", f"coco,images={PHOTOS}:{OBJECTS}"], capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)

    def test_texts(self):
        """Plenum renders the recipes with their sides, and those with boxes also with boxes"""
        for name, text in {**recipes.TEXTS, **recipes.BOXES}.items():
            fields = ["--fields", "objects:objects:boxes"] if name in recipes.BOXES else []
            page = os.path.join(T, "s.html")
            done = subprocess.run([CTL, "preview", f"coco,images={PHOTOS}:{OBJECTS}", page, "--count", "1",
                                   "--pipeline", text, *fields], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            with open(page, encoding="utf-8") as f:
                side = recipes.SIDES.get(name, 224)
                self.assertIn(f"width: {side}px; height: {side}px", f.read(), name)


if __name__ == "__main__":
    tap.main()
