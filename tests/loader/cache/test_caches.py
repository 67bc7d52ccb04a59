# SPDX-License-Identifier: MIT
"""A cache of samples, on a disk or in memory, changes no stream, whatever happens to its files, and saves requests."""

import email.utils
import glob
import importlib.util
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest
import urllib.request

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))
sys.path.insert(0, os.path.join(SOURCE, "tests", "loader", "store"))

import store_server  # noqa: E402
import tap  # noqa: E402
import test_stores  # noqa: E402
from test_stores import CTL, SEED, run  # noqa: E402

NAME = "tar:s3://data/sets/train-{000..002}.tar"
SAMPLES = 120

# Prints the number of samples of an epoch whose note is the name of their image.
READ_NOTES = """
import os, sys, pyplenum
count = 0
options = {"loader": sys.argv[2], "micro_batch": 8, "epochs": 1, "fields": ["note:note:bytes"]}
with pyplenum.Stream(sys.argv[1], "rrc(32)", **options) as s:
    for batch in s:
        for name, note in zip(s.names(batch.samples), batch["note"]):
            count += os.path.basename(name).encode() == note
print(count)
"""


class Caches(test_stores.Stores):
    def setUp(self):
        super().setUp()
        self.socket = os.path.join(self.cache, "loader.sock")
        self.epochs = self.local_hash("--epochs", "3")
        self.log = os.path.join(self.cache, "log")

    def local_hash(self, *options):
        return self.ctl_hash(f"tar:{self.shards}", os.environ, *options)

    def start(self, size, *options, where="--cache-size", **more):
        """Start a loader with a cache; it ends with the test, or with stop()."""
        with open(self.log, "a", encoding="utf-8") as log:
            self.loader = subprocess.Popen([os.path.join(BUILD, "plenumd"), "--socket", f"unix:{self.socket}", "--root",
                                            "s3://data/sets", where, size, *options], env=self.env, stderr=log,
                                           **more)
        self.addCleanup(self.stop)
        while not os.path.exists(self.socket):
            self.assertIsNone(self.loader.poll(), self.read_log())
            test_stores.select.select([], [], [], 0.02)

    def stop(self, signum=signal.SIGTERM):
        if self.loader.poll() is None:
            self.loader.send_signal(signum)
            self.loader.wait()
        if os.path.exists(self.socket):
            os.unlink(self.socket)

    def read_log(self):
        with open(self.log, encoding="utf-8") as log:
            return log.read()

    def feed(self, *options, name=NAME):
        # 15 full steps, so no sample is read twice in an epoch
        return super().feed(name, f"unix:{self.socket}", "--micro-batch", "8", *options)

    def counts(self):
        got = run(CTL, "cache", f"unix:{self.socket}", "--json", env=self.env)
        self.assertEqual(got.returncode, 0, got.stderr)
        return json.loads(got.stdout)["cache"]

    def wait_written(self, count=None):
        """The cache writes samples after the stream has got them. Wait for this number of writes, or, if the cache was
        empty at first, until all of its samples are written."""
        while True:
            c = self.counts()
            if c["writes"] >= (count if count is not None else c["samples"] + c["evicted"] + c["damaged"]):
                return c
            test_stores.select.select([], [], [], 0.05)

    def fetched(self):
        """Return the number of ranges of archives that were requested so far."""
        with self.store.lock:
            return sum(1 for _, path, where in self.store.log if path.endswith(".tar") and where != "bytes=0-0")

    def files(self):
        return glob.glob(os.path.join(self.cache, "samples-*", "*.samples"))

    def test_sizes(self):
        """with any size, three epochs have the hash of the files"""
        for size in ("0", "4096", "100K", "300K", "1G"):
            self.start(size)
            self.assertIn(self.epochs, self.feed("--epochs", "3"), size)
            if size != "0":
                counts = self.counts()
                self.assertLessEqual(counts["bytes"], counts["limit_bytes"])
                self.assertEqual(counts["hits"] + counts["misses"], 3 * SAMPLES)
            self.stop()
            shutil.rmtree(os.path.join(self.cache, "samples-%u" % os.geteuid()), ignore_errors=True)

    def test_forgotten_unit(self):
        """a size in which not even one block fits is reported"""
        self.start("200")
        self.assertIn(self.local, self.feed())
        self.assertIsNone(self.counts())
        self.assertIn("samples are not cached: a cache of 200 bytes is too small: write", self.read_log())

    def test_hits(self):
        """bytes that were read once are not fetched again, even after the loader was killed"""
        self.start("1G")
        self.assertIn(self.local, self.feed())
        self.wait_written()
        before = self.fetched()
        self.assertIn(self.epochs, self.feed("--epochs", "3"))
        self.assertEqual(self.fetched(), before)
        counts = self.counts()
        self.assertEqual((counts["misses"], counts["hits"]), (SAMPLES, 3 * SAMPLES))
        self.stop(signal.SIGKILL)
        self.start("1G")
        self.assertEqual(self.counts()["samples"], SAMPLES)
        self.assertIn(self.epochs, self.feed("--epochs", "3"))
        self.assertEqual(self.fetched(), before)
        self.assertEqual(self.counts()["misses"], 0)

    def test_memory(self):
        """a cache in memory has the same hits, leaves no files, and counts towards the budget"""
        for size in ("100K", "1G"):
            self.start(size, "--memory-budget", "3G", where="--cache-memory")
            self.assertIn(self.epochs, self.feed("--epochs", "3"), size)
            counts = self.wait_written()
            self.assertTrue(counts["in_memory"])
            self.assertLessEqual(counts["bytes"], counts["limit_bytes"])
            self.assertEqual(counts["hits"] + counts["misses"], 3 * SAMPLES)
            self.assertEqual(self.files(), [])
            self.assertIn("in memory", run(CTL, "cache", f"unix:{self.socket}", env=self.env).stdout)
            if size == "1G":
                before = self.fetched()
                self.assertIn(self.epochs, self.feed("--epochs", "3"))
                self.assertEqual(self.fetched(), before)
            self.stop()
        budget = ("--memory-budget", "1100M", "--threads", "1", "--io-threads", "1", "--fetch-memory", "1M")
        self.start("1M", *budget, where="--cache-memory")
        self.assertIn(self.local, self.feed())
        self.stop()
        self.start("1099M", *budget, where="--cache-memory")
        self.assertRegex(self.feed(), r"would exceed the .* that this loader may use, of which .* is taken "
                         r"\(--memory-budget\)")

    def test_restart(self):
        """a new loader knows which samples a full cache has, and keeps those that a stream needs"""
        self.start("200K")
        self.assertIn(self.epochs, self.feed("--epochs", "3"))
        kept = self.wait_written()["samples"]
        self.assertLess(kept, SAMPLES)
        self.stop(signal.SIGKILL)
        self.start("200K")
        self.assertEqual(self.counts()["samples"], kept)
        self.assertIn(self.epochs, self.feed("--epochs", "3"))
        counts = self.counts()
        # More hits are possible: in the last epoch, a used sample may make room for one that is still needed.
        self.assertGreaterEqual(counts["hits"], 3 * kept)
        self.assertEqual(counts["hits"] + counts["misses"], 3 * SAMPLES)

    def test_formats(self):
        """samples of Parquet files, TFRecords and tar archives are cached"""
        made = os.path.join(self.cache, "made")
        for program, out in (("columns.py", "columns"), ("bad_archives.py", "archives")):
            os.makedirs(os.path.join(made, out))
            done = run(sys.executable, os.path.join(SOURCE, "tests", "e2e", program), self.images,
                       os.path.join(made, out))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.store.put_folder(f"/data/sets/{out}", os.path.join(made, out))
        self.start("1G")
        for name in ("parquet:columns/hf.parquet", "parquet:columns/flat-*.parquet",
                     "tfrecord:archives/good.tfrecord", "tar:archives/good.tar"):
            form, where = name.split(":")
            local = self.ctl_hash(f"{form}:{made}/{where}", os.environ, "--epochs", "2")
            for _ in range(2):  # in the first run, the loader may still have pages from which the index was made
                self.assertIn(local, self.feed("--epochs", "2", name=f"{form}:s3://data/sets/{where}"), name)
                self.wait_written()
            misses = self.counts()["misses"]
            self.assertIn(local, self.feed("--epochs", "2", name=f"{form}:s3://data/sets/{where}"), name)
            self.assertEqual(self.counts()["misses"], misses, name)

    def put_list(self):
        """Put a list of images, with a second file per image, into the store. Return the hash of the same list on the
        disk."""
        made = os.path.join(self.cache, "made")
        shutil.copytree(self.images, made)
        folders = sorted(c for c in os.listdir(made) if os.path.isdir(os.path.join(made, c)))
        with open(os.path.join(made, "train.csv"), "w", encoding="utf-8") as rows:
            rows.write("path,label,note\n")
            for label, folder in enumerate(folders):
                for name in sorted(os.listdir(os.path.join(made, folder))):
                    with open(os.path.join(made, folder, name + ".note"), "wb") as note:
                        note.write(name.encode())
                    rows.write(f"{folder}/{name},{label},{folder}/{name}.note\n")
        self.store.put_folder("/data/sets/list", made)
        return self.ctl_hash(f"list:{made}/train.csv", os.environ, "--epochs", "2")

    def objects_fetched(self):
        with self.store.lock:
            return sum(1 for _, path, where in self.store.log
                       if path.endswith((".jpg", ".note")) and where != "bytes=0-0")

    def feed_list(self, where="s3://data/sets/list"):
        return self.feed("--epochs", "2", name=f"list:{where}/train.csv")

    def test_lists(self):
        """images of a list are cached"""
        local = self.put_list()
        self.start("1G")
        self.assertIn(local, self.feed_list())
        self.wait_written()
        before = self.objects_fetched()
        self.assertIn(local, self.feed_list())
        self.stop(signal.SIGKILL)
        self.start("1G")
        self.assertIn(local, self.feed_list())
        self.assertEqual(self.objects_fetched(), before)
        counts = self.counts()
        self.assertEqual((counts["misses"], counts["hits"]), (0, 2 * SAMPLES))

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "no numpy")
    @unittest.skipIf(os.environ.get("PLENUM_SANITIZED"), "a sanitized library cannot be loaded into an ordinary Python")
    def test_list_fields(self):
        """files that a list names in other columns are cached, too"""
        self.put_list()
        self.start("1G")
        fetched = []
        for _ in range(2):
            got = run(sys.executable, "-c", READ_NOTES, "list:s3://data/sets/list/train.csv", f"unix:{self.socket}",
                      env=dict(os.environ, PLENUM_CACHE_DIR=self.cache, PYTHONPATH=os.path.join(SOURCE, "python")))
            self.assertEqual((got.returncode, got.stdout.strip()), (0, str(SAMPLES)), got.stderr)
            self.wait_written()
            fetched.append(self.objects_fetched())
        self.assertEqual(self.counts()["samples"], 2 * SAMPLES)
        self.assertEqual(fetched[0], fetched[1])

    def test_list_versions(self):
        """a second list, with a newer version of an image, does not get the old version from the cache"""
        self.put_list()
        self.start("1G")
        self.assertRegex(self.feed_list(), "[0-9a-f]{16}")
        self.wait_written()
        name = next(n for n in self.store.objects if n.startswith("/data/sets/list") and n.endswith(".jpg"))
        other = next(n for n in self.store.objects if n.endswith(".jpg") and n != name)
        self.store.put(name, self.store.objects[other])
        self.store.put("/data/sets/list/train.csv", self.store.objects["/data/sets/list/train.csv"] + b"\n")
        made = os.path.join(self.cache, "made", os.path.relpath(name, "/data/sets/list"))
        with open(made, "wb") as image:
            image.write(self.store.objects[other])
        local = self.ctl_hash(f"list:{self.cache}/made/train.csv", os.environ, "--epochs", "2")
        before = self.counts()["misses"]
        self.assertIn(local, self.feed_list())
        self.assertIn(self.counts()["misses"] - before, (1, 2))  # 1 if the row is written in time for the second epoch

    def test_racy(self):
        """without ETags, objects that have only just changed are not cached: another change may look the same"""
        when = email.utils.formatdate(time.time() + 1e6, usegmt=True)

        def no_etag(request, path):
            if "list-type" in request.path:
                return False
            self.store.check(request)
            status, body, headers = self.store.get(path, request.headers.get("Range"))
            del headers["ETag"]
            headers["Last-Modified"] = when
            request.send(status, body, headers)
            return True

        local = self.put_list()
        self.store.fault, self.store.may_list = no_etag, False
        self.start("1G")
        self.assertIn(local, self.feed_list())
        self.assertIn(self.local, self.feed())
        self.assertEqual(self.counts()["misses"], 0)  # the cache was not used
        when = email.utils.formatdate(time.time() - 100, usegmt=True)
        self.assertIn(local, self.feed_list())
        self.assertIn(self.local, self.feed())
        counts = self.counts()
        self.assertEqual(counts["hits"] + counts["misses"], (2 + 1) * SAMPLES)

    def test_damaged(self):
        """damaged records are fetched again, and damaged rows and files are dropped"""
        self.start("1G")
        self.assertIn(self.local, self.feed())
        self.wait_written()
        self.stop(signal.SIGKILL)
        file, = self.files()
        with open(file, "r+b") as f:
            for record in range(0, SAMPLES, 2):
                f.seek((1 << 20) + (record << 24) + 100)
                f.write(b"damaged")
        self.start("1G")
        self.assertIn(self.epochs, self.feed("--epochs", "3"))
        self.assertEqual(self.counts()["damaged"], SAMPLES // 2)
        self.wait_written(SAMPLES // 2)
        self.stop(signal.SIGKILL)
        with open(file, "r+b") as f:
            for row in range(0, SAMPLES, 3):
                f.seek(4096 + row * 48 + row % 48)
                byte = f.read(1)[0]
                f.seek(-1, os.SEEK_CUR)
                f.write(bytes([byte ^ 255]))
        self.start("1G")
        self.assertEqual(self.counts()["samples"], SAMPLES - SAMPLES // 3)
        self.assertIn(self.epochs, self.feed("--epochs", "3"))
        self.assertEqual(self.counts()["damaged"], 0)
        self.stop()
        for size in (0, 3, 5000, 1 << 21):
            os.truncate(file, size)
            self.start("1G")
            self.assertIn(self.epochs, self.feed("--epochs", "3"), size)
            self.stop()

    def test_full(self):
        """with a full disk, the stream continues: there is one warning, and samples are fetched"""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (40 << 20, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

        self.start("1G", preexec_fn=limit)
        self.assertIn(self.epochs, self.feed("--epochs", "3"))
        self.assertIn(self.epochs, self.feed("--epochs", "3"))
        counts = self.counts()
        self.assertTrue(counts["paused"])
        self.assertGreater(counts["hits"], 0)  # a full disk can be read
        self.assertLess(counts["samples"], 5)
        while "at present" not in self.read_log():
            test_stores.select.select([], [], [], 0.1)
        self.assertEqual(self.read_log().count("no samples are added to the cache at present: File too large"), 1)

    def test_folder(self):
        """a folder that others can write to is not used"""
        folder = os.path.join(self.cache, "samples-%u" % os.geteuid())
        os.mkdir(folder)
        os.chmod(folder, 0o777)
        self.start("1G")
        self.assertIn(self.local, self.feed())
        self.assertIsNone(self.counts())
        self.assertIn("other users can write to it", self.read_log())
        self.assertIn("has no cache of samples", run(CTL, "cache", f"unix:{self.socket}", env=self.env).stdout)
        self.stop()

    def wait_logged(self, text, times=1):
        while self.read_log().count(text) < times:
            self.assertIsNone(self.loader.poll(), self.read_log())
            test_stores.select.select([], [], [], 0.05)

    def start_second(self):
        """Start a loader while another one uses the cache folder. Return that one's process and socket."""
        first = self.loader, self.socket
        self.addCleanup(first[0].wait)
        self.addCleanup(first[0].kill)
        self.socket = os.path.join(self.cache, f"{len(self.files())}-{first[0].pid}.sock")
        self.start("1G")
        return first

    def test_taken_over(self):
        """while one loader has the cache, another reads its samples, and takes it over when the first is killed"""
        self.start("1G")
        self.assertIn(self.local, self.feed())
        self.wait_written()
        loader, socket = self.start_second()
        self.wait_logged("another loader uses it; its samples are read, but none are added until that loader ends")
        before = self.fetched()
        while self.counts()["samples"] < SAMPLES:  # it looks at the other loader's samples from time to time
            test_stores.select.select([], [], [], 0.05)
        self.assertIn(self.epochs, self.feed("--epochs", "3"))
        self.assertEqual((self.counts()["hits"], self.counts()["writes"]), (3 * SAMPLES, 0))
        socket, self.socket = self.socket, socket
        self.assertIn(self.local, self.feed())
        self.assertEqual(self.counts()["hits"], SAMPLES)
        self.socket = socket
        self.assertEqual(self.fetched(), before)
        loader.kill()
        self.wait_logged("the other loader has ended; this one uses its cache")
        self.assertEqual(self.counts()["samples"], SAMPLES)
        self.assertIn(self.epochs, self.feed("--epochs", "3"))
        self.assertEqual((self.counts()["hits"], self.fetched()), (6 * SAMPLES, before))
        loader, _ = self.start_second()
        self.wait_logged("another loader uses it", 2)
        loader.terminate()  # an orderly end
        self.wait_logged("the other loader has ended; this one uses its cache", 2)
        self.assertIn(self.epochs, self.feed("--epochs", "3"))
        self.assertEqual((self.counts()["hits"], self.fetched()), (3 * SAMPLES, before))

    def test_shared(self):
        """a loader reads the samples of another one while that one adds and removes some"""
        self.start("200K")
        self.assertIn(self.epochs, self.feed("--epochs", "3"))
        self.wait_written()
        _, first = self.start_second()
        while self.counts()["samples"] == 0:
            test_stores.select.select([], [], [], 0.05)
        with open(os.path.join(self.cache, "out"), "w+", encoding="utf-8") as out:
            feed = subprocess.Popen([os.path.join(BUILD, "examples", "feed"), NAME, "--loader", f"unix:{first}",
                                     "--pipeline", "rrc(32)", "--micro-batch", "8", "--epochs", "100000", "--seed",
                                     "5"], stdout=out, stderr=out, env=self.env)
            self.addCleanup(feed.wait)
            self.addCleanup(feed.kill)
            for seed in ("6", "7", "8"):
                want = self.local_hash("--epochs", "3", "--seed", seed)
                self.assertIn(want, self.feed("--epochs", "3", "--seed", seed))
            self.assertIsNone(feed.poll())
        counts = self.counts()
        self.assertGreater(counts["hits"], 0)
        self.assertEqual((counts["hits"] + counts["misses"], counts["writes"], counts["damaged"]), (9 * SAMPLES, 0, 0))

    def test_taken_over_by_a_stream(self):
        """a stream that was open before the takeover uses the cache after it, and its future uses are known"""
        self.start("1G")
        self.assertIn(self.local, self.feed())
        self.wait_written()
        loader, _ = self.start_second()
        with open(os.path.join(self.cache, "out"), "w+", encoding="utf-8") as out:
            feed = subprocess.Popen([os.path.join(BUILD, "examples", "feed"), NAME, "--loader", f"unix:{self.socket}",
                                     "--pipeline", "rrc(32)", "--micro-batch", "8", "--epochs", "100000"], stdout=out,
                                    stderr=out, env=self.env)
            self.addCleanup(feed.wait)
            self.addCleanup(feed.kill)
            while self.counts()["hits"] == 0:
                self.assertIsNone(feed.poll())
                test_stores.select.select([], [], [], 0.05)
            loader.kill()
            self.wait_logged("the other loader has ended; this one uses its cache")
            while not (self.counts() or {"samples_with_known_use": 0})["samples_with_known_use"] == SAMPLES:
                self.assertIsNone(feed.poll())
                test_stores.select.select([], [], [], 0.05)
            self.assertGreater(self.counts()["hits"], 0)

    def test_allowed(self):
        """cached samples are given only to clients that may read their prefix"""
        self.start("1G")
        self.assertIn(self.local, self.feed())
        self.wait_written()
        self.stop()
        self.loader = subprocess.Popen([os.path.join(BUILD, "plenumd"), "--socket", f"unix:{self.socket}", "--root",
                                        "s3://data/other", "--cache-size", "1G"], env=self.env,
                                       stderr=subprocess.DEVNULL)
        while not os.path.exists(self.socket):
            test_stores.select.select([], [], [], 0.02)
        self.assertEqual(self.counts()["samples"], SAMPLES)
        self.assertIn("is not below a --root of this loader", self.feed())
        self.assertEqual(self.counts()["hits"], 0)

    def test_changed(self):
        """a new version of an object does not get the old version's bytes"""
        self.start("1G")
        self.assertIn(self.local, self.feed())
        self.wait_written()
        content = self.store.objects["/data/sets/train-001.tar"]
        self.store.put("/data/sets/train-001.tar", content + bytes(512))
        self.assertIn(self.local, self.feed())
        counts = self.counts()
        self.assertEqual(counts["misses"], SAMPLES + SAMPLES // 3)
        self.assertEqual(counts["hits"], SAMPLES - SAMPLES // 3)

    def test_faults(self):
        """with a cache that is too small, faults of the store affect neither the cache nor the stream"""
        self.store.fault = store_server.Faults(self.store, SEED, 0.2,
                                               [k for k in store_server.Faults.KINDS if k != "stall"])
        self.env["PLENUM_STORE_RETRY"] = "20s"
        self.start("200K")
        self.assertIn(self.epochs, self.feed("--epochs", "3"))
        other = self.local_hash("--epochs", "3", "--seed", "7")
        self.assertIn(other, self.feed("--epochs", "3", "--seed", "7"))
        self.assertGreater(self.store.faults, 20)
        self.assertGreater(self.counts()["hits"], 0)

    def test_reports(self):
        """status, metrics and plenumctl cache have the same numbers"""
        port = test_stores.socket.create_server(("127.0.0.1", 0))
        number = port.getsockname()[1]
        port.close()
        self.start("1G", "--http-port", str(number))
        self.assertIn(self.epochs, self.feed("--epochs", "3"))
        self.wait_written()
        counts = self.counts()
        with urllib.request.urlopen(f"http://127.0.0.1:{number}/metrics") as answer:
            metrics = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if line[0] != "#")
        for name, key in (("plenum_cache_hits_total", "hits"), ("plenum_cache_misses_total", "misses"),
                          ("plenum_cache_samples", "samples"), ("plenum_cache_bytes", "bytes")):
            self.assertIn(name, metrics)
            self.assertLessEqual(float(metrics[name]), counts[key])  # up to a second old
        text = run(CTL, "cache", f"unix:{self.socket}", env=self.env).stdout
        self.assertIn(f"contents: {SAMPLES} samples", text)
        self.assertIn(f"{counts['hits']} of {3 * SAMPLES} reads", text)
        self.assertIn("cache: ", run(CTL, "status", f"unix:{self.socket}", env=self.env).stdout)
        got = run(CTL, "cache", f"unix:{self.socket}", "--json", "--price", "2", env=self.env)
        self.assertAlmostEqual(json.loads(got.stdout)["price_saved"], 2e-6 * counts["hits"], places=6)


for name in dir(test_stores.Stores):
    if name.startswith("test_") and name not in Caches.__dict__:
        setattr(Caches, name, None)  # test_stores.py has already run them
del name

if __name__ == "__main__":
    tap.main()
