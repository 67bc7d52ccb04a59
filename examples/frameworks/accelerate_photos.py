#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Hugging Face accelerate: train, and resume in mid-epoch from its own checkpoints.

    plenumctl make-sample photos
    python3 accelerate_photos.py photos --steps 5 --save run
    python3 accelerate_photos.py photos --resume run
    accelerate launch --num_processes 2 accelerate_photos.py photos                         # two GPUs
    ACCELERATE_USE_CPU=true torchrun --nproc_per_node 2 accelerate_photos.py photos         # the CPU

Create the Accelerator first, because it initialises the process group. Do not pass the Loader to prepare(): it already
gives each process its share, and copies batches to the device. After register_for_checkpointing(), save_state() saves
its position.
"""

import argparse

import accelerate
import torch
from torch import nn

import pyplenum.torch


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("dataset")
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--steps", type=int, help="stop after this many steps (default: never)")
    p.add_argument("--save", metavar="DIR", help="write a checkpoint at the end")
    p.add_argument("--resume", metavar="DIR", help="resume from this checkpoint")
    args = p.parse_args()
    accelerator = accelerate.Accelerator()
    accelerate.utils.set_seed(7)
    loader = pyplenum.torch.Loader(args.dataset, "rrc(32) flip(0.5)", seed=7, micro_batch=8, last="drop",
                                   device=accelerator.device, dtype=torch.float32,
                                   fields=("images", "labels", "samples"))
    network = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
                            nn.Linear(256, loader.stream.num_classes))
    network, optimizer = accelerator.prepare(network, torch.optim.SGD(network.parameters(), lr=0.02, momentum=0.9))
    accelerator.register_for_checkpointing(loader)
    if args.resume:
        accelerator.load_state(args.resume)
    steps = 0
    while loader.epoch < args.epochs and steps != args.steps:
        for images, labels, samples in loader:
            loss = nn.functional.cross_entropy(network(images), labels)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            every = accelerator.gather(samples).tolist()          # from all processes
            accelerator.print(f"loss {loss.item():.4f} samples {every}", flush=True)
            steps += 1
            if steps == args.steps:
                break
    if args.save:
        accelerator.save_state(args.save)
    accelerator.end_training()


if __name__ == "__main__":
    main()
