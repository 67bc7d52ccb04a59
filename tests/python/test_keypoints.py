# SPDX-License-Identifier: MIT
"""Tests key points: in a batch they are where their pixels are. tests/loader/render/test_moves.py compares their places
with exact fractions."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
CTL = os.path.join(BUILD, "plenumctl")
os.environ["PLENUM_LIBRARY"] = os.path.join(BUILD, ".libs", "libplenum.so.1")
sys.path.insert(0, os.path.join(SOURCE, "python"))

import tap  # noqa: E402

tap.require("numpy")

import numpy as np  # noqa: E402

import pyplenum  # noqa: E402
from made import png, write_tar  # noqa: E402

COUNT, POINTS = 40, 5
VIEWS = "view(a, 2, rrc(16x12) flip(0.5)) view(b, 1, rrc(8) rotate(30))"


def path_of(name):
    return os.path.join(T.name, name)


def size_of(n):
    return 40 + n % 7, 36 + n % 11


def objects(n):
    """Return points [x, y, v], class and id of each object; some points are not labelled, or outside the picture."""
    rng = np.random.default_rng(n)
    height, width = size_of(n)
    found = []
    for k in range(n % 4):
        points = rng.uniform(-3, 3 + np.array([width, height]), (k + 3, 2)).round(2)
        seen = rng.integers(0, 3, k + 3)
        found.append(([[*map(float, p), int(v)] for p, v in zip(points, seen)], int(rng.integers(90)), 100 * n + k))
    return found


def forms(n):
    """Return the same key points in each form."""
    coco = [{"keypoints": sum(points, []), "category_id": c, "id": i, "iscrowd": 0} for points, c, i in objects(n)]
    crowd = {"keypoints": [1, 1, 2], "category_id": 5, "id": 1, "iscrowd": 1}
    return {"coco.json": {"annotations": coco + [crowd]}, "list.json": [crowd] + coco,
            "lists.json": {"objects": [{**o, "keypoints": points} for o, (points, _, _) in zip(coco, objects(n))]},
            "tv.json": {"keypoints": [points for points, _, _ in objects(n)], "labels": [c for _, c, _ in objects(n)]}}


def setUpModule():
    global T
    T = tempfile.TemporaryDirectory(prefix="plenum-test-")
    os.environ["PLENUM_CACHE_DIR"] = path_of("cache")
    write_tar(path_of("points.tar"), [(f"{n:03d}", {
        "png": png(np.zeros(size_of(n), np.uint8)), "cls": b"0",
        **{name: json.dumps(form).encode() for name, form in forms(n).items()}}) for n in range(COUNT)])


def tearDownModule():
    T.cleanup()


def stream(field, pipeline, dataset="points.tar", **options):
    options = {"micro_batch": 4, "steps": 2, "epochs": 2, "seed": 5, "dtype": "uint8", **options}
    return pyplenum.Stream(f"tar,label=cls:{path_of(dataset)}", pipeline, fields=[f"pose:{field}"], **options)


def ctl_hash(field, pipeline):
    done = subprocess.run([CTL, "hash", f"tar,label=cls:{path_of('points.tar')}", "--pipeline", pipeline, "--seed", "5",
                           "--epochs", "2", "--fields", f"pose:{field}"], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[0], 16)


def expected(n, box, flips, size, height, width, pairs):
    """Compute the objects of one image from the batch's geometry: points [P, 3], class and id."""
    rows = []
    for points, c, i in objects(n):
        moved = np.zeros((POINTS, 3))
        for k, (x, y, v) in enumerate(points):
            x, y = float(np.float32(x)), float(np.float32(y))
            low, high = np.maximum(box[:2], 0), np.minimum(box[2:], [size[1], size[0]])
            if v and (low <= [x, y]).all() and ([x, y] <= high).all():
                at = ([x, y] - box[:2]) * (width, height) / (box[2:] - box[:2])
                at = np.where([flips & 1, flips & 2], (width, height) - at, at)
                moved[k] = *at, v
        for a, b in pairs if flips in (1, 2) else ():
            moved[[a, b]] = moved[[b, a]]
        rows.append((moved, c, i))
    return rows


class KeypointsTest(unittest.TestCase):
    def check_image(self, n, found, geometry, height, width, pairs, ids=True):
        points, classes, numbers, count = found
        want = expected(n, *geometry, height, width, pairs)
        self.assertEqual(int(count), len(want))
        self.assertEqual(classes[:count].tolist(), [c for _, c, _ in want])
        self.assertEqual(numbers[:count].tolist(), [i for _, _, i in want] if ids else list(range(count)))
        for got, (moved, _, _) in zip(points, want):
            self.assertTrue(np.allclose(got, moved, rtol=0, atol=1e-3), (n, got, moved))
        self.assertFalse(points[count:].any() or classes[count:].any() or numbers[count:].any())
        return int((points[..., 2] > 0).sum())

    def test_crops(self):
        """key points follow crops, padding and flips, in all forms; in mirror images, pairs are swapped"""
        shown = 0
        for pipeline, height, width in (("rrc(16x12) flip(0.5) vertical_flip(0.5)", 16, 12), ("eval", 224, 224),
                                        ("letterbox(40x24, fill=9) flip(0.5)", 40, 24),
                                        ("resize(30) pad(12) random_crop(40)", 40, 40)):
            for source, text, pairs in (("coco.json", "", ()), ("list.json", ":0-2", [(0, 2)]),
                                        ("lists.json", ":3-1  4-0", [(3, 1), (4, 0)]), ("tv.json", ":2-3", [(2, 3)]),
                                        ("coco.json.annotations", ":coco", [(1, 2), (3, 4)])):
                field, hashed = f"{source}:keypoints{text}", 0
                with stream(field, pipeline) as s:
                    for batch in s:
                        hashed += batch.hash()
                        found = batch["pose"]
                        self.assertEqual([(a.dtype, a.shape[3:]) for a in found], [
                            (np.float32, (3, POINTS, 3)), (np.int64, (3,)), (np.int64, (3,)), (np.int64, ())])
                        for i, name in enumerate(s.names(batch.samples)):
                            one = np.unravel_index(i, batch.samples.shape)
                            geometry = (batch.boxes[one].astype(float), int(batch.flips[one]), batch.sizes[one])
                            shown += self.check_image(int(name[-7:-4]), [a[one] for a in found], geometry, height,
                                                      width, pairs, "tv" not in source)
                self.assertEqual(hashed % 2**64, ctl_hash(field, pipeline))
        self.assertGreater(shown, 2000)

    def test_views_and_cursors(self):
        """each image of each view has its own points; a cursor continues with the same ones"""
        field = "coco.json:keypoints:0-1"
        with stream(field, VIEWS) as s:
            hashes, cursors = [], []
            for batch in s:
                cursors.append(s.cursor)
                hashes.append(batch.hash())
                self.assertEqual(list(batch["pose"]), ["a", "b"])
                found = batch["pose"]["a"]
                for at in np.ndindex(found.counts.shape):
                    n = int(s.names(batch.samples[at[:3]].reshape(1))[0][-7:-4])
                    geometry = (batch.boxes["a"][at].astype(float), int(batch.flips["a"][at]), batch.sizes[at[:3]])
                    self.check_image(n, [a[at] for a in found], geometry, 16, 12, [(0, 1)])
            s.seek(cursors[2])
            self.assertEqual([batch.hash() for batch in s], hashes[3:])
        self.assertEqual(sum(hashes) % 2**64, ctl_hash(field, VIEWS))

    def test_pixels(self):
        """the pixels at a point are those at its place in the picture; where they are erased, the point is hidden"""
        side, rows = 96, []
        corners = [(24, 24), (72, 24), (24, 72), (72, 72)]
        for n in range(8):
            image = np.zeros((side, side), np.uint8)
            for k, (x, y) in enumerate(corners):
                image[y - 9:y + 9, x - 9:x + 9] = 60 * (k + 1)
            rows.append((f"{n:03d}", {"png": png(image), "cls": b"0", "json": json.dumps(
                [c for x, y in corners for c in (x, y, 2)]).encode()}))
        write_tar(path_of("squares.tar"), rows)
        seen = hidden = lost = swapped = 0
        for pipeline in ("rotate(45) flip(0.5)",
                         "affine(30, translate=0.2:0.2, scale=0.8:1.2, shear=20) vertical_flip(0.5)",
                         "perspective(0.5) erase(0.7, value=30)", "erase(0.7, value=30) rotate(60)",
                         "rand_augment(2, 9) flip(0.5)", "cutout(60, p=1) trivial_augment_wide"):
            colours = "augment" not in pipeline  # policies change colours, too
            with stream("json:keypoints:0-1 2-3", f"resize({side}) center_crop({side}) {pipeline}", "squares.tar",
                        epochs=12, seed=3) as s:
                for batch in s:
                    found = batch["pose"]
                    for one in np.ndindex(batch.samples.shape):
                        mirror = int(batch.flips[one]) in (1, 2)
                        for k, (x, y, v) in enumerate(found.keypoints[one][0]):
                            lost += v == 0
                            if v == 0 or not (4 < min(x, y) and max(x, y) < side - 4):
                                continue
                            around = batch.pixels[one][int(y) - 2:int(y) + 3, int(x) - 2:int(x) + 3, 0]
                            pixel = int(around[2, 2])
                            if (around != pixel).any():
                                continue  # an edge, which may be half a pixel away
                            if v == 1:
                                hidden += 1
                                self.assertTrue(pixel in (0, 30) or not colours, (pipeline, k, x, y, pixel))
                            elif colours:
                                seen += 1
                                swapped += mirror
                                self.assertLess(abs(pixel - 60 * ((k ^ mirror) + 1)), 2, (pipeline, k, x, y, pixel))
        self.assertGreater(min(seen, hidden, lost, swapped), 40)

    def test_torch(self):
        """a Loader returns tensors of the valid samples; with views, a list of them"""
        torch = tap.find("torch") and __import__("torch")
        if not torch:
            self.skipTest("PyTorch is not installed for this Python")
        import pyplenum.torch
        field = "pose:coco.json:keypoints"
        with pyplenum.torch.Loader(f"tar:{path_of('points.tar')}", "letterbox(40)", fields=("images", field),
                                   micro_batch=8) as loader:
            for images, pose in loader:
                self.assertEqual((type(pose), tuple(pose.keypoints.shape), pose.counts.dtype),
                                 (pyplenum.Keypoints, (len(images), 3, POINTS, 3), torch.int64))
        with pyplenum.torch.Loader(f"tar:{path_of('points.tar')}", VIEWS, fields=("views", field),
                                   micro_batch=8) as loader:
            _, poses = next(iter(loader))
            self.assertEqual([tuple(pose.keypoints.shape) for pose in poses], 3 * [(8, 3, POINTS, 3)])

    def test_shapes(self):
        """objects have room for the most points of any object; images without objects have none"""
        for made, shape in (([[]] * 9, (0, 0)), ([[{}]] * 9, (1, 0)),
                            ([{"keypoints": []}, [1, 2, 2], [[1, 2, 2], [3, 4, 1]]] * 3, (1, 2)),
                            ([[[[1, 2, 2]], [[3, 4, 1]]], [{"keypoints": [5, 6, 0] * 7}], []] * 3, (2, 7)),
                            ([[1, 2, 2] * 1024] + [[]] * 8, (1, 1024))):
            write_tar(path_of("shapes.tar"), [(f"{n:03d}", {"png": png(np.zeros((9, 9), np.uint8)), "cls": b"0",
                                                            "json": json.dumps(one).encode()})
                                              for n, one in enumerate(made)])
            with self.subTest(shape=shape), stream("json:keypoints", "resize(9) center_crop(9)", "shapes.tar",
                                                   micro_batch=9, steps=1, epochs=1) as s:
                batch = next(s)
                self.assertEqual(batch["pose"].keypoints.shape[3:5], shape)
                for name, points in zip(s.names(batch.samples), batch["pose"].keypoints[0, 0]):
                    text = json.dumps(made[int(name[-7:-4])])
                    self.assertEqual(int((points[..., 2] > 0).sum()), len(re.findall(r"\d, \d, [12]", text)))

    def test_damaged(self):
        """a sample with invalid key points is bad"""
        good = {"keypoints": [1, 2, 2, 3, 4, 1], "category_id": 5}
        for data, why in (({}, 'neither a list of objects with "keypoints"'), (3, "neither a list of objects"),
                          ({"annotations": {}}, "neither a list of objects"), ([good, 7], "entry 1 of its list is not"),
                          ([{**good, "keypoints": 3}], "key points of object 0 are neither numbers x, y, v"),
                          ([good, {**good, "keypoints": [1, 2, 2, 3]}], "key points of object 1 are neither"),
                          ([{**good, "keypoints": [1, "2", 2]}], "key points of object 0 are neither"),
                          ([{**good, "keypoints": [[1, 2], [2, 3, 4, 2]]}], "key points of object 0 are neither"),
                          ([{**good, "keypoints": [[1, 2, 1], 3]}], "key points of object 0 are neither"),
                          ([{**good, "keypoints": [[1, 2, 1, 4, 5, 2]]}], "key points of object 0 are neither"),
                          ([1, 2, 2, [1, 2, 2]], "key points of object 0 are neither"),
                          ([1, 2, 2, 1, 2, 3], "visibility of key point 1 of object 0 is not 0, 1 or 2"),
                          ([1, 2, 0.5], "visibility of key point 0 of object 0 is not"),
                          ([1e300, 2, 1], "key point 0 of object 0 does not fit into float32"),
                          ([float("nan"), 2, 1], "key point 0 of object 0 does not fit into float32"),
                          ([1, 2, 2] * 1025, "object 0 has more than 1024 key points"),
                          ([{**good, "category_id": "dog"}], 'the "category_id" of object 0 is not a whole'),
                          ([{**good, "id": 1.5}], 'the "id" of object 0 is not a whole number'),
                          ({"keypoints": [[[1, 2, 2]]], "labels": []}, 'object 0 has no whole number in "labels"'),
                          ({"keypoints": [[[1, 2, 2]]], "labels": [1, 2]}, "more than its 1 objects"),
                          ({"keypoints": [[[1, 2, 2]]], "labels": 3}, 'its "labels" are not a list'),
                          ({"keypoints": [], "labels": {}}, 'its "labels" are not a list'),
                          ({"keypoints": "x"}, "key points of object 0 are neither"),
                          ({"keypoints": None, "labels": []}, "key points of object 0 are neither"),
                          ([good] * 30000, "more than 1 MiB of key points"),
                          ([[1, 2, 2] * 1024] + [good] * 99, "neither numbers|is not an object"),
                          ([{"keypoints": [1, 2, 2] * 1000}] + [{}] * 200, "201 objects with 1000 key points each")):
            write_tar(path_of("bad.tar"), [(f"{n:03d}", {"cls": b"0", "png": png(np.zeros((9, 9), np.uint8)),
                                                         "json": json.dumps(data if n == 7 else [good]).encode()})
                                           for n in range(12)])
            with self.subTest(why=why), self.assertWarnsRegex(pyplenum.LoaderWarning, f"1 of 12 samples.*007.*{why}"), \
                    stream("json:keypoints", "rrc(8)", "bad.tar", steps=1) as s:
                self.assertNotIn(7, [int(name[-7:-4]) for batch in s for name in s.names(batch.samples)])

    def test_too_much_room(self):
        """many objects in one sample and many points in another need too much room"""
        rows = [[{}] * 200, [1, 2, 2] * 1000]
        write_tar(path_of("large.tar"), [(f"{n:03d}", {"cls": b"0", "png": png(np.zeros((9, 9), np.uint8)),
                                                       "json": json.dumps(row).encode()})
                                         for n, row in enumerate(rows)])
        with self.assertRaisesRegex(pyplenum.PlenumError, "field 'pose' .'json'.: 200 objects with 1000 key points"):
            stream("json:keypoints", "rrc(8)", "large.tar")

    def test_refused(self):
        """invalid pairs, and pipelines that key points cannot follow, are rejected"""
        for pairs in ("", "x", "1", "1-", "1-1", "1-2 2-3", "1-2 3-1", "1-1024", "1-2,3-4", "1-2x", "-1-2", "Coco",
                      " ".join(f"{n}-{n + 500}" for n in range(129))):
            with self.subTest(pairs=pairs), self.assertRaisesRegex(pyplenum.PlenumError, "fields: "):
                stream(f"coco.json:keypoints:{pairs}", "rrc(8)")
        with self.assertRaisesRegex(pyplenum.PlenumError, "'1-2 2-3' are not pairs of left and right points"):
            stream("coco.json:keypoints:1-2 2-3", "rrc(8)")
        for pipeline, why in (("rrc(16) augmix", "key points cannot be used with augmix"),
                              ("none", "key points are cropped with the images")):
            with self.assertRaisesRegex(pyplenum.PlenumError, why):
                stream("coco.json:keypoints", pipeline)

    def test_verify(self):
        """plenumctl verify reports points outside their picture, and fractions"""
        odd = {3: [20, 2, 2, 20, 500, 1], 4: [0.1, 0.3, 2, 0.5, 0.7, 2], 5: [{"keypoints": [-9, 2, 2], "id": 55}],
               6: [-0.5, 0, 1, 40.5, 40.9, 2], 7: [0, 0, 0, 0, 0, 0], 8: {"keypoints": 3}}
        write_tar(path_of("verify.tar"), [(f"{n:03d}", {
            "png": png(np.zeros((40, 40), np.uint8)), "cls": b"0",
            "json": json.dumps(odd.get(n, [5, 5, 2])).encode()}) for n in range(12)])
        done = subprocess.run([CTL, "verify", "--no-list", f"tar:{path_of('verify.tar')}", "--fields",
                               "pose:json:keypoints"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        for n, why in ((3, "key point 1 of the object with id 0, at .20, 500., lies outside its picture of 40 x 40"),
                       (4, "the key points of the object with id 0 lie in its picture's first pixel"),
                       (5, "key point 0 of the object with id 55, at .-9, 2., lies outside"),
                       (8, "the key points of object 0 are neither numbers")):
            self.assertRegex(done.stdout + done.stderr, f"{n:03d}.*field 'pose' .'json'.*{why}")
        self.assertNotRegex(done.stdout, "00[0-2679]|01[01]")

    def test_older_loader(self):
        """a loader older than 1.19 is rejected for key points, and serves other streams"""
        wrong = os.path.join(BUILD, "tests", "libdist", "plenumd-wrong")
        if not os.path.exists(wrong):
            self.skipTest("plenumd-wrong is built only with Criterion")
        address = f"unix:{path_of('old.sock')}"
        loader = subprocess.Popen([wrong, "--socket", address, "--root", T.name, "--quiet"],
                                  env={**os.environ, "PLENUM_WRONG_VERSION": "1.18"})
        self.addCleanup(loader.wait)
        self.addCleanup(loader.terminate)
        with self.assertRaisesRegex(pyplenum.PlenumError, "too old for key points"):
            stream("coco.json:keypoints", "rrc(8)", loader=address)
        with stream("coco.json:text", "rrc(8)", loader=address) as s:
            self.assertEqual(sum(batch.hash() for batch in s) % 2**64, ctl_hash("coco.json:text", "rrc(8)"))


if __name__ == "__main__":
    tap.main()
