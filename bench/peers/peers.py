# SPDX-License-Identifier: MIT
"""The peers of bench/peers/compare: each renders training images of the same photographs, 224 x 224, with the crops of
RandomResizedCrop (area 0.08 to 1, ratio 3/4 to 4/3, antialiased) and a random flip, as bytes.

A peer is a generator: it prepares, and yields the number of images each time it has processed all of them, or that
number and the CPU seconds to count. This file runs inside the peer's own virtual environment, as

    peers.py NAME, with its settings in the environment

and answers each line on standard input, after one pass, with a line of JSON. Each peer imports its libraries itself,
because the others may not be installed.
"""

import functools
import io
import json
import math
import os
import random
import subprocess
import sys
import tarfile
import time

import recipes

SIDE, SCALE, RATIO, BATCH = 224, (0.08, 1.0), (3 / 4, 4 / 3), 32

IMAGES = os.environ.get("PEER_IMAGES", "")  # folder of folders of JPEGs
SCRATCH = os.environ.get("PEER_SCRATCH", "")  # the peer's folder, for data that it needs in another form
BUILD = os.environ.get("PEER_BUILD", "")  # Plenum's build folder
SOURCE = os.environ.get("PEER_SOURCE", "")  # Plenum's sources
THREADS = int(os.environ.get("PEER_THREADS", "1"))
RECIPE = os.environ.get("PEER_RECIPE", "")  # a name from recipes.py; empty: crop and flip
OBJECTS = os.environ.get("PEER_OBJECTS", "")  # COCO's JSON of the photographs' objects, for recipes with boxes


def files():
    """Return paths and class numbers, in byte order."""
    classes = sorted(d for d in os.listdir(IMAGES) if os.path.isdir(os.path.join(IMAGES, d)))
    found = []
    for number, name in enumerate(classes):
        folder = os.path.join(IMAGES, name)
        found += [(os.path.join(folder, f), number) for f in sorted(os.listdir(folder))]
    return found


def random_box(width, height):
    """Return left, top, width and height by RandomResizedCrop's rule, for peers that do not implement it."""
    for _ in range(10):
        area = width * height * random.uniform(*SCALE)
        ratio = math.exp(random.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, width - w), random.randint(0, height - h), w, h
    return 0, 0, width, height


def import_torchvision():
    """Import the parts of torchvision that use only Python and Pillow. Its compiled operators, which may not match the
    installed torch, are not registered."""
    import torch

    register = torch.library.register_fake

    def lenient(name, *args, **kwargs):
        if isinstance(name, str) and name.startswith("torchvision::"):
            return lambda function: function
        return register(name, *args, **kwargs)

    torch.library.register_fake = lenient
    import torchvision  # noqa: F401

    torch.library.register_fake = register
    torch.set_num_threads(1)


def torchvision_transforms():
    import_torchvision()
    from torchvision import transforms

    if RECIPE:
        return recipes.torchvision(RECIPE)
    return transforms.Compose([transforms.RandomResizedCrop(SIDE, SCALE, RATIO), transforms.RandomHorizontalFlip(),
                               transforms.PILToTensor()])


def passes(batches, count, size_of):
    """Consume `batches` in passes of at least `count` images, and yield each pass's number of images."""
    while True:
        done = 0
        while done < count:
            done += size_of(next(batches))
        yield done


def plenum(prepared=None):
    """plenumd and pyplenum: whole batches delivered to the program; with `prepared`, a key of recipes.PREPARED, from
    packed photographs."""
    dataset = IMAGES
    if prepared:
        longest, raw = recipes.PREPARED[prepared]
        dataset = os.path.join(SCRATCH, "packed")
        form = {0: [], 100: ["--raw"]}.get(raw, ["--raw-share", str(raw)])
        subprocess.run([os.path.join(BUILD, "plenumctl"), "pack", IMAGES, dataset, "--longest", str(longest), *form],
                       stdin=subprocess.DEVNULL, check=True)
    os.environ["PLENUM_LIBRARY"] = os.path.join(BUILD, ".libs", "libplenum.so")
    sys.path.insert(0, os.path.join(SOURCE, "python"))
    import pyplenum

    address = f"unix:@plenum-peers-{os.getpid()}"
    loader = subprocess.Popen([os.path.join(BUILD, "plenumd"), "--socket", address, "--threads", str(THREADS),
                               "--quiet"],
                              stdin=subprocess.DEVNULL)
    try:
        for _ in range(100):
            time.sleep(0.1)
            with open("/proc/net/unix") as listening:
                if address[5:] in listening.read():
                    break
        if OBJECTS:
            dataset = f"coco,images={IMAGES}:{OBJECTS}"
        stream = pyplenum.Stream(dataset, {**recipes.TEXTS, **recipes.BOXES}.get(RECIPE, "train"), micro_batch=BATCH,
                                 loader=address, fields=["objects:objects:boxes"] if OBJECTS else [])
        yield from passes(iter(stream), len(files()), lambda batch: BATCH)
    finally:
        loader.terminate()


def bench_render(row):
    """One row of bench/render, with the CPU time that it reports."""
    count = len(files())
    command = [os.path.join(BUILD, "bench", "render"), "--images", IMAGES, "--rows", row, "--rounds", "3", "--json"]
    while True:
        seed = str(random.randrange(1 << 30))
        result = subprocess.run(command + ["--seed", seed], capture_output=True, text=True)
        if result.returncode != 0:
            sys.exit(result.stderr.strip())
        yield 3 * count, 3 * count / json.loads(result.stdout)["rows"][0]["median"]


def albumentations():
    """Albumentations on OpenCV, in torch's DataLoader."""
    import cv2
    from torch.utils.data import DataLoader

    cv2.setNumThreads(0)
    transform = recipes.albumentations(RECIPE)

    class Photographs:
        def __init__(self):
            self.files = files()

        def __len__(self):
            return len(self.files)

        def __getitem__(self, index):
            path, label = self.files[index]
            image = cv2.cvtColor(cv2.imread(path, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
            return transform(image=image)["image"], label

    loader = DataLoader(Photographs(), BATCH, shuffle=True, num_workers=THREADS, persistent_workers=True)
    while True:
        yield sum(len(labels) for _, labels in loader)


def pillow():
    """Decode with Pillow, transform with torchvision, in one thread; the files are in memory."""
    from PIL import Image

    transform = torchvision_transforms()
    held = [open(path, "rb").read() for path, _ in files()]
    while True:
        for data in held:
            transform(Image.open(io.BytesIO(data)).convert("RGB"))
        yield len(held)


def dataloader():
    """torchvision's ImageFolder and torch's DataLoader."""
    transform = torchvision_transforms()
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    loader = DataLoader(ImageFolder(IMAGES, transform), BATCH, shuffle=True, num_workers=THREADS,
                        persistent_workers=True)
    while True:
        yield sum(len(labels) for _, labels in loader)


def webdataset():
    """WebDataset over tar archives of the same files, and its loader."""
    transform = torchvision_transforms()
    import webdataset as wds

    found = files()
    shards = max(8, THREADS)
    for shard in range(shards):
        with tarfile.open(os.path.join(SCRATCH, f"{shard:04}.tar"), "w") as tar:
            for number in range(shard, len(found), shards):
                path, label = found[number]
                tar.add(path, f"{number:06}.jpg")
                info = tarfile.TarInfo(f"{number:06}.cls")
                text = str(label).encode()
                info.size = len(text)
                tar.addfile(info, io.BytesIO(text))
    pattern = os.path.join(SCRATCH, f"{{0000..{shards - 1:04}}}.tar")
    dataset = (wds.WebDataset(pattern, shardshuffle=shards, empty_check=False).shuffle(100).decode("pil")
               .to_tuple("jpg", "cls").map_tuple(transform, int).repeat().batched(BATCH))
    loader = wds.WebLoader(dataset, batch_size=None, num_workers=THREADS)
    yield from passes(iter(loader), len(found), lambda batch: len(batch[1]))


def ffcv(prepared=None):
    """FFCV's loader over its own file, into which it writes the photographs as JPEGs, or as `prepared`, a key of
    recipes.PREPARED, says."""
    from ffcv.fields import IntField, RGBImageField
    from ffcv.fields.basics import IntDecoder
    from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import RandomHorizontalFlip
    from ffcv.writer import DatasetWriter
    from PIL import Image

    class Photographs:
        def __init__(self):
            self.files = files()

        def __len__(self):
            return len(self.files)

        def __getitem__(self, index):
            path, label = self.files[index]
            return Image.open(path).convert("RGB"), label

    field = RGBImageField(write_mode="jpg")
    if prepared:
        longest, raw = recipes.PREPARED[prepared]
        field = RGBImageField(write_mode="proportion", max_resolution=longest, jpeg_quality=90,
                              compress_probability=1 - raw / 100)
    beton = os.path.join(SCRATCH, "photographs.beton")
    DatasetWriter(beton, {"image": field, "label": IntField()},
                  num_workers=1).from_indexed_dataset(Photographs())
    crop = RandomResizedCropRGBImageDecoder((SIDE, SIDE), SCALE, RATIO)
    loader = Loader(beton, BATCH, THREADS, os_cache=True, order=OrderOption.RANDOM, drop_last=False,
                    pipelines={"image": [crop, RandomHorizontalFlip()], "label": [IntDecoder()]})
    while True:
        yield sum(len(images) for images, _ in loader)


def dali():
    """NVIDIA DALI on the CPU: it decodes only the crop."""
    from nvidia.dali import fn, pipeline_def, types

    side = recipes.SIDES.get(RECIPE, SIDE)
    augment = recipes.dali(RECIPE)

    @pipeline_def(batch_size=BATCH, num_threads=THREADS, device_id=None, enable_conditionals=True)
    def pipeline():
        encoded, labels = fn.readers.file(file_root=IMAGES, random_shuffle=True)
        images = fn.decoders.image_random_crop(encoded, device="cpu", output_type=types.RGB, random_area=list(SCALE),
                                               random_aspect_ratio=list(RATIO), num_attempts=10)
        images = fn.resize(images, size=(side, side), interp_type=types.INTERP_LINEAR, antialias=True)
        return augment(fn.flip(images, horizontal=fn.random.coin_flip())), labels

    built = pipeline()
    built.build()
    endless = iter(lambda: built.run(), None)
    yield from passes(endless, len(files()), lambda out: len(out[0]))


def tfdata():
    """tf.data with decode_and_crop_jpeg, which decodes only the crop's rows."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    augment = recipes.tensorflow(RECIPE)

    def load(path, label):
        data = tf.io.read_file(path)
        shape = tf.image.extract_jpeg_shape(data)
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            shape, tf.zeros((1, 0, 4)), min_object_covered=0, aspect_ratio_range=RATIO, area_range=SCALE,
            max_attempts=10, use_image_if_no_bounding_boxes=True)
        window = tf.stack([begin[0], begin[1], size[0], size[1]])
        image = tf.image.decode_and_crop_jpeg(data, window, channels=3)
        image = tf.image.resize(image, (SIDE, SIDE), antialias=True)
        return augment(tf.cast(tf.image.random_flip_left_right(image), tf.uint8)), label

    paths, labels = zip(*files())
    dataset = tf.data.Dataset.from_tensor_slices((list(paths), list(labels))).shuffle(len(paths)).repeat()
    dataset = dataset.map(load, num_parallel_calls=THREADS).batch(BATCH).prefetch(2)
    options = tf.data.Options()
    options.threading.private_threadpool_size = THREADS
    yield from passes(iter(dataset.with_options(options)), len(paths), lambda batch: int(batch[1].shape[0]))


def spdl():
    """SPDL: FFmpeg's decoder and filters, in threads."""
    import spdl.io
    from spdl.pipeline import PipelineBuilder

    paths = [path for path, _ in files()]

    def source():
        while True:
            yield from random.sample(paths, len(paths))

    def decode(path):
        packets = spdl.io.demux_image(path)
        left, top, width, height = random_box(packets.width, packets.height)
        flip = "hflip," if random.random() < 0.5 else ""
        return spdl.io.decode_packets(packets, filter_desc=(
            f"crop=w={width}:h={height}:x={left}:y={top}:exact=1,"
            f"scale={SIDE}:{SIDE}:flags=bilinear,{flip}format=rgb24"))

    def convert(frames):
        return spdl.io.to_numpy(spdl.io.convert_frames(frames))

    pipeline = (PipelineBuilder().add_source(source()).pipe(decode, concurrency=THREADS).aggregate(BATCH)
                .pipe(convert).add_sink(3).build(num_threads=THREADS))
    with pipeline.auto_stop():
        yield from passes(iter(pipeline), len(paths), len)


PEERS = {
    "plenum": plenum,
    "render-plain": lambda: bench_render("plain"),
    "render-plain-indexed": lambda: bench_render("plain-indexed"),
    "render-packed": lambda: bench_render("packed"),
    "render-ffcv-way": lambda: bench_render("ffcv-way"),
    "render-recipe": lambda: bench_render(f"recipe-{RECIPE}"),
    "albumentations": albumentations,
    "pillow": pillow,
    "dataloader": dataloader,
    "webdataset": webdataset,
    "ffcv": ffcv,
    "dali": dali,
    "tf.data": tfdata,
    "spdl": spdl,
}
for kept in recipes.PREPARED:
    PEERS[f"ffcv-{kept}"] = functools.partial(ffcv, kept)
    PEERS[f"plenum-{kept}"] = functools.partial(plenum, kept)


def main():
    # Libraries print to standard output, where our answers are written: redirect them to standard error.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if OBJECTS:
        import detection

        PEERS.update(detection.PEERS)
    peer = PEERS[sys.argv[1]]()
    for _ in sys.stdin:
        done = next(peer)
        images, cpu = done if isinstance(done, tuple) else (done, None)
        answers.write(json.dumps({"images": images, "cpu": cpu}) + "\n")
        answers.flush()
    peer.close()


if __name__ == "__main__":
    main()
