# SPDX-License-Identifier: MIT
"""The peers of bench/peers/compare for recipes with boxes. Each yields the number of images each time it has processed
all of them, like those of peers.py."""

import io
import json
import os

import recipes
from peers import BATCH, IMAGES, OBJECTS, RECIPE, SCRATCH, THREADS, import_torchvision


def photographs():
    """Return the path, the boxes (left, top, right, bottom) and the labels of each photograph."""
    with open(OBJECTS, encoding="utf-8") as file:
        data = json.load(file)
    found = {image["id"]: (os.path.join(IMAGES, image["file_name"]), [], []) for image in data["images"]}
    for o in data["annotations"]:
        left, top, width, height = o["bbox"]
        _, boxes, labels = found[o["image_id"]]
        boxes.append([left, top, left + width, top + height])
        labels.append(o["category_id"])
    return list(found.values())


class Torchvision:
    """Pictures by Pillow and boxes as torchvision's tensors, after its transforms v2."""

    def __init__(self, held):
        import_torchvision()
        self.photographs = photographs()
        self.transform = recipes.torchvision_boxes(RECIPE)
        self.bytes = []
        for path, _, _ in self.photographs if held else ():
            with open(path, "rb") as file:
                self.bytes.append(file.read())

    def __len__(self):
        return len(self.photographs)

    def __getitem__(self, index):
        import torch
        from PIL import Image
        from torchvision import tv_tensors

        path, boxes, labels = self.photographs[index]
        image = Image.open(io.BytesIO(self.bytes[index]) if self.bytes else path).convert("RGB")
        boxes = tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(image.height, image.width))
        return self.transform(image, {"boxes": boxes, "labels": torch.tensor(labels)})


def load(samples):
    """Read a data set by torch's DataLoader, pass after pass."""
    from torch.utils.data import DataLoader

    loader = DataLoader(samples, BATCH, shuffle=True, num_workers=THREADS, persistent_workers=True, collate_fn=collate)
    while True:
        yield sum(len(images) for images, _ in loader)


def collate(samples):
    import torch

    images, targets = zip(*samples)
    return torch.stack([torch.as_tensor(image) for image in images]), targets


def pillow():
    """Decode with Pillow, transform with torchvision, in one thread; the files are in memory."""
    samples = Torchvision(held=True)
    while True:
        for index in range(len(samples)):
            samples[index]
        yield len(samples)


def dataloader():
    """torchvision's transforms v2 and torch's DataLoader."""
    yield from load(Torchvision(held=False))


class Albumentations:
    def __init__(self):
        self.photographs = photographs()
        self.transform = recipes.albumentations_boxes(RECIPE)

    def __len__(self):
        return len(self.photographs)

    def __getitem__(self, index):
        import cv2
        import numpy as np

        path, boxes, labels = self.photographs[index]
        image = cv2.cvtColor(cv2.imread(path, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
        done = self.transform(image=image, bboxes=np.array(boxes, np.float32), labels=np.array(labels))
        return done["image"], (done["bboxes"], done["labels"])


def albumentations():
    """Albumentations on OpenCV, in torch's DataLoader."""
    import cv2

    cv2.setNumThreads(0)
    yield from load(Albumentations())


def write_yolo(folder):
    """Write YOLO's folders, with links to the photographs. Return that of the images."""
    from PIL import Image

    for name in ("images", "labels"):
        os.makedirs(os.path.join(folder, name))
    for number, (path, boxes, labels) in enumerate(photographs()):
        with Image.open(path) as image:
            width, height = image.size
        os.symlink(path, os.path.join(folder, "images", f"{number:06}.jpg"))
        with open(os.path.join(folder, "labels", f"{number:06}.txt"), "w", encoding="utf-8") as file:
            for (left, top, right, bottom), label in zip(boxes, labels):
                print(label - 1, (left + right) / 2 / width, (top + bottom) / 2 / height, (right - left) / width,
                      (bottom - top) / height, file=file)
    return os.path.join(folder, "images")


def ultralytics():
    """YOLO's data set and loader, without mosaic."""
    settings = recipes.ultralytics(RECIPE)
    os.environ.update(YOLO_CONFIG_DIR=SCRATCH, YOLO_OFFLINE="true", YOLO_VERBOSE="false")
    import_torchvision()
    import cv2
    from ultralytics.cfg import get_cfg
    from ultralytics.data.build import build_dataloader
    from ultralytics.data.dataset import YOLODataset

    cv2.setNumThreads(0)
    classes = {number: f"class {number}" for number in range(80)}
    samples = YOLODataset(img_path=write_yolo(SCRATCH), imgsz=recipes.SIDES[RECIPE], augment=True, rect=False,
                          hyp=get_cfg(overrides=settings), batch_size=BATCH, task="detect",
                          data={"names": classes, "nc": len(classes), "channels": 3})
    # It keeps decoded pictures for mosaics, up to eight batches: all of a few hundred, but nothing of a large data set.
    samples.max_buffer_length = 2
    loader = build_dataloader(samples, BATCH, THREADS, shuffle=True)
    while True:
        yield sum(len(batch["img"]) for batch in loader)


PEERS = {"pillow": pillow, "dataloader": dataloader, "albumentations": albumentations, "ultralytics": ultralytics}
