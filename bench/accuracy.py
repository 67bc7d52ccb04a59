#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Train a small network with the loader's recipe and with torchvision's own, several seeds each, and compare.

    bench/accuracy.py --build BUILD [--recipe NAME] [--seeds N]

Both train on the same generated photographs with the same distribution of crops; each draws its own random numbers.
The result is the accuracy on other photographs of the same classes. Exits with 1 if the two means differ by more than
twice the spread of the seeds plus half a point. Needs torch and torchvision (0.15 or newer).
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "python"))
SIDE, BATCH = 64, 32


def parse():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--build", default=".", help="Plenum's build folder (default: the current folder)")
    p.add_argument("--recipe", choices=["crop", "jitter", "trivial", "rand", "blur"], default="jitter")
    p.add_argument("--seeds", type=int, default=5, help="runs per loader (default: %(default)s)")
    p.add_argument("--epochs", type=int, default=12)
    p.add_argument("--classes", type=int, default=8)
    p.add_argument("--images", type=int, default=24,
                   help="images per class, for training and for evaluation (default: %(default)s)")
    return p.parse_args()


args = parse()
os.environ["PLENUM_LIBRARY"] = os.path.join(args.build, ".libs", "libplenum.so")
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torchvision import datasets  # noqa: E402
from torchvision.transforms import InterpolationMode, v2  # noqa: E402

import pyplenum  # noqa: E402
import pyplenum.torch  # noqa: E402

CROP = f"rrc({SIDE}, scale=0.25:1) flip(0.5)"
RECIPES = {  # the operations after the crop, for the loader and for torchvision
    "crop": ("", []),
    "jitter": ("color_jitter(0.4, 0.4, 0.4) grayscale(0.2) erase(0.25)",
               [v2.ColorJitter(0.4, 0.4, 0.4), v2.RandomGrayscale(0.2), "erase 0.25"]),
    "trivial": ("trivial_augment_wide erase(0.1)", [v2.TrivialAugmentWide(), "erase 0.1"]),
    "rand": ("rand_augment(2, 9)", [v2.RandAugment(2, 9)]),
    "blur": ("color_jitter(0.8, 0.8, 0.8, 0.2, p=0.8) grayscale(0.2) blur(7, 0.1:2, p=0.5) solarize(128, p=0.2)",
             [v2.RandomApply([v2.ColorJitter(0.8, 0.8, 0.8, 0.2)], 0.8), v2.RandomGrayscale(0.2),
              v2.RandomApply([v2.GaussianBlur(7, (0.1, 2.0))], 0.5), v2.RandomSolarize(128, 0.2)]),
}


def torchvision_way(folder, seed):
    torch.manual_seed(seed)
    steps = [v2.RandomResizedCrop(SIDE, scale=(0.25, 1), interpolation=InterpolationMode.BILINEAR, antialias=True),
             v2.RandomHorizontalFlip(0.5)]
    erase = 0.0
    for step in RECIPES[args.recipe][1]:
        if isinstance(step, str):
            erase = float(step.split()[1])
        else:
            steps.append(step)
    steps.append(v2.PILToTensor())
    if erase:
        steps.append(v2.RandomErasing(erase, value=0))
    dataset = datasets.ImageFolder(folder, v2.Compose(steps))
    loader = torch.utils.data.DataLoader(dataset, BATCH, shuffle=True, drop_last=True)
    for _ in range(args.epochs):
        yield from loader


def plenum_way(folder, seed):
    loader = pyplenum.torch.Loader(folder, f"{CROP} {RECIPES[args.recipe][0]}", seed=seed, micro_batch=BATCH,
                                   last="drop")
    for _ in range(args.epochs):
        yield from loader


def to_float(images):
    return (images.float() - 120) / 60


def train(batches, folder, seed):
    """Return the accuracy on the folder, in percent."""
    torch.manual_seed(1000 + seed)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 5, stride=2, padding=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        nn.Linear(64 * 16, args.classes))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for images, labels in batches:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(to_float(images)), labels).backward()
        optimizer.step()
    transform = v2.Compose([v2.Resize(72, antialias=True), v2.CenterCrop(SIDE), v2.PILToTensor()])
    loader = torch.utils.data.DataLoader(datasets.ImageFolder(folder, transform), 64)
    right = count = 0
    model.eval()
    with torch.no_grad():
        for images, labels in loader:
            right += (model(to_float(images)).argmax(1) == labels).sum().item()
            count += len(labels)
    return 100 * right / count


def main():
    torch.set_num_threads(1)
    scores = {"plenum": [], "torchvision": []}
    with tempfile.TemporaryDirectory() as top:
        made, other = os.path.join(top, "train"), os.path.join(top, "other")
        for folder, more in [(made, []), (other, ["--seed", "1000"])]:
            subprocess.run([os.path.join(args.build, "plenumctl"), "make-sample", folder, "--classes",
                            str(args.classes), "--images", str(args.images), "--size", "96", *more],
                           check=True, stdout=subprocess.DEVNULL)
        os.environ["PATH"] = os.path.abspath(args.build) + os.pathsep + os.environ["PATH"]
        for seed in range(args.seeds):
            scores["plenum"].append(train(plenum_way(made, seed), other, seed))
            scores["torchvision"].append(train(torchvision_way(made, seed), other, seed))
    for name, values in scores.items():
        print(f"{name:12} {statistics.mean(values):6.2f} %  +- {statistics.pstdev(values):5.2f}   "
              + " ".join(f"{v:.1f}" for v in values))
    apart = abs(statistics.mean(scores["plenum"]) - statistics.mean(scores["torchvision"]))
    spread = max(statistics.pstdev(v) for v in scores.values())
    print(f"recipe {args.recipe}: {apart:.2f} points apart, seeds spread by {spread:.2f}")
    return 0 if apart <= 2 * spread + 0.5 else 1


if __name__ == "__main__":
    sys.exit(main())
