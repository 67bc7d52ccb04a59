# SPDX-License-Identifier: MIT
"""Tests torchvision's reference script with Loaders: examples/frameworks/torchvision_photos.py."""

import re
import sys

import frameworks

frameworks.need("torchvision with transforms.v2 (0.16 or later)", "numpy", "torchvision.transforms.v2")

import torch  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

import pyplenum.torch  # noqa: E402
import tap  # noqa: E402
from frameworks import COUNT, FrameworkCase  # noqa: E402


class TorchvisionTest(FrameworkCase):
    def test_example(self):
        """resuming the example gives an uninterrupted run's losses, and two processes evaluate each sample once"""
        folder, name = self.path("run"), f"{frameworks.EXAMPLES}/torchvision_photos.py"
        program = [sys.executable, name, self.photos, "--output-dir", folder]
        whole = self.run_ok(*program, "--epochs", "2")
        self.run_ok(*program, "--epochs", "1")
        again = self.run_ok(*program, "--epochs", "2", "--resume", f"{folder}/checkpoint.pth")
        last = re.findall(r"epoch 1: (\d of \d) batches, loss ([0-9.]+)", whole)
        self.assertEqual(re.findall(r"epoch 1: (\d of \d) batches, loss ([0-9.]+)", again), last)
        self.assertIn(f" of {COUNT} right", again)
        self.assertNotIn("epoch 0:", again)
        two = self.run_ok("torchrun", "--nproc_per_node", "2", name, self.photos, "--epochs", "1")
        self.assertEqual(two.count("3 of 3 batches"), 2)
        self.assertEqual(two.count(f" of {COUNT} right"), 2)

    def test_transforms(self):
        """transforms.v2 computes a Loader's floats from a Loader's bytes"""
        options = {"shuffle": "none", "micro_batch": 8}
        bytes_of = pyplenum.torch.Loader(self.photos, "resize(36) center_crop(32)", **options)
        floats = pyplenum.torch.Loader(self.photos, "resize(36) center_crop(32)", dtype=torch.float32, **options)
        to_float = v2.Compose([v2.ToDtype(torch.float32, scale=True),
                               v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
        for (pixels, _), (want, _) in zip(bytes_of, floats, strict=True):
            self.assertTrue(torch.allclose(to_float(pixels), want, atol=1e-5))

    def test_dataset(self):
        """a Loader's dataset has a length and classes, but raises TypeError if a sample is read from it"""
        loader = pyplenum.torch.Loader(self.photos, "rrc(16)", micro_batch=8)
        self.assertEqual((len(loader.dataset), loader.dataset.classes), (COUNT, loader.stream.classes))
        with self.assertRaisesRegex(TypeError, "but no samples: loop over the Loader"):
            loader.dataset[0]


if __name__ == "__main__":
    tap.main()
