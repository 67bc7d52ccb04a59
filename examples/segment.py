#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Train a small network to classify each pixel.

    python3 segment.py "list:train.csv" --classes 21       # columns path, label, mask (the mask's file)
    python3 segment.py tar:pairs --mask seg.png --classes 21
    plenumrun --num-instances 2 python3 segment.py ...

Masks are PNGs of class numbers, and are cropped and flipped together with their images. Padding is 255 in a mask; such
pixels do not count, as in torchvision's reference scripts.
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy

import pyplenum.torch


def parse() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("dataset", help="a list, archives, TFRecords or a folder, with masks")
    p.add_argument("--mask", default="mask", help="source of the masks in the data set (default: %(default)s)")
    p.add_argument("--classes", type=int, default=21, help="number of classes in the masks (default: %(default)s)")
    p.add_argument("--pipeline", default="rrc(64, scale=0.5:1) flip(0.5)", help="(default: %(default)s)")
    p.add_argument("--micro-batch", type=int, default=16, help="images per process and step (default: %(default)s)")
    p.add_argument("--epochs", type=int, default=5, help="(default: %(default)s)")
    p.add_argument("--seed", type=int, default=0)
    return p.parse_args()


def make_model(classes: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=2, dilation=2),
                         nn.ReLU(), nn.Conv2d(16, classes, 1))


def main() -> None:
    args = parse()
    job = pyplenum.job()
    if job.num_instances > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(args.seed)
    model = make_model(args.classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    network = nn.parallel.DistributedDataParallel(model) if job.num_instances > 1 else model
    with pyplenum.torch.Loader(args.dataset, args.pipeline, micro_batch=args.micro_batch, seed=args.seed, last="drop",
                               fields=("images", f"mask:{args.mask}:mask")) as loader:
        for epoch in range(args.epochs):
            right = seen = 0
            for images, masks in loader:
                scores = network(images.float().sub_(128).div_(64))
                loss = cross_entropy(scores, masks.long(), ignore_index=255)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                right += int((scores.argmax(1) == masks).sum())
                seen += int((masks != 255).sum())
            if job.instance_index == 0:
                print(f"epoch {epoch}: {100 * right / seen:.1f} % of pixels", flush=True)
    if job.num_instances > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
