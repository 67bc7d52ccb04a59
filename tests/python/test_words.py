# SPDX-License-Identifier: MIT
"""Checks that common first attempts by users of other loaders work, or that an error says what to write."""

import inspect
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

SOURCE = os.environ["top_srcdir"]
sys.path.append(os.path.join(SOURCE, "tests", "e2e"))

import jobs  # noqa: E402
import tap  # noqa: E402

tap.require("numpy", "torch")
sys.path.insert(0, os.path.join(SOURCE, "python"))
T = tempfile.mkdtemp(prefix="plenum-test-")
jobs.set_up(T)

import numpy as np  # noqa: E402
import torch  # noqa: E402

import pyplenum  # noqa: E402
import pyplenum.torch  # noqa: E402

DATA, PIPELINE = "generated:16", "rrc(8)"


def tearDownModule():
    shutil.rmtree(T)


class ImageFolder:
    """Has a root, like torchvision's class."""

    root = "/data/train"


class WordsTest(unittest.TestCase):
    def refused(self, kind, *words, call=pyplenum.torch.Loader, data=DATA, **options):
        with self.assertRaises(kind) as caught:
            call(data, PIPELINE, **options)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_types(self):
        """a type may be given by name, or as torch's or NumPy's type"""
        for names, found in ((("uint8", torch.uint8, np.uint8, np.dtype("uint8")), torch.uint8),
                             (("int8", torch.int8, np.int8), torch.int8),
                             (("float32", torch.float32, np.float32, np.dtype("float32")), torch.float32),
                             (("float16", torch.float16, np.float16), torch.float16),
                             (("bfloat16", torch.bfloat16), torch.bfloat16)):
            for name in names:
                with pyplenum.torch.Loader(DATA, PIPELINE, micro_batch=8, dtype=name) as loader:
                    self.assertEqual(loader.peek()[0].dtype, found, name)
        images = np.zeros((1, 5, 6, 3), np.uint8)
        for name in ("float16", torch.float16, np.float16, np.dtype("float16")):
            self.assertEqual(pyplenum.normalise(images, dtype=name).dtype, np.float16)
        with pyplenum.Stream(DATA, PIPELINE, micro_batch=8, dtype=torch.uint8) as stream:
            self.assertEqual(next(stream).pixels.dtype, np.uint8)
        for name in ("float64", torch.float64, np.int32, 8):
            self.refused(ValueError, "uint8", "float32", dtype=name)
        self.refused(ValueError, "dtype must be one of int8, uint8", call=pyplenum.Stream, dtype=torch.float32)

    def test_options(self):
        """errors about options of other loaders say what to use"""
        for name, words in (("limit", "subset"), ("num_samples", "subset"),
                            ("target_transform", "in the loop"), ("return_paths", "stream.names"),
                            ("batch_size", "micro_batch")):
            self.refused(TypeError, f"there is no option '{name}'", words, **{name: 1})
        for name in inspect.signature(torch.utils.data.DataLoader).parameters:
            if name not in ("dataset", "shuffle", "pin_memory"):
                self.refused(TypeError, f"there is no option '{name}': ", **{name: 1})
        self.refused(ValueError, "a batch has no 'names'", "loader.stream.names(samples)", fields=("names",))
        self.refused(ValueError, "did you mean 'labels'", fields=("label",))

    def test_data_sets(self):
        """errors about data set objects, and about a Loader as a DataLoader's data set, say what to use"""
        self.refused(TypeError, "not a ImageFolder", "its root, '/data/train'", data=ImageFolder())
        self.refused(TypeError, "not a list", data=[1, 2])
        self.refused(pyplenum.PlenumError, "nowhere", data=pathlib.Path(T) / "nowhere")
        with pyplenum.torch.Loader(DATA, PIPELINE, micro_batch=8) as loader:
            with self.assertRaisesRegex(TypeError, "replaces the DataLoader"):
                next(iter(torch.utils.data.DataLoader(loader)))

    def test_last(self):
        """a state with a different `last` is rejected, naming both settings"""
        with pyplenum.torch.Loader("generated:21", PIPELINE, micro_batch=8, last="drop") as loader:
            next(iter(loader))
            state = loader.state_dict()
        with pyplenum.torch.Loader("generated:21", PIPELINE, micro_batch=8) as loader:
            with self.assertRaisesRegex(pyplenum.PlenumError, "last was 'drop' and is now 'partial'; pass last='drop'"):
                loader.load_state_dict(state)


tap.main()
