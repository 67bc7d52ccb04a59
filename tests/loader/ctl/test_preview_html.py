# SPDX-License-Identifier: MIT
"""plenumctl preview SHEET.html: a page with pictures, masks, boxes, key points, captions and draws, safe from the names
in a data set."""

import base64
import html.parser
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
CTL = os.path.join(BUILD, "plenumctl")
sys.path[:0] = [os.path.join(SOURCE, "tests", "python")]

import tap  # noqa: E402

if tap.find("numpy") is None or tap.find("PIL") is None:
    tap.skip_all("NumPy or Pillow is not installed for this Python")

import numpy as np  # noqa: E402
from PIL import Image  # noqa: E402

from made import png  # noqa: E402

SIDE, GREY = 144, 100
PLAIN = f"resize({SIDE}) center_crop({SIDE})"
VOC = {1: "#800000", 2: "#008000", 3: "#808000", 255: "#e0e0c0"}  # its published palette
VOID = {"meta", "img", "input"}
ELEMENTS = {"html", "head", "meta", "title", "style", "body", "h1", "p", "input", "label", "main", "figure", "div",
            "img", "figcaption", "svg", "g", "rect", "circle", "text"}
HOSTILE = "<script>alert(\"1\")</script> & 'x' &lt; \u00e4"


class Page(html.parser.HTMLParser):
    """A page as a list of elements: name, attributes and text. It must be well-formed."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.open, self.text = [], [], text
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, name, attributes):
        assert name in ELEMENTS, name
        assert len(dict(attributes)) == len(attributes), attributes
        self.elements.append((name, dict(attributes), []))
        if name not in VOID:
            self.open.append(self.elements[-1])

    def handle_startendtag(self, name, attributes):
        assert name in ("rect", "circle"), name
        self.elements.append((name, dict(attributes), []))

    def handle_endtag(self, name):
        assert self.open.pop()[0] == name, name

    def handle_data(self, data):
        for _, _, text in self.open[-1:]:
            text.append(data)

    def handle_decl(self, decl):
        assert decl == "DOCTYPE html" and not self.elements

    def handle_comment(self, data):
        raise AssertionError(data)

    def find(self, name, **attributes):
        """Return attributes and text of the elements with this name and these attributes (`class_` means class)."""
        wanted = {key.rstrip("_"): value for key, value in attributes.items()}
        return [({**own, "": "".join(text)}) for found, own, text in self.elements
                if found == name and wanted.items() <= own.items()]

    def texts(self, name, **attributes):
        return [element[""] for element in self.find(name, **attributes)]

    def images(self, **attributes):
        """Return the pixels of images inside the page."""
        return [np.asarray(Image.open(io.BytesIO(base64.b64decode(i["src"].partition(";base64,")[2], validate=True))))
                for i in self.find("img", **attributes)]


class PreviewHtmlTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="plenum-test-")
        self.addCleanup(self.folder.cleanup)
        os.environ["PLENUM_CACHE_DIR"] = self.path("cache")

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, **files):
        shutil.rmtree(self.path("cache"), ignore_errors=True)  # files may only change before they are indexed
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        image = np.full((SIDE, SIDE, 3), GREY, np.uint8)
        image[:, :SIDE // 2, 0] = 200
        for extension, data in {"png": png(image), **files}.items():
            with open(f"{self.path(name)}.{extension}", "wb") as f:
                f.write(data)

    def run_preview(self, data, *options, name="s.html", pipeline=PLAIN, fields=()):
        return subprocess.run([CTL, "preview", data, self.path(name), "--pipeline", pipeline, *options,
                               *(["--fields", ",".join(fields)] if fields else [])],
                              capture_output=True, text=True, check=False)

    def page(self, *fields, data=None, pipeline=PLAIN, count=1, options=()):
        done = self.run_preview(data or self.path("data"), "--count", str(count), "--shuffle", "none", *options,
                                fields=fields, pipeline=pipeline)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, rf"s\.html: {count} samples of ")
        with open(self.path("s.html"), encoding="utf-8") as f:
            return Page(f.read())

    def detection(self, names, file_name="x.png"):
        """Write a COCO folder with one picture, and a box with key points of each class."""
        self.write("coco/val/x")
        os.rename(self.path("coco/val/x.png"), self.path(f"coco/val/{file_name}"))
        objects = [{"id": 7 + i, "image_id": 1, "category_id": i + 1, "area": 1, "iscrowd": 0,
                    "bbox": [20.25 + 50 * i, 30.5, 40, 50], "keypoints": [30.5, 40.25, 2, 60, 80, 1, 0, 0, 0]}
                   for i in range(len(names))]
        os.makedirs(self.path("coco/annotations"), exist_ok=True)
        with open(self.path("coco/annotations/instances_val.json"), "w", encoding="utf-8") as f:
            json.dump({"images": [{"id": 1, "file_name": file_name, "width": SIDE, "height": SIDE}],
                       "categories": [{"id": 1 + i, "name": n} for i, n in enumerate(names)],
                       "annotations": objects}, f)
        return "coco,split=val:" + self.path("coco")

    def test_pictures(self):
        """each image of each view is inside the page, in order, with its alternative text"""
        self.write("data/c/x")
        page = self.page(pipeline=f"view(a, 2, {PLAIN}) view(b, 1, {PLAIN} flip(1))")
        self.assertEqual([i["alt"] for i in page.find("img")], [f"image {k} of sample 0" for k in (1, 2, 3)])
        for image, red in zip(page.images(), (1, 1, 0)):
            self.assertEqual(image.shape, (SIDE, SIDE, 3))
            halves = image[:, :SIDE // 2 - 8], image[:, SIDE // 2 + 8:]
            self.assertLess(np.abs(halves[1 - red][..., 0].astype(int) - 200).max(), 8)
            self.assertLess(np.abs(halves[red].astype(int) - GREY).max(), 8)
        self.assertEqual(len(page.find("div", class_="view")), 2)
        sizes = [i["style"] for i in self.page(pipeline="rrc(32)").find("div", class_="image")]
        self.assertEqual(sizes, ["width: 128px; height: 128px"], "small images are shown larger")

    def test_alone(self):
        """the page is strict, names no other file, and its policy forbids loading one"""
        text = self.page("objects:objects:boxes", data=self.detection(["a", "b"])).text
        self.assertRegex(text, r"^<!DOCTYPE html>\n")
        self.assertIn("content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\"", text)
        self.assertEqual(re.findall(r"(?i)https?:|url\(|@import|<link|<script|\son[a-z]+=|javascript:", text), [])
        for source in re.findall(r'(?:src|href)="([^"]{0,40})', text):
            self.assertRegex(source, "^data:image/(jpeg|png);base64,")
        self.assertEqual(re.findall(r"&(?!(?:amp|lt|gt|quot|#39);)", text), [])

    def test_valid(self):
        """tidy finds no error, and no warning"""
        if not shutil.which("tidy"):
            self.skipTest("tidy is not installed")
        self.page("objects:objects:boxes", "pose:objects:keypoints", data=self.detection([HOSTILE, "b"]))
        done = subprocess.run(["tidy", "-q", "-errors", "--doctype", "html5", self.path("s.html")],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_escaped(self):
        """names of classes and files, captions and data sets are text, whatever is in them"""
        fields = ("objects:objects:boxes", "raw:objects:text")
        harmless = self.page(*fields, data=self.detection(["cat", "b"]))
        shutil.rmtree(self.path("coco"))
        name = HOSTILE.replace("/", "!")
        page = self.page(*fields, data=self.detection([HOSTILE, "b\x01\x9b\u202e"], f"{name}.png"))
        self.assertEqual([e[0] for e in page.elements], [e[0] for e in harmless.elements])
        self.assertEqual([list(e[1]) for e in page.elements], [list(e[1]) for e in harmless.elements])
        self.assertEqual(page.texts("text"), [f"0 {HOSTILE}", "1 b\ufffd\ufffd\u202e"])
        self.assertEqual(page.texts("p", class_="grey")[1], f"sample 0, val/{name}.png")

        other = self.path(f"a {name}")
        for path in (f"{other}/{name} 1/x", f"{other}/{name} 2/y"):
            self.write(os.path.relpath(path, self.folder.name), txt=HOSTILE.encode())
        page = self.page("txt", data=other, count=2, pipeline=f"{PLAIN} mixup(1)")
        self.assertEqual(page.texts("h1"), [f"folder:{other}"])
        self.assertEqual(page.texts("title"), [f"folder:{other}"])
        self.assertEqual(page.texts("p", class_="field"), [f"txt: {HOSTILE}"] * 2)
        labels = [text for text in page.texts("p") if re.match(r"0\.\d\d: ", text)]
        self.assertEqual(sorted(text[6:] for text in labels if text[6] == "0"), [f"0 {name} 1"] * 2)
        self.assertEqual(len(labels), 4)

    def test_masks(self):
        """a mask is an image over the image: in VOC's colours, and transparent where it is 0"""
        for dtype in (np.uint8, np.uint16):
            mask = np.zeros((SIDE, SIDE), dtype)
            for i, value in enumerate((1, 2, 3, np.iinfo(dtype).max)):
                mask[30 * i:30 * i + 30, 50:] = value
            self.write("data/c/x", seg=png(mask))
            page = self.page("m:seg:mask", pipeline=f"{PLAIN} flip(1)")
            overlay, = page.images(class_="mask")
            self.assertEqual(overlay.shape, (SIDE, SIDE, 4))
            self.assertTrue(((overlay[..., 3] == 255) == (mask[:, ::-1] > 0)).all())
            for i, colour in enumerate(VOC.values()):
                self.assertEqual("#" + bytes(overlay[30 * i + 7, 20, :3]).hex(), colour)
            self.assertEqual([i["id"] for i in page.find("input")], ["masks"])

    def test_instances(self):
        """the masks of instances are an image over each image of each view, in the colours of their numbers"""
        self.write("data/c/x", json=json.dumps([
            {"segmentation": [[10, 8, 40, 8, 40, 24, 10, 24]], "category_id": 9},
            {"segmentation": [[56, 48, 88, 48, 88, 72, 56, 72]], "category_id": 9}]).encode())
        page = self.page("o:json:instances", pipeline=f"view(a, 2, {PLAIN}) view(b, 1, {PLAIN} flip(1))")
        overlays = page.images(class_="mask")
        self.assertEqual(len(overlays), 3)
        want = np.zeros((SIDE, SIDE), int)
        want[8:24, 10:40], want[48:72, 56:88] = 1, 2
        for overlay, numbers in zip(overlays, (want, want, want[:, ::-1])):
            self.assertTrue(((overlay[..., 3] == 255) == (numbers > 0)).all())
            for number in (1, 2):
                colours = {bytes(pixel) for pixel in overlay[numbers == number][:, :3]}
                self.assertEqual(["#" + colour.hex() for colour in colours], [VOC[number]])
        self.assertEqual([i["id"] for i in page.find("input")], ["masks"])

    def test_boxes(self):
        """a box is a rectangle in its class's colour, at its place, with its class and object"""
        page = self.page("objects:objects:boxes", data=self.detection(["person", "cat"]), pipeline=f"{PLAIN} flip(1)")
        inked = [r for r in page.find("rect") if r.get("stroke") in ("#000000", "#800000")]
        self.assertEqual([[float(r[k]) for k in ("x", "y", "width", "height")] for r in inked],
                         [[SIDE - 60.25 - 50 * i, 30.5, 40, 50] for i in range(2)])
        self.assertEqual(page.texts("text"), ["0 person", "1 cat"])
        self.assertEqual([t["stroke"] for t in page.find("text")], ["#000000", "#800000"])
        self.assertEqual(page.texts("title")[1:], ["0 person, object 7: 83.8, 30.5 to 123.8, 80.5",
                                                   "1 cat, object 8: 33.8, 30.5 to 73.8, 80.5"])
        self.assertEqual(page.find("svg")[0]["viewbox"], f"0 0 {SIDE} {SIDE}")
        self.assertNotIn("0 ", [t[:2] for t in page.texts("p")], "the sample itself has no label")

    def test_keypoints(self):
        """a visible point has its number's colour, a hidden one such an edge; others are not shown"""
        page = self.page("pose:objects:keypoints", data=self.detection(["person"]))
        points = [tuple(p[k] for k in ("cx", "cy", "fill", "stroke")) for p in page.find("circle")]
        self.assertEqual(points, [("30.50", "40.25", VOC[1], "#000000"), ("60.00", "80.00", "#000000", VOC[2])])
        self.assertEqual(page.texts("title")[1:], ["point 1: 30.5, 40.2", "point 2, hidden: 60.0, 80.0"])
        self.assertEqual([i["id"] for i in page.find("input")], ["points"])

    def test_draws(self):
        """the crop and the operations of each image are shown while the pointer is over the sample"""
        self.write("data/c/x")
        page = self.page(pipeline=f"view(a, 1, resize({SIDE}) center_crop(72)) "
                                  f"view(b, 1, pad(8) random_crop({SIDE + 16}) flip(1) invert(1))")
        self.assertIn("figure:hover .draws, figure:focus .draws { display: block; }", page.text)
        self.assertEqual(page.find("figure")[0]["tabindex"], "0")
        draws = [text for text in page.texts("p") if "crop" in text and "seed" not in text]
        self.assertEqual(draws[0], "image 1: crop 36.0, 36.0 to 108.0, 108.0 of 144 x 144")
        self.assertRegex(draws[1], r"^image 2: crop -8\.0, -8\.0 to 152\.0, 152\.0 of 144 x 144; flip, invert$")
        self.assertEqual([m["viewbox"] for m in page.find("svg", class_="map")],
                         ["0.0 0.0 144.0 144.0", "-8.0 -8.0 160.0 160.0"])
        self.assertEqual(self.page(data="generated:4").find("div", class_="draws"), [], "nothing is drawn for these")

    def test_captions(self):
        """captions are wrapped by the browser, and a very long one ends with three dots"""
        self.write("data/c/x", txt=b"one two " * 40, n=b"7 -8")
        page = self.page("txt", "n:n:int64")
        self.assertEqual(page.texts("p", class_="field"), ["txt: " + "one two " * 40, "n: 7 -8"])
        self.write("data/c/x", txt="\u00e4".encode() * 4000)
        text, = self.page("txt").texts("p", class_="field")
        self.assertRegex(text, "^txt: \u00e4{2000,}\ufffd?\\.\\.\\.$")

    def test_columns(self):
        """--columns sets the samples in a row; otherwise as many as fit"""
        for i in range(3):
            self.write(f"data/c/{i}")
        for options, columns in (((), "auto-fill"), (("--columns", "2"), "2")):
            page = self.page(count=3, options=options)
            self.assertIn(f"grid-template-columns: repeat({columns}, {SIDE}px);", page.text)
            self.assertEqual([t.partition(",")[0] for t in page.texts("p", class_="grey")[1:]],
                             [f"sample {i}" for i in range(3)])

    def test_failed(self):
        """a sample that cannot be rendered shows why, and the others are there"""
        for name in ("a", "b"):
            self.write(f"data/c/{name}")
        with open(self.path("data/c/<i>a.png"), "wb") as f:
            f.write(b"\x89PNG\r\n\x1a\n")
        done = self.run_preview(self.path("data"), "--count", "3", "--shuffle", "none", "--bad", "fail")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (0, 1))
        with open(self.path("s.html"), encoding="utf-8") as f:
            page = Page(f.read())
        failed, = page.texts("p", class_="failed")
        self.assertIn("<i>a.png", failed)
        self.assertEqual((len(page.find("figure")), len(page.images())), (3, 2))

    def test_forms(self):
        """the end of the sheet's name selects JPEG, PNG or HTML; a PNG is exact"""
        self.write("data/c/x")
        for name, start in (("a.jpg", b"\xff\xd8\xff"), ("b.JPEG", b"\xff\xd8\xff"), ("c.png", b"\x89PNG"),
                            ("d.HTML", b"<!DOCTYPE html>"), ("e.htm", b"<!DOCTYPE html>")):
            done = self.run_preview(self.path("data"), "--count", "1", name=name)
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            with open(self.path(name), "rb") as f:
                self.assertEqual(f.read(len(start)), start, name)
        with Image.open(self.path("c.png")) as image, Image.open(self.path("a.jpg")) as jpeg:
            self.assertEqual(image.size, jpeg.size)
            pixels = np.asarray(image)[56:56 + SIDE, 8:8 + SIDE]
        self.assertTrue((pixels[:, SIDE // 2:] == GREY).all() and (pixels[:, :SIDE // 2] == (200, GREY, GREY)).all())
        for name in ("out.gif", "out", "html", "a.html/out"):
            done = self.run_preview(self.path("data"), name=name)
            self.assertEqual((done.returncode, done.stdout), (2, ""), name)
            self.assertIn("name the sheet .jpg, .png or .html", done.stderr)
            self.assertFalse(os.path.exists(self.path(name)))


if __name__ == "__main__":
    tap.main()
