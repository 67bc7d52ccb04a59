# SPDX-License-Identifier: MIT
"""Made-up objects for photographs, so that peers can be compared on detection: boxes.py IMAGES FILE.json writes them in
COCO's form. The same photographs always have the same objects."""

import json
import os
import random
import sys

CLASSES = 80
MOST = 14  # objects of a photograph; COCO's mean is 7.3


def objects(name, width, height):
    """Return some boxes (left, top, width, height) with their classes, which depend only on the photograph's name."""
    draw = random.Random(name)
    found = []
    for _ in range(draw.randint(1, MOST)):
        w, h = (side * 0.05 * 18 ** draw.random() for side in (width, height))  # 5 % to 90 % of the side
        box = [draw.uniform(0, width - w), draw.uniform(0, height - h), w, h]
        found.append(([round(v, 2) for v in box], draw.randint(1, CLASSES)))
    return found


def make(folder):
    from PIL import Image

    images, annotations = [], []
    for base, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(base, name)
            with Image.open(path) as image:
                width, height = image.size
            file_name = os.path.relpath(path, folder)
            images.append({"id": len(images) + 1, "file_name": file_name, "width": width, "height": height})
            for box, number in objects(file_name, width, height):
                annotations.append({"id": len(annotations) + 1, "image_id": len(images), "category_id": number,
                                    "bbox": box, "area": box[2] * box[3], "iscrowd": 0})
    return {"images": images, "annotations": annotations,
            "categories": [{"id": 1 + i, "name": f"class {i}"} for i in range(CLASSES)]}


if __name__ == "__main__":
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(make(sys.argv[1]), file)
