# SPDX-License-Identifier: MIT
"""Compares plenumctl and streams with a second implementation of docs/order.md, 8 to 12, written from the page."""

import errno
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import warnings
from bisect import bisect_right
from fractions import Fraction
from math import isqrt

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
CTL = os.path.join(BUILD, "plenumctl")
os.environ["PLENUM_LIBRARY"] = os.path.join(BUILD, ".libs", "libplenum.so.1")
sys.path.insert(0, os.path.join(SOURCE, "python"))

import tap  # noqa: E402
from test_order import Order, below, draw, permute  # noqa: E402

WORD = 2**32


def hash_of(name):
    """Return the XXH3-64 of 1 to 3 bytes."""
    text = name.encode()
    first, middle, last = text[0], text[len(text) // 2], text[-1]
    h = (first << 16 | middle << 24 | last | len(text) << 8) ^ (0x396CFEB8 ^ 0xBE4BA423)
    h ^= h >> 33
    h = h * 0xC2B2AE3D27D4EB4F % 2**64
    h ^= h >> 29
    h = h * 0x165667B19E3779F9 % 2**64
    return h ^ h >> 32


def phase(k, shift):
    return int(format(k % WORD, "032b")[::-1], 2) ^ shift


class Plain:
    def __init__(self, seed, n, **choice):
        self.order = Order(seed, n, **choice)
        self.positions = self.order.positions

    def sample(self, p_pass, position):
        return self.order.sample(p_pass % WORD, position)


class Mixture:
    """A mixture of sets [(name, weight, order of a seed)] in pieces [(start, {name: weight})]."""

    def __init__(self, seed, sets, pieces, block, positions=None):
        self.seed, self.block, self.sets = seed, block, []
        self.first = 0
        for name, _, make in sets:
            h = hash_of(name)
            w = draw(seed, h % WORD, 0, 40, h // WORD)
            self.sets.append(make(w[1] * WORD + w[0]))
        self.pieces = []
        for j, (start, weights) in enumerate([(0, {name: w for name, w, _ in sets})] + pieces):
            shares = [Fraction(weights.get(name, 0)) for name, _, _ in sets]
            total = sum(shares)
            edges = [int(block * WORD * sum(shares[:i]) / total) for i in range(len(sets) + 1)]
            self.pieces.append((start, edges, draw(seed, j, 0, 41, 0)[0]))
        self.positions = positions

    def turns(self, end):
        """Return [(set, t)] of all positions below `end`, by counting: slow and obvious."""
        told, found = [0] * len(self.sets), []
        for begin in range(0, end, self.block):
            start, edges, shift = [p for p in self.pieces if p[0] <= begin][-1]
            u = phase((begin - start) // self.block, shift)
            cut = [(q + u) // WORD for q in edges]
            block = begin // self.block
            for slot in range(self.block):
                x = permute(self.seed, block // WORD, 42, block % WORD, self.block, slot)
                i = bisect_right(cut, x) - 1
                while cut[i + 1] <= x:
                    i += 1
                found.append((i, told[i] + x - cut[i]))
            told = [t + cut[i + 1] - cut[i] for i, t in enumerate(told)]
        return found


class Quota:
    """The order of a set whose samples have weights."""

    def __init__(self, seed, weights, positions):
        self.seed, self.positions, self.sums = seed, positions, []
        for w in weights:
            self.sums.append(w + (self.sums[-1] if self.sums else 0))
        self.shift = draw(seed, 0, 0, 41, 1)[0]

    def sample(self, epoch, p):
        x = permute(self.seed, epoch, 43, 0, self.positions, p)
        y = -(-((x + 1) * WORD - phase(epoch, self.shift)) * self.sums[-1] // (self.positions * WORD))
        return min(s for s, w in enumerate(self.sums) if w >= y)


class Strata:
    def __init__(self, seed, labels, block):
        self.seed, self.block, self.n = seed, block, len(labels)
        self.classes = [[s for s, c in enumerate(labels) if c == k] for k in sorted(set(labels))]

    def sample(self, e, p):
        n, G = self.n, self.block
        B, rest = n // G, n % G
        f = below(draw(self.seed, 0, e, 44, 0)[0], n)
        k = p // G
        j = permute(self.seed, e, 42, k, G if k < B else rest, p % G)
        if k < B:
            y = ((j * B + permute(self.seed, e, 45, 0, B, k)) * n + f) // (n - rest)
        else:
            y = -(-((j + 1) * n - f) // rest) - 1
        for c, members in enumerate(self.classes):
            if y < len(members):
                return members[permute(self.seed, e, 46, c, len(members), y)]
            y -= len(members)
        raise AssertionError(p)


def order_of(plan, seed, epoch=0, positions=":", more=()):
    """Return [(position, sample, label)] as plenumctl prints them."""
    where = ["--positions", positions] if positions else []
    done = subprocess.run([CTL, "order", plan, "--seed", str(seed), "--epoch", str(epoch), *where, *more],
                          capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(done.stderr)
    return [tuple(map(int, row)) for row in re.findall(r"^(\d+)\t(\d+)\t(-?\d+)\t", done.stdout, re.M)]


def ctl(*command):
    return subprocess.run([CTL, *command], check=True, capture_output=True, text=True).stdout


def refusal(*command):
    done = subprocess.run([CTL, *command], capture_output=True, text=True)
    assert done.returncode == 1, (command, done.stdout)
    return done.stderr


class PlanTest(unittest.TestCase):
    def test_mixture(self):
        """plenumctl shows the page's order for a mixture with a schedule"""
        plan = ("set a 7 generated:50\nset bc 2 shuffle=block:3 repeat=2 generated:20\nset d 1 generated:11\n"
                "block 16\nepoch 160\nat 64 a 1 bc 1 d 1\nat 240 bc 3 d 5\n")
        model = Mixture(9, [("a", 7, lambda s: Plain(s, 50)),
                            ("bc", 2, lambda s: Plain(s, 20, shuffle="block:3", repeat=2)),
                            ("d", 1, lambda s: Plain(s, 11))],
                        [(64, {"a": 1, "bc": 1, "d": 1}), (240, {"bc": 3, "d": 5})], 16)
        turns, first = model.turns(480), [0, 50, 70]
        for epoch in range(3):
            want = []
            for p in range(160):
                i, t = turns[epoch * 160 + p]
                own = model.sets[i]
                want.append((p, first[i] + own.sample(t // own.positions, t % own.positions)))
            self.assertEqual([row[:2] for row in order_of(plan, 9, epoch)], want)

    def test_weights_by_class(self):
        """plenumctl shows the page's order for weights by class"""
        labels = [s % 7 for s in range(30)]
        for rule, weight in (("class", lambda n: 2**40 // n), ("class:1/2", lambda n: isqrt(2**64 // n))):
            model = Quota(3, [weight(labels.count(c)) for c in labels], 30)
            for epoch in range(3):
                got = [row[1] for row in order_of(f"set x 1 weights={rule} generated,classes=7:30\n", 3, epoch)]
                self.assertEqual(got, [model.sample(epoch, p) for p in range(30)], rule)

    def test_lvis(self):
        """plenumctl shows the page's order for LVIS' repeat factors, whose sum is the length of an epoch"""
        labels = [s % 7 for s in range(30)]
        r = [max(2**16, isqrt(3 * 30 * WORD // (10 * labels.count(c)))) for c in labels]
        n = (sum(r) + 2**15) // 2**16
        model = Quota(4, r, n)
        got = order_of("set x 1 weights=lvis:0.3 generated,classes=7:30\n", 4, 1)
        self.assertEqual([row[1] for row in got], [model.sample(1, p) for p in range(n)])

    def test_strata(self):
        """plenumctl shows the page's order for stratified orders, also of several sets"""
        labels = [s % 5 for s in range(33)]
        for block in (4, 11, 40):
            model = Strata(6, labels, block)
            got = order_of(f"set x 1 generated,classes=5:33\nstratify label\nblock {block}\n", 6, 2)
            self.assertEqual([row[1] for row in got], [model.sample(2, p) for p in range(33)])
        model = Strata(6, [0] * 20 + [1] * 7, 9)
        got = order_of("set x 1 generated:20\nset y 1 generated:7\nstratify set\nblock 9\n", 6)
        self.assertEqual([row[1] for row in got], [model.sample(0, p) for p in range(27)])

    def test_single_plain(self):
        """a plan of a single set without further terms shows what the data set shows"""
        self.assertEqual(order_of("set x 1 generated:100\n", 8, 3), order_of("generated:100", 8, 3))

    def test_stacked_labels(self):
        """labels are the sets' own numbers, or stacked"""
        sets = "set a 1 generated,classes=3:6\nset b 1 generated,classes=2:4\n"
        for text, want in (("", lambda s: s % 3 if s < 6 else (s - 6) % 2),
                           ("labels stack\n", lambda s: s % 3 if s < 6 else 3 + (s - 6) % 2)):
            rows = order_of(sets + text, 1)
            self.assertEqual({s for _, s, _ in rows}, set(range(10)))
            for _, sample, label in rows:
                self.assertEqual(label, want(sample))

    def test_balance(self):
        """balanced blocks have equally many samples of each of their classes"""
        rows = order_of("set x 1 generated,classes=4:90\nbalance label\nblock 8\nepoch 64\n", 2)
        for b in range(0, 64, 8):
            self.assertEqual([[row[2] for row in rows[b:b + 8]].count(c) for c in range(4)], [2] * 4)
        rows = order_of("set x 1 generated,classes=12:90\nbalance label classes=4 each=3\n", 2)
        for b in range(0, 84, 12):
            found = [row[2] for row in rows[b:b + 12]]
            self.assertEqual((len(set(found)), {found.count(c) for c in set(found)}), (4, {3}))

    def test_plan(self):
        """plenumctl plan reports how much of each set an epoch shows, and how often each sample"""
        plan = ("set a 7 generated:50\nset b 2 repeat=2 generated:20\nset c 1 select=\"label 0..1\" "
                "generated,classes=4:40\nblock 16\nepoch 160\nat 240 b 1 c 3\n")
        rows = json.loads(ctl("plan", plan, "--json"))
        self.assertEqual((rows["positions"], rows["block"]), (160, 16))
        self.assertEqual([(s["name"], s["samples"], s["selected"], s["pass"]) for s in rows["sets"]],
                         [("a", 50, 50, 50), ("b", 20, 20, 40), ("c", 40, 20, 20)])
        self.assertEqual([(p["position"], p["shares"]) for p in rows["pieces"]],
                         [(0, {"a": 0.7, "b": 0.2, "c": 0.1}), (240, {"a": 0.0, "b": 0.25, "c": 0.75})])
        for epoch in range(3):
            rows = json.loads(ctl("plan", plan, "--json", "--epoch", str(epoch), "--seed", "9"))["sets"]
            shown = [sample for _, sample, _ in order_of(plan, 9, epoch)]
            first = (0, 50, 70, 110)
            self.assertEqual([s["shown"] for s in rows],
                             [sum(first[i] <= s < first[i + 1] for s in shown) for i in range(3)])
            for s in rows:
                self.assertAlmostEqual(s["times_most"], s["shown"] / s["selected"], 5)
        self.assertRegex(ctl("plan", plan), r"(?s)mixture of a, b, c\n.*160 positions, in blocks of 16\n.*"
                                            r"from 0 +a 70 %  b 20 %  c 10 %\nfrom 240 +b 25 %  c 75 %\n.*"
                                            r"a +50 +50 +(111 +69.38% +2.220  2.22|112 +70.00% +2.240  2.24)\n")
        one = "set x 1 weights=class generated,classes=7:30\n"  # classes of 5 and 4 samples
        (x,) = json.loads(ctl("plan", one, "--json"))["sets"]
        self.assertEqual((x["shown"], x["passes"], x["table_bytes"]), (30, 1.0, 240))
        self.assertAlmostEqual(x["times_least"], 30 / 7 / 5, 4)
        self.assertAlmostEqual(x["times_most"], 30 / 7 / 4, 4)
        (x,) = json.loads(ctl("plan", "set x 1 generated,classes=7:30\nbalance label\nblock 14\n", "--json"))["sets"]
        self.assertAlmostEqual(x["times_most"], 30 / 7 / 4, 4)
        skips = json.loads(ctl("plan", "set x 1 generated:30\nskip 20 35\n", "--json", "--epoch", "1"))
        self.assertEqual((skips["skipped"], skips["sets"][0]["shown"]), (5, 25))
        for epoch in range(3):  # within an epoch, from its beginning, and all of it
            skipping = plan + "skip 1 20\nskip 37 101\nskip 155 200\nskip 320 480\n"
            rows = json.loads(ctl("plan", skipping, "--json", "--epoch", str(epoch), "--seed", "9"))
            shown = [sample for _, sample, _ in order_of(skipping, 9, epoch)]
            self.assertEqual([s["shown"] for s in rows["sets"]],
                             [sum(first[i] <= s < first[i + 1] for s in shown) for i in range(3)])
            self.assertEqual(rows["positions"] - rows["skipped"], len(shown))
            for s in rows["sets"]:
                self.assertAlmostEqual(s["times_most"], s["shown"] / s["selected"], 5)
        self.assertRegex(ctl("plan", plan + "skip 0 20\n"), r"of which 20 are skipped\n(?s:.*)\na .* 96 +68\.57% ")
        both = ctl("plan", one, "--micro-batch", "4", "--micro-batch-time", "4ms", "--image-time", "1ms")
        self.assertIn("times each sample is shown", both)
        self.assertIn("loader cores", both)

    def test_refusals(self):
        """an impossible plan is rejected, and the message names the problem"""
        one = "set x 1 generated,classes=40:90\n"
        self.assertIn("32 classes a batch of 40: classes must be a divisor of them, or at most 13",
                      refusal("order", one + "balance label classes=32 each=4\n"))
        self.assertIn("no sample is left after select",
                      refusal("order", "set x 1 select=\"label 500\" generated:90\n"))
        self.assertIn("fold 5/5: parts are numbered from 0 to 4",
                      refusal("order", "set x 1 select=\"fold 5/5\" generated:90\n"))
        self.assertIn("an epoch that shows all of 'b' has more than 2^32 - 2 positions: set epoch to a number",
                      refusal("order", "set a 4000000 generated:9\nset b 1 generated:5000\n"))
        for select in ("not name '0* and label 0", "name women's"):
            self.assertIn("select: the closing ' is missing",
                          refusal("order", f"set x 1 select=\"{select}\" generated:90\n"))
        for rule in ("some", "class:2", "repeat:class", "repeat:some"):
            self.assertRegex(refusal("order", f"set x 1 weights={rule} generated:90\n"),
                             f"weights={rule}: one of class.* or repeat: before one of the last three")
        for threshold in ("0", "1.5", "nan"):
            self.assertIn(f"weights=lvis:{threshold}: the threshold must be more than 0 and at most 1",
                          refusal("order", f"set x 1 weights=lvis:{threshold} generated:90\n"))
        self.assertIn("a plan has its own shuffle",
                      refusal("order", "set x 1 generated:90\n", "--shuffle", "none"))
        self.assertIn("select: a term begins with", refusal("order", "set x 1 select=\"all\" generated:90\n"))
        self.assertIn("/nonexistent.npy", refusal("order", "set x 1 weights=file:/nonexistent.npy generated:90\n"))


@unittest.skipIf(os.environ.get("PLENUM_SANITIZED"), "a sanitized library cannot be loaded into an ordinary Python")
@unittest.skipUnless(tap.find("numpy"), "NumPy is not installed")
class StreamTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import numpy
        import pyplenum

        cls.np, cls.pyplenum = numpy, pyplenum
        cls.folder = tempfile.TemporaryDirectory()
        cls.data = {}
        for name, images, seed in (("red", 6, 1), ("blu", 4, 2)):
            cls.data[name] = os.path.join(cls.folder.name, name)
            subprocess.run([CTL, "make-sample", cls.data[name], "--images", str(images), "--size", "32", "--seed",
                            str(seed)], check=True, stdout=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def mix(self, **more):
        return self.pyplenum.Mix({"red": (3, self.data["red"]), "blu": (1, self.data["blu"], more)})

    def hash_of(self, text, epochs):
        done = subprocess.run([CTL, "hash", text, "--pipeline", "rrc(16) flip(0.5)", "--seed", "5", "--epochs",
                               str(epochs)], check=True, capture_output=True, text=True)
        return int(done.stdout.split()[0], 16)

    def open(self, dataset, **more):
        return self.pyplenum.Stream(dataset, "rrc(16) flip(0.5)", seed=5, **more)

    def kinds(self):
        """Return the options for each kind of order."""
        return [dict(dataset=self.mix(), block=8, at={48: {"red": 1, "blu": 1}, (64, 112, 3): {"blu": 1}}),
                dict(dataset=self.mix(repeat=2), epoch=64),
                dict(dataset=self.pyplenum.Mix(red=(1, self.data["red"]), blu=(1, self.data["blu"])),
                     stratify="label", block=8),
                dict(dataset=self.data["red"], weights="class:1/2", epoch=40),
                dict(dataset=self.data["red"], weights="class", draw="independent"),
                dict(dataset=self.data["red"], weights={1: "class"}),
                dict(dataset=self.data["red"], select="label 0..3 and not fold 0/3"),
                dict(dataset=self.data["red"], balance="label", block=16),
                dict(dataset=self.data["red"], balance="label", classes=2, each=3)]

    def test_hash(self):
        """for each kind of order, the hash of a stream is plenumctl's, whatever the replicas and micro-batch"""
        for kind in self.kinds():
            hashes = set()
            for replicas, micro_batch in ((1, 5), (3, 2), (2, 16)):
                with self.open(job=replicas, micro_batch=micro_batch, epochs=2, **kind) as stream:
                    text = os.fsdecode(self.pyplenum.stream.lib.plenum_stream_get_dataset(stream._handle))
                    hashes.add(sum(batch.hash() for batch in stream) % 2**64)
            self.assertEqual(hashes, {self.hash_of(text, 2)}, kind)

    def loader(self, name, *options, program=None):
        """Start a separate loader and return its address."""
        address = f"unix:{self.folder.name}/{name}.sock"
        process = subprocess.Popen([program or os.environ.get("PLENUM_PLENUMD") or os.path.join(BUILD, "plenumd"),
                                    "--socket", address, "--quiet", *options])
        self.process = process

        def end():
            process.kill()
            process.wait()
        self.addCleanup(end)
        return address, end

    def test_loaders(self):
        """the hash is the same if one of two loaders is killed repeatedly, and with another world size"""
        text = (f"set red 3 weights=class:1/2 {self.data['red']}\nset blu 1 {self.data['blu']}\nat 128 blu 1\n"
                "epoch 640\n")
        (one, _), (two, end), hashed = self.loader("one"), self.loader("two"), 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self.pyplenum.LoaderWarning)
            with self.open(text, loader=f"{one},{two}", micro_batch=8, epochs=2) as stream:
                for i, batch in enumerate(stream):
                    hashed += batch.hash()
                    if i % 30 == 10:
                        end()
                        _, end = self.loader("two")
                    if i == 99:
                        cursor = stream.cursor
                        break
            with self.open(text, loader=f"{one},{two}", job=3, micro_batch=4, epochs=2) as stream:
                stream.seek(cursor)
                hashed += sum(batch.hash() for batch in stream)
        self.assertEqual(hashed % 2**64, self.hash_of(text, 2))

    def test_kinds_over_loaders(self):
        """the hash is the same for each kind of order if a loader is killed and another world size continues"""
        (one, _), (two, end) = self.loader("first"), self.loader("second")
        for i, kind in enumerate(self.kinds()):
            hashed, loaders = 0, f"{one},{two}"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", self.pyplenum.LoaderWarning)
                with self.open(loader=loaders, micro_batch=4, epochs=2, **kind) as stream:
                    for step, batch in enumerate(stream):
                        hashed += batch.hash()
                        if step == 3:
                            end()
                        if step == 5 + i % 2:
                            _, end = self.loader("second")
                            cursor = stream.cursor
                            break
                    text = os.fsdecode(self.pyplenum.stream.lib.plenum_stream_get_dataset(stream._handle))
                with self.open(loader=loaders, job=3, micro_batch=2, epochs=2, **kind) as stream:
                    stream.seek(cursor)
                    hashed += sum(batch.hash() for batch in stream)
            self.assertEqual(hashed % 2**64, self.hash_of(text, 2), kind)

    @unittest.skipUnless(os.path.exists(os.path.join(BUILD, ".libs", "libplenum-tls.so")), "this build has no TLS")
    def test_tls(self):
        """the hash of a plan is the same over TLS if a loader is killed and another world size continues"""
        key = os.path.join(self.folder.name, "key")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as f:
            f.write(os.urandom(32))
        with open(os.open(key + ".client", os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as f:
            f.write(ctl("key", key, "tester"))
        os.environ["PLENUM_LOADER_KEY"] = key + ".client"
        self.addCleanup(os.environ.pop, "PLENUM_LOADER_KEY")
        at = [f"127.{random.randrange(1, 255)}.{random.randrange(256)}.{random.randrange(1, 255)}:"
              f"{random.randrange(10000, 30000)}" for _ in range(2)]

        def start(i):
            return self.loader(f"tls{i}", "--listen", at[i], "--tls-key", key)[1]

        text = (f"set red 3 weights=class {self.data['red']}\nset blu 1 select=\"not fold 0/4\" {self.data['blu']}\n"
                "at 128 blu 1\nepoch 320\n")
        start(0)
        end, hashed, where = start(1), 0, ",".join(f"tcp:{a}" for a in at)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self.pyplenum.LoaderWarning)
            with self.open(text, loader=where, micro_batch=8, epochs=2) as stream:
                for i, batch in enumerate(stream):
                    hashed += batch.hash()
                    if i in (8, 25):
                        end()
                        end = start(1)
                    if i == 49:
                        cursor = stream.cursor
                        break
            with self.open(text, loader=where, job=3, micro_batch=4, epochs=2) as stream:
                stream.seek(cursor)
                hashed += sum(batch.hash() for batch in stream)
        self.assertEqual(hashed % 2**64, self.hash_of(text, 2))

    def test_roots(self):
        """a plan opens nothing outside the loader's roots: neither data sets nor files that it names"""
        address, _ = self.loader("kept", "--root", self.data["red"])
        names = os.path.join(self.folder.name, "names.txt")
        with open(names, "w", encoding="utf-8") as f:
            f.write("a.jpg\n")
        for more in (dict(dataset=self.mix()), dict(dataset=self.data["red"], select=f"names {names}"),
                     dict(dataset=self.data["red"], weights=f"file:{names}")):
            with self.assertRaises(OSError) as caught:
                self.open(loader=address, **more)
            self.assertEqual(caught.exception.errno, errno.EACCES, caught.exception)
        with self.open(self.data["red"], loader=address, select="label 0") as stream:
            next(stream)

    def test_fields(self):
        """texts of all sets of a mixture are complete, and columns of a list select and weigh samples"""
        lists = {}
        for name, longest in (("one", 3), ("two", 30)):
            lists[name] = os.path.join(self.folder.name, f"{name}.csv")
            with open(lists[name], "w", encoding="utf-8") as f:
                f.write("path,label,caption,score\n")
                for i in range(20):
                    f.write(f"{i}.jpg,{i % 4},{'x' * (1 + i % longest)},{i / 10}\n")
        options = dict(micro_batch=1, epochs=1, fields=["caption"])
        mix = self.pyplenum.Mix(one=(1, f"list,image=none:{lists['one']}"), two=(1, f"list,image=none:{lists['two']}"))
        seen = set()
        with self.pyplenum.Stream(mix, "none", block=4, **options) as stream:
            for batch in stream:
                set_, sample = int(batch.sets[0, 0, 0]), int(batch.samples[0, 0, 0]) % 20
                self.assertEqual(str(batch["caption"][0]), "x" * (1 + sample % (3, 30)[set_]))
                seen.add((set_, sample))
        self.assertEqual(len(seen), 40)
        one = f"list,image=none,label=label:{lists['one']}"
        with self.pyplenum.Stream(one, "none", select="column score >= 1.5 and not column caption = xx",
                                  **options) as stream:
            self.assertEqual(sorted(int(b.samples[0, 0, 0]) for b in stream), [15, 17, 18])
        with self.pyplenum.Stream(one, "none", select="label 3", weights="column:score", epoch=45,
                                  **options) as stream:
            shown = [int(b.samples[0, 0, 0]) for b in stream]
        total = sum((3, 7, 11, 15, 19))
        self.assertEqual(len(shown), 45)
        for sample in (3, 7, 11, 15, 19):
            self.assertLess(abs(shown.count(sample) - 45 * sample / total), 1)

    def test_sets(self):
        """batch.sets names the set of each sample; shares of blocks are exact"""
        with self.open(self.mix(), block=8, micro_batch=8, epochs=2) as stream:
            self.assertEqual(stream.sets, ["red", "blu"])
            reds = len(self.labels_of("red"))
            self.assertEqual(stream.num_samples, reds + len(self.labels_of("blu")))
            for batch in stream:
                valid = batch.valid.reshape(-1)
                self.assertEqual((batch.sets == (batch.samples >= reds)).all(), True)
                self.assertEqual(int((batch.sets.reshape(-1)[valid] == 0).sum()), 6 * int(valid.sum()) // 8)
            self.assertEqual(list(stream.targets), self.labels_of("red") + self.labels_of("blu"))
        with self.open(self.data["red"], micro_batch=4) as stream:
            self.assertIsNone(next(stream).sets)
            self.assertEqual(stream.sets, [])

    def labels_of(self, name):
        return [int(s) for s in re.findall(r"^\d+\t\d+\t(\d+)", subprocess.run(
            [CTL, "order", self.data[name], "--shuffle", "none", "--positions", ":"], check=True, capture_output=True,
            text=True).stdout, re.M)]

    def test_resume(self):
        """a cursor resumes with another world size; later pieces may change, earlier ones may not"""
        later = {640: {"red": 1, "blu": 1}}
        with self.open(self.mix(), block=8, micro_batch=8, epoch=160, at=later) as stream:
            for _ in range(9):
                next(stream)
            cursor, rest = stream.cursor, [next(stream).samples.reshape(-1).copy() for _ in range(6)]
        want = self.np.concatenate(rest)
        for more in (dict(at=later), dict(at={128: {"blu": 1}}), dict(), dict(at={72: {"red": 2, "blu": 1}})):
            with self.open(self.mix(), block=8, job=3, micro_batch=2, epoch=160, **more) as stream:
                stream.seek(cursor)
                got = self.np.concatenate([next(stream).samples.reshape(-1).copy() for _ in range(8)])
            if more.get("at", {}).keys() != {72}:
                self.assertEqual(got.tolist(), want.tolist(), more)
        refused = [(dict(dataset=self.pyplenum.Mix({"red": (2, self.data["red"]), "blu": (1, self.data["blu"])})),
                    "the weights from position 0 on are not those that the cursor at 72 was made with: write the new "
                    "ones as a piece that begins there"),
                   (dict(dataset=self.mix(), at={64: {"red": 1}}), "the weights from position 64 on"),
                   (dict(dataset=self.mix(repeat=2)), "showed a set with other samples, weights or classes"),
                   (dict(dataset=self.mix(), epoch=320), "with epochs of another length"),
                   (dict(dataset=self.mix(), block=4), "the cursor was made with block 8;"),
                   (dict(dataset=self.mix(), last="drop"), "the cursor was made with last=pad;"),
                   (dict(dataset=self.mix(), labels="stack"), "the cursor was made with labels names;"),
                   (dict(dataset=self.pyplenum.Mix({"blu": (1, self.data["blu"]), "red": (3, self.data["red"])})),
                    "the cursor was made with the sets in another order: red, blu"),
                   (dict(dataset=self.pyplenum.Mix({"red": (3, self.data["red"]), "new": (1, self.data["blu"])})),
                    "showed sets with other names or samples, in another order or with other weights")]
        for change, sentence in refused:
            with self.open(**{"epoch": 160, "block": 8, "micro_batch": 8, **change}) as stream:
                with self.assertRaises(OSError) as caught:
                    stream.seek(cursor)
                self.assertIn(sentence, str(caught.exception))

    def test_resume_names_the_difference(self):
        """a refused cursor of one data set names what differs: select, weights, stratify, balance"""
        made = "generated,classes=10:1000"
        strata, balanced = dict(stratify="label", block=20), dict(balance="label", block=20)
        runs = [(dict(dataset=made), [(dict(weights="class"), "made without weights;"),
                                      (dict(select="label 0..4", weights="class"), "made without select, weights;"),
                                      (strata, "labels, stratify or balance, or"),
                                      (balanced, "labels, stratify or balance, or"),
                                      (dict(shuffle="none"), "another data set, pipeline, seed or order")]),
                (dict(dataset=made, weights="class"), [({}, "made with select, relabel or weights, which"),
                                                       (dict(weights="class:1/2"), "with other samples, weights"),
                                                       (dict(weights="class", epoch=500), "epochs of another length")]),
                (dict(dataset=made, **strata), [({}, "made with stratify label, which"),
                                                (balanced, "made with stratify label;"),
                                                ({**strata, "block": 40}, "made with block 20;")]),
                (dict(dataset=made, select="label 0..4"), [({}, "pipeline, seed or order .*select, weights, balance")])]
        for run, changes in runs:
            with self.open(micro_batch=64, **run) as stream:
                next(stream)
                cursor = stream.cursor
            for change, sentence in changes:
                with self.subTest(run=run, change=change), self.open(**{"dataset": made, **change}) as stream:
                    with self.assertRaisesRegex(OSError, sentence):
                        stream.seek(cursor)

    def test_later_sets_may_go(self):
        """a set that begins after the cursor may be left out again"""
        with self.open(self.pyplenum.Mix(red=(3, self.data["red"]), twi=(1, self.data["red"]),
                                         blu=(0, self.data["blu"])), block=8, epoch=160, micro_batch=8,
                       at={64: {"blu": 1}}) as stream:
            next(stream)
            cursor, want = stream.cursor, [next(stream).samples.reshape(-1).tolist() for _ in range(7)]
        with self.open(self.pyplenum.Mix(red=(3, self.data["red"]), twi=(1, self.data["red"])), block=8, epoch=160,
                       micro_batch=8) as stream:
            stream.seek(cursor)
            self.assertEqual([next(stream).samples.reshape(-1).tolist() for _ in range(7)], want)

    def test_changed_weights(self):
        """after a weights file was changed, older cursors are rejected with advice"""
        path, np = os.path.join(self.folder.name, "changing.npy"), self.np
        weights = np.arange(1, 1 + len(self.labels_of("red")), dtype=np.float32)
        np.save(path, weights)
        with self.open(self.data["red"], weights=f"file:{path}", micro_batch=4) as stream:
            next(stream)
            cursor = stream.cursor
        np.save(path, weights[::-1].copy())
        with self.open(self.data["red"], weights=f"file:{path}", micro_batch=4) as stream:
            with self.assertRaisesRegex(OSError, "other samples, weights .* give each version of a weights"):
                stream.seek(cursor)

    def test_amend_without_a_plan(self):
        """amend() of a stream without a plan raises an error that says so"""
        with self.open(self.data["red"]) as stream:
            for change in (dict(weights={1: "class"}), dict(weights={"red": {1: "class"}}), dict(at={64: {"red": 1}})):
                with self.assertRaisesRegex(OSError, "the stream has no plan that could change"):
                    stream.amend(**change)

    def test_weights_that_change_after_amend(self):
        """if a weights file was changed, amend() fails, and the stream fails after it"""
        np = self.np
        weights = np.arange(1, 1 + len(self.labels_of("red")), dtype=np.float32)
        for name, dataset in (("data", self.data["red"]), ("red", self.mix())):
            path = os.path.join(self.folder.name, f"changing {name}.npy")
            np.save(path, weights)
            with self.open(dataset, micro_batch=4, **({"weights": {}} if name == "data" else {})) as stream:
                stream.amend(weights={name: {1: f"file:{path}"}})
                stream.seek_to(2)
                np.save(path, weights[::-1].copy())
                with self.assertRaisesRegex(OSError, "weights, have changed since the stream was opened"):
                    stream.amend(weights={name: {5: "class"}})
                with self.assertRaisesRegex(OSError, "weights, have changed since the stream was opened"):
                    while True:
                        next(stream)

    def test_small_classes(self):
        """a warning names a class with fewer samples than a block shows of it"""
        data = self.made("few", 2, ["cat", "dog", "eel"])
        with self.assertWarnsRegex(self.pyplenum.LoaderWarning, "class 'cat' has 2 samples, fewer than each = 4"):
            self.open(data, balance="label", classes=1, each=4).close()

    def test_amend(self):
        """weights that amend() changes apply from their position on, like those of a plan"""
        text = "at 640 blu 1"
        with self.open(self.mix(), block=8, micro_batch=8, epoch=160, at={320: {"blu": 1}}) as stream:
            before = [next(stream).samples.reshape(-1).tolist() for _ in range(5)]
            for at, sentence in (({32: {"blu": 1}}, "position 32 has been shown: the stream is at position 40"),
                                 ({0: {"blu": 1}}, "position 0 has been shown: the stream is at position 40"),
                                 ({(0, 16): {"blu": 1}}, "position 0 has been shown"),
                                 ({44: {"blu": 1}}, "not a multiple of block = 8"),
                                 ({(48, 112): {"blu": 1}}, "at most 8 steps fit, not 64; in Python, write"),
                                 ({}, "no new weights"),
                                 ({48: {"green": 1}}, "there is no set named 'green'")):
                with self.assertRaisesRegex(OSError, sentence):
                    stream.amend(at)
            for arguments, sentence in ((dict(at=8), "mapping of positions, .*, not 8"),
                                        (dict(at={48: [1, 2]}), r"at 48: .* must be a mapping, .*, not \[1, 2\]"),
                                        (dict(at={"x": {"blu": 1}}), "a position must be a whole number, not 'x'"),
                                        (dict(at={(48,): {"blu": 1}}), "a ramp is .*, not .48,."),
                                        (dict(weights=[1]), r"mapping of epochs, .*, not \[1\]"),
                                        (dict(weights={"red": "class"}), "weights of set 'red' must be a mapping"),
                                        (dict(at=None), "no new weights")):
                with self.subTest(arguments), self.assertRaisesRegex((TypeError, ValueError, OSError), sentence):
                    stream.amend(**arguments)
            stream.amend({48: {"red": 1, "blu": 3}, 96: {"red": 1}})
            cursor = stream.cursor
            after = [next(stream).samples.reshape(-1).tolist() for _ in range(25)]
            late = stream.cursor
            stream.seek(cursor)
            again = [next(stream).samples.reshape(-1).tolist() for _ in range(25)]
            self.assertEqual(again, after)
            self.assertEqual(len(stream.targets), stream.num_samples)
            plan = os.fsdecode(self.pyplenum.stream.lib.plenum_stream_get_dataset(stream._handle))
        self.assertNotIn(text, plan)
        amended = {48: {"red": 1, "blu": 3}, 96: {"red": 1}}
        with self.open(self.mix(), block=8, micro_batch=8, epoch=160, at=amended) as stream:
            self.assertEqual([next(stream).samples.reshape(-1).tolist() for _ in range(30)], before + after)
        for options in (dict(job=3, micro_batch=2), dict(micro_batch=8)):  # opened with these weights
            with self.open(self.mix(), block=8, epoch=160, at=amended, **options) as stream:
                stream.seek(cursor)
                next(stream)
                stream.seek(late)
        with self.open(self.mix(), block=8, micro_batch=8, epoch=160, at={320: {"blu": 1}}) as stream:
            stream.seek(cursor)  # before the change
            with self.assertRaisesRegex(OSError, "the weights from position 0 on are not those"):
                stream.seek(late)
        with self.open(self.data["red"], micro_batch=8) as stream:
            with self.assertRaisesRegex(OSError, "no plan that could change"):
                stream.amend({64: {"red": 1}})

    def test_amend_before_peeked(self):
        """a batch that was only peeked at has not been shown, so its weights can change"""
        with self.open(self.mix(), block=8, micro_batch=8, epoch=160) as stream:
            next(stream), next(stream)
            stream.peek()
            with self.assertRaisesRegex(OSError, "position 8 has been shown: the stream is at position 16"):
                stream.amend({8: {"blu": 1}})
            stream.peek()
            stream.amend({16: {"blu": 1}})
            batch = next(stream)
            self.assertEqual(batch.positions.reshape(-1).tolist(), list(range(16, 24)))
            self.assertEqual({stream.sets[i] for i in batch.sets.reshape(-1)}, {"blu"})
            stream.peek()
            stream.amend({32: {"red": 1}})  # after the peeked batch, which stays
            batches = [next(stream) for _ in range(2)]
            self.assertEqual([{stream.sets[i] for i in b.sets.reshape(-1)} for b in batches], [{"blu"}, {"red"}])
    def save(self, name, weights):
        path = os.path.join(self.folder.name, name)
        self.np.save(path, self.np.asarray(weights, self.np.float32))
        return path

    def test_reweigh(self):
        """weights of samples that amend() changes apply from their epoch on; an invalid change leaves the old ones"""
        n, epochs = len(self.labels_of("red")), 4
        weights = [[1.0] * n, *([1.0 + (s % (e + 2) == 0) * e for s in range(n)] for e in range(1, epochs))]
        rules = {e: "file:" + self.save(f"reweigh-{e}.npy", w) for e, w in enumerate(weights)}
        most = 2**32 - 1
        models = [Quota(5, [int(v * most / max(w)) for v in w], n) for w in weights]
        shown, hashed, cursors = [], 0, []
        with self.open(self.data["red"], weights={0: rules[0]}, micro_batch=5, epochs=epochs) as stream:
            for epoch in range(epochs):
                for _ in range(stream.steps_per_epoch):
                    batch = next(stream)
                    shown += batch.samples.reshape(-1)[batch.valid.reshape(-1)].tolist()
                    hashed += batch.hash()
                    cursors.append(stream.cursor)
                if epoch + 1 == epochs:
                    break
                refused = [({epoch + 1: "file:/nowhere/w.npy"}, "weights from pass .* /nowhere/w.npy: No such file"),
                           ({epoch + 1: "some"}, "one of class"),
                           ({epoch + 1: "repeat:" + rules[1]}, "all passes need the same number"),
                           ({epoch: "class:1/2"}, f"pass {epoch} of set 'data' begins at position {epoch * n}, which "
                            f"has been shown: the stream is at position {epoch * n + n}" if epoch else "pass 0 has "
                            "begun"),
                           ({"blue": {epoch + 1: rules[1]}}, "there is no set named 'blue'")]
                for change, sentence in refused:
                    with self.assertRaisesRegex((OSError, ValueError), sentence):
                        stream.amend(weights=change)
                stream.amend(weights={epoch + 1: rules[epoch + 1], 70: "class"})
            text = os.fsdecode(self.pyplenum.stream.lib.plenum_stream_get_dataset(stream._handle))
        self.assertEqual(shown, [models[e].sample(e, p) for e in range(epochs) for p in range(n)])
        self.assertEqual(hashed % 2**64, self.hash_of(text, epochs))
        rows = json.loads(ctl("plan", text, "--json", "--epoch", "3"))["sets"]
        self.assertAlmostEqual(rows[0]["times_most"], n * 4 / sum(weights[3]), 4)
        self.assertEqual([(w["set"], w["pass"], w["rule"]) for w in json.loads(ctl("plan", text, "--json"))["weights"]],
                         [*(("data", e, rules[e]) for e in range(1, epochs)), ("data", 70, "class")])
        self.assertIn("from pass 70       samples of data are weighted by class\n", ctl("plan", text))
        self.assertEqual(sorted(row[0] for row in order_of(text, 5, 2, more=["--sample", "0"], positions=None)),
                         [p for p in range(n) if models[2].sample(2, p) == 0])
        # A cursor resumes, with any world size, only if all weights up to its position are the same.
        steps = len(cursors) // epochs
        for e, keep in ((0, 0), (1, 1), (2, 2), (3, 3)):
            cursor = cursors[e * steps + 3]
            with self.open(self.data["red"], weights=dict(list(rules.items())[:keep + 1]), job=3,
                           micro_batch=2) as stream:
                stream.seek(cursor)
                self.assertEqual(next(stream).samples.reshape(-1).tolist(), shown[e * n + 20:e * n + 26])
            if keep:
                with self.open(self.data["red"], weights=dict(list(rules.items())[:keep]), micro_batch=2) as stream:
                    stream.seek(cursors[e * steps - 1])  # the end of the previous epoch
                    with self.assertRaisesRegex(OSError, "other samples, weights or classes"):
                        stream.seek(cursor)
        with self.open(self.data["red"], weights=rules, micro_batch=2) as stream:
            stream.seek(cursors[2 * steps])
            stream.amend(weights={3: "class"})
            self.save("reweigh-2.npy", weights[1])
            with self.assertRaisesRegex(OSError, "give each version of a weights file its own name"):
                stream.amend(weights={3: rules[3]})

    def test_reweigh_plain(self):
        """weights can begin in a later pass, also with independent draws and in a mixture"""
        n, reds = len(self.labels_of("blu")), len(self.labels_of("red"))
        rule = "file:" + self.save("later.npy", [s == 3 for s in range(n)])
        with self.open(self.data["blu"], weights={}, draw=None, micro_batch=4, epochs=2) as stream:
            first = [next(stream).samples.reshape(-1).tolist() for _ in range(stream.steps_per_epoch)]
            self.assertEqual(sorted(sum(first, [])), list(range(n)))
            stream.amend(weights={1: rule})
            self.assertEqual({int(s) for batch in stream for s in batch.samples.reshape(-1)}, {3})
        with self.open(self.data["blu"], weights={1: rule}, draw="independent", micro_batch=n, epochs=2) as stream:
            self.assertEqual(sorted(next(stream).samples.reshape(-1).tolist()), list(range(n)))
            self.assertEqual(set(next(stream).samples.reshape(-1).tolist()), {3})
        shown, steps = [], 6 * n
        with self.open(self.mix(), block=8, micro_batch=8, epoch=8 * n) as stream:
            for step in range(steps):
                batch = next(stream)
                shown += [int(s) - reds for s in batch.samples.reshape(-1) if s >= reds]
                if step == 6:
                    with self.assertRaisesRegex(TypeError, "belong to one set of the mixture"):
                        stream.amend(weights={3: rule})
                    stream.amend(weights={"blu": {3: rule}})
            cursor = stream.cursor
            text = os.fsdecode(self.pyplenum.stream.lib.plenum_stream_get_dataset(stream._handle))
        self.assertEqual(sorted(shown[:n] + shown[n:2 * n] + shown[2 * n:3 * n]), sorted(3 * list(range(n))))
        self.assertEqual(set(shown[3 * n:]), {3})
        with self.open(text, micro_batch=8) as stream:
            stream.seek(cursor)
        with self.open(self.mix(weights={3: rule}), block=8, micro_batch=8, epoch=8 * n) as stream:
            stream.seek(cursor)
        with self.open(self.data["blu"], micro_batch=4) as stream:
            with self.assertRaisesRegex(OSError, "no plan that could change"):
                stream.amend(weights={"data": {3: rule}})
        for weights in ({"1": rule}, {-1: rule}, {True: rule}):
            with self.assertRaisesRegex(TypeError, "the numbers of passes"):
                self.open(self.data["blu"], weights=weights)

    def test_older_loader(self):
        """with an older loader, weights of samples cannot be changed, and the stream continues"""
        program = os.path.join(BUILD, "tests", "libdist", "plenumd-wrong")
        os.environ["PLENUM_WRONG_VERSION"] = "1.14"
        self.addCleanup(os.environ.pop, "PLENUM_WRONG_VERSION")
        address, _ = self.loader("older", program=program)
        with self.open(self.mix(), loader=address, block=8, micro_batch=8, epoch=64, epochs=1) as stream:
            hashed = next(stream).hash()
            with self.assertRaisesRegex(OSError, "weights of samples that change"):
                stream.amend(weights={"red": {9: "class"}})
            stream.amend({16: {"blu": 1}})
            hashed += sum(batch.hash() for batch in stream)
            text = os.fsdecode(self.pyplenum.stream.lib.plenum_stream_get_dataset(stream._handle))
        self.assertEqual(hashed % 2**64, self.hash_of(text, 1))

    def test_instances(self):
        """if instances change weights together while a loader dies, the hash is that of the changed plan"""
        for i in (0, 1):
            os.makedirs(os.path.join(self.folder.name, "job", str(i)), exist_ok=True)
            self.save(f"job/{i}/w.npy", [1 + i + (s % 3 == i) for s in range(len(self.labels_of("red")))])
        self.save("job/w.npy", [1 + s % 3 for s in range(len(self.labels_of("red")))])
        self.save("job/v.npy", [1 + s % 5 for s in range(len(self.labels_of("blu")))])
        folder = os.path.join(self.folder.name, "job")
        os.symlink(self.data["red"], os.path.join(folder, "red"))
        with open(os.path.join(folder, "plan"), "w", encoding="utf-8") as f:
            f.write(f"set red 3 {self.data['red']}\nset blu 1 {self.data['blu']}\nblock 16\nepoch 320\n")
        for count in (2, 4):
            loaders = []
            for name in ("staying", "dying"):
                address, _ = self.loader(f"{name}{count}")
                loaders.append(address)
            done = subprocess.run([os.path.join(BUILD, "plenumrun"), "--loader", "none", "-n", str(count),
                                   sys.executable, os.path.join(SOURCE, "tests", "python", "amending.py"), folder,
                                   ",".join(loaders), str(self.process.pid)], capture_output=True, text=True,
                                  env={**os.environ, "PYTHONPATH": os.path.join(SOURCE, "python"),
                                       "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
                                  check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.process.wait(), -signal.SIGKILL)
            hashed, plans = 0, set()
            for i in range(count):
                with open(os.path.join(folder, f"rank-{i}"), encoding="utf-8") as f:
                    own, differ, missing, other, plan = f.read().split("\n", 4)
                hashed += int(own)
                plans.add(plan)
                self.assertIn("different bytes", differ)
                self.assertIn("different bytes", missing)
                self.assertRegex(other, "no longer the same in all instances, so amend them again: .*different bytes")
            self.assertEqual(len(plans), 1)
            self.assertIn('weights 9 blu "file:', min(plans))
            self.assertEqual(hashed % 2**64, self.hash_of(min(plans), 2), count)

    def test_new_set(self):
        """a set that is first shown later may be added"""
        first, second = self.data["red"], self.data["blu"]
        with self.open(self.pyplenum.Mix(red=(1, first), twi=(1, first)), block=8, epoch=160, micro_batch=8) as stream:
            next(stream)
            cursor = stream.cursor
        with self.open(self.pyplenum.Mix(red=(1, first), twi=(1, first), blu=(0, second)), block=8, epoch=160,
                       micro_batch=8, at={8: {"red": 1, "twi": 1, "blu": 2}}) as stream:
            stream.seek(cursor)
            self.assertIn(2, next(stream).sets)

    def test_single_set_is_no_mixture(self):
        """a cursor of a single set is rejected by a mixture that has the set"""
        options = dict(weights="class", epoch=640)
        with self.open(self.data["red"], micro_batch=8, **options) as stream:
            next(stream)
            cursor = stream.cursor
        mix = self.pyplenum.Mix(data=(1, self.data["red"], options), blu=(0, self.data["blu"]))
        with self.open(mix, micro_batch=8, epoch=640, at={64: {"blu": 1}}) as stream:
            with self.assertRaisesRegex(OSError, "cannot resume"):
                stream.seek(cursor)

    def test_skip(self):
        """skipped positions are never shown, and all others are shown once, for any world size and cursor"""
        plain = []
        with self.open(self.data["red"], micro_batch=1, epochs=2) as stream:
            n = stream.num_positions
            plain = [int(batch.samples[0, 0, 0]) for batch in stream]
        for skips, replicas, micro_batch, steps in itertools.product(
                ([(3, 9), (11, 12), (n - 2, n + 3)], [(0, 5)], [(0, 1), (n, n + 2)], [(0, n)], [(0, n + 3)]),
                (1, 3), (1, 4, 64), (1, 2)):
            want = [s for g, s in enumerate(plain) if not any(a <= g < b for a, b in skips)]
            got = []
            with self.open(self.data["red"], job=replicas, micro_batch=micro_batch, steps=steps, epochs=2,
                           skip=skips) as stream:
                hashed, length = 0, len(stream)
                for batch in stream:
                    length -= 1
                    valid = batch.valid.reshape(-1)
                    got += batch.samples.reshape(-1)[valid].tolist()
                    hashed += batch.hash()
                text = os.fsdecode(self.pyplenum.stream.lib.plenum_stream_get_dataset(stream._handle))
            self.assertEqual(got, want, (skips, replicas, micro_batch, steps))
            self.assertEqual(length, 0, (skips, replicas, micro_batch, steps))
            self.assertEqual(hashed % 2**64, self.hash_of(text, 2))
        with self.assertRaisesRegex(OSError, "all positions are skipped"):
            self.open(self.data["red"], micro_batch=1, skip=[(0, 2**63 - 1)])
        with self.assertRaisesRegex(OSError, "with last=drop no step is left"):
            self.open(self.data["red"], micro_batch=n + 1, last="drop", skip=[(2, 3), (10**15, 10**15 + 1)])

    def test_skip_is_not_in_the_identity(self):
        """a cursor resumes in a stream that skips the following positions"""
        text = f"set data 1 {self.data['red']}\n"
        with self.open(text, micro_batch=2) as stream:
            next(stream)
            cursor = stream.cursor
        with self.open(self.data["red"], micro_batch=2, skip=[(2, 6)]) as stream:
            stream.seek(cursor)
            self.assertEqual(next(stream).positions.reshape(-1).tolist(), [6, 7])

    def test_skip_in_a_run_without_a_plan(self):
        """a run without a plan resumes with options that take effect later, and then without them again"""
        later = dict(skip=[(50, 52)]), dict(weights={}), dict(weights={1: "class"}), {}
        for order in ({}, {"shuffle": "block:3"}, {"repeat": 2}, {"last": "drop"}):
            cursors = []
            for more in (more for more in later if "weights" not in more or not order.keys() & {"shuffle", "repeat"}):
                with self.open(self.data["red"], micro_batch=4, **order, **more) as stream:
                    for cursor in cursors:
                        stream.seek(cursor)
                        self.assertEqual(next(stream).samples.reshape(-1).tolist(), shown)
                    stream.seek_to(0, 8)
                    cursors.append(stream.cursor)
                    shown = next(stream).samples.reshape(-1).tolist()
            for more in (dict(select="label 0..99"), dict(subset="0:20"), dict(weights="class"), dict(seed=6)):
                if "weights" in more and order.keys() & {"shuffle", "repeat"}:
                    continue
                options = {"seed": 5, "micro_batch": 4, **order, **more}
                with self.pyplenum.Stream(self.data["red"], "rrc(16) flip(0.5)", **options) as stream:
                    with self.assertRaisesRegex(OSError, "cannot resume"):
                        stream.seek(cursors[0])

    def test_later_weights_and_a_run_without_a_plan(self):
        """runs with and without later weights accept each other's cursors until the weights begin"""
        with self.open(self.data["red"], micro_batch=4) as plain, \
                self.open(self.data["red"], micro_batch=4, weights={1: "class"}) as later:
            plain.seek_to(1)
            later.seek(plain.cursor)
            for stream in (plain, later):
                stream.seek_to(1, 4)
            for one, other in ((plain, later), (later, plain)):
                with self.assertRaisesRegex(OSError, "cannot resume"):
                    one.seek(other.cursor)

    def test_numbers_of_listed_classes(self):
        """classes keep the numbers of classes=LIST, whatever the order of the list"""
        listed = os.path.join(self.folder.name, "listed.txt")
        names = sorted(os.listdir(self.data["red"]), reverse=True)
        with open(listed, "w", encoding="utf-8") as file:
            file.write("".join(f"{name}\n" for name in names))

        def labels_of(dataset, **more):
            with self.pyplenum.Stream(dataset, "none", classes=listed, micro_batch=1, epochs=1, **more) as stream:
                self.assertEqual(stream.classes, names)
                return {int(b.samples[0, 0, 0]): int(b.labels[0, 0, 0]) for b in stream}, stream.targets.tolist()
        plain, targets = labels_of(self.data["red"])
        for more in (dict(select="label 0..99"), dict(weights={}), dict(weights={1: "class"}),
                     dict(skip=[(10**9, 10**9 + 1)]), dict(stratify="label", block=8),
                     dict(labels="stack", weights={})):
            self.assertEqual(labels_of(self.data["red"], **more), (plain, targets), more)
        shown, targets = labels_of(self.mix())
        self.assertEqual({s: targets[s] for s in shown}, shown)
        self.assertEqual(targets[:len(plain)], [plain[s] for s in range(len(plain))])

    def test_selection(self):
        """selections by label and random ones work, and folds are the same for a folder, an archive and a list"""
        tar = os.path.join(self.folder.name, "red.tar")
        subprocess.run(["tar", "-C", self.data["red"], "-cf", tar, "."], check=True)
        labels = self.labels_of("red")
        for text, keeps in (("label 1..2", lambda c: c in (1, 2)), ("not label 0", lambda c: c != 0)):
            with self.open(self.data["red"], micro_batch=1, epochs=1, select=text) as stream:
                self.assertEqual(sorted(int(b.samples[0, 0, 0]) for b in stream),
                                 [s for s, c in enumerate(labels) if keeps(c)])
        with self.open(self.data["red"], micro_batch=1, epochs=1, select="random 2 per class") as stream:
            self.assertEqual(sorted(labels[int(b.samples[0, 0, 0])] for b in stream), sorted(2 * sorted(set(labels))))
        folds = {}
        for fold in range(3):
            for kind, where in (("folder", self.data["red"]), ("tar", f"tar,label=folder:{tar}")):
                with self.open(where, micro_batch=1, epochs=1, select=f"fold {fold}/3") as stream:
                    shown = [int(b.samples[0, 0, 0]) for b in stream]
                    folds[kind, fold] = sorted(os.path.basename(name) for name in stream.names(shown))
            self.assertEqual(folds["folder", fold], folds["tar", fold])
            # A list has the same folds, whatever the order of its lines.
            paths = sorted(os.path.relpath(os.path.join(at, name), self.data["red"])
                           for at, _, files in os.walk(self.data["red"]) for name in files)
            for lines in (paths, paths[-1:] + paths[:-1]):
                where = os.path.join(self.data["red"], "list.csv")
                with open(where, "w", encoding="utf-8") as file:
                    file.write("".join(f"{path},0\n" for path in lines))
                self.addCleanup(lambda: os.path.exists(where) and os.unlink(where))
                with self.open(f"list:{where}", micro_batch=1, epochs=1, select=f"fold {fold}/3") as stream:
                    shown = [int(b.samples[0, 0, 0]) for b in stream]
                    self.assertEqual(sorted(map(os.path.basename, stream.names(shown))), folds["folder", fold])
                os.unlink(where)
        self.assertEqual(sorted(sum((folds["folder", f] for f in range(3)), [])),
                         sorted(f for _, _, files in os.walk(self.data["red"]) for f in files))

    def made(self, name, images, classes):
        """Write `images` PPMs, all of different width and height, for each of `classes`; return the folder."""
        data = os.path.join(self.folder.name, name)
        for c, folder in enumerate(classes):
            os.makedirs(os.path.join(data, folder))
            for i in range(images):
                width, height = 10 + i, max(2, 30 - 2 * i) + c
                with open(os.path.join(data, folder, f"{i}.ppm"), "wb") as f:
                    f.write(b"P6 %d %d 255\n" % (width, height) + bytes(3 * width * height))
        return data

    def shown(self, dataset, **more):
        """Return the labels and the samples of an epoch, sorted."""
        with self.open(dataset, micro_batch=1, epochs=1, **more) as stream:
            return sorted((int(b.labels[0, 0, 0]), int(b.samples[0, 0, 0])) for b in stream)

    def test_lines_of_names(self):
        """a list of names has LF or CRLF at the end of its lines; other CRs belong to a name"""
        data = self.made("lines", 2, ["a", "a\rb"])
        with self.open(data) as stream:
            one, two, three, four = stream.names(range(4))
        names = os.path.join(self.folder.name, "lines.txt")
        for text, keeps, absent in ((f"{one}\n{four}\n", [0, 3], None), (f"{one}\r\n\r\n{three}\r\n", [0, 2], None),
                                    (f"\ufeff{two}\r\n{four}", [1, 3], None),
                                    (f"{one}\r{two}\r", [], "no sample of 1 of the names"),
                                    (f"{one}\n{two}\r{three}\n", [0], "no sample of 1 of the names")):
            with open(names, "w", encoding="utf-8", newline="") as file:
                file.write(text.replace(f"{data}/", ""))
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                with self.open(data, select=f"not names {names}", epochs=1) as stream:
                    shown = sorted(int(batch.samples[0, 0, 0]) for batch in stream)
            self.assertEqual(shown, [s for s in range(4) if s not in keeps], text)
            self.assertRegex("".join(str(w.message) for w in caught), absent or "^$", text)

    def test_sizes(self):
        """selections by image width and height, in folders and archives; image sizes are stored beside the index"""
        data = self.made("sizes", 9, ["a", "b"])
        with open(os.path.join(data, "b", "8.ppm"), "wb") as f:
            f.write(b"this is not an image")
        tar = os.path.join(self.folder.name, "sizes.tar")
        subprocess.run(["tar", "-C", data, "-cf", tar, "--sort=name", "a", "b"], check=True)
        sizes = [(10 + i, 30 - 2 * i + c) for c in range(2) for i in range(9)]
        sizes[17] = None
        for text, keeps in (("width >= 14", lambda w, h: w >= 14), ("height < 20 and width != 17",
                                                                    lambda w, h: h < 20 and w != 17)):
            want = [s for s, size in enumerate(sizes) if size and keeps(*size)]
            for where in (data, f"tar,label=folder:{tar}", data):
                self.assertEqual([s for _, s in self.shown(where, select=text)], want, (text, where))
        self.assertEqual({row[1] for row in order_of(f'set x 1 select="not width < 100" {data}\n', 1)}, {17})
        for select, sentence in (("width", "a value is missing after 'width'"), ("width ~ 3", "one of = != <"),
                                 ("height > tall", "height needs a number of pixels, not 'tall'")):
            with self.assertRaisesRegex(OSError, sentence):
                self.open(data, select=select)
        with self.assertRaisesRegex(OSError, "no images with a width and a height"):
            self.open("generated:9", select="width > 3")

    def test_kept_tables(self):
        """tables are kept beside the index, and a damaged one, or one of another plan, is never used"""
        data, cache = self.made("kept", 30, ["a", "b", "c"]), os.path.join(self.folder.name, "kept-cache")
        names = os.path.join(self.folder.name, "kept-names")
        with open(names, "w", encoding="utf-8") as f:
            f.write("a/1.ppm\nb/3.ppm\n")

        for at, _, files in os.walk(data):  # otherwise the index would be rebuilt each time, because the files are new
            for path in [at, *(os.path.join(at, name) for name in files)]:
                os.utime(path, (1e9, 1e9))

        def tables():
            return {name: os.stat(os.path.join(cache, name)) for name in os.listdir(cache) if ".order-" in name}

        plans = {f"set x 1 {key} {data}\n": count for key, count in (
            ('select="label 0..1 and width > 12"', 2), ('select="not fold 0/5 by folder" weights=class', 1),
            ("weights=class:1/2 draw=independent epoch=77", 1), ("weights=lvis:0.5", 1),
            ('select="random 7 per class" repeat=2 shuffle=none', 1), (f'select="names {names}"', 0), ("repeat=2", 0))}
        for plan, count in plans.items():
            before = set(tables()) if os.path.exists(cache) else set()
            want, files = order_of(plan, 3, more=["--cache-dir", cache]), tables()
            self.assertEqual(len(files) - len(before), count, plan)
            self.assertEqual(order_of(plan, 3, more=["--cache-dir", cache]), want)
            self.assertEqual({n: s.st_ino for n, s in tables().items()}, {n: s.st_ino for n, s in files.items()})
            for name in set(files) - before:
                path = os.path.join(cache, name)
                with open(path, "rb") as f:
                    good = f.read()
                others = [os.path.join(cache, other) for other in set(files) - before - {name}]  # made from it
                for at in (0, 9, 40, len(good) // 2, len(good) - 1, None):
                    for other in others:
                        os.remove(other)
                    bad = bytearray(good if at is not None else good[:-4])
                    if at is not None:
                        bad[at] ^= 1
                    with open(path, "wb") as f:
                        f.write(bad)
                    self.assertEqual(order_of(plan, 3, more=["--cache-dir", cache]), want, (plan, at))
                    with open(path, "rb") as f:
                        self.assertEqual(f.read(), good, (plan, at))
                for other in others:
                    os.remove(other)
                os.chmod(path, 0o666)  # another user might have written it
                self.assertEqual(order_of(plan, 3, more=["--cache-dir", cache]), want)
                self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)

    def test_kept_fields(self):
        """numbers and texts beside samples of archives are kept beside the index; new archives have new ones"""
        cache, tar = os.path.join(self.folder.name, "kept-values"), os.path.join(self.folder.name, "values.tar")

        def write(scores):
            folder = tempfile.mkdtemp(dir=self.folder.name)
            for i, score in enumerate(scores):
                with open(os.path.join(folder, f"{i:02}.ppm"), "wb") as f:
                    f.write(b"P6 1 1 255\n" + bytes(3))
                with open(os.path.join(folder, f"{i:02}.json"), "w", encoding="utf-8") as f:
                    json.dump({**({"score": score} if score is not None else {}), "kind": "abc"[i % 3] * (i % 5)}, f)
            subprocess.run(["tar", "-C", folder, "-cf", tar, "--sort=name", "--mtime=@1000000000",
                            *sorted(os.listdir(folder))], check=True)
            os.utime(tar, (1e9 + scores[0], 1e9 + scores[0]))

        def tables():
            return [os.path.join(cache, name) for name in os.listdir(cache) if ".order-" in name]

        def shown(keys, epoch=0):
            return [row[1] for row in order_of(f"set x 1 {keys} tar,label=none:{tar}\n", 3, epoch,
                                               more=["--cache-dir", cache])]

        for first in (1.0, 2.0):
            scores = [first, 0.25, None, 0.0, 8.5, 3.0, 0.75]
            write(scores)
            select = "json.score >= 0.75 and not json.kind = bbbb and not json.kind = ''"
            want = {i for i, score in enumerate(scores) if score is not None and score >= 0.75 and i % 5 and i != 4}
            for _ in range(2):
                self.assertEqual(set(shown(f'select="{select}"')), want)
                got = shown("weights=json.score select=\"json.score >= 0\" epoch=4000")
                total = sum(score or 0 for score in scores)
                for i, score in enumerate(scores):
                    self.assertLess(abs(got.count(i) - 4000 * (score or 0) / total), 1)
                self.assertEqual(len(tables()), 2)
            for path in tables():
                with open(path, "rb") as f:
                    good = f.read()
                for at in (0, len(good) // 2, len(good) - 1):
                    with open(path, "wb") as f:
                        f.write(good[:at] + bytes([good[at] ^ 1]) + good[at + 1:])
                    self.assertEqual(set(shown(f'select="{select}"')), want)
                    shown("weights=json.score select=\"json.score >= 0\"")
                    with open(path, "rb") as f:
                        self.assertEqual(f.read(), good)

    def test_relabel(self):
        """a file gives classes new names or numbers, and samples of classes that it does not name are left out"""
        data = self.made("animals", 2, ["cat", "dog", "eel", "fox"])
        path = os.path.join(self.folder.name, "relabel.txt")

        def write(text):
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)

        def opened(**more):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                with self.open(data, relabel=path, **more) as stream:
                    return stream.classes, list(stream.targets), [str(w.message) for w in caught]

        write("# new classes\ndog\tpet, tame\ncat\tpet, tame\n\neel , fish\nfox,wild\n")
        self.assertEqual(opened()[:2], (["fish", "pet, tame", "wild"], [1, 1, 1, 1, 0, 0, 2, 2]))
        self.assertEqual(self.shown(data, relabel=path),
                         [(0, 4), (0, 5), (1, 0), (1, 1), (1, 2), (1, 3), (2, 6), (2, 7)])
        self.assertEqual(self.shown(data, relabel=path, select="class dog|eel"), [(0, 4), (0, 5), (1, 2), (1, 3)])
        with self.open(data, relabel=path, weights="class", epoch=60, micro_batch=60) as stream:
            labels = next(stream).labels.reshape(-1).tolist()
        self.assertEqual([labels.count(c) for c in range(3)], [20, 20, 20])
        write("cat,7\nfox,2\n")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self.pyplenum.LoaderWarning)
            self.assertEqual(self.shown(data, relabel=path), [(2, 6), (2, 7), (7, 0), (7, 1)])
            self.assertEqual(self.shown(data, relabel=path, stratify="label", block=2),
                             [(2, 6), (2, 7), (7, 0), (7, 1)])
        classes, targets, said = opened()
        self.assertEqual(targets, [7, 7, -1, -1, -1, -1, 2, 2])
        self.assertIn(f"set 'data' leaves out 2 of its 4 classes, not named in {path}", said[0])
        with self.assertRaisesRegex(OSError, "no sample is left after select and relabel"):
            self.open(data, relabel=path, select="class dog")
        for text, sentence in (("cat\n", "line 1: a class, a tab or a comma, and its new class are needed"),
                               ("cat,1\ncow,2\n", "line 2: .* has no class 'cow'"),
                               ("cat,1\ncat,2\n", "line 2: class 'cat' is named twice"),
                               ("cat,a,b\n", "line 1: it has several commas"), ("\n", "names no class of"),
                               ("cat\ta\tb\n", "line 1: it has several tabs"),
                               ("dog,2\ncat,-1\n", "line 2: the new class '-1' is not a class number from 0 to"),
                               ("cat,1.5\n", "line 1: the new class '1.5' is not a class number"),
                               ("cat,1048576\n", "line 1: the new class '1048576' is not a class number"),
                               ("cat,1\ndog,2\neel,no\n", "line 3: 'no' is a name, unlike the new class on line 1"),
                               ("cat,no\ndog,2\n", "line 2: '2' is a number, unlike the new class on line 1")):
            write(text)
            with self.assertRaisesRegex(OSError, sentence):
                self.open(data, relabel=path)
        write("\ufeffcat,x\r\ndog,y\r\neel,y\r\nfox,x\r\n")
        self.assertEqual(opened(), (["x", "y"], [0, 0, 1, 1, 1, 1, 0, 0], []))
        numbers = os.path.join(self.folder.name, "numbers.txt")
        with open(numbers, "w", encoding="utf-8") as f:
            f.write("0,even\n1,odd\n2,even\n3,odd\n")
        self.assertEqual(self.shown("generated,classes=4:6", relabel=numbers),
                         [(0, 0), (0, 2), (0, 4), (1, 1), (1, 3), (1, 5)])

    def test_absent_names(self):
        """a class that does not exist is rejected, and names that no sample has are counted"""
        data = self.made("absent", 2, ["cat", "dog"])
        for text in ("cat|dgo", "cat|", "|cat", "cat||dog"):
            with self.assertRaisesRegex(OSError, "has no class named '(dgo)?'"):
                self.open(data, select=f"class {text}")
        path = os.path.join(self.folder.name, "absent names.txt")
        names = sorted(os.path.join(label, name) for label in os.listdir(data)
                       for name in os.listdir(os.path.join(data, label)))
        with open(path, "w", encoding="utf-8") as f:
            f.write("\ufeff" + "\r\n".join([names[0], names[3], "cat/9.ppm", "dog/9.ppm", "cat/9.ppm", names[3]]))
        options = dict(select=f"names '{path}'")
        said = "set 'data' has no sample of 2 of the names that it selects, such as cat/9.ppm"
        with self.assertWarnsRegex(self.pyplenum.LoaderWarning, said):
            self.assertEqual([s for _, s in self.shown(data, **options)], [0, 3])
        plan = f"set data 1 select=\"names '{path}'\" {data}\n"
        self.assertIn(f"warning      {said}", ctl("index", plan))
        self.assertEqual(json.loads(ctl("index", plan, "--json"))["warning"], said)
        more = ("-p", "rrc(8)", "-m", "1", "--micro-batch-time", "1ms")
        self.assertIn(f"warning      {said}", ctl("plan", plan, *more))
        self.assertEqual(json.loads(ctl("plan", plan, *more, "--json"))["warning"], said)
        with open(path, "w", encoding="utf-8") as f:
            f.write("\n".join(names[1:]))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual([s for _, s in self.shown(data, **options)], [1, 2, 3])

    def test_scarce(self):
        """a random selection that finds fewer samples than requested causes a warning"""
        data = self.made("scarce", 3, ["cat", "dog"])
        for text, count, said in (
                ("random 7", 6, "'random 7' finds only 6 samples"), ("random 6", 6, None),
                ("class dog and random 4", 3, "'random 4' finds only 3 samples"), ("random 3 per class", 6, None),
                ("random 4 per class", 6, "set 'data': 'random 4 per class' finds fewer samples in 2 of the classes, "
                 "such as 3 in class 0")):
            with self.subTest(text), warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                self.assertEqual(len(self.shown(data, select=text)), count)
                self.assertEqual(len(found), said is not None, found)
                for warning in found:
                    self.assertIn(said, str(warning.message))

    def test_each_data_set(self):
        """plenumctl index and verify process each data set of a plan once"""
        data = self.made("each", 3, ["a", "b"])
        with open(os.path.join(data, "a", "1.ppm"), "wb") as f:
            f.write(b"this is not an image")
        plan = (f"set x 2 {self.data['red']}\nset y 1 select=\"width > 10\" {data}\nset z 1 {data}\nblock 8\n")
        shown = json.loads(ctl("index", plan, "--json"))
        self.assertEqual([s["name"] for s in shown["sets"]], [f"folder:{self.data['red']}", f"folder:{data}"])
        self.assertEqual(shown["plan"], "mixture of x, y, z")
        text = ctl("index", plan)
        self.assertEqual(text.count("data set "), 2)
        self.assertIn("plan         mixture of x, y, z: epochs of", text)
        done = subprocess.run([CTL, "verify", plan, "--json", "--no-list"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        sets = json.loads(done.stdout)["sets"]
        self.assertEqual([(s["name"], [p["name"] for p in s["problems"]]) for s in sets],
                         [(f"folder:{self.data['red']}", []), (f"folder:{data}", [f"{data}/a/1.ppm"])])
        path = os.path.join(self.folder.name, "plan.txt")
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"set x 1 {self.data['red']}\nset y 1 {self.data['blu']}\n")
        self.assertEqual(ctl("verify", f"@{path}", "--no-list").count("problems     0"), 2)
        self.assertIn("--compare: this is a plan", refusal("index", f"@{path}", "--compare", "/nowhere"))
        self.assertIn("this is a plan", refusal("pack", f"@{path}", os.path.join(self.folder.name, "out")))

    def test_find_sample(self):
        """plenumctl order --sample finds a path in all sets of a plan, or in one"""
        data = self.made("found", 3, ["a", "b"])
        other = self.made("other", 2, ["a"])
        plan = f"set x 1 {data}\nset y 3 {other}\nblock 8\nepoch 64\nlabels numbers\n"
        rows = order_of(plan, 5)
        for name, samples in (("a/1.ppm", {1, 7}), ("x:a/1.ppm", {1}), ("y:a/1.ppm", {7}), ("b/2.ppm", {5}),
                              ("6", {6}), ("x:5", {5}), ("y:1", {7})):
            self.assertEqual([row[:2] for row in order_of(plan, 5, more=["--sample", name], positions=None)],
                             [row[:2] for row in rows if row[1] in samples], name)
        for name in ("y:b/2.ppm", "y:2", "z:1"):
            self.assertIn(f"no sample {name}", refusal("order", plan, "--sample", name))

    def test_numbers(self):
        """numbers of a selection and of a data set are compared as float32"""
        path = os.path.join(self.folder.name, "numbers.csv")
        picture = next(os.path.join(at, name) for at, _, names in os.walk(self.data["red"]) for name in names)
        with open(path, "w", encoding="utf-8") as file:
            file.write("path,label,n\n" + "".join(f"{picture},0,{n}\n" for n in ("0.1", "0.7", "0.3", "-2", "")))
        for text, shown in (("= 0.1", [0]), ("<= 0.1", [0, 3]), (">= 0.7", [1]), ("< 0.7", [0, 2, 3]),
                            ("!= 0.3", [0, 1, 3])):
            with self.open(f"list:{path}", micro_batch=1, epochs=1, select=f"column n {text}") as stream:
                self.assertEqual(sorted(int(b.samples[0, 0, 0]) for b in stream), shown, text)
        for select, sentence in (("column n = 16777216", "exact only below 16777216"),
                                 ("name names and label 7", "no sample is left after select")):
            with self.assertRaisesRegex(OSError, sentence):
                self.open(f"list:{path}", select=select)

    def test_weights_of_a_file(self):
        """weights are read from a file, and each mistake in it has its own message"""
        np, path = self.np, os.path.join(self.folder.name, "w.npy")
        n = len(self.labels_of("red"))
        weights = np.zeros(n, np.float32)
        weights[3], weights[5] = 1, 2
        np.save(path, weights)
        with self.open(self.data["red"], weights=f"file:{path}", epoch=30, micro_batch=1, epochs=1) as stream:
            shown = [int(b.samples[0, 0, 0]) for b in stream]
        self.assertEqual((shown.count(3), shown.count(5)), (10, 20))
        np.save(path, weights)
        with self.open(self.data["red"], weights=f"repeat:file:{path}", micro_batch=1, epochs=1) as stream:
            self.assertEqual(sorted(int(b.samples[0, 0, 0]) for b in stream), [3, 5, 5])
        for bad, sentence in ((weights[:10], f"weights of {n} samples are needed, {path} has 10"),
                              (-weights, "weight of sample 3 ("),
                              (weights * np.float32(1.5e38), "is 1.5e+38: it must be from 0 to 1e30"),
                              (weights * 0, "all weights are 0"),
                              (weights.astype(np.float64), "an array of float32 in one dimension is needed")):
            np.save(path, bad)
            with self.assertRaises(OSError) as caught:
                self.open(self.data["red"], weights=f"file:{path}")
            self.assertIn(sentence, str(caught.exception))

    def test_example(self):
        """examples/balance.py: a rare class is recognised once its samples are shown more often"""
        data = os.path.join(self.folder.name, "imbalanced")
        subprocess.run([CTL, "make-sample", data, "--images", "60", "--size", "48", "--seed", "1"], check=True,
                       stdout=subprocess.DEVNULL)
        for name in sorted(os.listdir(os.path.join(data, "waves")))[8:]:
            os.remove(os.path.join(data, "waves", name))
        out = subprocess.run([sys.executable, os.path.join(SOURCE, "examples", "balance.py"), data], check=True,
                             capture_output=True, text=True,
                             env={**os.environ, "PYTHONPATH": os.path.join(SOURCE, "python")}).stdout
        self.assertIn("waves has 8 of", out)
        without, weighted = map(float, re.findall(r"waves ([0-9.]+)$", out, re.M))
        self.assertGreater(weighted, without)

    def test_refused(self):
        """impossible combinations are rejected when the stream is opened"""
        for more, sentence in ((dict(dataset=self.mix(), subset="0:3"), "subset = 0:3"),
                               (dict(dataset=self.mix(), split="file"), "a mixture of data sets has no parts: "
                                "split = file"),
                               (dict(dataset=self.data["red"], select="label 99"), "no sample is left after select"),
                               (dict(dataset=self.mix(weights="class"), stratify="label", block=8), "cannot be used"),
                               (dict(dataset="generated:4000000000", select="label 0"), "more memory than this loader"),
                               (dict(dataset=self.pyplenum.Mix(a=(1, "generated,classes=2000000000:5"),
                                                               b=(1, "generated:5")), labels="stack"),
                                "more memory than this loader")):
            with self.assertRaises(OSError) as caught:
                self.open(**more)
            self.assertIn(sentence, str(caught.exception))

    def test_wrong_types(self):
        """a value of the wrong type is rejected in one sentence that names its option"""
        red, pairs = self.data["red"], "skip= needs pairs of positions, as in .*, not "
        for options, sentence in ((dict(skip=(5, 9)), pairs + r"\(5, 9\)"), (dict(skip="5 9"), pairs + "'5 9'"),
                                  (dict(skip=[(1, 2, 3)]), pairs), (dict(skip=5), pairs + "5"),
                                  (dict(skip=[(1, 2.5)]), pairs)):
            with self.subTest(options), self.assertRaisesRegex((TypeError, ValueError), sentence):
                self.open(red, **options)
        for weights in (self.np.ones(8, "f4"), [1, 2, 3], {2: self.np.ones(8, "f4")}, 1.5):
            with self.subTest(weights), self.assertRaisesRegex(
                    TypeError, r"weights= needs a rule .*, not a value of type \w+: .*numpy.save.*'file:w.npy'"):
                self.open(red, weights=weights)
        for block in (12.5, True, "abc"):
            with self.subTest(block), self.assertRaisesRegex(TypeError, "block must be a whole number, not "):
                self.open(self.mix(), block=block)
        for sets, sentence in (([(1, red)], "a Mix is a mapping of names"), (5, "a Mix is a mapping of names"),
                               ({"red": (1, red, 5)}, "set 'red': options must be a mapping, .*, not 5")):
            with self.subTest(sets), self.assertRaisesRegex(TypeError, sentence):
                self.pyplenum.Mix(sets)

    def test_substitutes(self):
        """a bad sample is replaced by one of its own set"""
        data = os.path.join(self.folder.name, "bad")
        subprocess.run([CTL, "make-sample", data, "--images", "4", "--size", "32"], check=True,
                       stdout=subprocess.DEVNULL)
        files = sorted(os.path.join(d, f) for d, _, names in os.walk(data) for f in names)
        for path in files[::2]:
            with open(path, "wb") as f:
                f.write(b"this is not JPEG")
        with self.open(self.pyplenum.Mix(red=(1, self.data["red"]), bad=(1, data)), block=4, micro_batch=4,
                       epochs=1) as stream:
            substituted = 0
            for batch in stream:
                self.assertEqual(batch.sets.reshape(-1).tolist().count(1), 2)
                substituted += batch.num_substituted
        self.assertGreater(substituted, 0)


if __name__ == "__main__":
    tap.main()
