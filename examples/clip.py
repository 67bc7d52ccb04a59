#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A small CLIP: train an image network and a caption network to match images with their captions.

    python3 clip.py "tar,label=none:pairs-{000..009}.tar"
    plenumrun --num-instances 2 python3 clip.py "tar,label=none:pairs-{000..009}.tar"

The archives are in WebDataset format, with a .txt for each image. For a list with a column "caption", add
--caption caption.

The loss is that of Radford et al., "Learning Transferable Visual Models From Natural Language Supervision" (2021).
"""

import argparse
import zlib
from typing import List

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy, normalize

import pyplenum.torch

WORDS = 4096


def parse() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("dataset", help="archives, a list, TFRecords or a folder, with captions")
    p.add_argument("--caption", default="txt", help="source of the captions in the data set (default: %(default)s)")
    p.add_argument("--pipeline", default="rrc(32, scale=0.5:1)", help="(default: %(default)s)")
    p.add_argument("--micro-batch", type=int, default=32, help="pairs per process and step (default: %(default)s)")
    p.add_argument("--epochs", type=int, default=5, help="(default: %(default)s)")
    p.add_argument("--seed", type=int, default=0)
    return p.parse_args()


class Clip(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.image = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ReLU(),
                                   nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
                                   nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(32 * 16, 64))
        self.text = nn.EmbeddingBag(WORDS, 64)  # a caption is the mean of its words

    def forward(self, images: torch.Tensor, words: torch.Tensor, begins: torch.Tensor) -> torch.Tensor:
        return 10 * normalize(self.image(images), dim=1) @ normalize(self.text(words, begins), dim=1).T


def words_of(captions: List[str]) -> List[torch.Tensor]:
    """Return the words of all captions as numbers, and the index at which each caption begins."""
    numbers = [[zlib.crc32(word.encode()) % WORDS for word in text.lower().split()] or [0] for text in captions]
    lengths = torch.tensor([0] + [len(each) for each in numbers])
    return [torch.tensor(sum(numbers, [])), lengths.cumsum(0)[:-1]]


def main() -> None:
    args = parse()
    job = pyplenum.job()
    if job.num_instances > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(args.seed)
    model: nn.Module = Clip()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    network = nn.parallel.DistributedDataParallel(model) if job.num_instances > 1 else model
    with pyplenum.torch.Loader(args.dataset, args.pipeline, micro_batch=args.micro_batch, seed=args.seed, last="drop",
                               fields=("images", f"caption:{args.caption}")) as loader:
        for epoch in range(args.epochs):
            losses = []
            for images, captions in loader:
                scores = network(images.float().sub_(128).div_(64), *words_of(captions))
                own = torch.arange(len(images))
                loss = (cross_entropy(scores, own) + cross_entropy(scores.T, own)) / 2
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
