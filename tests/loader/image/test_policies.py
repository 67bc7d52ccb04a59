#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compare what policies draw with torchvision and timm, 10^5 draws each; without these, only with the policies' tables.

An effect is a name and a strength, or None if the operation changes nothing. Prints TAP.
"""

import collections
import functools
import math
import os
import random
import re
import subprocess
import sys

TOP = os.environ.get("top_builddir", ".")
DRAWS = os.path.join(TOP, "tests/loader/image/draws")
PAGE = os.path.join(os.environ.get("top_srcdir", "."), "docs/pixels.md")
N = 100_000
SIDE = 224
GEOMETRY = ["ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate"]
ENHANCE = ["Brightness", "Color", "Contrast", "Sharpness"]
FOURTEEN = ["Identity", *GEOMETRY, *ENHANCE, "Posterize", "Solarize", "AutoContrast", "Equalize"]
FIFTEEN = ["AutoContrast", "Equalize", "Invert", "Rotate", "Posterize", "Solarize", "SolarizeAdd", "Color", "Contrast",
           "Brightness", "Sharpness", "ShearX", "ShearY", "TranslateX", "TranslateY"]

count = 0


def result(ok, name, note=""):
    global count
    count += 1
    print(f"{'ok' if ok else 'not ok'} {count} - {name}{note}", flush=True)


def skip(name, why):
    global count
    count += 1
    print(f"ok {count} - {name} # SKIP {why}", flush=True)


# ---- what the loader draws ----

def of_map(x0, x1, x2, y0, y1, y2):
    one = 65536
    if (x0, y1) == (one, one) and x1 == 0 and y0 == 0:
        return ("TranslateX", 0.5 - x2 / one) if y2 == one // 2 else ("TranslateY", 0.5 - y2 / one)
    if (x0, y1) == (one, one) and x1 * y0 == 0:
        return ("ShearX", x1 / one) if y0 == 0 else ("ShearY", y0 / one)
    return ("Rotate", math.degrees(math.atan2(y0, x0)))


def effect(step):
    name, number, *rest = step.split()
    if name == "Map":
        return of_map(*[int(n) for n in rest[:6]])
    if name in ENHANCE:
        return (name, int(number) / 16384)
    return (name, int(number))


def drawn(policy, n=N, side=SIDE):
    """Return a list of effects for each sample."""
    text = subprocess.run([DRAWS, f"rrc({side}) {policy}", "2022", str(n)], capture_output=True, text=True, check=True)
    return [[effect(step) for step in line.split(";")[:-1]] for line in text.stdout.split("\n")[:-1]]


# ---- what torchvision's operations do ----

def torchvision_effect(name, magnitude):
    """Return the effect of _apply_op(name, magnitude)."""
    if name == "Identity":
        return None
    if name in ENHANCE:
        return (name, 1 + magnitude) if magnitude else None
    if name.startswith("Translate"):
        return (name, int(magnitude)) if int(magnitude) else None
    if name in GEOMETRY:
        return (name, magnitude) if magnitude else None
    if name == "Posterize":
        return (name, int(magnitude))
    return (name, math.ceil(magnitude)) if name == "Solarize" else (name, 0)


def magnitudes(bins, shear, rotate, enhance, translate, bits, fewer):
    """Return each operation's bins, and whether its sign is drawn."""
    def line(most):
        return [most * k / (bins - 1) for k in range(bins)]
    space = {"Identity": ([0.0], False), "AutoContrast": ([0.0], False), "Equalize": ([0.0], False),
             "Invert": ([0.0], False), "Rotate": (line(rotate), True),
             "Posterize": ([bits - round(fewer * k / (bins - 1)) for k in range(bins)], False),
             "Solarize": ([255 - 255 * k / (bins - 1) for k in range(bins)], False)}
    for name in ["ShearX", "ShearY"]:
        space[name] = (line(shear), True)
    for name in ["TranslateX", "TranslateY"]:
        space[name] = (line(translate), True)
    for name in ENHANCE:
        space[name] = (line(enhance), True)
    return space


def expect(space, choices):
    """Return the probability of each effect; `choices` yields (name, bin, probability)."""
    ret = collections.Counter()
    for name, at, p in choices:
        values, signed = space[name]
        value = values[min(at, len(values) - 1)]
        for sign in [1, -1] if signed else [1]:
            ret[torchvision_effect(name, sign * value)] += p / (2 if signed else 1)
    return ret


def pairs(table):
    """Return the pairs of operations in a table of docs/pixels.md, 10.2."""
    names = {"ShX": "ShearX", "ShY": "ShearY", "TrX": "TranslateX", "TrY": "TranslateY", "Ro": "Rotate",
             "Br": "Brightness", "Col": "Color", "Con": "Contrast", "Sharp": "Sharpness", "Po": "Posterize",
             "So": "Solarize", "Au": "AutoContrast", "Eq": "Equalize", "In": "Invert"}
    with open(PAGE, encoding="utf-8") as f:
        text = re.search(rf"^    {table}\n(.*?;)\n(\n|\Z)", f.read(), re.S | re.M).group(1)
    ret = []
    for pair in text.split(";")[:-1]:
        both = [op.split() for op in pair.split(",")]
        ret.append([(names[op[0]], int(op[1]) / 10, int(op[2]) if len(op) > 2 else None) for op in both])
    return ret


# ---- statistics ----

def key(e):
    """Round strengths to about 0.01 %, so that the floats of both sides agree."""
    return None if e is None else (e[0], round(e[1], 2 if e[0] == "Rotate" else 3))


def p_of_chi2(x, k):
    """Compute Wilson and Hilferty's approximation."""
    if k < 1:
        return 1.0
    z = ((x / k) ** (1 / 3) - (1 - 2 / (9 * k))) / math.sqrt(2 / (9 * k))
    return math.erfc(z / math.sqrt(2)) / 2


def fits(counts, probabilities):
    """Return p of a chi-square test of counts against probabilities, or 0 if something impossible was drawn."""
    probabilities = {k: v for k, v in probabilities.items() if v > 0}
    if not set(counts) <= set(probabilities):
        return 0.0
    n = sum(counts.values())
    x = sum((counts.get(k, 0) - n * p) ** 2 / (n * p) for k, p in probabilities.items())
    return p_of_chi2(x, len(probabilities) - 1)


def agree(a, b):
    """Return p of a chi-square test of two counts; rare values are pooled."""
    na, nb = sum(a.values()), sum(b.values())
    x, rare, cells = 0.0, [0, 0], 0
    for k in set(a) | set(b):
        if a.get(k, 0) + b.get(k, 0) < 20:
            rare[0] += a.get(k, 0)
            rare[1] += b.get(k, 0)
            continue
        cells += 1
        x += (a.get(k, 0) * math.sqrt(nb / na) - b.get(k, 0) * math.sqrt(na / nb)) ** 2 / (a.get(k, 0) + b.get(k, 0))
    if sum(rare) >= 20:
        cells += 1
        x += (rare[0] * math.sqrt(nb / na) - rare[1] * math.sqrt(na / nb)) ** 2 / sum(rare)
    return p_of_chi2(x, cells - 1)


def smirnov(a, b):
    """Return the largest distance of two distributions, and the distance that 1 in 10^4 pairs of samples exceeds."""
    a, b = sorted(a), sorted(b)
    i = j = 0
    worst = 0.0
    while i < len(a) and j < len(b):
        at = min(a[i], b[j])
        while i < len(a) and a[i] <= at:
            i += 1
        while j < len(b) and b[j] <= at:
            j += 1
        worst = max(worst, abs(i / len(a) - j / len(b)))
    return worst, 2.23 * math.sqrt((len(a) + len(b)) / (len(a) * len(b)))


def whole(samples):
    """Count the lists of effects that samples have, in order."""
    return collections.Counter(tuple(key(e) for e in sample) for sample in samples)


def single(samples):
    return collections.Counter(key(e) for sample in samples for e in (sample or [None]))


LEAST = 1e-4


# ---- torchvision ----

def by_tables():
    rand = magnitudes(31, 0.3, 30, 0.9, 150 / 331 * SIDE, 8, 4)
    wide = magnitudes(31, 0.99, 135, 0.99, 32, 8, 6)
    auto = magnitudes(10, 0.3, 30, 0.9, 150 / 331 * SIDE, 8, 4)
    return rand, wide, auto


def test_tables(policy, probabilities, samples):
    probabilities = {key(k): 0 for k in probabilities} | functools.reduce(
        lambda c, kv: c.update({key(kv[0]): kv[1]}) or c, probabilities.items(), collections.Counter())
    p = fits(single(samples), probabilities)
    result(p > LEAST, f"{policy} is drawn as its tables say", f" ({len(samples)} draws, p = {p:.3f})")


def pair_probabilities(space, table):
    """Return the probability of each pair of effects of a sample."""
    ret = collections.Counter()
    for first, second in pairs(table):
        chances = []
        for name, p, at in (first, second):
            one = expect(space, [(name, at or 0, 1.0)])
            chances.append({key(k): v * p for k, v in one.items()})
            chances[-1][None] = chances[-1].get(None, 0) + 1 - p
        for a, pa in chances[0].items():
            for b, pb in chances[1].items():
                ret[tuple(e for e in (a, b) if e)] += pa * pb / 25
    return ret


def recorded(module, transform, image):
    """Return the effects that torchvision's transform has on an image in each draw."""
    done = []
    module._apply_op = lambda img, name, magnitude, **_: done.append(torchvision_effect(name, magnitude)) or img
    space = transform._augmentation_space
    transform._augmentation_space = functools.lru_cache(maxsize=None)(space)
    ret = []
    for _ in range(N):
        done.clear()
        transform(image)
        ret.append([e for e in done if e])
    return ret


def test_torchvision(samples):
    try:
        import torch
        import torchvision.transforms.autoaugment as module
    except ImportError as e:
        skip("draws of torchvision", str(e))
        return
    torch.manual_seed(7)
    image = torch.zeros((3, SIDE, SIDE), dtype=torch.uint8)
    made = {"rand_augment(2, 9)": module.RandAugment(2, 9), "rand_augment(1, 30)": module.RandAugment(1, 30),
            "trivial_augment_wide": module.TrivialAugmentWide()}
    for name in ["imagenet", "cifar10", "svhn"]:
        made[f"auto_augment({name})"] = module.AutoAugment(module.AutoAugmentPolicy(name))
    for policy, transform in made.items():
        theirs = recorded(module, transform, image)
        theirs = [[(e[0], math.copysign(16, e[1])) if policy == "trivial_augment_wide" and e[0].startswith("Trans")
                   and abs(e[1]) == 15 else e for e in sample] for sample in theirs]
        ours = samples[policy]
        result(set(single(theirs)) - {None} == set(single(ours)) - {None}, f"{policy} has torchvision's strengths",
               f" ({len(single(ours))})")
        p, q = agree(single(theirs), single(ours)), agree(whole(theirs), whole(ours))
        result(min(p, q) > LEAST, f"{policy} is drawn as torchvision draws", f" (p = {p:.3f}, together {q:.3f})")
    test_torchvision_augmix(torch, module, samples["augmix"])


def chains(sample):
    """Return the weights and the chains of a sample."""
    weights, ret = [sample[0][1] / 65536], [[]]
    for e in sample[1:-1]:
        if e[0] == "Next":
            weights.append(e[1] / 65536)
            ret.append([])
        else:
            ret[-1].append(e)
    return weights, ret[:-1]


def test_torchvision_augmix(torch, module, samples):
    transform = module.AugMix()
    image = torch.zeros((3, SIDE, SIDE), dtype=torch.uint8)[:, :8, :8]
    weights = []
    sample_dirichlet = transform._sample_dirichlet
    transform._sample_dirichlet = lambda params: weights.append(sample_dirichlet(params)) or weights[-1]
    space = transform._augmentation_space
    transform._augmentation_space = lambda bins, _: space(bins, (SIDE, SIDE))
    theirs = recorded(module, transform, image)
    ours = [[e for chain in chains(s)[1] for e in chain] for s in samples]
    result(set(single(theirs)) - {None} == set(single(ours)) - {None}, "augmix has torchvision's strengths",
           f" ({len(single(ours))})")
    p = agree(single(theirs), single(ours))
    q = agree(collections.Counter(map(len, theirs)), collections.Counter(map(len, ours)))
    result(min(p, q) > LEAST, "augmix is drawn as torchvision draws", f" (p = {p:.3f}, numbers {q:.3f})")
    own = [w[0][0].item() for w in weights[::2]]
    parts = [w[0][1].item() for w in weights[1::2]]
    together = [(1 - m) * w for m, w in zip(own, parts)]
    for name, a, b in [("window", own, [chains(s)[0][0] for s in samples]),
                       ("second chain", together, [chains(s)[0][2] for s in samples])]:
        d, most = smirnov(a, b)
        result(d < most, f"augmix: the weight of the {name} is torchvision's", f" (distance {d:.4f}, below {most:.4f})")


def test_weights(samples):
    """The image's weight is uniform; the chains divide the rest at two uniform points."""
    rng = random.Random(5)
    made = []
    for _ in range(N):
        m = rng.random()
        u = sorted([rng.random(), rng.random()])
        made.append((m, (1 - m) * u[0], (1 - m) * (u[1] - u[0]), (1 - m) * (1 - u[1])))
    worst = [smirnov([w[i] for w in made], [chains(s)[0][i] for s in samples]) for i in range(4)]
    result(all(d < most for d, most in worst), "augmix: weights are uniform, and Dirichlet's",
           f" (distances {', '.join(f'{d:.4f}' for d, _ in worst)}, below {worst[0][1]:.4f})")
    result(all(sum(s[1] for s in sample if s[0] in ("Begin", "Next")) == 65536 for sample in samples),
           "augmix: weights sum to 1")


# ---- timm ----

TIMM = {"rand_augment(2, 9, mstd=0.5, inc=1)": "rand-m9-n2-mstd0.5-inc1",
        "rand_augment(2, 7, mstd=0.5)": "rand-m7-n2-mstd0.5",
        "rand_augment(3, 6, mstd=2.5, inc=1)": "rand-m6-n3-mstd2.5-inc1"}


def timm_effect(name, args):
    """Return the effect of one of timm's operations, given the results of its level function."""
    name = {"ColorIncreasing": "Color"}.get(name, name.replace("Increasing", "").replace("Rel", ""))
    value = args[0] if args else 0
    if name.startswith("Translate"):
        value = value * SIDE
    return (name, value) if name in ENHANCE + GEOMETRY else (name, int(value))


def level(policy, e):
    """Return the level that an effect comes from, or None if the effect does not depend on it."""
    name, value = e
    if name in ENHANCE:
        return abs(value - 1) / 0.09 if "inc=1" in policy else (value - 0.1) / 0.18
    if name in GEOMETRY:
        return abs(value) / {"S": 0.03, "T": 0.045 * SIDE, "R": 3.0}[name[0]]
    return None


def timm_by_tables(policy):
    n, m, s = (float(v) for v in re.match(r"rand_augment\((\d+), (\d+), mstd=([\d.]+)", policy).groups())
    inc = "inc=1" in policy
    rng = random.Random(11)

    def one():
        name, sign = rng.choice(FIFTEEN), rng.choice([1, -1])
        at = max(0.0, min(rng.gauss(m, s), 10.0)) / 10
        if name in ENHANCE:
            return (name, 1 + sign * 0.9 * at if inc else 0.1 + 1.8 * at)
        if name in GEOMETRY:
            return (name, sign * at * {"S": 0.3, "T": 0.45 * SIDE, "R": 30}[name[0]])
        number = {"Posterize": 4 - int(4 * at) if inc else int(4 * at), "SolarizeAdd": int(110 * at),
                  "Solarize": 256 - int(256 * at) if inc else int(256 * at)}
        return (name, number.get(name, 0))
    return [[one() for _ in range(int(n)) if rng.random() < 0.5] for _ in range(N)]


def timm_recorded(module, text):
    done = []
    transform = module.rand_augment_transform(text, {"translate_const": 100, "img_mean": (124, 116, 104)})
    for op in transform.ops:
        op.aug_fn = functools.partial(
            lambda name, img, *args, **_: done.append(timm_effect(name, args)) or img, op.name)
    ret = []
    for _ in range(N):
        done.clear()
        transform(None)
        ret.append(list(done))
    return ret


def compare_timm(policy, whose, theirs, ours):
    # At level 0 these change nothing, and our loader does not draw them.
    theirs = [[e for e in s if e[0] not in GEOMETRY + ENHANCE or abs(e[1] - (e[0] in ENHANCE)) > 1e-6] for s in theirs]

    def names(samples):
        return collections.Counter(tuple(e[0] for e in sample) for sample in samples)

    def steps(samples):
        return collections.Counter(e for sample in samples for e in sample if level(policy, e) is None)
    p, q = agree(names(theirs), names(ours)), agree(steps(theirs), steps(ours))
    result(min(p, q) > LEAST, f"{policy}: operations are {whose}", f" (p = {p:.3f}, whole strengths {q:.3f})")
    levels = [[level(policy, e) for s in samples for e in s if level(policy, e) is not None]
              for samples in (theirs, ours)]
    levels = [[round(v, 2) for v in side] for side in levels]
    d, most = smirnov(*levels)
    result(d < most, f"{policy}: levels are {whose}", f" ({len(levels[1])}, distance {d:.4f}, below {most:.4f})")
    signs = [collections.Counter((e[0], e[1] < (1 if e[0] in ENHANCE else 0)) for s in samples for e in s
                                 if level(policy, e) is not None) for samples in (theirs, ours)]
    p = agree(*signs)
    result(p > LEAST, f"{policy}: signs are {whose}", f" (p = {p:.3f})")


def test_timm():
    samples = {policy: drawn(policy) for policy in TIMM}
    for policy, ours in samples.items():
        compare_timm(policy, "those of its tables", timm_by_tables(policy), ours)
    try:
        import numpy
        import timm.data.auto_augment as module
    except ImportError as e:
        skip("draws of timm", str(e))
        return
    numpy.random.seed(3)
    random.seed(3)
    for policy, ours in samples.items():
        compare_timm(policy, "timm's", timm_recorded(module, TIMM[policy]), ours)


def test_three():
    counts = collections.Counter(sample[0][0] for sample in drawn("three_augment"))
    p = fits(counts, {name: 1 / 3 for name in ["Grayscale", "Solarize", "Blur"]})
    result(p > LEAST, "three_augment draws one of three", f" (p = {p:.3f})")


def main():
    rand, wide, auto = by_tables()
    policies = ["rand_augment(2, 9)", "rand_augment(1, 30)", "trivial_augment_wide", "auto_augment(imagenet)",
                "auto_augment(cifar10)", "auto_augment(svhn)", "augmix"]
    samples = {policy: drawn(policy) for policy in policies}
    test_tables("rand_augment(1, 30)", expect(rand, [(name, 30, 1 / 14) for name in FOURTEEN]),
                samples["rand_augment(1, 30)"])
    test_tables("trivial_augment_wide",
                expect(wide, [(name, k, 1 / 14 / 31) for name in FOURTEEN for k in range(31)]),
                samples["trivial_augment_wide"])
    for table in ["imagenet", "cifar10", "svhn"]:
        p = fits(whole(samples[f"auto_augment({table})"]), pair_probabilities(auto, table))
        result(p > LEAST, f"auto_augment({table}) is drawn as its table says", f" ({N} draws, p = {p:.3f})")
    test_weights(samples["augmix"])
    test_three()
    test_torchvision(samples)
    test_timm()
    print(f"1..{count}")


if __name__ == "__main__":
    sys.exit(main())
