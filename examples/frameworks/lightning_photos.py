#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lightning: a data module that resumes in mid-epoch from Lightning's own checkpoints.

    plenumctl make-sample photos
    python3 lightning_photos.py photos --steps 5 --save run.ckpt
    python3 lightning_photos.py photos --resume run.ckpt
    python3 lightning_photos.py photos --devices 2

Create the Loader in the method that Lightning calls to get it, because the process group exists only then. The Loader's
position is saved as the data module's state. Lightning also saves the state of loaders, but restores it only in
mid-epoch, and starts at epoch 0 after a checkpoint from the end of an epoch.
"""

import argparse

import lightning
import torch
from torch import nn

import pyplenum.torch


class Photos(lightning.LightningDataModule):
    def __init__(self, folder: str, micro_batch: int = 8):
        super().__init__()
        self.folder, self.micro_batch = folder, micro_batch
        self.loader, self.state = None, None

    def num_classes(self) -> int:
        # Lightning calls this in each process separately, before the process group exists.
        with pyplenum.Stream(self.folder, "resize(32x32)", rank=0, world_size=1) as stream:
            return stream.num_classes

    def train_dataloader(self) -> pyplenum.torch.Loader:
        if not self.loader:
            self.loader = pyplenum.torch.Loader(self.folder, "rrc(32) flip(0.5)", seed=7, micro_batch=self.micro_batch,
                                                last="drop", dtype=torch.float32,
                                                fields=("images", "labels", "samples"))
        if self.state:
            self.loader.load_state_dict(self.state)
            self.state = None
        return self.loader

    def state_dict(self) -> dict:
        return {"loader": self.loader.state_dict()} if self.loader else {}

    def load_state_dict(self, state: dict) -> None:
        self.state = state["loader"]

    def val_dataloader(self) -> pyplenum.torch.Loader:
        return pyplenum.torch.Loader(self.folder, "resize(36) center_crop(32)", shuffle="none", dtype=torch.float32,
                                     micro_batch=self.micro_batch)


class Classifier(lightning.LightningModule):
    def __init__(self, classes: int):
        super().__init__()
        self.network = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
                                     nn.Linear(256, classes))

    def training_step(self, batch: list, _: int) -> torch.Tensor:
        images, labels, _ = batch
        loss = nn.functional.cross_entropy(self.network(images), labels)
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: list, _: int) -> None:
        images, labels = batch
        right = (self.network(images).argmax(1) == labels).float()
        self.log("accuracy", right.mean(), batch_size=len(labels), on_epoch=True, sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.02, momentum=0.9)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("dataset")
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--steps", type=int, default=-1, help="stop after this many steps (default: never)")
    p.add_argument("--devices", type=int, default=1)
    p.add_argument("--save", metavar="FILE", help="write a checkpoint at the end")
    p.add_argument("--resume", metavar="FILE", help="resume from this checkpoint")
    args = p.parse_args()
    lightning.seed_everything(7)
    trainer = lightning.Trainer(max_epochs=args.epochs, max_steps=args.steps, devices=args.devices, logger=False,
                                enable_checkpointing=False)
    photos = Photos(args.dataset)
    trainer.fit(Classifier(photos.num_classes()), datamodule=photos, ckpt_path=args.resume)
    if args.save:
        trainer.save_checkpoint(args.save)


if __name__ == "__main__":
    main()
