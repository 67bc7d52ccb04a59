#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draw pictures of circles, squares and triangles, and write them as a COCO data set for detect.py.

    python3 shapes.py /tmp/shapes
"""

import argparse
import json
import os

import numpy as np
from PIL import Image, ImageDraw

SIDE, NAMES = 120, ("circle", "square", "triangle")


def draw_shape(pen: ImageDraw.ImageDraw, rng: np.random.Generator) -> tuple:
    """Draw a shape. Return its category and its box: left, top, width, height."""
    category, size = int(rng.integers(3)), int(rng.integers(24, 56))
    left, top = (int(v) for v in rng.integers(0, SIDE - size, 2))
    right, bottom = left + size - 1, top + size - 1
    colour = tuple(int(v) for v in rng.integers(128, 256, 3))
    if category == 0:
        pen.ellipse((left, top, right, bottom), fill=colour)
    elif category == 1:
        pen.rectangle((left, top, right, bottom), fill=colour)
    else:
        pen.polygon([(left, bottom), (right, bottom), ((left + right) // 2, top)], fill=colour)
    return category + 1, [left, top, size, size]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("folder")
    p.add_argument("--images", type=int, default=256, help="(default: %(default)s)")
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    rng = np.random.default_rng(args.seed)
    images, annotations = [], []
    for name in ("train2017", "annotations"):
        os.makedirs(os.path.join(args.folder, name), exist_ok=True)
    for number in range(1, args.images + 1):
        picture = Image.fromarray(rng.integers(0, 100, (SIDE, SIDE, 3), dtype=np.uint8))
        pen = ImageDraw.Draw(picture)
        for _ in range(rng.integers(1, 4)):
            category, box = draw_shape(pen, rng)
            annotations.append({"id": len(annotations) + 1, "image_id": number, "category_id": category, "bbox": box,
                                "area": box[2] * box[3], "iscrowd": 0})
        images.append({"id": number, "file_name": f"{number:06}.png", "width": SIDE, "height": SIDE})
        picture.save(os.path.join(args.folder, "train2017", images[-1]["file_name"]))
    with open(os.path.join(args.folder, "annotations", "instances_train2017.json"), "w") as f:
        json.dump({"images": images, "annotations": annotations,
                   "categories": [{"id": 1 + i, "name": name} for i, name in enumerate(NAMES)]}, f)


if __name__ == "__main__":
    main()
