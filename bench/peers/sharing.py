# SPDX-License-Identifier: MIT
"""K jobs that read the same pictures through torch: each with a DataLoader of its own, or from one TensorSocket.

usage: sharing.py dataloader|tensorsocket JOBS DATA EPOCHS PORT

DATA is a folder with one sub-folder of JPEGs per class. Each batch has 32 pictures, with torchvision's crops and flips
(RandomResizedCrop(224), RandomHorizontalFlip). Prints the CPU seconds of all processes, without their start, and the
number of pictures that each job received, as JSON. bench/sweep --peers calls this program. TensorSocket uses the ports
from PORT to PORT + 3.
"""

import json
import multiprocessing
import sys
import time

import torch
from torchvision import datasets, transforms

BATCH = 32


def loader(data):
    torch.set_num_threads(1)
    steps = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.PILToTensor()]
    pictures = datasets.ImageFolder(data, transforms.Compose(steps))
    return torch.utils.data.DataLoader(pictures, BATCH, shuffle=True, drop_last=True)


def ports(port):
    return {"port": port, "ack_port": port + 1, "heart_ports": (port + 2, port + 3)}


def own(data, epochs, port, results):
    """Read through a DataLoader of this process."""
    batches = loader(data)
    begin, pictures = time.process_time(), 0
    for _ in range(epochs):
        pictures += sum(len(labels) for _, labels in batches)
    results.put((time.process_time() - begin, pictures))


def consume(data, epochs, port, results):
    from tensorsocket import TensorConsumer
    torch.set_num_threads(1)
    begin, pictures = time.process_time(), 0
    consumer = TensorConsumer(batch_size=BATCH, **ports(port))
    for _ in range(epochs):
        pictures += sum(len(labels) for _, labels in consumer)
    results.put((time.process_time() - begin, pictures))


def produce(data, port, results):
    """Send batches until this process is ended."""
    from tensorsocket import TensorProducer
    producer = TensorProducer(loader(data), **ports(port))
    while True:
        for _ in producer:
            results.value = time.process_time()


def main():
    kind, jobs, data, epochs, port = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
    context = multiprocessing.get_context("fork")
    results, shared = context.Queue(), context.Value("d", 0.0)
    job = own if kind == "dataloader" else consume
    if kind != "dataloader":
        context.Process(target=produce, args=(data, port, shared), daemon=True).start()
    for _ in range(jobs):
        context.Process(target=job, args=(data, epochs, port, results), daemon=True).start()
    ends = [results.get() for _ in range(jobs)]
    print(json.dumps({"cpu": sum(cpu for cpu, _ in ends) + shared.value, "pictures": [n for _, n in ends]}))


if __name__ == "__main__":
    main()
