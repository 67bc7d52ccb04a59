#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""TensorBoard and W&B: log the loader's statistics together with the loss.

    plenumctl make-sample photos
    python3 log_stats.py photos runs
    tensorboard --logdir runs
"""

import sys

from torch.utils.tensorboard import SummaryWriter

import pyplenum.torch

dataset, folder = sys.argv[1:3]
with SummaryWriter(folder) as writer, pyplenum.torch.Loader(dataset, "rrc(32)", micro_batch=8) as loader:
    for step, (images, labels) in enumerate(loader):
        for name, value in loader.stats._asdict().items():
            if not isinstance(value, str):
                writer.add_scalar(f"data/{name}", value, step)     # W&B: wandb.log({f"data/{name}": value}, step=step)
