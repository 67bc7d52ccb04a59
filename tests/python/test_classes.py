# SPDX-License-Identifier: MIT
"""Tests classes that a program gives, labels of whole data sets, and JSON as Python writes it."""

import errno
import json
import os
import sys
import tempfile
import unittest
import unittest.mock
import warnings

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
os.environ["PLENUM_LIBRARY"] = os.path.join(BUILD, ".libs", "libplenum.so.1")
sys.path.insert(0, os.path.join(SOURCE, "python"))

import tap  # noqa: E402

tap.require("numpy")

import numpy as np  # noqa: E402

import pyplenum  # noqa: E402
from made import png, write_tar  # noqa: E402

PICTURE = png(np.zeros((8, 8), np.uint8))


def folders(root, **classes):
    """Create a folder for each class, with the same number of images."""
    for name, count in classes.items():
        os.makedirs(os.path.join(root, name))
        for i in range(count):
            with open(os.path.join(root, name, f"{i}.png"), "wb") as f:
                f.write(PICTURE)
    return root


def labels_of(dataset, **options):
    """Return the labels in the order of the data set, and the classes."""
    with pyplenum.Stream(dataset, "none", shuffle="none", epochs=1, **options) as s:
        return [int(batch.labels.item()) for batch in s], s.classes


class Test(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = folder.name
        patch = unittest.mock.patch.dict(os.environ, PLENUM_CACHE_DIR=os.path.join(self.dir, "cache"))
        patch.start()
        self.addCleanup(patch.stop)

    def path(self, name):
        return os.path.join(self.dir, name)

    def test_classes_of_the_training_set(self):
        train = folders(self.path("train, all:x"), a=1, b=2, c=1)
        val = folders(self.path("val"), a=1, c=2)
        with open(self.path("classes"), "w") as f:
            f.write("a\nb\nc\n")
        for classes in (["a", "b", "c"], ("a", "b", "c"), train, self.path("classes")):
            with self.subTest(classes=classes):
                self.assertEqual(labels_of(val, classes=classes), ([0, 2, 2], ["a", "b", "c"]))
        here = os.getcwd()
        os.chdir(self.dir)
        self.addCleanup(os.chdir, here)
        self.assertEqual(labels_of("val", classes="train, all:x"), ([0, 2, 2], ["a", "b", "c"]))
        self.assertEqual(labels_of("folder,classes=classes:val"), ([0, 2, 2], ["a", "b", "c"]))
        for classes in ("classes", "train, all:x"):
            self.assertEqual(labels_of(val, classes=classes), ([0, 2, 2], ["a", "b", "c"]))

    def test_given_names_need_no_order(self):
        """class names that the program gives cause no warning about their order, and other warnings remain"""
        data = folders(self.path("order"), class_1=1, class_2=1, class_3=1, class_10=1)
        other = os.path.join(data, "class_1", "0.gif")
        open(other, "wb").close()
        names = ["class_1", "class_2", "class_3", "class_10"]
        for classes, order in ((None, True), (names, False)):
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                with pyplenum.Stream(data, "none", classes=classes) as stream:
                    self.assertEqual(stream.classes == names, not order)
            text, = (str(warning.message) for warning in found)
            self.assertEqual("are numbered in the byte order" in text, order)
            self.assertRegex(text, r"data set '.*/order': .*1 \.gif")
        os.unlink(other)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            pyplenum.Stream(data, "none", classes=names).close()

    def test_unlisted_classes_are_refused(self):
        val = folders(self.path("val"), a=1, z=1)
        with self.assertRaisesRegex(ValueError, "class 'z' is not among the 2 names in 'classes'"):
            labels_of(val, classes=["a", "b"])
        folders(self.path("train"), a=1)
        with self.assertRaisesRegex(pyplenum.PlenumError,
                                    r"val/z: class 'z' is not listed in .*train \(classes=\), which has 1 class"):
            labels_of(val, classes=self.path("train"))
        with self.assertRaisesRegex(ValueError, "contains 'a' twice"):
            labels_of(val, classes=["a", "a"])
        with self.assertRaisesRegex(TypeError, "a path, \"numbers\" or names"):
            labels_of(val, classes=[1, 2])
        with self.assertRaisesRegex(pyplenum.PlenumError, "given twice"):
            labels_of(f"folder,classes=numbers:{val}", classes="numbers")

    def test_numbers_and_names_of_numbers(self):
        numbers = folders(self.path("n"), **{str(i): 1 for i in (0, 2, 10)})
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            self.assertEqual(labels_of(numbers), ([0, 1, 2], ["0", "10", "2"]))
        self.assertEqual([str(w.message).count("classes=numbers") for w in heard], [1])
        got, names = labels_of(numbers, classes="numbers")
        self.assertEqual((got, names), ([0, 2, 10], [str(i) for i in range(11)]))
        write_tar(self.path("n.tar"), [(i, {"png": PICTURE, "cls": str(i).encode()}) for i in range(3)])
        self.assertEqual(labels_of(self.path("n.tar"), classes=["x", "y", "z", "w"]), ([0, 1, 2], ["x", "y", "z", "w"]))
        with self.assertRaisesRegex(ValueError, "labels are numbers up to 2, but 'classes' has 2 names"):
            labels_of(self.path("n.tar"), classes=["x", "y"])

    def test_numbers_find_the_names_with_their_values(self):
        labels = [2, 0, 1, 2]
        for name, own in (("n.tar", labels), ("few.tar", [1, 1])):
            write_tar(self.path(name), [(i, {"png": PICTURE, "cls": str(label).encode()})
                                        for i, label in enumerate(own)])
        for names in (["2", "1", "0"], ["x", "1", "0", "2"], ["0", "1", "10", "2"]):
            with open(self.path("classes"), "w") as f:
                f.write("\n".join(names))
            for classes in (names, self.path("classes")):
                with self.subTest(classes=classes):
                    self.assertEqual(labels_of(self.path("n.tar"), classes=classes),
                                     ([names.index(str(label)) for label in labels], names))
            with pyplenum.Stream(self.path("n.tar"), "none", classes=names) as s:
                self.assertEqual(s.targets.tolist(), [names.index(str(label)) for label in labels])
        self.assertEqual(labels_of(self.path("few.tar"), classes=["10", "1"])[0], [1, 1])
        with self.assertRaisesRegex(ValueError, "its label 2 is not among the 3 names in 'classes'"):
            labels_of(self.path("n.tar"), classes=["x", "1", "0"])

    def test_offsets_do_not_move_names(self):
        """with classes as a list or a file, label-offset works unless their names are numbers"""
        write_tar(self.path("n.tar"), [(i, {"png": PICTURE, "cls": str(i + 1).encode()}) for i in range(3)])
        for names, right in ((["x", "y", "z"], True), (["1", "2", "3"], False), (["0", "1", "2", "3"], False)):
            with open(self.path("classes"), "w") as f:
                f.write("\n".join(names))
            for classes in (names, self.path("classes")):
                with self.subTest(classes=classes):
                    moved = "tar,label-offset=-1:" + self.path("n.tar")
                    if right:
                        self.assertEqual(labels_of(moved, classes=classes), ([0, 1, 2], names))
                        continue
                    with self.assertRaisesRegex((ValueError, pyplenum.PlenumError), "label-offset cannot be used with"):
                        labels_of(moved, classes=classes)
                    still = "tar,label-offset=0:" + self.path("n.tar")
                    self.assertEqual(labels_of(still, classes=classes)[0], [names.index(str(i)) for i in (1, 2, 3)])

    def test_numbers_are_named_once_however_they_are_spelled(self):
        write_tar(self.path("n.tar"), [(i, {"png": PICTURE, "cls": str(i + 1).encode()}) for i in range(3)])
        for names, error in ((["01", "2.0", "3e0"], None), (["01", "2", "1", "3"], "could be .*01.* or .*1"),
                             (["01", "2", "x"], "3'? is not ")):
            with open(self.path("classes"), "w") as f:
                f.write("\n".join(names))
            for classes in (names, self.path("classes")):
                with self.subTest(classes=classes):
                    if error:
                        with self.assertRaisesRegex((ValueError, pyplenum.PlenumError), error):
                            labels_of(self.path("n.tar"), classes=classes)
                    else:
                        self.assertEqual(labels_of(self.path("n.tar"), classes=classes), ([0, 1, 2], names))
        with self.assertRaisesRegex(ValueError, "classes is empty"):
            labels_of(self.path("n.tar"), classes=[])

    def test_second_labels_are_numbered_too(self):
        data = folders(self.path("d"), a=4, b=4)
        with pyplenum.Stream(data, "rrc(8) mixup(1)", micro_batch=8, epochs=1, classes=["x", "b", "y", "a"]) as s:
            batch = s.next()
            own = {0: 3, 1: 1}
            want = [own[int(i >= 4)] for i in batch.samples.reshape(-1)]
            self.assertEqual(batch.labels.reshape(-1).tolist(), want)
            self.assertLessEqual(set(batch.labels2.reshape(-1).tolist()), {1, 3})
            self.assertEqual(batch.soft_labels(s.num_classes).shape[-1], 4)

    def test_targets_are_the_labels_of_all_samples(self):
        data = folders(self.path("d"), a=3, b=70, c=5)
        want = [0] * 3 + [1] * 70 + [2] * 5
        with pyplenum.Stream(data, "rrc(8)", micro_batch=4, epochs=2, rank=1, world_size=3) as s:
            self.assertEqual(s.class_to_idx, {"a": 0, "b": 1, "c": 2})
            self.assertEqual(s.targets.tolist(), want)
            for batch in s:
                np.testing.assert_array_equal(s.targets[batch.samples], batch.labels)
        with pyplenum.Stream(data, "rrc(8)", classes=["c", "b", "a"]) as s:
            self.assertEqual(s.targets.tolist(), [2] * 3 + [1] * 70 + [0] * 5)
        with pyplenum.Stream(data, "rrc(8)", subset="2:5") as s:
            self.assertEqual(s.targets.tolist(), [-1] * 2 + want[2:5] + [-1] * 73)
        with open(self.path("d/b/9.png"), "wb") as f:  # an undecodable sample still has its label
            f.write(b"x")
        with pyplenum.Stream(data, "rrc(8)") as s:
            self.assertEqual(s.targets.tolist(), want)
        with pyplenum.Stream("generated,classes=7:200000", "rrc(8)") as s:
            np.testing.assert_array_equal(s.targets, np.arange(200000) % 7)
            self.assertIsNone(s.class_to_idx)

    def test_targets_of_a_subset_are_found_by_sample(self):
        """each subset has its own labels and class names, and -1 elsewhere"""
        own = folders(self.path("d"), a=3, b=7, c=5)
        write_tar(self.path("n.tar"), [(i, {"png": PICTURE, "cls": str(i % 7).encode()}) for i in range(15)])
        numbers = [str(i) for i in reversed(range(7))]
        for data, classes, subset in ((own, None, "5:"), (own, ["c", "x", "b", "a"], "4:11"),
                                      (self.path("n.tar"), numbers, "4:9")):
            with self.subTest(data=data, classes=classes, subset=subset), \
                    pyplenum.Stream(data, "none", micro_batch=4, epochs=1, subset=subset, classes=classes) as s:
                targets, shown = s.targets, np.zeros(15, bool)
                self.assertEqual((targets.shape, targets.dtype), ((15,), np.int64))
                for batch in s:
                    np.testing.assert_array_equal(targets[batch.samples], batch.labels)
                    shown[batch.samples] = True
                self.assertTrue((targets[~shown] == -1).all())
                self.assertTrue((targets[shown] >= 0).all())

    def test_targets_of_a_subset_request_few_other_labels(self):
        """few labels outside the subset are requested, wherever it begins"""
        taken = []

        class Watched(pyplenum.Stream):
            def _renumber(self, coming, batch):
                taken.extend(batch.positions[batch.valid].tolist())
                super()._renumber(coming, batch)

        for subset, most in (("199990:200000", 10), ("70000:70003", 3), ("1000:150000", 149003), ("0:5", 5)):
            begin, end = map(int, subset.split(":"))
            taken.clear()
            with self.subTest(subset=subset), \
                    pyplenum.Stream("generated,classes=7:200000", "rrc(8)", subset=subset) as s:
                with unittest.mock.patch.object(pyplenum.stream, "Stream", Watched):
                    targets = s.targets
                np.testing.assert_array_equal(targets[begin:end], np.arange(begin, end) % 7)
                self.assertEqual(len(targets), 200000)
                self.assertTrue((targets[:begin] == -1).all() and (targets[end:] == -1).all())
                self.assertEqual(taken[:end - begin], list(range(begin, end)))
                self.assertLessEqual(len(taken), most)

    def test_targets_are_those_of_the_data_set_that_was_opened(self):
        """targets are right after os.chdir() to a folder with a different data set of the same name"""
        for at, labels in (("one", (0, 1, 2, 3)), ("two", (3, 2, 1, 0))):
            os.makedirs(self.path(at))
            for i in range(4):
                with open(self.path(f"{at}/{i}.png"), "wb") as f:
                    f.write(PICTURE)
            with open(self.path(f"{at}/l.csv"), "w") as f:
                f.writelines(f"{i}.png,{label}\n" for i, label in enumerate(labels))
            write_tar(self.path(f"{at}/n.tar"), [(i, {"png": PICTURE, "cls": str(label).encode()})
                                                 for i, label in enumerate(labels)])
        self.addCleanup(os.chdir, os.getcwd())
        for name in ("list:l.csv", "n.tar"):
            os.chdir(self.path("one"))
            with self.subTest(name=name), pyplenum.Stream(name, "none", micro_batch=4) as s:
                os.chdir(self.path("two"))
                self.assertEqual(s.targets.tolist(), [0, 1, 2, 3])

    def test_targets_of_a_changed_data_set_are_refused(self):
        """targets raise an error if the list or a link on its path was changed since the stream was opened"""
        for at in ("one", "two"):
            folders(self.path(at), a=2, b=2)
        names = [f"{c}/{i}.png" for c in "ab" for i in (0, 1)]

        def write(at, labels):
            with open(self.path(f"{at}/l.csv"), "w") as f:
                f.writelines(f"{name},{label}\n" for name, label in zip(names, labels))

        write("one", (0, 1, 2, 3))
        write("two", (3, 2, 1, 0))
        os.symlink("one", self.path("link"))
        with pyplenum.Stream("list:" + self.path("link/l.csv"), "none", micro_batch=4, epochs=1) as s:
            os.unlink(self.path("link"))
            os.symlink("two", self.path("link"))
            with self.assertRaisesRegex(pyplenum.PlenumError, "l.csv.* has changed since the stream was") as raised:
                s.targets
            self.assertEqual(raised.exception.errno, errno.ESTALE)
        with pyplenum.Stream("list:" + self.path("one/l.csv"), "none", micro_batch=4, epochs=1) as s:
            write("one", (3, 2, 1, 0))
            with self.assertRaisesRegex(pyplenum.PlenumError, "l.csv.* has changed since the stream was"):
                s.targets
            write("one", (0, 1, 2, 3))
            self.assertEqual(s.targets.tolist(), [0, 1, 2, 3])

    def test_a_loader_has_what_programs_look_up(self):
        try:
            from pyplenum.torch import Loader
        except ImportError:
            self.skipTest("no torch")
        train = Loader(folders(self.path("train"), a=1, b=1, c=1), "rrc(8)", micro_batch=2)
        val = Loader(folders(self.path("val"), c=2), "rrc(8)", shuffle=False, micro_batch=2, steps=1,
                     classes=train.dataset.classes)
        self.assertEqual((train.batch_size, len(train.dataset)), (2, 3))
        self.assertEqual(val.dataset.class_to_idx, {"a": 0, "b": 1, "c": 2})
        self.assertEqual((train.dataset.targets, val.dataset.targets), ([0, 1, 2], [2, 2]))
        (_, labels), = val
        self.assertEqual(labels.tolist(), [2, 2])

    def test_json_as_python_writes_it(self):
        texts = [{"caption": "a", "x": 1.5, "v": [1, float("nan")], "label": 0},
                 {"caption": "b", "x": float("nan"), "v": [float("inf"), 2], "label": 1.0},
                 {"caption": "c\ud83d", "x": -1, "v": [3, float("-inf")], "label": "2", "other": "\ud800"}]
        write_tar(self.path("d.tar"), [(i, {"png": PICTURE, "json": json.dumps(text).encode()})
                                       for i, text in enumerate(texts)])
        fields = ["caption:json.caption", "x:json.x:float32", "v:json.v:float32"]
        with pyplenum.Stream(self.path("d.tar"), "none", fields=fields, micro_batch=3, shuffle="none") as s:
            batch = s.next()
            self.assertEqual(batch.num_substituted, 0)
            self.assertEqual(batch.labels.reshape(-1).tolist(), [0, 1, 2])
            self.assertEqual(batch["caption"], ["a", "b", "c\ufffd"])
            np.testing.assert_array_equal(batch["x"].reshape(-1), np.float32([1.5, np.nan, -1]))
            np.testing.assert_array_equal(batch["v"].reshape(3, 2),
                                          np.float32([[1, np.nan], [np.inf, 2], [3, -np.inf]]))
        with open(self.path("one.json"), "w", encoding="utf-8-sig") as f:
            f.write("[1, NaN]")
        with open(self.path("one.json"), "rb") as f:
            write_tar(self.path("e.tar"), [(0, {"png": PICTURE, "cls": b"0", "json": f.read()})])
        with pyplenum.Stream(self.path("e.tar"), "none", fields=["v:json:float32"]) as s:
            np.testing.assert_array_equal(s.next()["v"].reshape(-1), np.float32([1, np.nan]))

    def test_fields_that_are_no_numbers_are_bad(self):
        def good(texts, extension, source):
            write_tar(self.path("f.tar"), [(f"{i:02}", {"png": PICTURE, "cls": b"0", extension: text.encode()})
                                           for i, text in enumerate(texts)])
            found = []
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with pyplenum.Stream(self.path("f.tar"), "none", fields=[f"v:{source}"], shuffle="none",
                                     epochs=1) as s:
                    for batch in s:
                        found.append(None if batch.num_substituted else batch["v"].item())
            os.remove(self.path("f.tar"))
            return found

        self.assertEqual(good(["1", "1e400", "nan", "inf", "0x10", "-1e39", "2.50", "1e300", "1_0"], "txt",
                              "txt:float32"), [1, None, None, None, None, None, 2.5, None, None])
        self.assertEqual(good(["1", "1.0", "1e2", "+3", "007", "1.5", "nan", "0x10", "9223372036854775808"], "txt",
                              "txt:int64"), [1, 1, 100, 3, 7, None, None, None, None])
        self.assertEqual(good(['{"v":1}', '{"v":1e300}', '{"v":true}', '{"v":-1e39}', '{"v":"1"}', '{"v":"nan"}'],
                              "json", "json.v:float32"), [1, None, 1, None, 1, None])
        self.assertEqual(good(['{"v":1}', '{"v":NaN}', '{"v":9007199254740993}', '{"v":2.0}', '{"v":"3.0"}'], "json",
                              "json.v:int64"), [1, None, 9007199254740993, 2, 3])


if __name__ == "__main__":
    tap.main()
