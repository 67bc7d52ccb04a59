# SPDX-License-Identifier: MIT
"""Recipes in Plenum's syntax, and in that of the peers in peers.py: the operations after decoding, on bytes. A peer
that cannot express one exits with a message."""

import sys

TEXTS = {  # the same as bench/render's rows
    "torchvision": "rrc(176) flip(0.5) trivial_augment_wide(interpolation=bilinear) erase(0.1, value=124:116:104)",
    "timm": "rrc(224, interpolation=random) flip(0.5) color_jitter(0.4, 0.4, 0.4) "
            "rand_augment(2, 9, mstd=0.5, inc=1) erase(0.25, value=pixel)",
    "simclr": "rrc(224) flip(0.5) color_jitter(0.8, 0.8, 0.8, 0.2, p=0.8) grayscale(0.2) "
              "blur(23, 0.1:2, p=0.5) solarize(128, p=0.2)",
    "jitter": "rrc(224) flip(0.5) color_jitter(0.4, 0.4, 0.4, 0.1)",
}
BOXES = {  # with boxes, on which peers.py has other peers: detection.py
    "boxes": "letterbox(640, fill=114) flip(0.5)",
    "boxes-crop": "rrc(512, scale=0.3:1) flip(0.5) color_jitter(0.4, 0.4, 0.4, 0.1)",
    "maskrcnn": "maskrcnn",
    "yolo-no-mosaic": "letterbox(640, fill=114) affine(0, translate=0.1:0.1, scale=0.5:1.5, interpolation=bilinear, "
                      "fill=114) color_jitter(0.4, 0, 0.7, 0.015) flip(0.5)",
}
SIDES = {"torchvision": 176, "boxes": 640, "boxes-crop": 512, "maskrcnn": 1024, "yolo-no-mosaic": 640}
PREPARED = {  # photographs reduced in advance: longest side in pixels, percentage kept as raw pixels (else JPEG)
    "jpeg-400": (400, 0),
    "half-raw-500": (500, 50),  # FFCV's own recipe for ImageNet
    "raw-400": (400, 100),
    "raw-256": (256, 100),
}


def cannot(library, recipe):
    sys.exit(f"error: {library} has no operations for the recipe {recipe}")


def posterize(image, bits, **_):
    """Do what timm's operation does. At the highest magnitudes it keeps 0 bits: older versions of Pillow return black,
    and newer ones reject that."""
    from PIL import ImageOps

    return ImageOps.posterize(image, bits) if bits > 0 else image.point(lambda _: 0)


def torchvision(recipe):
    """Return torchvision's transforms v2 on Pillow's images, or timm's own for its recipe."""
    from torchvision.transforms import v2

    if recipe == "timm":
        from timm.data import auto_augment
        from timm.data.transforms_factory import transforms_imagenet_train

        auto_augment.NAME_TO_OP["PosterizeIncreasing"] = posterize
        timm = transforms_imagenet_train(224, use_prefetcher=True, color_jitter=0.4, force_color_jitter=True,
                                         auto_augment="rand-m9-mstd0.5-inc1", interpolation="random")
        return v2.Compose([timm, v2.RandomErasing(0.25, value="random")])  # timm erases when batches are collected
    middle = {
        "torchvision": [v2.TrivialAugmentWide(interpolation=v2.InterpolationMode.BILINEAR)],
        "simclr": [v2.RandomApply([v2.ColorJitter(0.8, 0.8, 0.8, 0.2)], 0.8), v2.RandomGrayscale(0.2),
                   v2.RandomApply([v2.GaussianBlur(23, (0.1, 2.0))], 0.5), v2.RandomSolarize(128, 0.2)],
        "jitter": [v2.ColorJitter(0.4, 0.4, 0.4, 0.1)],
    }[recipe]
    last = [v2.RandomErasing(0.1, value=[124, 116, 104])] if recipe == "torchvision" else []
    return v2.Compose([v2.RandomResizedCrop(SIDES.get(recipe, 224)), v2.RandomHorizontalFlip(), *middle,
                       v2.PILToTensor(), *last])


def torchvision_boxes(recipe):
    """Return torchvision's transforms v2 on Pillow's images and their boxes."""
    from torchvision.transforms import v2

    side, fill = SIDES[recipe], 114
    resize = v2.Resize(None, max_size=side)

    def pad(image, target, left, top, fill):
        around = [left, top, max(side - image.width - left, 0), max(side - image.height - top, 0)]
        return v2.functional.pad(image, around, fill), {**target, "boxes": v2.functional.pad(target["boxes"], around)}

    def letterbox(image, target):
        image, target = resize(image, target)
        return pad(image, target, (side - image.width) // 2, (side - image.height) // 2, fill)

    first = [letterbox]
    if recipe == "boxes-crop":
        first = [v2.RandomResizedCrop(side, scale=(0.3, 1)), v2.ColorJitter(0.4, 0.4, 0.4, 0.1)]
    elif recipe == "maskrcnn":
        first = [v2.ScaleJitter((side, side)), lambda image, target: pad(image, target, 0, 0, (123, 117, 104)),
                 v2.RandomCrop(side)]
    elif recipe == "yolo-no-mosaic":
        first += [v2.RandomAffine(0, (0.1, 0.1), (0.5, 1.5), interpolation=v2.InterpolationMode.BILINEAR, fill=fill),
                  v2.ColorJitter(0.4, 0, 0.7, 0.015)]
    return v2.Compose([*first, v2.RandomHorizontalFlip(), v2.ClampBoundingBoxes(), v2.SanitizeBoundingBoxes(),
                       v2.PILToTensor()])


def albumentations_boxes(recipe):
    import albumentations as a

    side, fill = SIDES[recipe], 114
    first = [a.LongestMaxSize(side), a.PadIfNeeded(side, side, border_mode=0, fill=fill)]
    if recipe == "boxes-crop":
        first = [a.RandomResizedCrop(size=(side, side), scale=(0.3, 1)),
                 a.ColorJitter((0.6, 1.4), (0.6, 1.4), (0.6, 1.4), (-0.1, 0.1), p=1)]
    elif recipe == "maskrcnn":
        first = [a.LongestMaxSize([int(side * (0.1 + 0.01 * i)) for i in range(191)]),
                 a.PadIfNeeded(side, side, border_mode=0, fill=(123, 117, 104), position="top_left"),
                 a.RandomCrop(side, side)]
    elif recipe == "yolo-no-mosaic":
        first += [a.Affine(scale=(0.5, 1.5), translate_percent=(-0.1, 0.1), fill=fill, p=1),
                  a.ColorJitter((0.6, 1.4), (1, 1), (0.3, 1.7), (-0.015, 0.015), p=1)]
    return a.Compose([*first, a.HorizontalFlip(p=0.5)],
                     bbox_params=a.BboxParams(format="pascal_voc", label_fields=["labels"], clip=True))


def ultralytics(recipe):
    """Return the settings of YOLO's own chain without mosaic; its defaults, or letterbox and flip only."""
    if recipe not in ("boxes", "yolo-no-mosaic"):
        cannot("ultralytics", recipe)
    still = {"translate": 0.0, "scale": 0.0, "hsv_h": 0.0, "hsv_s": 0.0, "hsv_v": 0.0} if recipe == "boxes" else {}
    return {"mosaic": 0.0, **still}


def albumentations(recipe):
    import albumentations as a

    first = [a.RandomResizedCrop(size=(224, 224)), a.HorizontalFlip(p=0.5)]
    parts = {
        "": [],
        "simclr": [a.ColorJitter((0.2, 1.8), (0.2, 1.8), (0.2, 1.8), (-0.2, 0.2), p=0.8), a.ToGray(p=0.2),
                   a.GaussianBlur(blur_limit=(23, 23), sigma_limit=(0.1, 2.0), p=0.5), a.Solarize(p=0.2)],
        "jitter": [a.ColorJitter((0.6, 1.4), (0.6, 1.4), (0.6, 1.4), (-0.1, 0.1), p=1)],
    }
    if recipe not in parts:
        cannot("Albumentations", recipe)
    return a.Compose(first + parts[recipe])


def dali(recipe):
    """Return the operations of DALI's graph after the flip; automatic augmentations are DALI's own."""
    from nvidia.dali import fn, types
    from nvidia.dali.auto_aug import rand_augment, trivial_augment

    def twist(images, strength, hue):
        def factor():
            return fn.random.uniform(range=(1 - strength, 1 + strength))
        turn = fn.random.uniform(range=(-360 * hue, 360 * hue)) if hue else 0.0
        return fn.color_twist(images, brightness=factor(), contrast=factor(), saturation=factor(), hue=turn)

    def erased(images, p):
        if fn.random.coin_flip(probability=p, dtype=types.BOOL):
            images = fn.erase(images, anchor=fn.random.uniform(range=(0, 0.7), shape=2), normalized=True,
                              shape=fn.random.uniform(range=(0.1, 0.6), shape=2), axis_names="HW")
        return images

    def simclr(images):
        if fn.random.coin_flip(probability=0.8, dtype=types.BOOL):
            images = twist(images, 0.8, 0.2)
        if fn.random.coin_flip(probability=0.2, dtype=types.BOOL):
            images = fn.color_twist(images, saturation=0.0)
        if fn.random.coin_flip(probability=0.5, dtype=types.BOOL):
            images = fn.gaussian_blur(images, window_size=23, sigma=fn.random.uniform(range=(0.1, 2)))
        if fn.random.coin_flip(probability=0.2, dtype=types.BOOL):
            over = images >= 128
            images = fn.cast(over * (255 - images) + (1 - over) * images, dtype=types.UINT8)
        return images

    def torchvision_v2(images):
        return erased(trivial_augment.trivial_augment_wide(images), 0.1)

    def timm(images):
        return erased(rand_augment.rand_augment(twist(images, 0.4, 0.0), n=2, m=9), 0.25)

    return {"": lambda images: images, "jitter": lambda images: twist(images, 0.4, 0.1), "simclr": simclr,
            "torchvision": torchvision_v2, "timm": timm}[recipe]


def tensorflow(recipe):
    import tensorflow as tf

    def jitter(image):
        image = tf.image.random_brightness(image, 0.4)
        image = tf.image.random_contrast(image, 0.6, 1.4)
        image = tf.image.random_saturation(image, 0.6, 1.4)
        return tf.image.random_hue(image, 0.1)

    if recipe not in ("", "jitter"):
        cannot("tf.data", recipe)
    return jitter if recipe else lambda image: image
