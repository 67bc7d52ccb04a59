# SPDX-License-Identifier: MIT
"""Compares plenumctl and a stream with an independent implementation of docs/order.md, written from the page."""

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

WORD = 2**32


def draw(seed, position, epoch, purpose, number):
    x0, x1, x2, x3 = position, epoch, purpose, number
    k0, k1 = seed % WORD, seed // WORD
    for _ in range(10):
        a, b = 0xD2511F53 * x0, 0xCD9E8D57 * x2
        x0, x1, x2, x3 = b // WORD ^ x1 ^ k0, b % WORD, a // WORD ^ x3 ^ k1, a % WORD
        k0, k1 = (k0 + 0x9E3779B9) % WORD, (k1 + 0xBB67AE85) % WORD
    return x0, x1, x2, x3


def below(word, n):
    return word * n // WORD


def permute(seed, epoch, purpose, tweak, n, x):
    if n == 1:
        return 0
    b = (n - 1).bit_length()
    bits_low = b // 2
    bits_high = b - bits_low
    while True:
        low, high = x % 2**bits_low, x // 2**bits_low
        for r in range(24 if b <= 12 else 12):
            if r % 2 == 0:
                high ^= draw(seed, low + r * 2**16, epoch, purpose, tweak)[0] % 2**bits_high
            else:
                low ^= draw(seed, high + r * 2**16, epoch, purpose, tweak)[0] % 2**bits_low
        x = high * 2**bits_low + low
        if x < n:
            return x


class Order:
    def __init__(self, seed, samples, shuffle="global", subset=None, repeat=1):
        self.seed, self.shuffle, self.repeat = seed, shuffle, repeat
        self.first, end = subset or (0, samples)
        self.n = end - self.first
        self.positions = self.n * repeat

    def in_blocks(self, epoch, q, block):
        n = self.n
        block = min(block, n)
        blocks = n // block
        windows = (blocks + 15) // 16
        w = min(q // (16 * block), windows - 1)
        start = w * 16 * block
        length = n - start if w == windows - 1 else 16 * block
        i = permute(self.seed, epoch, 3, w, length, q - start)
        slot = w * 16 + i // block
        place = permute(self.seed, epoch, 2, 0, blocks, slot) * block + i % block if slot < blocks else start + i
        return (place + below(draw(self.seed, 0, epoch, 4, 0)[0], n)) % n

    def sample(self, epoch, p):
        q = p % self.positions // self.repeat
        if self.shuffle == "global":
            q = permute(self.seed, epoch, 1, 0, self.n, q)
        elif self.shuffle != "none":
            q = self.in_blocks(epoch, q, int(self.shuffle[len("block:"):]))
        return self.first + q

    def tries(self, epoch, p):
        return [self.first + below(draw(self.seed, p % self.positions, epoch, 5, t)[0], self.n) for t in range(100)]


def shown_by_plenumctl(samples, seed, epoch, positions, shuffle="global", subset=None, repeat=1):
    """Return {position: sample}."""
    more = ["--subset", f"{subset[0]}:{subset[1]}"] if subset else []
    out = subprocess.run([CTL, "order", f"generated:{samples}", "--seed", str(seed), "--epoch", str(epoch),
                          "--shuffle", shuffle, "--repeat", str(repeat), "--positions", positions, *more], check=True,
                         capture_output=True, text=True).stdout
    return {int(p): int(s) for p, s in re.findall(r"^(\d+)\t(\d+)\t", out, re.M)}


class OrderTest(unittest.TestCase):
    def expect(self, samples, seed, epoch, positions=":", **choice):
        order = Order(seed, samples, **choice)
        got = shown_by_plenumctl(samples, seed, epoch, positions, **choice)
        self.assertEqual(got, {p: order.sample(epoch, p) for p in got}, (samples, seed, epoch, choice))
        self.assertTrue(got)

    def test_page(self):
        """the page's examples are correct"""
        with open(os.path.join(SOURCE, "docs", "order.md"), encoding="utf-8") as f:
            page = f.read()
        (words,) = re.findall(r"all of the counter 0: `([0-9a-f ]+)`", " ".join(page.split()))
        self.assertEqual(draw(0, 0, 0, 0, 0), tuple(int(w, 16) for w in words.split()))
        rows = re.findall(r"^\| (global|block:\d+|none)(?:, subset (\d+):(\d+), repeat (\d+))? \| ([\d ]+) \|$", page,
                          re.M)
        self.assertEqual(len(rows), 3)
        for shuffle, a, b, k, samples in rows:
            order = Order(5, 10, shuffle, (int(a), int(b)) if a else None, int(k or 1))
            self.assertEqual([order.sample(0, p) for p in range(10)], [int(s) for s in samples.split()], shuffle)

    def test_small(self):
        """plenumctl shows the page's order of small data sets, at every position"""
        for n in (1, 2, 3, 4, 5, 17, 64, 65, 333):
            for shuffle in ("none", "global", "block:1", "block:3", "block:20", f"block:{n}", "block:4294967295"):
                self.expect(n, 2**64 - n, n % 3, shuffle=shuffle)

    def test_choices(self):
        """plenumctl shows the page's order with subsets and repeats"""
        for shuffle in ("none", "global", "block:4"):
            self.expect(90, 3, 1, shuffle=shuffle, subset=(7, 80), repeat=3)
            self.expect(90, 4, 4294967294, shuffle=shuffle, subset=(89, 90), repeat=2)

    def test_large(self):
        """plenumctl shows the page's order of large data sets, up to the largest"""
        for n in (4095, 4096, 4097, 2**16 + 1, 10**6, 2**31, 2**31 + 1, WORD - 2):
            for shuffle in ("global", "block:1", "block:1000", f"block:{n // 2}"):
                for at in (0, n // 3, n - 20):
                    self.expect(n, 0x123456789ABCDEF, 7, f"{at}:{at + 20}", shuffle=shuffle)


@unittest.skipIf(os.environ.get("PLENUM_SANITIZED"), "a sanitized library cannot be loaded into an ordinary Python")
@unittest.skipUnless(tap.find("numpy"), "NumPy is not installed")
class SubstituteTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import pyplenum

        cls.pyplenum = pyplenum
        cls.folder = tempfile.TemporaryDirectory()
        cls.data = os.path.join(cls.folder.name, "data")
        subprocess.run([CTL, "make-sample", cls.data, "--images", "5", "--size", "48"], check=True,
                       stdout=subprocess.DEVNULL)
        files = sorted(os.path.join(d, f) for d, _, names in os.walk(cls.data) for f in names)
        cls.bad = set(range(0, len(files), 3)) | set(range(20, 31))
        for i in cls.bad:
            with open(files[i], "wb") as f:
                f.write(b"this is not JPEG")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def expect(self, seed, **choice):
        choices = dict(choice)
        if "subset" in choices:
            choices["subset"] = "%d:%d" % choices["subset"]
        deal = choices.get("deal", "consecutive")
        substituted = 0
        with self.pyplenum.Stream(self.data, "rrc(16)", job=3, seed=seed, epochs=2, micro_batch=4, **choices) as s:
            choice.pop("deal", None)
            order = Order(seed, 40, **choice)
            self.assertEqual(s.num_positions, order.positions)
            steps = [(e, p) for e in range(2) for p in range(0, order.positions, 12)]
            for (e, p), b in zip(steps, s):
                for r in range(3):
                    for m in range(4):
                        at = p + m * 3 + r if deal == "round-robin" else p + r * 4 + m
                        want = order.sample(e, at)
                        if want in self.bad:
                            substituted += 1
                            want = next(t for t in order.tries(e, at) if t not in self.bad)
                        self.assertEqual((int(b.positions[0, r, m]), int(b.samples[0, r, m])), (at, want))
        self.assertGreater(substituted, 0)

    def test_substitutes(self):
        """a stream delivers the order of the page, including its rules for bad samples"""
        self.expect(11)
        self.expect(2**63 + 1, shuffle="block:3", subset=(4, 39))
        self.expect(5, shuffle="none", repeat=3, deal="round-robin")


if __name__ == "__main__":
    tap.main()
