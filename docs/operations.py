# SPDX-License-Identifier: MIT
"""operations.py PLENUMCTL OUT.jpg - draw docs/operations.jpg: a made-up picture after each operation of a pipeline.

Needs Pillow. tests/docs/test_pictures.py fails if an operation has no picture here, or if the sheet is out of date.
"""

import os
import shutil
import subprocess
import sys
import tempfile

SIDE, COLUMNS, GAP, CAPTION = 96, 7, 6, 14
LEFT, TOP = 8, 56  # corner of the first picture of a preview's sheet
PHOTOS = (("flowers", 1), ("sunset", 0))  # classes and numbers of plenumctl make-sample
CROP = f"resize({SIDE}) center_crop({SIDE})"
# The operations after the crop of each picture, starting at the upper left.
PICTURES = (
    "",
    "flip(1)",
    "vertical_flip(1)",
    "brightness(1.6:1.6)",
    "contrast(0.4:0.4)",
    "saturation(2.5:2.5)",
    "hue(0.25:0.25)",
    "color_jitter(0.5, 0.5, 0.5, 0.3)",
    "hsv(0.1, 0.7, 0.4)",
    "sharpness(3:3)",
    "blur(23, 2:2)",
    "grayscale(1)",
    "invert(1)",
    "equalize(1)",
    "autocontrast(1)",
    "solarize(128)",
    "posterize(2)",
    "erase(1)",
    "erase(1, value=pixel)",
    "cutout(40)",
    "rotate(20:20)",
    "translate(0.4, 0.4)",
    "shear(25:25)",
    "affine(-15:-15, scale=0.7:0.7)",
    "perspective(0.7)",
    "one_of(invert(1) | hue(0.5:0.5))",
    "mixup(1)",
    "cutmix(1)",
    "mix(mixup=1, cutmix=1)",
    "rand_augment(3, 20)",
    "auto_augment(svhn)",
    "augmix(severity=10, width=5, depth=3)",
    "trivial_augment_wide",
)


def place(number):
    """Return the left and top of the picture with this number."""
    return (GAP + number % COLUMNS * (SIDE + GAP), GAP + number // COLUMNS * (SIDE + CAPTION + GAP))


def render(ctl, folder, operations):
    """Return a picture, cut out of a preview's sheet."""
    from PIL import Image

    path = os.path.join(folder, "sheet.jpg")
    subprocess.run([ctl, "preview", os.path.join(folder, "photos"), path, "--pipeline", f"{CROP} {operations}",
                    "--shuffle", "none", "--count", "1", "--seed", "3"], check=True, stdout=subprocess.DEVNULL)
    with Image.open(path) as sheet:
        return sheet.convert("RGB").crop((LEFT, TOP, LEFT + SIDE, TOP + SIDE))


def make_photos(ctl, folder):
    """Make a data set of two made-up photographs: the one that is shown, and the one that is mixed in."""
    samples = os.path.join(folder, "samples")
    subprocess.run([ctl, "make-sample", samples, "--classes", "6", "--images", "2", "--size", "200"], check=True,
                   stdout=subprocess.DEVNULL)
    for number, (name, image) in enumerate(PHOTOS):
        os.makedirs(os.path.join(folder, "photos", str(number)))
        shutil.copy(os.path.join(samples, name, f"{name}-0000{image}.jpg"), os.path.join(folder, "photos", str(number)))


def draw(ctl):
    """Return the whole sheet as a Pillow image."""
    from PIL import Image, ImageDraw, ImageFont

    rows = -(-len(PICTURES) // COLUMNS)
    sheet = Image.new("RGB", (GAP + COLUMNS * (SIDE + GAP), GAP + rows * (SIDE + CAPTION + GAP)), "white")
    with tempfile.TemporaryDirectory(prefix="plenum-operations-") as folder:
        make_photos(ctl, folder)
        for number, operations in enumerate(PICTURES):
            left, top = place(number)
            sheet.paste(render(ctl, folder, operations), (left, top))
            caption = operations.split("(")[0] or "the picture"
            ImageDraw.Draw(sheet).text((left, top + SIDE + 1), caption, "black", ImageFont.load_default())
    return sheet


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    draw(sys.argv[1]).save(sys.argv[2], quality=76, subsampling=0, optimize=True)
