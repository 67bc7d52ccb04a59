# SPDX-License-Identifier: MIT
"""Tests masks of objects: in a batch they are where their pixels are. tests/loader/render/test_drawn.py compares them
with exact arithmetic, for all operations that move pixels."""

import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
from fractions import Fraction as F

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
CTL = os.path.join(BUILD, "plenumctl")
os.environ["PLENUM_LIBRARY"] = os.path.join(BUILD, ".libs", "libplenum.so.1")
sys.path.insert(0, os.path.join(SOURCE, "python"))

import tap  # noqa: E402

tap.require("numpy")

import numpy as np  # noqa: E402

import pyplenum  # noqa: E402
from made import png, write_tar  # noqa: E402

COUNT = 40
VIEWS = "view(a, 2, rrc(16x12) flip(0.5)) view(b, 1, rrc(9) rotate(30))"
SQUARE = [2, 2, 8, 2, 8, 8, 2, 8]


def path_of(name):
    return os.path.join(T.name, name)


def size_of(n):
    return 30 + n % 7, 26 + n % 11


def compress(runs):
    """Write run lengths as pycocotools does."""
    text = ""
    for n, run in enumerate(runs):
        x, more = run - (runs[n - 2] if n > 2 else 0), True
        while more:
            digit, x = x & 31, x >> 5
            more = x != (-1 if digit & 16 else 0)
            text += chr((digit | 32 if more else digit) + 48)
    return text


def runs_of(mask):
    """Return the lengths of a mask's runs, column after column."""
    flat = np.concatenate([mask[:1, 0], mask.T.reshape(-1), [2]])
    ends = np.flatnonzero(np.diff(flat)).tolist()
    runs = [b - a for a, b in zip([0] + ends, ends)]
    return [0, *runs] if mask[0, 0] else runs


def objects(n):
    """Return the polygons or the mask of each object, its box [left, top, width, height], class and id."""
    rng = np.random.default_rng(n)
    height, width = size_of(n)
    found = []
    for k in range(n % 5):
        if k % 2:
            mask = np.kron(rng.integers(0, 2, (height // 3 + 1, width // 4 + 1)), np.ones((3, 4), int))[:height, :width]
            rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
            box = [columns[0], rows[0], columns[-1] + 1 - columns[0], rows[-1] + 1 - rows[0]]
            found.append((mask, [float(v) for v in box], int(rng.integers(90)), 100 * n + k))
            continue
        # Halves of pixels, so that centres lie on edges.
        polygons = [(rng.integers(-4, 2 * np.array([width, height]) + 4, (p + 3, 2)) / 2).tolist() for p in range(3)]
        points = np.concatenate(polygons)
        low, high = points.min(0), points.max(0)
        found.append((polygons, [*low.tolist(), *(high - low).tolist()], int(rng.integers(90)), 100 * n + k))
    return found


def coco(n, form):
    made = []
    for k, (outline, box, c, i) in enumerate(objects(n)):
        if isinstance(outline, list):
            written = [sum(polygon, []) for polygon in outline]
        else:
            runs = runs_of(outline)
            written = {"size": list(outline.shape), "counts": compress(runs) if (k + form) % 4 == 1 else runs}
        made.append({"segmentation": written, "category_id": c, "id": i, "iscrowd": 0,
                     **({"bbox": box} if form % 2 else {})})
    crowd = {"segmentation": {"size": [1, 1], "counts": [1]}, "bbox": [1, 1, 2, 2], "category_id": 5, "iscrowd": 1}
    return {"annotations": made + [crowd]} if form % 2 else [crowd] + made


def setUpModule():
    global T
    T = tempfile.TemporaryDirectory(prefix="plenum-test-")
    os.environ["PLENUM_CACHE_DIR"] = path_of("cache")
    write_tar(path_of("outlines.tar"), [(f"{n:03d}", {
        "png": png(np.zeros(size_of(n), np.uint8)), "cls": b"0",
        **{f"{form}.json": json.dumps(coco(n, form)).encode() for form in range(4)}}) for n in range(COUNT)])


def tearDownModule():
    T.cleanup()


def stream(fields, pipeline, dataset="outlines.tar", **options):
    options = {"micro_batch": 4, "steps": 2, "epochs": 2, "seed": 5, "dtype": "uint8", **options}
    return pyplenum.Stream(f"tar,label=cls:{path_of(dataset)}", pipeline, fields=fields, **options)


def ctl_hash(fields, pipeline):
    done = subprocess.run([CTL, "hash", f"tar,label=cls:{path_of('outlines.tar')}", "--pipeline", pipeline,
                           "--seed", "5", "--epochs", "2", "--fields", ",".join(fields)],
                          capture_output=True, text=True, check=True)
    return int(done.stdout.split()[0], 16)


def draw(polygons, geometry, height, width):
    """Draw polygons with fractions: a pixel is set if its centre is inside, or on a left or an upper edge."""
    box, flips, (tall, wide) = geometry
    left, top, right, bottom = (F(math.floor(float(v) * 2**20 + 0.5), 2**20) for v in box)
    mask = np.zeros((height, width), np.uint8)
    for polygon in polygons:
        points = [((F(x) - left) * width / (right - left), (F(y) - top) * height / (bottom - top)) for x, y in polygon]
        points = [(width - x if flips & 1 else x, height - y if flips & 2 else y) for x, y in points]
        for j in range(height):
            y, crossings = j + F(1, 2), []
            for (a, b), (c, d) in zip(points, points[1:] + points[:1]):
                if (b <= y) != (d <= y):
                    crossings.append(a + (y - b) * (c - a) / (d - b))
            for i in range(width):
                mask[j, i] |= sum(x <= i + F(1, 2) for x in crossings) % 2
    for j in range(height):
        for i in range(width):
            x, y = (width - 1 - i if flips & 1 else i), (height - 1 - j if flips & 2 else j)
            at = left + (right - left) * (2 * x + 1) / (2 * width), top + (bottom - top) * (2 * y + 1) / (2 * height)
            mask[j, i] &= 0 < at[0] < int(wide) and 0 < at[1] < int(tall)
    return mask


class InstancesTest(unittest.TestCase):
    def check_image(self, n, found, boxes, geometry, height, width):
        """Compare the masks of an image. Encoded masks are compared with class masks in test_encoded()."""
        masks, classes, ids = found
        count = int(boxes.counts)
        self.assertEqual((masks.dtype, masks.shape), (np.uint8, (count, height, width)))
        self.assertEqual((classes[:count].tolist(), ids[:count].tolist()),
                         (boxes.classes[:count].tolist(), boxes.ids[:count].tolist()))
        self.assertFalse(classes[count:].any() or ids[count:].any())
        for mask, i in zip(masks, ids):
            outline = objects(n)[int(i) % 100][0]
            if isinstance(outline, list):
                self.assertEqual(mask.tolist(), draw(outline, geometry, height, width).tolist(), (n, i))
                self.shown += int(mask.sum())

    def test_crops(self):
        """masks follow crops, padding and flips, and belong to the boxes; pixels on edges are decided as documented"""
        self.shown = 0
        for pipeline, height, width in (("rrc(16x12) flip(0.5) vertical_flip(0.5)", 16, 12),
                                        ("resize(20) center_crop(20) flip(0.5) vertical_flip(0.5)", 20, 20),
                                        ("letterbox(24x20, fill=9) flip(0.5)", 24, 20),
                                        ("resize(15) pad(6, reflect) random_crop(21)", 21, 21)):
            for form, visible in ((0, ""), (1, ":0.3")):
                fields = [f"o:{form}.json:instances{visible}", f"b:{form}.json:boxes{visible}"]
                hashed = 0
                with stream(fields, pipeline) as s:
                    for batch in s:
                        hashed += batch.hash()
                        found, boxes = batch["o"], batch["b"]
                        self.assertEqual(found.size, (height, width))
                        self.assertEqual(found.counts.tolist(), boxes.counts.tolist())
                        for at, name in zip(np.ndindex(batch.samples.shape), s.names(batch.samples)):
                            geometry = (batch.boxes[at].astype(float), int(batch.flips[at]), batch.sizes[at])
                            self.check_image(int(name[-7:-4]), (found.masks(*at), found.classes[at], found.ids[at]),
                                             type(boxes)(*(a[at] for a in boxes)), geometry, height, width)
                            self.assertFalse(found.bits[at][int(found.counts[at]):].any())
                self.assertEqual(hashed % 2**64, ctl_hash(fields, pipeline))
        self.assertGreater(self.shown, 20000)

    def test_encoded(self):
        """run lengths are sampled like class masks, and polygons are moved by the same operations"""
        rng = np.random.default_rng(1)
        rows, shown = [], 0
        for n in range(12):
            mask = np.kron(rng.integers(0, 2, (8, 6)), np.ones((5, 5), int)).astype(np.uint8)
            squares = [[[5 * x, 5 * y], [5 * x + 5, 5 * y], [5 * x + 5, 5 * y + 5], [5 * x, 5 * y + 5]]
                       for y in range(8) for x in range(6) if mask[5 * y, 5 * x]]
            rows.append((f"{n:03d}", {"png": png(np.zeros((40, 30), np.uint8)), "cls": b"0", "seg.png": png(mask),
                                      "json": json.dumps([
                {"segmentation": {"size": [40, 30], "counts": compress(runs_of(mask))}, "category_id": 1,
                 "bbox": [0, 0, 30, 40]},
                {"segmentation": {"size": [40, 30], "counts": runs_of(mask)}, "category_id": 1, "bbox": [0, 0, 30, 40]},
                {"segmentation": [sum(square, []) for square in squares], "category_id": 2,
                 "bbox": [0, 0, 30, 40]}]).encode()}))
        write_tar(path_of("encoded.tar"), rows)
        for pipeline in ("rrc(31x27) flip(0.5)", "letterbox(33x50) vertical_flip(0.5)", "pad(7) random_crop(32)",
                         "resize(60x45) center_crop(50x40) rotate(40)", "rrc(32) perspective(0.6) erase(1)",
                         "rrc(32) rand_augment(3, 9) flip(0.5)",
                         "zoom_out(1:2) iou_crop resize(31x29) rotate(20)"):
            with stream(["o:json:instances", "m:seg.png:mask", "b:json:boxes"], pipeline, "encoded.tar", epochs=4) as s:
                for batch in s:
                    for at in np.ndindex(batch.samples.shape):
                        masks, found = batch["o"].masks(*at), (batch["m"][at] == 1).astype(np.uint8)
                        if not len(masks):
                            continue
                        self.assertEqual(len(masks), 3)
                        self.assertTrue((masks[:2] == found).all(), pipeline)
                        self.assertLess((masks[2] != found).mean(), 0.12, pipeline)  # nearest pixels, several times
                        shown += int(found.sum())
        self.assertGreater(shown, 10000)

    def test_views_and_cursors(self):
        """each image of each view has its own masks; a cursor continues with the same ones"""
        fields = ["o:2.json:instances", "b:2.json:boxes"]
        self.shown = 0
        with stream(fields, VIEWS) as s:
            hashes, cursors = [], []
            for batch in s:
                cursors.append(s.cursor)
                hashes.append(batch.hash())
                self.assertEqual([(name, found.size) for name, found in batch["o"].items()],
                                 [("a", (16, 12)), ("b", (9, 9))])
                for name in "ab":
                    found, boxes = batch["o"][name], batch["b"][name]
                    self.assertEqual((found.counts.tolist(), found.ids.tolist(), found.classes.tolist()),
                                     (boxes.counts.tolist(), boxes.ids.tolist(), boxes.classes.tolist()))
                found, boxes = batch["o"]["a"], batch["b"]["a"]
                for at in np.ndindex(found.counts.shape):
                    n = int(s.names(batch.samples[at[:3]].reshape(1))[0][-7:-4])
                    geometry = (batch.boxes["a"][at].astype(float), int(batch.flips["a"][at]), batch.sizes[at[:3]])
                    self.check_image(n, (found.masks(*at), found.classes[at], found.ids[at]),
                                     type(boxes)(*(a[at] for a in boxes)), geometry, 16, 12)
            s.seek(cursors[2])
            self.assertEqual([batch.hash() for batch in s], hashes[3:])
        self.assertEqual(sum(hashes) % 2**64, ctl_hash(fields, VIEWS))
        self.assertGreater(self.shown, 2000)

    def test_mixed(self):
        """mixup joins the masks of both samples; cutmix keeps what each shows in its part of the image"""
        side, rows = 24, []
        for n in range(16):
            rng = np.random.default_rng(n)
            mask = np.kron(rng.integers(0, 2, (4, 3)), np.ones((6, 8), int))
            outlines = [[[-1, -1, 25, -1, 25, 25, -1, 25]], [rng.integers(0, 25, 8).tolist()],
                        {"size": [side, side], "counts": compress(runs_of(mask))}]
            rows.append((f"{n:03d}", {"png": png(np.zeros((side, side), np.uint8)), "cls": b"0", "json": json.dumps([
                {"segmentation": outline, "category_id": 1, "id": 10 * n + k, **({"bbox": [0, 0, 24, 24]} if k else {})}
                for k, outline in enumerate(outlines)]).encode()}))
        write_tar(path_of("mixed.tar"), rows)
        fields, whole = ["o:json:instances", "b:json:boxes"], f"resize({side}) center_crop({side}) flip(0.5)"

        def images(pipeline):
            with stream(fields, pipeline, "mixed.tar", epochs=3) as s:
                for batch in s:
                    found, boxes = batch["o"], batch["b"]
                    self.assertEqual((found.counts.tolist(), found.ids.tolist()),
                                     (boxes.counts.tolist(), boxes.ids.tolist()))
                    for at in np.ndindex(batch.samples.shape):
                        if batch.valid[at]:
                            ids = found.ids[at][:int(found.counts[at])].tolist()
                            yield int(batch.epochs[at[0]]), dict(zip(ids, found.masks(*at)))
                    self.assertEqual(found.bits.shape[3], 3 if pipeline == whole else 6)

        alone = {(epoch, i): mask for epoch, masks in images(whole) for i, mask in masks.items()}
        for mixing in ("mixup(0.4, p=0.8)", "cutmix(1, p=0.8)"):
            joined = cut = 0
            for epoch, masks in images(f"{whole} {mixing}"):
                covers = {i // 10: mask for i, mask in masks.items() if i % 10 == 0}
                for i, mask in masks.items():
                    self.assertEqual(mask.tolist(), (alone[epoch, i] & covers[i // 10]).tolist(), (mixing, i))
                    cut += int((mask != alone[epoch, i]).sum())
                if len(covers) == 2:
                    joined += 1
                    both = np.add(*covers.values())
                    self.assertTrue((both == (2 if "mixup" in mixing else 1)).all(), mixing)
            self.assertGreater(joined, 10)
            self.assertEqual(cut > 0, "cutmix" in mixing)

    def write_coco(self, name, change=None):
        """Write a data set of COCO whose annotations are in random order, with spaces, and some without boxes."""
        os.makedirs(path_of(name), exist_ok=True)
        annotations = []
        for n in range(COUNT):
            with open(path_of(f"{name}/{n:03d}.png"), "wb") as f:
                f.write(png(np.zeros(size_of(n), np.uint8)))
            height, width = size_of(n)
            made = coco(n, 2)[1:] + [{"segmentation": {"size": [height, width], "counts": [
                0, height * width]}, "bbox": [0, 0, width, height], "category_id": 7, "id": 100000 + n, "iscrowd": 1}]
            annotations += [{**one, "image_id": n} for one in made]
        if change:
            change(annotations)
        np.random.default_rng(3).shuffle(annotations)
        with open(path_of(f"{name}/all.json"), "w", encoding="utf-8") as f:
            json.dump({"annotations": annotations, "categories": [{"id": i, "name": f"c{i}"} for i in range(90)],
                       "images": [{"id": n, "file_name": f"{n:03d}.png"} for n in range(COUNT)]}, f, indent=1)
        return f"coco:{path_of(name)}/all.json"

    def test_coco(self):
        """a file of COCO's has the same masks as the JSON of its objects; crowds are in a field of their own"""
        data = self.write_coco("coco")
        fields = ["o:objects:instances", "b:objects:boxes", "crowds:crowds:instances"]
        self.shown = crowds = 0
        with pyplenum.Stream(data, "rrc(16x12) flip(0.5)", fields=fields, micro_batch=4, steps=2, epochs=2, seed=5,
                             dtype="uint8") as s:
            for batch in s:
                found, boxes = batch["o"], batch["b"]
                for at, n in zip(np.ndindex(batch.samples.shape), batch.samples.reshape(-1).tolist()):
                    geometry = (batch.boxes[at].astype(float), int(batch.flips[at]), batch.sizes[at])
                    self.check_image(n, (found.masks(*at), found.classes[at], found.ids[at]),
                                     type(boxes)(*(a[at] for a in boxes)), geometry, 16, 12)
                    self.assertLessEqual(set(boxes.ids[at][:int(boxes.counts[at])].tolist()),
                                         {i for *_, i in objects(n)})
                    crowd = batch["crowds"].masks(*at)
                    self.assertEqual((crowd.shape, int(crowd.sum()), int(batch["crowds"].ids[at][0])),
                                     ((1, 16, 12), 16 * 12, 100000 + n))
                    crowds += 1
        self.assertGreater(min(crowds, self.shown), COUNT)

    def test_coco_changed(self):
        """an outline that changes after it was indexed is an error, even if the file's size and time do not"""
        data = self.write_coco("changed")
        path = data.split(":")[1]
        options = {"fields": ["o:objects:instances"], "micro_batch": 1, "epochs": 1, "dtype": "uint8"}
        with pyplenum.Stream(data, "rrc(8)", **options) as s:
            next(s)
            with open(path, "r+", encoding="utf-8") as f:
                text = f.read()
                f.seek(0)
                f.write("".join(c if c not in "123" or text[k - 1] not in " ." else str(int(c) + 1)
                                for k, c in enumerate(text)))
            os.utime(path, ns=(os.stat(path).st_atime_ns, os.stat(path).st_mtime_ns))
            with self.assertRaisesRegex(pyplenum.PlenumError, "all.json has changed since the data set was indexed"):
                for _ in s:
                    pass

    def test_coco_damaged(self):
        """plenumctl verify names the picture and the annotation of an invalid outline"""
        def change(annotations):
            for one in annotations:
                if one["id"] == 902:
                    one.update(segmentation=[[1, 2, 3, 4, 5]], bbox=[1, 1, 5, 5])
                if one["id"] == 1401:
                    one.update(segmentation={"size": [9, 9], "counts": [81]}, bbox=[1, 1, 5, 5])
                if one["id"] == 1900:
                    one.update(segmentation=[[1, 2, 3, 4, 500, 5]], bbox=[1, 1, 5, 5])
                if one["id"] == 3100:
                    one.update(segmentation=[[0.1, 0.2, 0.5, 0.7, 0.3, 0.9]], bbox=[1, 1, 5, 5])

        data = self.write_coco("damaged", change)
        done = subprocess.run([CTL, "verify", "--no-list", data, "--fields", "o:objects:instances"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        for n, why in ((9, "the object with id 902: its polygon 0 has 5 numbers"),
                       (14, "the mask of the object with id 1401 has 9 x 9 pixels, but its image has"),
                       (19, "the outline of the object with id 1900 has the point .500, 5., outside its picture"),
                       (31, "a polygon of the object with id 3100 lies in its picture's first pixel")):
            self.assertRegex(done.stdout + done.stderr, f"{n:03d}.png.*'o' .'objects'.*{why}")

    def test_torch(self):
        """a Loader returns tensors of the valid samples, and masks as torchvision's detectors take them"""
        torch = tap.find("torch") and __import__("torch")
        if not torch:
            self.skipTest("PyTorch is not installed for this Python")
        import pyplenum.torch
        field = "o:1.json:instances"
        with pyplenum.torch.Loader(f"tar:{path_of('outlines.tar')}", "letterbox(21)", fields=("images", field),
                                   micro_batch=8, shuffle=False) as loader, \
                stream([field], "letterbox(21)", micro_batch=8, steps=1, shuffle="none", epochs=1) as s:
            for (images, found), batch in zip(loader, s):
                for i in range(len(images)):
                    masks = found.masks(i)
                    self.assertEqual((masks.dtype, tuple(masks.shape)),
                                     (torch.uint8, (int(found.counts[i]), 21, 21)))
                    self.assertEqual(masks.tolist(), batch["o"].masks(0, 0, i).tolist())
        with pyplenum.torch.Loader(f"tar:{path_of('outlines.tar')}", VIEWS, fields=("views", field),
                                   micro_batch=8) as loader:
            _, found = next(iter(loader))
            self.assertEqual([each.masks(3).shape[1:] for each in found], [(16, 12), (16, 12), (9, 9)])

    def test_damaged(self):
        """a sample with an invalid outline is bad, and the message names the object"""
        good = {"segmentation": [SQUARE], "category_id": 5, "id": 17}

        def runs(counts, size=(9, 9)):
            return [{**good, "segmentation": {"size": size, "counts": counts}}]

        for data, why in (({}, 'neither a list of objects with "segmentation"'),
                          ([good, 7], "entry 1 of its list is not"),
                          ([{"bbox": [1, 1, 1, 1], "category_id": 1, "id": 17}], '17: it has no "segmentation"'),
                          ([{**good, "segmentation": []}], 'its "segmentation" is empty'),
                          ([{**good, "segmentation": 3}], 'its "segmentation" is a number'),
                          ([{**good, "segmentation": [SQUARE, SQUARE[:-1]]}], "its polygon 1 has 7 numbers"),
                          ([{**good, "segmentation": [[1, 1, 2, 2]]}], "its polygon 0 has 4 numbers"),
                          ([{**good, "segmentation": [1, 2, 3]}], "its polygon 0 has 0 numbers"),
                          ([{**good, "segmentation": [["1", 2]]}], "its polygon 0 has a string among"),
                          ([{**good, "bbox": [1, 1, 1, 1], "segmentation": [[1e300, 1, 2, 2, 3, 3]]}],
                           "17: its polygon 0 has a number beyond -1000000 to 1000000"),
                          ([{**good, "segmentation": [[float("nan"), 1, 2, 2, 3, 3]]}], "has a number beyond"),
                          (runs([80]), "its run lengths have 80 pixels, but a mask of 9 x 9 has 81"),
                          (runs([80, 2]), "its run 1 has 2 pixels, but 1 are left of a mask of 9 x 9"),
                          (runs([-1]), "its run 0 has -1 pixels"), (runs([1.5]), "that is not a whole number"),
                          (runs([2**70]), "that is not a whole number"),
                          (runs(compress([80])), "its run lengths have 80 pixels"),
                          (runs("\x7f"), "not compressed run lengths, at character 1"),
                          (runs("oooooooooooo"), "not compressed run lengths, at character 7"),
                          (runs("o"), "not compressed run lengths"),
                          (runs("oooooo0"), "its run 0 has 1073741823 pixels"),
                          (runs(compress([40, 41, -5, 5])), "its run 2 has -5 pixels"),
                          (runs({}), 'has no "counts"'), (runs([], [9]), 'has no "size"'),
                          (runs([], [0, 9]), 'has no "size"'), (runs([], [65535, 1]), 'has no "size"'),
                          (runs([], [65534, 65534.5]), 'has no "size"'),
                          ([good] * 4097, "it has more than 4096 objects"),
                          ([{**good, "bbox": [1, 1, 1, 1], "segmentation": [SQUARE * 70000] * 2}],
                           "have more than 4 MiB|it has more than 4 MiB")):
            write_tar(path_of("bad.tar"), [(f"{n:03d}", {"cls": b"0", "png": png(np.zeros((9, 9), np.uint8)),
                                                         "json": json.dumps(data if n == 3 else [good]).encode()})
                                           for n in range(9)])
            with self.subTest(why=why):
                done = subprocess.run([CTL, "verify", f"tar,label=cls:{path_of('bad.tar')}", "--fields",
                                       "o:json:instances"], capture_output=True, text=True)
                self.assertRegex(done.stdout + done.stderr, f"003.*{why}")
                self.assertEqual(done.returncode, 1)

    def test_sizes(self):
        """an encoded mask must have the size of its image, also if the image does not show it; verify finds it"""
        wrong = [{"segmentation": {"size": [9, 8], "counts": [72]}, "category_id": 1, "id": 23, "bbox": [0, 0, 1, 1]}]
        for data, why in ((wrong, "the mask of the object with id 23 has 9 x 8 pixels, but its image has 9 x 9"),):
            write_tar(path_of("sizes.tar"), [(f"{n:03d}", {"cls": b"0", "png": png(np.zeros((9, 9), np.uint8)),
                                                           "json": json.dumps(data if n == 3 else []).encode()})
                                             for n in range(9)])
            with stream(["o:json:instances"], "rrc(3)", "sizes.tar", micro_batch=9, steps=1, bad="fail") as s, \
                    self.assertRaisesRegex(pyplenum.PlenumError, f"003.*'o'.*{why}"):
                next(s)
            done = subprocess.run([CTL, "verify", f"tar,label=cls:{path_of('sizes.tar')}", "--fields",
                                   "o:json:instances"], capture_output=True, text=True)
            self.assertRegex(done.stdout + done.stderr, f"003.*{why}")
            self.assertEqual(done.returncode, 1)

    def test_refused(self):
        """instances need pixels that can be followed"""
        for text, pipeline, why in (("o:1.json:instances", "rrc(16) augmix", "cannot be used with augmix"),
                                    ("o:1.json:instances", "none", "the pipeline cannot be none"),
                                    ("o:1.json:instances:2", "rrc(16)", "is not a valid share of a box"),
                                    ("o:1.json:instances:1:1", "rrc(16)", "has more parts")):
            with self.assertRaisesRegex(pyplenum.PlenumError, why):
                stream([text], pipeline)

    def test_older_loader(self):
        """a loader older than 1.20 is rejected for instances, and serves other streams"""
        wrong = os.path.join(BUILD, "tests", "libdist", "plenumd-wrong")
        if not os.path.exists(wrong):
            self.skipTest("plenumd-wrong is built only with Criterion")
        address = f"unix:{path_of('old.sock')}"
        loader = subprocess.Popen([wrong, "--socket", address, "--root", T.name, "--quiet"],
                                  env={**os.environ, "PLENUM_WRONG_VERSION": "1.19"})
        self.addCleanup(loader.wait)
        self.addCleanup(loader.terminate)
        with self.assertRaisesRegex(pyplenum.PlenumError, "too old for masks of instances"):
            stream(["o:1.json:instances"], "rrc(8)", loader=address)
        with stream(["b:1.json:boxes"], "rrc(8)", loader=address) as s:
            self.assertEqual(sum(batch.hash() for batch in s) % 2**64, ctl_hash(["b:1.json:boxes"], "rrc(8)"))


if __name__ == "__main__":
    tap.main()
