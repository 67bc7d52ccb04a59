#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""SimCLR: train a small network without labels, on two views of each image, on any number of processes.

    plenumctl make-sample /tmp/sample
    python3 simclr.py /tmp/sample
    plenumrun --num-instances 2 python3 simclr.py /tmp/sample

Both views come from a single decode of the file, each with its own crop and colours. The Loader returns a list of two
tensors, as the training loops of SimCLR, BYOL, DINO and others expect. For DINO's ten crops, use

    view(global, 2, rrc(224, scale=0.32:1)) view(local, 8, rrc(96, scale=0.05:0.32))

The loss is NT-Xent of Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations" (2020).
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy, normalize

import pyplenum.torch

VIEWS = ("view(view, 2, rrc(32, scale=0.2:1) flip(0.5) color_jitter(0.4, 0.4, 0.4, 0.1, p=0.8) grayscale(0.2) "
         "blur(3, 0.1:2, p=0.5))")


def parse() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("dataset", help="a folder of images, or archives; labels are ignored")
    p.add_argument("--pipeline", default=VIEWS, help="two views of the same size (default: %(default)s)")
    p.add_argument("--micro-batch", type=int, default=32, help="images per process and step (default: %(default)s)")
    p.add_argument("--epochs", type=int, default=5, help="(default: %(default)s)")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--temperature", type=float, default=0.2, help="(default: %(default)s)")
    return p.parse_args()


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(32 * 16, 64), nn.ReLU(), nn.Linear(64, 32))


def nt_xent(one: torch.Tensor, two: torch.Tensor, temperature: float) -> torch.Tensor:
    """Return the mean cross-entropy of finding, for each image of both views, its other view among all [2N, D]."""
    z = normalize(torch.cat([one, two]), dim=1)
    scores = z @ z.T / temperature
    scores.fill_diagonal_(-float("inf"))  # do not compare an image with itself
    others = torch.arange(len(z)).roll(len(one))
    return cross_entropy(scores, others)


def main() -> None:
    args = parse()
    job = pyplenum.job()
    if job.num_instances > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(args.seed)
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    network = nn.parallel.DistributedDataParallel(model) if job.num_instances > 1 else model
    with pyplenum.torch.Loader(args.dataset, args.pipeline, micro_batch=args.micro_batch, seed=args.seed, last="drop",
                               fields=("views",)) as loader:
        for epoch in range(args.epochs):
            losses = []
            for views, in loader:
                one, two = (view.float().sub_(128).div_(64) for view in views)
                loss = nt_xent(network(one), network(two), args.temperature)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(float(loss.detach()))
            if job.instance_index == 0:
                print(f"epoch {epoch}: loss {sum(losses) / len(losses):.4f}", flush=True)
    if job.num_instances > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
