#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""columns.py - measures the rates of one core from Parquet files and MDS shards, relative to tar archives of the same
images.

    bench/columns.py FOLDER [--rounds N] [--copies N] [--pipeline TEXT] [--json]

FOLDER is a data set of class folders. Writes N copies of it (4) below TMPDIR: as tar archives of 1,000 samples, as a
Parquet file like those of `datasets`, and as MDS shards; the last two also compressed by zstd. Each round runs
`plenumctl hash` (one thread that reads and renders an epoch in shuffled order) over each form, in random order, with a
warm page cache. Images per second are per second of CPU time, user and system. If `datasets` and Pillow are installed,
two rows show how they read the same Parquet file, by random access and as a stream with a shuffle buffer of 100. They
run in one process without a DataLoader: Pillow makes a random resized crop of 224 pixels, which is flipped and becomes
an array. "Pillow alone" does the same with files in memory.

PLENUM_BUILD names the build folder (default: build/work)."""

import argparse
import io
import json
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(SOURCE, "tests", "e2e"))

from columns import BYTES, INT64, Column, huggingface, mds, parquet, pictures  # noqa: E402

BUILD = os.environ.get("PLENUM_BUILD", os.path.join(SOURCE, "build", "work"))
ARCHIVE, GROUP = 1000, 100


def write_tar(folder, samples):
    os.makedirs(folder)
    for i in range(0, len(samples), ARCHIVE):
        with tarfile.open(os.path.join(folder, f"{i // ARCHIVE:06d}.tar"), "w", format=tarfile.USTAR_FORMAT) as tar:
            for k, (image, label, _) in enumerate(samples[i:i + ARCHIVE]):
                for name, data in (f"{k:06d}.cls", str(label).encode()), (f"{k:06d}.jpg", image):
                    info = tarfile.TarInfo(name)
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))


def write_parquet(path, classes, samples, codec):
    keys = huggingface({"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": classes}})
    parquet(path, [Column(["image", "bytes"], BYTES, [s[0] for s in samples], codec),
                   Column(["image", "path"], BYTES, [s[2].encode() for s in samples], text=True),
                   Column("label", INT64, [s[1] for s in samples])], 1, GROUP, GROUP, keys)


def write_forms(folder, classes, samples):
    """Return the forms: {name: data set for plenumctl}."""
    rows = [{"image": image, "label": label} for image, label, _ in samples]
    columns, per_shard = {"image": "jpeg", "label": "int"}, max(1, 2**26 * len(rows) // sum(len(s[0]) for s in samples))
    write_tar(os.path.join(folder, "tar"), samples)
    write_parquet(os.path.join(folder, "a.parquet"), classes, samples, "none")
    write_parquet(os.path.join(folder, "zstd.parquet"), classes, samples, "zstd")
    mds(os.path.join(folder, "mds"), columns, rows, per_shard)
    mds(os.path.join(folder, "mds-zstd"), columns, rows, per_shard, "zstd")
    return {"tar": f"tar:{folder}/tar", "parquet": f"{folder}/a.parquet", "mds": f"mds:{folder}/mds",
            "parquet-zstd": f"{folder}/zstd.parquet", "mds-zstd": f"mds:{folder}/mds-zstd"}


def run(dataset, pipeline):
    """Return the CPU seconds of one epoch."""
    words = [os.path.join(BUILD, "plenumctl"), "hash", dataset, "--pipeline", pipeline]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)}: exit status {process.returncode}")
    return used.ru_utime + used.ru_stime


def huggingface_rows(path):
    """Return {name: function that returns the CPU seconds of one epoch by `datasets`}; empty if it is not installed."""
    try:
        import datasets
        import numpy
        from PIL import Image
    except ImportError:
        return {}
    datasets.disable_progress_bars()
    rows = datasets.load_dataset("parquet", data_files=path, split="train", cache_dir=os.path.dirname(path) + "/hf")
    stream = datasets.load_dataset("parquet", data_files=path, split="train", streaming=True)
    encoded = [row["image"]["bytes"] for row in rows.cast_column("image", datasets.Image(decode=False))]

    def epoch(images):
        begin = time.process_time()
        for image in images():
            image = image.convert("RGB")
            area = image.width * image.height * random.uniform(0.08, 1)
            width = min(image.width, max(1, round((area * random.uniform(0.75, 1.33)) ** 0.5)))
            height = min(image.height, max(1, round(area / width)))
            x, y = random.randint(0, image.width - width), random.randint(0, image.height - height)
            image = image.resize((224, 224), Image.Resampling.BILINEAR, (x, y, x + width, y + height))
            numpy.asarray(image)[:, ::random.choice((-1, 1))].copy()
        return time.process_time() - begin

    sources = {"datasets": lambda: (rows[i]["image"] for i in random.sample(range(len(rows)), len(rows))),
               "datasets, streaming": lambda: (row["image"] for row in stream.shuffle(buffer_size=100)),
               "Pillow alone": lambda: (Image.open(io.BytesIO(each)) for each in encoded)}
    return {name: lambda images=images: epoch(images) for name, images in sources.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--copies", type=int, default=4)
    parser.add_argument("--pipeline", default="train")
    parser.add_argument("--json", action="store_true")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="plenum-columns-") as folder:
        os.environ["PLENUM_CACHE_DIR"] = os.path.join(folder, "cache")
        classes, samples = pictures(a.folder)
        samples *= a.copies
        forms = write_forms(folder, classes, samples)
        count, seconds = len(samples), {}
        del samples
        steps = {name: lambda d=data: run(d, a.pipeline) for name, data in forms.items()}
        steps.update(huggingface_rows(forms["parquet"]))
        for i in range(a.rounds + 1):  # the first round builds the indices
            for name in sorted(steps, key=lambda _: random.random()):
                seconds.setdefault(name, []).append(steps[name]())
    rates = {name: [count / s for s in each[1:]] for name, each in seconds.items()}
    ratios = {name: sorted(r / t for r, t in zip(each, rates["tar"])) for name, each in rates.items()}
    table = {name: {"per_second": round(sorted(each)[len(each) // 2]), "to_tar": round(ratios[name][len(each) // 2], 3)}
             for name, each in rates.items()}
    if a.json:
        print(json.dumps({"images": count, "rounds": a.rounds, "forms": table}))
        return
    print(f"{count} images, {a.rounds} rounds; images per second per core\n{'':20}{'rate':>8}{'to tar':>8}")
    for name, each in table.items():
        print(f"{name:20}{each['per_second']:8}{each['to_tar']:8.3f}")


main()
