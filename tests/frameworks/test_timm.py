# SPDX-License-Identifier: MIT
"""Tests timm with Loaders: examples/frameworks/timm_photos.py, and timm's own loader wrapper."""

import re
import sys

import frameworks

frameworks.need("timm", "numpy", "timm")

import timm.data  # noqa: E402
import timm.data.loader  # noqa: E402
import torch  # noqa: E402

import pyplenum.torch  # noqa: E402
import tap  # noqa: E402
from frameworks import COUNT, FrameworkCase  # noqa: E402

import timm_photos as example  # noqa: E402

CONFIG = {"input_size": (3, 32, 32), "crop_pct": 0.9, "interpolation": "bicubic",
          "mean": timm.data.IMAGENET_DEFAULT_MEAN, "std": timm.data.IMAGENET_DEFAULT_STD}


class TimmTest(FrameworkCase):
    def test_example(self):
        """each sample counts once in the example's evaluation, in one process and in two"""
        for program in ([sys.executable], ["torchrun", "--nproc_per_node", "2"]):
            out = self.run_ok(*program, f"{frameworks.EXAMPLES}/timm_photos.py", self.photos)
            self.assertEqual(re.findall(r"epoch (\d): .* of (\d+) right", out), [("0", str(COUNT)), ("1", str(COUNT))])

    def test_loaders(self):
        """the Loader that replaces create_loader() has what train.py needs: a length, floats, and set_epoch()"""
        train, evaluation = example.loaders(self.photos, self.photos, CONFIG, 8, torch.device("cpu"))
        self.assertEqual((len(train), len(evaluation)), (6, 6))
        images, labels = next(iter(evaluation))
        self.assertEqual((images.dtype, labels.dtype), (torch.float32, torch.int64))
        self.assertEqual(images.shape, (8, 3, 32, 32))
        train.set_epoch(3)
        self.assertEqual(train.epoch, 3)
        self.assertEqual(sum(len(labels) for _, labels in evaluation), COUNT)

    def test_prefetch_loader(self):
        """timm's PrefetchLoader computes the same floats from a Loader's bytes, and fetches one batch ahead of the
        loop"""
        evaluation = example.loaders(self.photos, self.photos, CONFIG, 8, torch.device("cpu"))[1]
        bytes_of = pyplenum.torch.Loader(self.photos, "resize(36, interpolation=bicubic) center_crop(32)",
                                         shuffle="none", micro_batch=8)
        wrapped = timm.data.loader.PrefetchLoader(bytes_of, CONFIG["mean"], CONFIG["std"], device=torch.device("cpu"))
        self.assertEqual((len(wrapped), len(wrapped.dataset)), (6, COUNT))
        for (want, labels), (got, others) in zip(evaluation, wrapped, strict=True):
            self.assertTrue(torch.allclose(want, got, atol=1e-5))
            self.assertTrue(torch.equal(labels, others))
        loop = iter(wrapped)
        next(loop)
        self.assertEqual(bytes_of.stream.place.position, 16)


if __name__ == "__main__":
    tap.main()
