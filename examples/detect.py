#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Train a small SSDlite, from scratch, to find the circles, squares and triangles that shapes.py draws.

    python3 shapes.py /tmp/shapes && python3 detect.py /tmp/shapes    # --torchvision: by CocoDetection instead
"""

import argparse

import torch
from torch import nn
from torchvision.datasets import CocoDetection
from torchvision.models import detection, feature_extraction
from torchvision.transforms import functional as tf

import pyplenum.torch

SIDE, BATCH, CLASSES, WIDTHS = 96, 16, 4, (3, 16, 32, 64, 96, 128)  # the classes include the background


def by_plenum(folder: str, seed: int):
    with pyplenum.torch.Loader(f"coco,classes=numbers:{folder}", f"resize({SIDE}) center_crop({SIDE}) flip(0.5)",
                               micro_batch=BATCH, seed=seed, fields=("images", "objects:objects:boxes")) as loader:
        while True:
            for images, objects in loader:
                yield images / 255, [{"boxes": boxes[:n], "labels": classes[:n]} for boxes, classes, n
                                     in zip(objects.boxes, objects.classes, objects.counts.tolist())]


def by_torchvision(folder: str, seed: int):
    def prepare(picture, objects):
        image = tf.to_tensor(tf.resize(picture, [SIDE, SIDE]))
        left, top, width, height = torch.tensor([o["bbox"] for o in objects]).mul(SIDE / picture.width).unbind(1)
        if torch.rand(()) < 0.5:
            image, left = image.flip(2), SIDE - left - width
        return image, {"boxes": torch.stack((left, top, left + width, top + height), 1),
                       "labels": torch.tensor([o["category_id"] for o in objects])}

    files = CocoDetection(f"{folder}/train2017", f"{folder}/annotations/instances_train2017.json", transforms=prepare)
    while True:
        yield from torch.utils.data.DataLoader(files, BATCH, shuffle=True, collate_fn=lambda samples: zip(*samples))


p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
p.add_argument("folder", help="a COCO data set with pictures as high as wide")
p.add_argument("--steps", type=int, default=250)
p.add_argument("--seed", type=int, default=0)
p.add_argument("--torchvision", dest="batches", action="store_const", const=by_torchvision, default=by_plenum)
args = p.parse_args()
torch.manual_seed(args.seed)
stages = [nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.BatchNorm2d(b), nn.ReLU()) for a, b in zip(WIDTHS, WIDTHS[1:])]
backbone = feature_extraction.create_feature_extractor(nn.Sequential(*stages), ["2", "3", "4"])
anchors = detection.anchor_utils.DefaultBoxGenerator([[2]] * 3, min_ratio=20, max_ratio=60)
head = detection.ssdlite.SSDLiteHead(list(WIDTHS[-3:]), anchors.num_anchors_per_location(), CLASSES, nn.BatchNorm2d)
model = detection.ssd.SSD(backbone, anchors, (SIDE, SIDE), num_classes=CLASSES, head=head)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
for step, (images, objects) in zip(range(1, args.steps + 1), args.batches(args.folder, args.seed)):
    loss = sum(model(list(images), objects).values())
    optimizer.zero_grad(), loss.backward(), optimizer.step()
    print(f"step {step}: loss {loss.item():.3f}", flush=True)
