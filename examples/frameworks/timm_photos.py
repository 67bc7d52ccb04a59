#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""timm: the models, optimizers, schedules and losses of its train.py, with a Loader instead of create_loader().

    plenumctl make-sample photos
    python3 timm_photos.py photos
    torchrun --nproc_per_node 2 timm_photos.py photos

loaders() replaces both calls of create_loader() in timm's train.py. Start that script with --no-prefetcher, because the
Loader already copies batches to the device and converts them to floats there.
"""

import argparse

import timm.data
import timm.loss
import timm.optim
import timm.scheduler
import timm.utils
import torch

import pyplenum.torch


def loaders(train: str, evaluation: str, data_config: dict, micro_batch: int, device: torch.device, seed: int = 42):
    side = data_config["input_size"][-1]
    common = {"micro_batch": micro_batch, "device": device, "dtype": torch.float32, "mean": data_config["mean"],
              "std": data_config["std"]}
    one = pyplenum.torch.Loader(
        train, f"rrc({side}, interpolation=random) flip(0.5) rand_augment(2, 9, mstd=0.5, inc=1) "
        "erase(0.25, scale=0.02:1/3, ratio=0.3:10/3, value=pixel)", seed=seed, last="drop", **common)
    two = pyplenum.torch.Loader(
        evaluation, f"resize({round(side / data_config['crop_pct'])}, interpolation={data_config['interpolation']}) "
        f"center_crop({side})", shuffle="none", **common)
    return one, two


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("dataset")
    p.add_argument("--model", default="test_resnet.r160_in1k")
    p.add_argument("--size", type=int, default=64)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--micro-batch", type=int, default=8)
    p.add_argument("--device", default="cpu")
    args = p.parse_args()
    device = timm.utils.init_distributed_device(args)
    timm.utils.random_seed(42)
    data_config = timm.data.resolve_data_config({"input_size": (3, args.size, args.size)},
                                                pretrained_cfg=timm.get_pretrained_cfg(args.model).to_dict())
    train, evaluation = loaders(args.dataset, args.dataset, data_config, args.micro_batch, device)
    model = timm.create_model(args.model, num_classes=train.stream.num_classes).to(device)
    optimizer = timm.optim.create_optimizer_v2(model, opt="adamw", lr=1e-3)
    schedule, epochs = timm.scheduler.create_scheduler_v2(optimizer, num_epochs=args.epochs,
                                                          updates_per_epoch=len(train))
    network, first = model, True
    if torch.distributed.is_initialized():
        network, first = torch.nn.parallel.DistributedDataParallel(model), torch.distributed.get_rank() == 0
    criterion = timm.loss.LabelSmoothingCrossEntropy(0.1)
    for epoch in range(epochs):
        model.train()
        losses = timm.utils.AverageMeter()
        for images, labels in train:
            loss = criterion(network(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.update(loss.item(), len(labels))
        schedule.step(epoch + 1)
        model.eval()
        right, all_of_them = torch.zeros((), device=device), torch.zeros((), device=device)
        with torch.no_grad():
            for images, labels in evaluation:                  # the last batch may be empty in some processes
                right += (model(images).argmax(1) == labels).sum() if len(labels) else 0
                all_of_them += len(labels)
        if torch.distributed.is_initialized():
            torch.distributed.all_reduce(right)
            torch.distributed.all_reduce(all_of_them)
        if first:
            print(f"epoch {epoch}: loss {losses.avg:.4f}, {int(right)} of {int(all_of_them)} right", flush=True)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
