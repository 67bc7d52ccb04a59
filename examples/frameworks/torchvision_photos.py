#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""torchvision: its references/classification/train.py, with Loaders instead of DataLoaders.

    plenumctl make-sample photos
    python3 torchvision_photos.py photos --output-dir run
    python3 torchvision_photos.py photos --output-dir run --epochs 4 --resume run/checkpoint.pth
    torchrun --nproc_per_node 2 torchvision_photos.py photos

load_data() replaces the script's function of the same name, the collate_fn and both DataLoaders. The sampler's
set_epoch() is not needed: each loop over a Loader is the next epoch. The checkpoint includes the position in the data.
"""

import argparse
import os

import torch
import torch.distributed as dist
import torchvision
from torch import nn

import pyplenum.torch


def load_data(train: str, evaluation: str, args: argparse.Namespace, device: torch.device):
    common = {"micro_batch": args.batch_size, "device": device, "dtype": torch.float32}
    data_loader = pyplenum.torch.Loader(
        train, f"rrc({args.size}) flip(0.5) trivial_augment_wide(interpolation=bilinear) "
        "erase(0.1, value=124:116:104) mix(mixup=0.2, cutmix=1)", seed=args.seed, last="drop", smoothing=0.1, **common)
    data_loader_test = pyplenum.torch.Loader(
        evaluation, f"resize({args.size * 256 // 224}) center_crop({args.size})", shuffle="none", **common)
    return data_loader, data_loader_test


def train_one_epoch(model, criterion, optimizer, data_loader, epoch: int) -> None:
    model.train()
    for i, (image, target) in enumerate(data_loader):              # target: probabilities, as from RandomMixUp
        loss = criterion(model(image), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {i + 1} of {len(data_loader)} batches, loss {loss.item():.4f}", flush=True)


def evaluate(model, data_loader) -> None:
    model.eval()
    sums = torch.zeros(2)
    with torch.inference_mode():
        for image, target in data_loader:                          # the last batch may be empty in some processes
            if len(target):
                sums += torch.tensor([(model(image).argmax(1) == target).sum(), len(target)])
    if dist.is_initialized():
        dist.all_reduce(sums)
    assert sums[1] == len(data_loader.dataset)                     # the script only warns about this
    print(f"{int(sums[0])} of {len(data_loader.dataset)} right", flush=True)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("dataset")
    p.add_argument("--model", default="shufflenet_v2_x0_5")
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--size", type=int, default=48)
    p.add_argument("--seed", type=int, default=7)
    p.add_argument("--device", default="cpu")
    p.add_argument("--output-dir")
    p.add_argument("--resume")
    args = p.parse_args()
    if "RANK" in os.environ:
        dist.init_process_group()
    torch.manual_seed(args.seed)
    device = torch.device(args.device)
    data_loader, data_loader_test = load_data(args.dataset, args.dataset, args, device)
    model = torchvision.models.get_model(args.model, num_classes=len(data_loader.dataset.classes)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    if args.resume:
        checkpoint = torch.load(args.resume, map_location="cpu", weights_only=True)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        data_loader.load_state_dict(checkpoint["loader"])
    network = nn.parallel.DistributedDataParallel(model) if dist.is_initialized() else model
    for epoch in range(data_loader.epoch, args.epochs):
        train_one_epoch(network, nn.CrossEntropyLoss(), optimizer, data_loader, epoch)
        evaluate(model, data_loader_test)
        if args.output_dir and (not dist.is_initialized() or dist.get_rank() == 0):
            os.makedirs(args.output_dir, exist_ok=True)
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                        "loader": data_loader.state_dict()}, os.path.join(args.output_dir, "checkpoint.pth"))
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
