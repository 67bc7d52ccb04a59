# SPDX-License-Identifier: MIT
"""Checks that examples/detect.py learns to find shapes, with Plenum's batches as with torchvision's."""

import contextlib
import json
import os
import re
import runpy
import shutil
import statistics
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

SOURCE = os.environ["top_srcdir"]
sys.path[:0] = [os.path.join(SOURCE, "tests", "python"), os.path.join(SOURCE, "tests", "e2e"),
                os.path.join(SOURCE, "python")]

import jobs  # noqa: E402
import tap  # noqa: E402

tap.require("torch", "torchvision", "PIL")

STEPS, LAST = 60, 12


def setUpModule():
    global T
    T = tempfile.mkdtemp(prefix="plenum-test-")
    path = os.environ.get("PYTHONPATH")  # set_up() replaces it
    jobs.set_up(T)
    if path:
        os.environ["PYTHONPATH"] += os.pathsep + path
    os.environ["OMP_NUM_THREADS"] = "1"
    example("shapes.py", "--images", "64")


def tearDownModule():
    shutil.rmtree(T)


def example(name, *options):
    done = subprocess.run([sys.executable, os.path.join(SOURCE, "examples", name), os.path.join(T, "shapes"), *options],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class DetectTest(unittest.TestCase):
    def losses(self, *options):
        """Train, and return the mean losses of the first and of the last steps."""
        out = example("detect.py", "--steps", str(STEPS), *options)
        losses = [float(loss) for loss in re.findall(r"^step \d+: loss (\d+\.\d+)$", out, re.M)]
        self.assertEqual(len(losses), STEPS)
        return statistics.mean(losses[:LAST]), statistics.mean(losses[-LAST:])

    def test_shapes(self):
        """shapes.py writes a COCO data set whose boxes contain their shapes"""
        import numpy as np
        from PIL import Image

        with open(os.path.join(T, "shapes", "annotations", "instances_train2017.json")) as f:
            data = json.load(f)
        self.assertEqual([c["name"] for c in data["categories"]], ["circle", "square", "triangle"])
        self.assertEqual(len(data["images"]), 64)
        self.assertEqual({o["image_id"] for o in data["annotations"]}, set(range(1, 65)))
        for image in data["images"][:8]:
            with Image.open(os.path.join(T, "shapes", "train2017", image["file_name"])) as picture:
                bright = np.asarray(picture).min(axis=2) > 100  # the background is darker
            inside = np.zeros_like(bright)
            for o in data["annotations"]:
                if o["image_id"] == image["id"]:
                    left, top, width, height = o["bbox"]
                    inside[top:top + height, left:left + width] = True
            self.assertFalse((bright & ~inside).any())
            self.assertGreater((bright & inside).sum(), inside.sum() / 3)

    def test_learns(self):
        """detect.py learns from Plenum's batches"""
        first, last = self.losses()
        self.assertLess(last, 0.8 * first)

    def test_batches(self):
        """without shuffle and flips, CocoDetection and a DataLoader give the same pixels, boxes and classes"""
        if tap.find("pycocotools") is None:
            self.skipTest("pycocotools is not installed, which CocoDetection needs")
        import torch

        import pyplenum.torch

        loader, data_loader = pyplenum.torch.Loader, torch.utils.data.DataLoader
        folder = os.path.join(T, "shapes")
        with mock.patch.object(sys, "argv", ["detect.py", folder, "--steps", "0"]), \
                mock.patch("pyplenum.torch.Loader", lambda dataset, pipeline, **options: loader(
                    dataset, pipeline.replace(" flip(0.5)", ""), shuffle="none", **options)), \
                mock.patch("torch.utils.data.DataLoader", lambda files, size, shuffle, **options: data_loader(
                    files, size, **options)), \
                mock.patch("torch.rand", lambda size: torch.ones(size)), \
                contextlib.redirect_stdout(sys.stderr):
            names = runpy.run_path(os.path.join(SOURCE, "examples", "detect.py"))
            ours, theirs = names["by_plenum"](folder, 0), names["by_torchvision"](folder, 0)
            for _ in range(6):  # an epoch and a half
                (images, objects), (other_images, other_objects) = next(ours), next(theirs)
                self.assertTrue(torch.equal(images, torch.stack(list(other_images))))
                self.assertEqual((len(objects), len(other_objects)), (16, 16))
                for one, other in zip(objects, other_objects):
                    self.assertTrue(torch.equal(one["labels"], other["labels"]))
                    self.assertLess((one["boxes"] - other["boxes"]).abs().max(), 1 / 64)
            ours.close()

    def test_torchvision(self):
        """the loss with CocoDetection and a DataLoader is the same, up to noise"""
        if tap.find("pycocotools") is None:
            self.skipTest("pycocotools is not installed, which CocoDetection needs")
        (first, last), (other_first, other_last) = self.losses(), self.losses("--torchvision")
        self.assertLess(abs(first - other_first), 0.15 * first)
        self.assertLess(abs(last - other_last), 0.15 * last)


if __name__ == "__main__":
    tap.main()
