#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""stores.py - measures the first epoch from an object store that takes 30 ms for each answer, compared with a disk and
with other libraries.

    bench/stores.py FOLDER [--latency MS] [--rounds N] [--copies N] [--threads N] [--json]

FOLDER is a data set of class folders. Writes N copies of it (4) below TMPDIR as tar archives, Parquet, MDS shards and
single files, and serves them with bench/slow_store, which is not the bottleneck. Each round runs, in random order:

    plenum, disk     plenumd with N threads (2) renders an epoch of the archives, in shuffled order, to uint8
    plenum, s3       plenumd does this from the store, with an index, but with nothing else kept from earlier rounds
    others           one process reads all samples, and crops, resizes and flips them with Pillow

"images/s" is per second of elapsed time, and "per core" per second of CPU time (user and system, of the loader or the
process). Libraries that are not installed for the Python that runs this are named. Prints medians and ratios.

PLENUM_BUILD names the build folder (default: build/work)."""

import argparse
import importlib.util
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(SOURCE, "tests", "e2e"))

BUILD = os.environ.get("PLENUM_BUILD", os.path.join(SOURCE, "build", "work"))
PIPELINE = "rrc(224) flip(0.5)"

# What each other library does with one sample.
COMMON = """
import io, json, os, random, sys, time
import numpy
from PIL import Image
URL, FOLDER, SCRATCH, ARCHIVES = sys.argv[1:5]

def crop(data):
    image = Image.open(io.BytesIO(data)).convert("RGB")
    w, h = image.size
    side = (w * h * random.uniform(0.08, 1)) ** 0.5
    cw, ch = min(w, side), min(h, side)
    x, y = random.uniform(0, w - cw), random.uniform(0, h - ch)
    image = image.resize((224, 224), Image.BILINEAR, (x, y, x + cw, y + ch))
    if random.random() < 0.5:
        image = image.transpose(Image.FLIP_LEFT_RIGHT)
    return numpy.asarray(image)

def main(samples):
    begin, used, n = time.time(), sum(os.times()[:4]), 0
    for data in samples:
        crop(data)
        n += 1
    print(json.dumps({"images": n, "seconds": time.time() - begin, "cpu": sum(os.times()[:4]) - used}))
"""
OTHERS = {
    "webdataset": """
import webdataset
urls = f"{URL}/b/tar/{{000000..{int(ARCHIVES) - 1:06d}}}.tar"
main(s["jpg"] for s in webdataset.WebDataset(urls, shardshuffle=False).shuffle(1000))
""",
    "streaming": """
import streaming
os.environ["S3_ENDPOINT_URL"] = URL
main(s["image"] for s in streaming.StreamingDataset(remote="s3://b/mds", local=SCRATCH, shuffle=True, batch_size=1))
""",
    "datasets": """
import datasets
rows = datasets.load_dataset("parquet", data_files=f"{URL}/b/a.parquet", split="train", streaming=True,
                             cache_dir=SCRATCH).cast_column("image", datasets.Image(decode=False))
main(r["image"]["bytes"] for r in rows.shuffle(seed=0, buffer_size=1000))
""",
    "s3torchconnector": """
from s3torchconnector import S3MapDataset, S3ClientConfig
files = S3MapDataset.from_prefix("s3://b/files/", region="us-east-1", endpoint=URL,
                                 s3client_config=S3ClientConfig(force_path_style=True))
order = random.sample(range(len(files)), len(files))
main(files[i].read() for i in order)
""",
    "litdata": """
import litdata
files = litdata.StreamingRawDataset("s3://b/files/", cache_dir=SCRATCH,
                                    storage_options={"endpoint_url": URL, "region_name": "us-east-1"})
order = random.sample(range(len(files)), len(files))
main(files[i] for i in order)
""",
}


def write_forms(data, folder, copies):
    """Write the data set in all forms; return the number of archives."""
    from columns import BYTES, INT64, Column, huggingface, mds, parquet, pictures
    import io
    import tarfile

    classes, samples = pictures(data)
    samples = [s for s in samples * copies if s[2].endswith((".jpg", ".JPEG", ".jpeg"))]
    random.Random(0).shuffle(samples)
    for name in ("tar", "files"):
        os.makedirs(os.path.join(folder, name))
    per = max(1, min(1000, len(samples) // 4))
    for i in range(0, len(samples), per):
        with tarfile.open(f"{folder}/tar/{i // per:06d}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
            for k, (image, label, _) in enumerate(samples[i:i + per]):
                for name, content in ((f"{k:06d}.cls", str(label).encode()), (f"{k:06d}.jpg", image)):
                    info = tarfile.TarInfo(name)
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
    for i, (image, _, _) in enumerate(samples):
        with open(f"{folder}/files/{i:08d}.jpg", "wb") as f:
            f.write(image)
    keys = huggingface({"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": classes}})
    parquet(f"{folder}/a.parquet", [Column(["image", "bytes"], BYTES, [s[0] for s in samples]),
                                    Column(["image", "path"], BYTES, [s[2].encode() for s in samples], text=True),
                                    Column("label", INT64, [s[1] for s in samples])], 1, 100, 100, keys)
    mds(f"{folder}/mds", {"image": "jpeg", "label": "int"}, [{"image": s[0], "label": s[1]} for s in samples],
        max(1, 2**26 * len(samples) // sum(len(s[0]) for s in samples)))
    return (len(samples) + per - 1) // per


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def plenum(name, environment, scratch, threads):
    """Run one epoch through its own loader."""
    socket = os.path.join(scratch, "loader.sock")
    subprocess.run([f"{BUILD}/plenumctl", "index", name], check=True, env=environment, stdout=subprocess.DEVNULL)
    loader = subprocess.Popen([f"{BUILD}/plenumd", "--socket", f"unix:{socket}", "--threads", str(threads),
                               "--no-tiles", "--io-threads", "16", "--root", "/", "--root", "s3://b"], env=environment,
                              stderr=subprocess.DEVNULL)
    try:
        while not os.path.exists(socket) and loader.poll() is None:
            time.sleep(0.01)
        before = cpu_seconds(loader.pid)
        fed = subprocess.run([f"{BUILD}/examples/feed", name, "--loader", f"unix:{socket}", "--pipeline", PIPELINE,
                              "--micro-batch", "64", "--json"], check=True, env=environment, capture_output=True,
                             text=True)
        result = json.loads(fed.stdout)
        return {"images": result["images"], "seconds": result["seconds"], "cpu": cpu_seconds(loader.pid) - before}
    finally:
        loader.terminate()
        loader.wait()


def other(name, url, folder, scratch, archives, environment):
    """Run one epoch with another library."""
    got = subprocess.run([sys.executable, "-c", COMMON + OTHERS[name], url, folder, scratch, str(archives)],
                         env=environment, capture_output=True, text=True, check=False)
    if got.returncode != 0:
        return {"error": (got.stderr.strip().splitlines() or ["it failed"])[-1][:200]}
    return json.loads(got.stdout.strip().splitlines()[-1])


def measure(o, folder, url, archives):
    """Return the results of all rounds, by name."""
    missing = [n for n in OTHERS if not importlib.util.find_spec(n)]
    ways, results = ["disk", "s3", *(n for n in OTHERS if n not in missing)], {n: {"error": "not installed"}
                                                                               for n in missing}
    for _ in range(o.rounds):
        for way in random.sample(ways, len(ways)):
            scratch = tempfile.mkdtemp(dir=folder + "-scratch")
            environment = dict(os.environ, PLENUM_CACHE_DIR=f"{scratch}/cache", AWS_ENDPOINT_URL=url, HOME=scratch,
                               AWS_REGION="us-east-1", AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret")
            if way in OTHERS:
                result = other(way, url, folder, scratch, archives, environment)
            else:
                result = plenum(f"tar:{folder}/tar" if way == "disk" else "tar:s3://b/tar", environment, scratch,
                                o.threads)
            shutil.rmtree(scratch, ignore_errors=True)
            if "error" in result:
                results[way] = result
                continue
            results.setdefault(way, {"rate": [], "core": []})
            results[way]["rate"].append(result["images"] / result["seconds"])
            results[way]["core"].append(result["images"] / max(result["cpu"], 1e-9))
    return {n: r if "error" in r else {k: statistics.median(v) for k, v in r.items()} for n, r in results.items()}


def show(results):
    local, ours = results["disk"], results["s3"]
    print(f"{'':18} {'images/s':>9} {'per core':>9}")
    for name, r in results.items():
        label = {"disk": "plenum, disk", "s3": "plenum, s3"}.get(name, name)
        print(f"{label:18} {r['error']}" if "error" in r else f"{label:18} {r['rate']:9.0f} {r['core']:9.0f}")
    print(f"\nthe first epoch from the store runs at {ours['rate'] / local['rate']:.2f} of the rate from the disk")
    others = {n: r["core"] for n, r in results.items() if n in OTHERS and "error" not in r}
    if others:
        best = max(others, key=others.get)
        print(f"{ours['core'] / others[best]:.1f} times the rate per core of {best}, the best of the others")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("data")
    p.add_argument("--latency", type=int, default=30, help="milliseconds")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--copies", type=int, default=4)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--json", action="store_true")
    o = p.parse_args()
    folder = tempfile.mkdtemp(prefix="plenum-stores-")
    os.makedirs(folder + "-scratch")
    server = None
    try:
        archives = write_forms(o.data, folder, o.copies)
        server = subprocess.Popen([f"{BUILD}/bench/slow_store", folder, str(o.latency)], stdout=subprocess.PIPE,
                                  text=True)
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        results = measure(o, folder, url, archives)
    finally:
        if server:
            server.terminate()
            server.wait()
        shutil.rmtree(folder)
        shutil.rmtree(folder + "-scratch")
    if o.json:
        print(json.dumps(results))
    else:
        show(results)


if __name__ == "__main__":
    main()
