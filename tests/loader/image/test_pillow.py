#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compare the renderer with Pillow's crop().resize(): values differ by at most 1 level, and by 0.1 on average.

The definition uses integers, and the oracle implements it literally (oracle.c). This test shows that the result is
also what people expect.

About one value in twenty million differs by 2: Pillow and version 1 both round to whole levels after each pass, and if
the exact result of a pass is half-way between two levels, the last bits of the coefficients decide. Now and then that
happens in both passes, and in the same direction. Coefficients with more bits do not help (20 give as many
differences); only Pillow's own would. So one value in five million may differ by 2, none by 3. Prints TAP.
"""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rendered import DUMP, IMAGES, TOP, Dump, finish, np, result  # noqa: E402
from PIL import Image, ImageOps, __version__ as PILLOW, features  # noqa: E402

# Since version 13 Pillow resizes vertically first if the height shrinks more than the width (docs/pixels.md, 8).
WORST = 0.1 if int(PILLOW.split(".")[0]) < 13 else 0.3
RARE = 5_000_000 if WORST < 0.3 else 1_000  # one in this many values may differ by 2


def filter_of(pipeline):
    for name in ["bicubic", "lanczos", "nearest"]:
        if f"interpolation={name}" in pipeline:
            return getattr(Image, name.upper())
    return Image.BILINEAR


def ties(n, m, first, count):
    return (2 * np.arange(first, first + count) + 1) * n % (2 * m) == 0


def compare(dump, image, path, pipeline, seed, position):
    """Return the differences from Pillow's rendering of `image`, which was read from path."""
    numbers, got = dump.render(path, pipeline, seed, position)
    left, top, width, height, new_width, new_height, x, y, across, down, mirror = numbers
    want = image.crop((left, top, left + width, top + height))
    want = want.resize((new_width, new_height), filter_of(pipeline))
    want = want.crop((x, y, x + across, y + down))
    if mirror:
        want = want.transpose(Image.FLIP_LEFT_RIGHT)
    difference = np.abs(got.astype(int) - np.asarray(want).astype(int))
    if "interpolation=nearest" in pipeline:  # if a centre is between two samples, Pillow's sums of doubles decide
        difference[ties(height, new_height, y, down), :] = 0
        columns = ties(width, new_width, x, across)
        difference[:, columns[::-1] if mirror else columns] = 0
        assert difference.max() == 0, f"{path}, {pipeline}: {difference.max()}"
    return difference


def compare_all(name, work, rare=RARE, worst=WORST):
    """Compare renderings; `work` yields (image, path, pipeline, seed, position)."""
    dump = Dump()
    values = twos = n = 0
    worst_mean = total = 0.0
    failed = []
    for image, path, pipeline, seed, position in work:
        difference = compare(dump, image, path, pipeline, seed, position)
        most, mean = difference.max(), difference.mean()
        if most > 2 or mean > worst:
            failed.append(f"{path}, {pipeline}, position {position}: {most}, mean {mean:.3f}")
        values += difference.size
        twos += np.count_nonzero(difference == 2)
        worst_mean = max(worst_mean, mean)
        total += mean
        n += 1
    for line in failed[:10]:
        print("# " + line)
    result(not failed and n > 0 and twos <= values // rare, name,
           f" ({n} renderings, {values} values, {twos} of them 2 levels apart; mean difference at most"
           f" {worst_mean:.4f}, on average {total / max(n, 1):.4f})")


def photographs():
    for folder, _, files in sorted(os.walk(IMAGES)):
        for file in sorted(files):
            path = os.path.join(folder, file)
            with Image.open(path) as image:
                rgb = image.convert("RGB")
            for position in range(4):
                yield rgb, path, "train", 5, position
            yield rgb, path, "eval", 5, 0


PIPELINES = ["train", "eval", "rrc(64,scale=0.02:1,ratio=1/3:3) flip(0.5)", "resize(40) center_crop(33)"]


def texture(width, height, channels):
    """Return stripes and noise."""
    rng = np.random.default_rng(width * 7 + height)
    y, x = np.mgrid[0:height, 0:width]
    planes = [(x * (3 + c) + y * (7 - c)) % 256 // 2 + rng.integers(0, 128, (height, width))
              for c in range(channels)]
    return np.stack(planes, axis=2).astype(np.uint8)


def made_by_pillow(folder):
    for width, height in [(1, 1), (8, 3000), (3000, 8), (5, 7), (333, 251), (640, 480)]:
        for mode in ["RGB", "L", "CMYK"]:
            pixels = texture(width, height, {"RGB": 3, "L": 1, "CMYK": 4}[mode])
            image = Image.fromarray(pixels[:, :, 0] if mode == "L" else pixels, mode)
            for options in [{"subsampling": 2}, {"subsampling": 0}, {"progressive": True}]:
                path = os.path.join(folder, f"{width}x{height}-{mode}-{len(os.listdir(folder))}.jpg")
                image.save(path, quality=90, **options)
                with Image.open(path) as opened:
                    rgb = opened.convert("RGB")
                for position, pipeline in enumerate(PIPELINES):
                    yield rgb, path, pipeline, 3, position


def png_by_pillow(folder):
    for width, height in [(1, 1), (40, 31), (200, 300)]:
        for mode in ["RGB", "RGBA", "L", "LA", "P", "1"]:
            pixels = texture(width, height, 4)
            if mode in ("P", "1"):
                image = Image.fromarray(pixels[:, :, :3], "RGB").convert(mode)
            elif mode == "L":
                image = Image.fromarray(pixels[:, :, 0], mode)
            else:
                image = Image.fromarray(pixels[:, :, :len(mode)].copy(), mode)
            path = os.path.join(folder, f"{width}x{height}-{mode}.png")
            image.save(path)
            with Image.open(path) as opened:
                rgb = opened.convert("RGB")
            for position, pipeline in enumerate(PIPELINES):
                yield rgb, path, pipeline, 3, position


def ppm_by_pillow(folder):
    for width, height in [(1, 1), (40, 31), (201, 300), (640, 480)]:
        for mode in ["RGB", "L"]:
            pixels = texture(width, height, 3)
            path = os.path.join(folder, f"{width}x{height}-{mode}.ppm")
            Image.fromarray(pixels if mode == "RGB" else pixels[:, :, 0].copy(), mode).save(path)
            with Image.open(path) as opened:
                rgb = opened.convert("RGB")
            for position, pipeline in enumerate(PIPELINES):
                yield rgb, path, pipeline, 3, position


def without(name):
    """Return why WebP or AVIF cannot be compared, or None."""
    if name.lower() not in features.get_supported_modules():
        return f"this Pillow reads no {name}"
    with open(os.path.join(TOP, "config.h")) as f:
        return None if f"#define HAVE_{name.upper()} 1" in f.read() else f"built without lib{name.lower()}"


def webp_by_pillow(folder):
    for width, height in [(1, 1), (40, 31), (201, 300), (640, 480)]:
        for mode in ["RGB", "RGBA"]:
            image = Image.fromarray(texture(width, height, 4)[:, :, :len(mode)].copy(), mode)
            for options in [{"quality": 80}, {"quality": 5, "method": 6}, {"lossless": True, "exact": True},
                            {"quality": 70, "save_all": True, "append_images": [image.transpose(Image.ROTATE_180)]}]:
                orientation = len(os.listdir(folder)) % 9
                exif = Image.Exif()
                if orientation:
                    exif[0x0112] = orientation
                path = os.path.join(folder, f"{width}x{height}-{mode}-{len(os.listdir(folder))}.webp")
                image.save(path, exif=exif.tobytes(), **options)
                with Image.open(path) as opened:
                    rgb = opened.convert("RGB")
                    upright = ImageOps.exif_transpose(opened).convert("RGB")
                for position, pipeline in enumerate(PIPELINES):
                    yield rgb, path, pipeline, 3, position
                    yield upright, path, "exif " + pipeline, 3, position


def avif_by_pillow(folder):
    """Yield smooth pictures only: Pillow gets RGB from libyuv, which rounds chroma in between."""
    for width, height in [(9, 8), (40, 31), (201, 300), (640, 480)]:
        for mode in ["RGB", "RGBA", "L"]:
            y, x = np.mgrid[0:height, 0:width]
            planes = [128 + 100 * np.sin(x / (20 + 9 * c) + c) * np.cos(y / (31 - 5 * c)) for c in range(4)]
            pixels = np.stack(planes, axis=2).astype(np.uint8)
            image = Image.fromarray(pixels[:, :, 0] if mode == "L" else pixels[:, :, :len(mode)].copy(), mode)
            for options in [{}, {"quality": 30}, {"subsampling": "4:4:4"}, {"subsampling": "4:2:2", "quality": 90},
                            {"save_all": True, "append_images": [image.transpose(Image.ROTATE_180)]}]:
                orientation = 0 if "save_all" in options else len(os.listdir(folder)) % 9  # both crash Pillow 13
                exif = Image.Exif()
                if orientation:
                    exif[0x0112] = orientation
                path = os.path.join(folder, f"{width}x{height}-{mode}-{len(os.listdir(folder))}.avif")
                image.save(path, exif=exif.tobytes(), speed=9, **options)
                with Image.open(path) as opened:
                    rgb = opened.convert("RGB")
                    upright = ImageOps.exif_transpose(opened).convert("RGB")
                for position, pipeline in enumerate(PIPELINES):
                    yield rgb, path, pipeline, 3, position
                    yield upright, path, "exif " + pipeline, 3, position


def kinds_of_ours(folder):
    names = subprocess.run([DUMP, "--kinds", folder], stdout=subprocess.PIPE, check=True).stdout.decode()
    for line in names.splitlines():
        file, name = line.split("\t")
        if name == "unfinished":
            continue  # Pillow smooths blocks whose coefficients were never sent; version 1 does not
        if file.endswith(".avif") or file.endswith(".webp") and without("WebP"):
            continue  # libyuv gives other pixels for AVIFs of noise
        path = os.path.join(folder, file)
        with Image.open(path) as opened:
            rgb = opened.convert("RGB")
        for position, pipeline in enumerate(PIPELINES):
            yield rgb, path, pipeline, 4, position


def filters(folder):
    """Compare the other filters, on photographs if there are some, otherwise on stripes and noise."""
    images = [os.path.join(at, file) for at, _, files in sorted(os.walk(IMAGES)) for file in sorted(files)][::4]
    if not images:
        for width, height in [(333, 251), (640, 480), (90, 700), (1, 1)]:
            images.append(os.path.join(folder, f"{width}x{height}.png"))
            Image.fromarray(texture(width, height, 3), "RGB").save(images[-1])
    for path in images:
        with Image.open(path) as image:
            rgb = image.convert("RGB")
        for name in ["bicubic", "lanczos", "nearest"]:
            for position in range(3):
                yield rgb, path, f"rrc(224,interpolation={name}) flip(0.5)", 5, position
            yield rgb, path, f"resize(232,interpolation={name}) center_crop(224)", 5, 0


def shapes(folder):
    """Compare samples that are not square, and images with a changed aspect ratio."""
    pipelines = ["rrc(48x80) flip(0.5)", "rrc(90x31,scale=0.02:1,ratio=1/3:3,interpolation=bicubic)", "resize(61x90)",
                 "resize(90x61,interpolation=lanczos) flip(0.5)", "resize(40x30,interpolation=nearest)",
                 "resize(90x70,interpolation=bicubic) center_crop(80x33)", "resize(70) center_crop(64x33)",
                 "resize(70) random_crop(33x64) flip(0.5)"]
    for width, height in [(1, 1), (333, 251), (64, 90), (8, 700)]:
        path = os.path.join(folder, f"{width}x{height}.png")
        Image.fromarray(texture(width, height, 3), "RGB").save(path)
        with Image.open(path) as image:
            rgb = image.convert("RGB")
        for pipeline in pipelines:
            for position in range(3):
                yield rgb, path, pipeline, 5, position


def compare_letterbox(folder):
    """Compare with ImageOps.pad(); only the resize may differ."""
    dump = Dump()
    worst, n, failed = 0, 0, []
    for width, height in [(500, 375), (375, 500), (1280, 720), (100, 31), (3, 1), (640, 480), (31, 33)]:
        path = os.path.join(folder, f"{width}x{height}.png")
        Image.fromarray(texture(width, height, 3), "RGB").save(path)
        with Image.open(path) as image:
            for across, down in [(640, 640), (100, 100), (64, 33), (33, 64), (97, 41)]:
                for text, filter_ in [("", Image.BILINEAR), (",interpolation=bicubic", Image.BICUBIC)]:
                    _, got = dump.render(path, f"letterbox({down}x{across},fill=114{text})", 1, 0)
                    want = ImageOps.pad(image.convert("RGB"), (across, down), filter_, color=(114, 114, 114))
                    difference = np.abs(got.astype(int) - np.asarray(want).astype(int))
                    worst, n = max(worst, difference.max()), n + 1
                    if difference.max() > 2 or difference.mean() > WORST:
                        failed.append(f"{path} to {down}x{across}{text}: {difference.max()}")
    for line in failed[:10]:
        print("# " + line)
    result(not failed, "letterbox is ImageOps.pad", f" ({n} renderings, {worst} levels at most)")


def padded(pixels, by, mode, fill):
    """Pad like torchvision's functional.pad does with PIL images; `by`: rows, columns."""
    around = ((by[0], by[0]), (by[1], by[1]), (0, 0))
    return np.pad(pixels, around, mode, **({"constant_values": fill} if mode == "constant" else {}))


def compare_random_crop(folder):
    """Each crop is one that torchvision's RandomCrop may give, mirrored or not, and (almost) all of them occur."""
    dump = Dump()
    rng = np.random.default_rng(5)
    sizes = [(32, 32, 4, 32, 32), (20, 28, 2, 32, 24), (40, 9, 0, 8, 30), (5, 4, 3, 3, 2)]
    for width, height, pad, down, across in sizes:
        pixels = rng.integers(0, 256, (height, width, 3)).astype(np.uint8)
        path = os.path.join(folder, f"{width}x{height}.png")
        Image.fromarray(pixels, "RGB").save(path)
        for mode in ["constant", "edge", "reflect", "symmetric"]:
            all_of = padded(pixels, (pad, pad), mode, 9)
            missing = [max(0, want - have) for want, have in zip((down, across), all_of.shape)]  # pad_if_needed
            all_of = padded(all_of, missing, mode, 9)
            rows, columns = all_of.shape[0] - down + 1, all_of.shape[1] - across + 1
            crops = {}
            for top in range(rows):
                for left in range(columns):
                    crop = all_of[top:top + down, left:left + across]
                    crops.setdefault(crop.tobytes(), len(crops))
                    crops.setdefault(crop[:, ::-1].tobytes(), len(crops))
            text = f"pad({pad},{mode}{',fill=9' if mode == 'constant' else ''}) random_crop({down}x{across}) flip(0.5)"
            seen, strange = set(), 0
            for position in range(12 * len(crops)):
                _, got = dump.render(path, text, 7, position)
                strange += got.tobytes() not in crops
                seen.add(got.tobytes())
            result(strange == 0 and len(seen) > 0.99 * len(crops), f"{text} of {width} x {height}",
                   f" ({len(seen)} of {len(crops)} crops came)")


def turned(folder):
    for orientation in range(1, 9):
        for size in [(90, 61), (40, 200)]:
            image = Image.fromarray(texture(*size, 3), "RGB")
            exif = Image.Exif()
            exif[0x0112] = orientation
            path = os.path.join(folder, f"{orientation}-{size[0]}.jpg")
            image.save(path, quality=92, exif=exif)
            with Image.open(path) as opened:
                rgb = ImageOps.exif_transpose(opened).convert("RGB")
                as_stored = opened.convert("RGB")
            for position in range(4):
                yield rgb, path, "exif rrc(48,scale=0.1:1) flip(0.5)", 4, position
            yield rgb, path, "exif resize(50) center_crop(40)", 4, 0
            yield as_stored, path, "rrc(48) flip(0.5)", 4, 0


def main():
    if os.path.isdir(IMAGES):
        compare_all("photographs", photographs())
    else:
        result(True, "photographs", f" # SKIP no folder {IMAGES}; PLENUM_TEST_IMAGES can name another")
    for name, make in [("grey, colour and CMYK of many sizes", made_by_pillow), ("PNG", png_by_pillow),
                       ("PPM and PGM", ppm_by_pillow),
                       ("every kind of JPEG, WebP and PPM", kinds_of_ours), ("EXIF orientation", turned),
                       ("other filters", filters), ("other shapes", shapes)]:
        with tempfile.TemporaryDirectory() as folder:
            compare_all(name, make(folder), 1_000_000 if make == filters else RARE)
    for name, make, limits in [("WebP", webp_by_pillow, {}), ("AVIF", avif_by_pillow, {"rare": 1_000, "worst": 0.6})]:
        why = without(name)
        if why:
            result(True, name, f" # SKIP {why}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            compare_all(name, make(folder), **limits)
    with tempfile.TemporaryDirectory() as folder:
        compare_letterbox(folder)
        compare_random_crop(folder)
    finish()


main()
