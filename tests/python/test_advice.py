# SPDX-License-Identifier: MIT
"""Checks that messages about unusable data name the cause, and that their advice works."""

import json
import os
import re
import struct
import subprocess
import sys
import tarfile
import tempfile
import unittest
import warnings

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
CTL, PLENUMD = os.path.join(BUILD, "plenumctl"), os.path.join(BUILD, "plenumd")
os.environ["PLENUM_LIBRARY"] = os.path.join(BUILD, ".libs", "libplenum.so.1")
sys.path.insert(0, os.path.join(SOURCE, "python"))

import tap  # noqa: E402

tap.require("numpy")

import numpy as np  # noqa: E402

import pyplenum  # noqa: E402
from made import png, write_tar  # noqa: E402


def image(seed=0):
    return png((np.arange(12 * 16).reshape(12, 16) * 3 + seed).astype(np.uint8))


def deep_image():
    return png((np.arange(12 * 16).reshape(12, 16) * 300).astype(np.uint16))


def put(path, data):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())


class AdviceTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder.name)
        os.environ["PLENUM_CACHE_DIR"] = os.path.join(self.folder.name, "cache")

    def ctl(self, *arguments, status=None):
        done = subprocess.run([CTL, *arguments], capture_output=True, text=True)
        if status is not None:
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def refused(self, name):
        """Return the message of `plenumctl index`, which must fail."""
        said = self.ctl("index", name, status=1)
        self.assertEqual(said.count("\n"), 1, said)
        return said

    def labels(self, name):
        """Return the labels of a data set in its order."""
        with pyplenum.Stream(name, "resize(8x8)", shuffle="none", epochs=1, dtype="uint8", micro_batch=1) as s:
            return [int(b.labels.ravel()[0]) for b in s]

    # ---- 16 bits ----

    def test_png_of_16_bits_warns(self):
        """a 16-bit PNG causes a warning from index and in the program, and is counted by verify"""
        put("data/a/0.png", image())
        put("data/a/1.png", deep_image())
        sentence = ("only the upper 8 bits of PNGs with 16 bits per channel are used "
                    "(1 of the 2 images that were checked)")
        for _ in range(2):  # a new index, and a cached one
            self.assertIn(sentence, self.ctl("index", "data", status=0))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with pyplenum.Stream("data", "resize(8x8)", epochs=3, micro_batch=1, dtype="uint8") as s:
                for _ in s:
                    pass
        self.assertEqual(sum("16 bits" in str(w.message) for w in said), 1, [str(w.message) for w in said])
        self.assertIn("16 bits      1 of the PNGs", self.ctl("verify", "data", "--no-list", status=0))
        self.assertEqual(json.loads(self.ctl("verify", "data", "--no-list", "--json", status=0))["deep"], 1)

    def test_masks_of_16_bits_do_not_warn(self):
        """a 16-bit mask keeps its 16 bits, without a warning"""
        write_tar("x.tar", [("a", {"cls": b"0", "png": image(), "depth.png": deep_image()})])
        for name in ("tar:x.tar", "tar,image=png:x.tar"):
            self.assertNotIn("16 bits", self.ctl("index", name))
        write_tar("none.tar", [("a", {"depth.png": deep_image()})])
        self.assertNotIn("16 bits", self.ctl("index", "tar,image=none:none.tar", status=0))

    # ---- photographs that EXIF turns ----

    def turned_photo(self):
        """Return a JPEG of 16 x 12 pixels that EXIF turns by 90 degrees."""
        put("photo/a/0.png", png(np.zeros((24, 32), np.uint8)))
        self.ctl("pack", "folder:photo", "packed", "--longest", "16", status=0)
        with tarfile.open("packed/archive-000000.tar") as archive:
            jpeg = next(archive.extractfile(m).read() for m in archive if m.name.endswith(".jpg"))
        tiff = b"II*\0" + struct.pack("<IHHHIII", 8, 1, 0x112, 3, 1, 6, 0)
        return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", 8 + len(tiff)) + b"Exif\0\0" + tiff + jpeg[2:]

    def test_photos_that_exif_turns_warn(self):
        """a stream of boxes warns once if its pipeline does not turn photographs as their boxes need it"""
        put("0.jpg", self.turned_photo())

        def said(size, pipeline):
            put("x.json", json.dumps({"images": [{"id": 1, "file_name": "0.jpg", **size}], "annotations": [],
                                      "categories": [{"id": 1, "name": "a"}]}))
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                with pyplenum.Stream("coco:x.json", pipeline, fields=["objects:objects:boxes"], epochs=3,
                                     micro_batch=1) as s:
                    for _ in s:
                        pass
            return " ".join(str(w.message) for w in caught)
        as_stored, upright = {"width": 16, "height": 12}, {"width": 12, "height": 16}
        for size in ({}, upright):
            self.assertEqual(said(size, "resize(8x8)").count(
                "1 of the 1 pictures that were checked are stored turned (EXIF), but the pipeline lacks exif"), 1)
            self.assertEqual(said(size, "exif resize(8x8)"), "")
        self.assertEqual(said(as_stored, "resize(8x8)"), "")
        self.assertEqual(said(as_stored, "exif resize(8x8)").count("give the size as stored"), 1)

    # ---- a stream that fails ----

    def test_failed_stream_says_so_once(self):
        """a failed sample is logged once, and a failed stream requests no more batches"""
        put("data/a/0.png", "no image")
        log = open("log", "w+b")
        self.addCleanup(log.close)
        p = subprocess.Popen([PLENUMD, "--socket", f"unix:{self.folder.name}/p.sock", "--threads", "1"], stderr=log)
        self.addCleanup(p.wait)
        self.addCleanup(p.terminate)
        with pyplenum.Stream("data", "resize(8x8)", loader=f"unix:{self.folder.name}/p.sock", bad="fail",
                             micro_batch=1) as s:
            for _ in range(3):
                with self.assertRaisesRegex(pyplenum.PlenumError, "no image|begins with byte"):
                    next(iter(s))
            failed = [json.loads(self.ctl("status", f"unix:{self.folder.name}/p.sock", "--json",
                                          status=0))["loader"]["failed_batches"] for _ in range(20)]
        self.assertLessEqual(max(failed), 32, failed)
        log.seek(0)
        self.assertEqual(log.read().count(b"0.png"), 1)

    # ---- files that are something else ----

    POINTER = (b"version https://git-lfs.github.com/spec/v1\n"
               b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n")

    PAGES = (b"\xef\xbb\xbf\r\n<!doctype HTML>\n<html><body>404</body></html>", b"<HTML lang='en'>",
             b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>AccessDenied</Code></Error>')

    def test_git_lfs_pointers(self):
        """git-lfs pointers are reported as such, whatever file they replace"""
        self.check_stand_in(self.POINTER, "it is a git-lfs pointer, not the file itself: fetch the file with 'git lfs "
                            "pull'")

    def test_pages(self):
        """a server's error message is reported as such, whatever file it replaces"""
        for page in self.PAGES:
            self.check_stand_in(page, "it is a web page, such as the error message of a server, not the file itself")
        put("data/a/2.png", b"<?xml version='1.0'?><svg></svg>")
        self.assertIn("2.png: this is not a JPEG", self.ctl("verify", "data", "--no-list", status=1))

    def check_stand_in(self, content, sentence):
        for name in ("x.tar", "x.tfrecord", "x.csv", "x.txt", "x", "many/a.tar", "many/b.tar", "some/a.tfrecord",
                     "x.parquet", "mds/index.json", "classes.txt"):
            put(name, content)
        put("data/a/1.png", image())
        for name in ("x.tar", "tar:x.tar", "x.tfrecord", "tfrecord:x.tfrecord", "x.csv", "list:x.csv", "x",
                     "list:x.txt", "tar:many", "many", "many/{a,b}.tar", "tfrecord:some", "x.parquet",
                     "parquet:x.parquet", "mds:mds", "folder,classes=classes.txt:data"):
            self.assertIn(sentence, self.refused(name), name)
        put("data/a/0.jpg", content)
        self.assertIn(f"0.jpg: {sentence}", self.ctl("verify", "data", "--no-list", status=1))

    def test_urls(self):
        """a URL or a command instead of a path is reported as such"""
        for name in ("az://bucket/train", "tar:gopher://host/x-{000..009}.tar", "tfrecord:ftp://host/x",
                     "AZ://Bucket/x", "tar,label=none:gopher://host/x.tar"):
            self.assertIn("but no other URLs", self.refused(name), name)
            with self.assertRaisesRegex(pyplenum.PlenumError, "but no other URLs"):
                pyplenum.Stream(name, "eval")
        self.assertIn("use s3:// for a bucket of Google Cloud Storage", self.refused("tar:gs://bucket/x-{0..9}.tar"))
        self.assertIn("reads only files; in an object store, use archives, list: or mds:",
                      self.refused("folder:s3://bucket/train"))
        self.assertIn("have the form hf://datasets/OWNER/NAME[@REVISION]/PATH", self.refused("tar:hf://datasets/x.tar"))
        self.assertIn("its name does not tell its format", self.refused("S3://Bucket/x"))
        for name in ("pipe:aws s3 cp s3://b/x.tar -", "pipe:cat x-{000..009}.tar", "tar:pipe:cat x.tar"):
            self.assertIn("does not run commands (pipe:)", self.refused(name), name)
        self.assertIn("give only the path", self.refused("file:///data/train"))
        put("s3:/a/0.png", image())  # a folder with such a name can be given as ./s3:
        self.assertEqual(self.labels("./s3:"), [0])

    def test_plain_ppm(self):
        """a text PPM is reported as such"""
        put("data/a/0.ppm", "P3\n2 2\n255\n" + "1 2 3 " * 4)
        put("data/a/1.png", image())
        self.assertIn("in text form (P3), but only binary PPMs and PGMs (P6, P5) are supported",
                      self.ctl("verify", "data", "--no-list", status=1))

    def test_json_lines(self):
        """JSON Lines instead of a list is reported as such"""
        for name in ("metadata.jsonl", "metadata.csv"):
            put(name, '{"file_name": "0.png", "label": 3}\n')
            self.assertIn("its lines are JSON", self.refused(f"list:{name}"))
        self.assertIn("its lines are JSON", self.refused("metadata.jsonl"))

    # ---- lists ----

    def make_images(self, *names):
        for n, name in enumerate(names):
            put(name, image(n))

    def test_unknown_header(self):
        """the message about a list with an unknown header gives advice that works"""
        self.make_images("0.png", "1.png")
        put("a.csv", "filepaths,labels\n0.png,3\n1.png,4\n")
        said = self.refused("a.csv")
        self.assertIn("line 1: there is no file 'filepaths'; if this line names the columns", said)
        advice = re.search(r"list,path=\S+,label=\S+:", said).group()
        self.assertEqual(self.labels(advice + "a.csv"), [3, 4])
        put("b.tsv", "image_id\tkind\n0.png\t3\n")
        self.assertIn("list,path=image_id,label=kind:", self.refused("b.tsv"))
        put("c.csv", "nothing.png,3\n0.png,4\n")
        self.assertIn("there is no file 'nothing.png'", self.refused("c.csv"))
        put("d.csv", "0.png,3\nnothing.png,4\n")
        self.assertIn("line 2", self.refused("d.csv"))

    def test_two_label_columns(self):
        """if two columns could be the label, they are named and neither is chosen"""
        self.make_images("0.png", "1.png")
        put("a.csv", "path,class,label\n0.png,1,3\n1.png,0,4\n")
        said = self.refused("a.csv")
        self.assertIn("two columns that could be the label, 'class' and 'label'", said)
        self.assertEqual([self.labels(way + "a.csv") for way in re.findall(r"list,label=\w+:", said)], [[1, 0], [3, 4]])
        put("b.csv", "path,label,Label\n0.png,1,3\n")
        said = self.refused("b.csv")
        self.assertIn("two columns 'label'", said)
        self.assertEqual(self.labels(re.search(r"list,label=\d+:", said).group() + "b.csv"), [1])
        put("c.tsv", "file\timage\tlabel\n0.png\t1.png\t3\n")
        self.assertIn("could be the path, 'file' and 'image'", self.refused("c.tsv"))

    def test_lists_without_labels(self):
        """label=none works for a list, and messages suggest it"""
        self.make_images("0.png", "1.png", "with blank.png")
        put("a.txt", "0.png\nwith blank.png\n")
        self.assertIn("list,label=none:", self.refused("list:a.txt"))
        self.assertEqual(self.labels("list,label=none:a.txt"), [0, 0])
        put("b.csv", "path,size\n0.png,7\n1.png,8\n")
        self.assertEqual(self.labels("list,label=none:b.csv"), [0, 0])
        put("c.csv", "0.png\n1.png\n")
        self.assertEqual(self.labels("list,label=none:c.csv"), [0, 0])
        os.mkdir("flat")
        self.make_images("flat/0.png", "flat/1.png")
        self.assertIn("list,label=none:LIST", self.refused("flat"))
        self.assertIn("list,label=none:PATH", self.refused("0.png"))

    # ---- archives ----

    def test_dotted_keys(self):
        """members with a further dot in their names are reported with the rule, and the advice works"""
        write_tar("a.tar", [(f"{n}", {"image.png": image(n), "target.cls": str(n + 3).encode()}) for n in range(3)])
        said = self.refused("a.tar")
        self.assertIn("an extension begins at the first dot of a member's name, and that of '0.image.png'", said)
        advice = re.search(r"tar,image=(\S+):", said).group(1)
        self.assertEqual(self.labels(f"tar,image={advice},label=target.cls:a.tar"), [3, 4, 5])
        write_tar("b.tar", [(f"22.{n:02}", {"png": image(n), "cls": b"1"}) for n in range(3)])
        said = self.refused("b.tar")
        self.assertIn("that of '22.00.png' is not an image extension; rename the members", said)
        self.assertNotIn("tar,image=", said)
        write_tar("c.tar", [("a", {"png": image(), "cls": b"1"}), ("b.5", {"png": image(), "cls": b"1"})])
        self.assertIn("samples whose images have a further dot in their names are left out, such as 'b.5.png' (1 of",
                      self.ctl("index", "c.tar", status=0))
        write_tar("d.tar", [("a", {"png": image(), "seg.png": image(), "cls": b"1"})])
        self.assertNotIn("dot", self.ctl("index", "tar:d.tar", status=0))

    def test_labels_of_any_extension(self):
        """label= takes any extension, as image= does"""
        write_tar("a.tar", [(f"{n}", {"input.png": image(n), "label": name.encode(), "y.cls": str(9 - n).encode(),
                                      "meta.json": json.dumps({"label": n, "of": {"kind": n + 2}}).encode()})
                            for n, name in enumerate(("dog", "cat", "dog"))])
        for label, want in (("label", [1, 0, 1]), ("y.cls", [9, 8, 7]), ("meta.json", [0, 1, 2]),
                            ("meta.json.of.kind", [2, 3, 4])):
            self.assertEqual(self.labels(f"tar,image=input.png,label={label}:a.tar"), want, label)
        self.assertIn("has no label: there is no .target.cls next to it",
                      self.refused("tar,image=input.png,label=target.cls:a.tar"))
        for label in ("", "json.", "meta.json."):
            self.assertIn("use label=EXTENSION", self.refused(f"tar,image=input.png,label={label}:a.tar"))

    def test_brackets_before_braces(self):
        """brackets in the name of an existing folder are taken literally"""
        for n in range(3):
            os.makedirs("[v1] set", exist_ok=True)
            write_tar(f"[v1] set/x-{n:03}.tar", [("a", {"png": image(), "cls": str(n).encode()})])
        for name in ("[v1] set/x-{000..002}.tar", "[v1] set/x-*.tar", "[v1] set/x-00[0-2].tar", "[v1] set",
                     f"{self.folder.name}/[v1] set/x-{{000..002}}.tar", "tar:[v1] set/x-{000..002}.tar"):
            self.assertEqual(self.labels(name), [0, 1, 2], name)


if __name__ == "__main__":
    tap.main()
