# SPDX-License-Identifier: MIT
"""Detection data sets as people have them (coco:, yolo:, voc:). The same pictures and boxes have the same hash as in a
list with JSON, and plenumctl verify names each fault. This does not load libplenum into Python, so it also runs with
sanitizers."""

import csv
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
CTL = os.path.join(BUILD, "plenumctl")
sys.path[:0] = [os.path.join(SOURCE, "tests", "python")]

import tap  # noqa: E402

if tap.find("numpy") is None:
    tap.skip_all("NumPy is not installed for this Python")

import numpy as np  # noqa: E402

from made import png  # noqa: E402

COUNT = 12
IDS = [1, 3, 18, 90]  # categories, with gaps like COCO's
NAMES = ["person", "car", "dog", "toothbrush"]
CROPS = "rrc(16x12) flip(0.5)"


class Made:
    """Pictures whose boxes have classes 0 to 3; every fourth picture has no object, and a few are crowds."""

    def __init__(self):
        dice = random.Random(5)
        self.names = [f"{7 * n % COUNT:04d}.png" for n in range(COUNT)]
        self.sizes = [(40 + n, 30 + 2 * n) for n in range(COUNT)]
        self.boxes = [[(dice.randrange(4), dice.randrange(15), dice.randrange(12), dice.randrange(4, 20),
                        dice.randrange(4, 16), k == 2) for k in range(n % 4)] for n in range(COUNT)]

    def pictures(self, folder):
        os.makedirs(folder)
        for n, (width, height) in enumerate(self.sizes):
            grey = (np.arange(height)[:, None] * 7 + np.arange(width) * 3 + n) % 251
            with open(os.path.join(folder, self.names[n]), "wb") as f:
                f.write(png(grey.astype(np.uint8)))


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as f:
        f.write(text)


def coco_of(made, split="train2017"):
    """Return annotations in COCO's form, in which no list is in order."""
    objects = [{"id": 100 * n + k, "image_id": 10 * n, "category_id": IDS[c], "bbox": [x, y, w, h],
                "iscrowd": int(crowd), "area": w * h, "segmentation": [[x, y, x + w, y, x + w, y + h]]}
               for n, boxes in enumerate(made.boxes) for k, (c, x, y, w, h, crowd) in enumerate(boxes)]
    images = [{"id": 10 * n, "file_name": made.names[n], "width": made.sizes[n][0], "height": made.sizes[n][1]}
              for n in range(COUNT)]
    return {"info": {"year": 2017}, "licenses": [], "images": images[::-1], "annotations": objects[::2] + objects[1::2],
            "categories": [{"id": i, "name": name, "supercategory": "thing"} for i, name in zip(IDS, NAMES)][::-1]}


def write_yolo(made, folder):
    """Write a data set in YOLO's form, without crowds. A picture without objects has no label file, or an empty one."""
    made.pictures(os.path.join(folder, "images/train"))
    for n, boxes in enumerate(made.boxes):
        width, height = made.sizes[n]
        lines = [f"{c} {(x + w / 2) / width!r} {(y + h / 2) / height!r} {w / width!r} {h / height!r}\n"
                 for c, x, y, w, h, crowd in boxes if not crowd]
        if lines or n % 8:
            write(os.path.join(folder, "labels/train", made.names[n].replace(".png", ".txt")), "".join(lines))
    write(os.path.join(folder, "data.yaml"), "path: .  # the root\ntrain: images/train\nval: images/train\n\nnames:\n" +
          "".join(f"  {at}: {name}\n" for at, name in enumerate(NAMES)))


def write_voc(made, folder):
    """Write a data set in Pascal VOC's form, in which crowds are difficult objects."""
    made.pictures(os.path.join(folder, "JPEGImages"))
    for n, boxes in enumerate(made.boxes):
        objects = "".join(f"<object>\n<name>{NAMES[c]}</name><difficult>{int(crowd)}</difficult><bndbox><xmin>{x + 1}"
                          f"</xmin><ymin>{y + 1}</ymin><xmax>{x + w}</xmax><ymax>{y + h}</ymax></bndbox></object>\n"
                          for c, x, y, w, h, crowd in boxes)
        write(os.path.join(folder, "Annotations", made.names[n].replace(".png", ".xml")),
              f"<annotation><filename>{made.names[n]}</filename>{objects}</annotation>\n")
    write(os.path.join(folder, "ImageSets/Main/train.txt"), "".join(f"{name[:-4]}\n" for name in made.names))


class DetectionTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="plenum-test-")
        cls.addClassCleanup(cls.folder.cleanup)
        os.environ["PLENUM_CACHE_DIR"] = cls.path("cache")
        cls.made = Made()
        cls.made.pictures(cls.path("coco/train2017"))
        write(cls.path("coco/annotations/instances_train2017.json"), json.dumps(coco_of(cls.made)))

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    def ctl(self, *arguments):
        done = subprocess.run([CTL, *arguments], capture_output=True, text=True)
        return done.returncode, done.stdout.strip(), done.stderr

    def hash(self, data, fields, *more):
        code, out, err = self.ctl("hash", data, "--seed", "3", "--epochs", "2", "--fields", fields, "--pipeline", CROPS,
                                  *more)
        self.assertEqual((code, err), (0, ""), data)
        return out

    def list_of(self, name, folder, objects):
        """Write the same samples as a list with a column of JSON; returns its name."""
        with open(self.path(name), "w", newline="", encoding="utf-8") as f:
            rows = csv.writer(f)
            rows.writerow(["path", "label", "objects", "image_id"])
            rows.writerows([os.path.join(folder, self.made.names[n]), 0, json.dumps(objects(n)), 10 * n]
                           for n in range(COUNT))
        return f"list:{self.path(name)}"

    def problems(self, data):
        """Return what plenumctl verify finds: {(kind, the file's name or ""): reason}."""
        code, out, err = self.ctl("verify", data, "--json")
        self.assertEqual(err, "")
        found = json.loads(out)["problems"]
        self.assertEqual(code, int(bool(found)))
        return {(p["kind"], os.path.basename(p.get("name", ""))): p["reason"] for p in found}

    def test_coco(self):
        """a file of annotations has the same hash as a list with the same boxes"""
        def objects(n):
            return [{"bbox": [x, y, w, h], "category_id": c, "id": 100 * n + k, "iscrowd": crowd}
                    for k, (c, x, y, w, h, crowd) in sorted(enumerate(self.made.boxes[n]),
                                                            key=lambda each: (100 * n + each[0]) % 2)]
        order = {id: at for at, id in enumerate(o["id"] for o in coco_of(self.made)["annotations"])}

        def ordered(n):
            return sorted(objects(n), key=lambda o: order[o["id"]])
        fields = "objects:objects:boxes:0.3,image_id:image_id:int64"
        beside = self.hash(self.list_of("coco.csv", "coco/train2017", ordered), fields)
        root = self.path("coco")
        self.assertEqual(self.hash(f"coco:{root}", fields), beside)
        self.assertEqual(self.hash(f"coco:{root}/annotations/instances_train2017.json", fields), beside)
        self.assertEqual(self.hash(f"coco,split=train2017,images=train2017:{root}", fields), beside)
        self.assertNotEqual(self.hash(f"coco,classes=numbers:{root}", fields), beside)
        self.assertEqual(self.problems(f"coco:{root}"), {})

    def test_coco_faults(self):
        """verify names the file and the annotation of each fault in COCO's form"""
        file = self.path("faulty/annotations/instances_train.json")
        os.makedirs(self.path("faulty"), exist_ok=True)
        os.symlink(self.path("coco/train2017"), self.path("faulty/train"))
        good = coco_of(self.made)

        def boxes(**changed):
            faulty = json.loads(json.dumps(good))
            for o in faulty["annotations"]:
                o.update(changed if o["id"] == 100 else {})
            write(file, json.dumps(faulty))
            return self.problems(f"coco:{self.path('faulty')}")
        name = self.made.names[1]
        for changed, reason in (
                ({"bbox": [30, 20, 60, 5]}, "field 'objects' ('objects'): the box with id 100, from (30, 20) to "
                 "(90, 25), reaches beyond its picture of 41 x 32: \"bbox\" has left, top, width and height, \"boxes\" "
                 "have left, top, right and bottom"),
                ({"bbox": [3, 2, 0, 5]}, "field 'objects' ('objects'): the box with id 100, from (3, 2) to (3, 7), has "
                 "no area, so no image shows it"),
                ({"bbox": [3, 2, 5]}, "field 'objects' ('objects'): the \"bbox\" of box 0 must be numbers: [x, y, "
                 "width, height]")):
            self.assertEqual(boxes(**changed), {("field", name): reason})
        self.assertEqual(boxes(id=201), {("annotations", self.made.names[2]):
                                         "instances_train.json has two annotations with id 201, one of this image "
                                         f"and one of train/{name}: ids must be unique"})
        for changed, words in (
                ({"category_id": 2}, "the annotation with id 100, of '0007.png', has the category 2"),
                ({"image_id": 5}, "the annotation with id 100 belongs to image 5, but no image")):
            faulty = json.loads(json.dumps(good))
            next(o for o in faulty["annotations"] if o["id"] == 100).update(changed)
            write(file, json.dumps(faulty))
            code, _, err = self.ctl("verify", f"coco:{self.path('faulty')}")
            self.assertEqual(code, 1)
            self.assertIn(f"plenumctl verify: {file}: {words}", err)
        good["images"][0].update(width=1000)
        good["images"][1].update(height=None)
        good["images"][2].update(width="7")
        write(file, json.dumps(good))
        last, size = self.made.names[COUNT - 1], self.made.sizes[COUNT - 1]
        self.assertEqual(self.problems(f"coco:{self.path('faulty')}"), {
            ("annotations", last): f"its annotations say that it is 1000 x {size[1]}, but it is {size[0]} x {size[1]}: "
            "boxes may be for another version of it"})
        good["images"][0]["file_name"] = "none.png"
        write(file, json.dumps(good))
        code, _, err = self.ctl("verify", f"coco,images={self.path('coco/train2017')}:{file}")
        self.assertEqual(code, 1)
        self.assertIn(f"{file}: {self.path('coco/train2017/none.png')}: No such file or directory", err)

    def test_turned(self):
        """verify accepts the size as stored and after EXIF orientation, and no other"""
        tiff = b"II*\0" + struct.pack("<IHHHIII", 8, 1, 0x112, 3, 1, 6, 0)
        chunk = struct.pack(">I", len(tiff)) + b"eXIf" + tiff + struct.pack(">I", zlib.crc32(b"eXIf" + tiff))
        whole = png(np.zeros((30, 40), np.uint8))
        os.makedirs(self.path("turned"))
        with open(self.path("turned/0.png"), "wb") as f:
            f.write(whole[:33] + chunk + whole[33:])
        for size, wrong in (((40, 30), False), ((30, 40), False), ((30, 30), True), ((40, 40), True)):
            write(self.path("turned/x.json"), json.dumps({"categories": [{"id": 1, "name": "a"}], "images": [
                {"id": 1, "file_name": "0.png", "width": size[0], "height": size[1]}]}))
            self.assertEqual(list(self.problems(f"coco:{self.path('turned/x.json')}")),
                             [("annotations", "0.png")] * wrong, size)

    def test_packed(self):
        """packed detection data sets have the same boxes, and their pictures are not shrunk"""
        write_yolo(self.made, self.path("kept/yolo"))
        write_voc(self.made, self.path("kept/voc"))
        write(os.path.join(self.path("kept/voc/Annotations"), self.made.names[1].replace(".png", ".xml")), "<a/>")
        for name, data, source, kind in (("coco", self.path("coco"), "objects", "boxes"),
                                         ("coco", self.path("coco"), "crowds", "boxes"),
                                         ("coco", self.path("coco"), "objects", "instances"),
                                         ("yolo", self.path("kept/yolo"), "objects", "boxes"),
                                         ("voc", self.path("kept/voc"), "difficult", "boxes")):
            ids = ",image_id:image_id:int64" if name == "coco" else ""
            folder = self.path(f"packed/{name}-{source}-{kind}")
            os.makedirs(os.path.dirname(folder), exist_ok=True)
            code, _, err = self.ctl("pack", f"{name}:{data}", folder, "--samples-per-archive", "5")
            self.assertEqual((code, err), (0, ""))
            hashes = [self.ctl("hash", data, "--seed", "3", "--epochs", "2", "--fields", fields, "--pipeline", CROPS)
                      for data, fields in ((f"{name}:{data}", f"x:{source}:{kind}{ids}"),
                                           (f"tar:{folder}", f"x:json.{source}:{kind}{ids.replace(':', ':json.', 1)}"))]
            self.assertEqual([code for code, _, _ in hashes], [0, 0], hashes)
            self.assertEqual(hashes[0][1], hashes[1][1], name)
            code, _, err = self.ctl("pack", f"{name}:{data}", self.path("packed/small"), "--longest", "20")
            self.assertEqual(code, 1)
            self.assertIn("--longest and --shortest would shrink the pictures of", err)
            self.assertFalse(os.path.exists(self.path("packed/small")))

    def test_fields_are_given_once(self):
        """no field and no list of fields replaces an earlier one; of other options, the last value counts"""
        data = f"coco:{self.path('coco')}"
        for options, words in (
                (("--fields", "a:objects:boxes", "--fields", "b:image_id:int64"),
                 "--fields is given twice: give one list"),
                (("--fields", "a:objects:boxes,a:image_id:int64"), "fields: 'a' is given twice")):
            code, out, err = self.ctl("hash", data, *options)
            self.assertIn(code, (1, 2))
            self.assertEqual(out, "")
            self.assertIn(words, err)
        self.assertIn("setting 'split' is given twice", self.ctl("hash", f"coco,split=a,split=b:{data}")[2])
        self.assertEqual(self.ctl("hash", data, "--seed", "1", "--seed", "2"), self.ctl("hash", data, "--seed", "2"))

    def test_fields_that_cannot_be(self):
        """a field of the wrong kind, or of a set that is opened without its word, is refused with the remedy"""
        folder = self.path("coco")
        for data, options, words in (
                (f"coco:{folder}", ("--fields", "m:objects:mask"), "the field 'm' of objects is JSON, and cannot be"),
                (folder, ("--fields", "objects:objects:boxes"), f"without boxes: open it as coco:{folder}"),
                (f"coco:{folder}", ("--pipeline", "ssd"), "iou_crop depends on boxes: request a field of boxes")):
            code, _, err = self.ctl("hash", data, *options)
            self.assertEqual(code, 1)
            self.assertIn(words, err)
        self.assertEqual(self.ctl("order", f"coco:{folder}", "--pipeline", "ssd", "--count", "2")[0], 0)

    def test_other_fields(self):
        """pack names the fields that it leaves out"""
        data = self.list_of("captions.csv", "coco/train2017", lambda n: [])
        code, _, err = self.ctl("pack", data, self.path("captions"))
        self.assertEqual((code, err), (0, "plenumctl pack: only images and labels are packed, not the fields that "
                                       "samples also have: 'objects', 'image_id'\n"))

    def test_yolo(self):
        """label files have the same hash as a list with the same boxes, and verify names each fault"""
        folder = self.path("yolo")
        write_yolo(self.made, folder)

        def objects(n):
            kept = [box for box in self.made.boxes[n] if not box[5]]
            return [{"bbox": [x, y, w, h], "category_id": c, "id": at}
                    for at, (c, x, y, w, h, _) in enumerate(kept, 1)]
        by_path = sorted(range(COUNT), key=lambda n: self.made.names[n])
        with open(self.path("yolo.csv"), "w", newline="", encoding="utf-8") as f:
            rows = csv.writer(f)
            rows.writerow(["path", "label", "objects"])
            rows.writerows([f"yolo/images/train/{self.made.names[n]}", 0, json.dumps(objects(n))] for n in by_path)
        fields = "objects:objects:boxes:0.3"
        beside = self.hash(f"list:{self.path('yolo.csv')}", fields)
        self.assertEqual(self.hash(f"yolo:{folder}/data.yaml", fields), beside)
        self.assertEqual(self.hash(f"yolo,split=val:{folder}", fields), beside)
        self.assertEqual(self.problems(f"yolo:{folder}"), {})

        name = self.made.names[1]
        label = os.path.join(folder, "labels/train", name.replace(".png", ".txt"))
        write(os.path.join(folder, "labels/train/stray.txt"), "")
        stray = {("annotations", ""): "the label file labels/train/stray.txt has no picture in images/train"}
        for text, reason in (
                ("0 0.9 0.5 0.5 0.5\n", "field 'objects' ('objects'): the box with id 1, from (26.65, 8) to (47.15, "
                 "24), reaches beyond its picture of 41 x 32: "),
                ("0 0.5 0.5 0.2 0.2\n3 0.5 0.5 0 0.2\n", "the box with id 2, from (20.5, 12.8) to (20.5, 19.2), has no "
                 "area"),
                ("0 0.5 0.5 0.2 0.2\n4 0.5 0.5 0.1 0.2\n", "labels/train/0007.txt: line 2: the class is 4, but "
                 "data.yaml has the classes 0 to 3")):
            write(label, text)
            found = self.problems(f"yolo:{folder}")
            self.assertIn(reason, found.pop(("field", name)))
            self.assertEqual(found, stray)

    def test_voc(self):
        """XML files have the same hash as a list with the same boxes, and verify names each fault"""
        folder = self.path("VOC2012")
        write_voc(self.made, folder)
        classes = sorted(NAMES)

        def objects(n):
            return [{"bbox": [x, y, w, h], "category_id": classes.index(NAMES[c]), "id": at}
                    for at, (c, x, y, w, h, _) in enumerate(self.made.boxes[n], 1)]

        def easy(n):
            return [o for o, box in zip(objects(n), self.made.boxes[n]) if not box[5]]
        fields = "objects:objects:boxes:0.3"
        self.assertEqual(self.hash(f"voc:{folder}", fields),
                         self.hash(self.list_of("voc.csv", "VOC2012/JPEGImages", objects), fields))
        self.assertEqual(self.hash(f"voc,difficult=drop:{folder}", fields),
                         self.hash(self.list_of("easy.csv", "VOC2012/JPEGImages", easy), fields))
        self.assertEqual(self.problems(f"voc:{folder}"), {})

        name = self.made.names[1]
        xml = os.path.join(folder, "Annotations", name.replace(".png", ".xml"))
        with open(xml, encoding="utf-8") as f:
            good = f.read()
        width, height = self.made.sizes[1]
        swapped = {("annotations", name): f"its annotations say that it is {height} x {width}, but it is {width} x "
                   f"{height}: boxes may be for another version of it"}
        for size, wrong in (((width, height), {}), ((height, width), swapped), ((0, 0), {}), (("?", height), {})):
            write(xml, good.replace("<filename>", "<size><width>%s</width><height>%s</height></size><filename>" % size))
            self.assertEqual(self.problems(f"voc:{folder}"), wrong)
        write(xml, good)
        with open(os.path.join(folder, "ImageSets/Main/train.txt"), "a", encoding="utf-8") as f:
            f.write(f"{self.made.names[2][:-4]}\n")
        twice = {("annotations", self.made.names[2]): "ImageSets/Main/train.txt lists it twice, as samples 2 and 12"}
        for text, reason in (
                (good.replace("<xmax>", "<xmax>9"), "the box with id 1, from "),
                (good.replace("</name>", "</nam>"), "Annotations/0007.xml: line 2: </nam> ends an element that is not "
                 "open"),
                (good.replace("<ymax>", "<ymax>-"), "box 0 ends before it begins: it is xmin, ymin, xmax and ymax")):
            write(xml, text)
            found = self.problems(f"voc:{folder}")
            self.assertIn(reason, found.pop(("field", name)))
            self.assertEqual(found, twice)


if __name__ == "__main__":
    tap.main()
