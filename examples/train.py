#!/usr/bin/env python3
"""Train a small network on a folder of images, on any number of processes.

    plenumctl make-sample /tmp/sample
    python3 train.py /tmp/sample
    plenumrun --num-instances 2 --num-replicas 4 python3 train.py /tmp/sample

An ordinary PyTorch script: DistributedDataParallel with gloo, which takes rank and world size from the environment. Only
its batches come from Plenum. The samples of a step are the same whatever the number of processes, as long as the
number of replicas times the micro-batch is the same; so is the loss, up to rounding.
"""

import argparse
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

import pyplenum
import pyplenum.torch


def parse() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("dataset", help="a folder with one sub-folder for each class")
    p.add_argument("--pipeline", default="rrc(64, scale=0.25:1) flip(0.5)", help="(default: %(default)s)")
    p.add_argument("--replicas", type=int, help="replicas, when there is one process (default: what the launcher says)")
    p.add_argument("--micro-batch", type=int, default=16, help="samples of a replica in a step (default: %(default)s)")
    p.add_argument("--steps", type=int, default=100, help="steps to train (default: %(default)s)")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--lr", type=float, default=0.02)
    p.add_argument("--double", action="store_true", help="compute in float64")
    p.add_argument("--log", metavar="FILE", help="write the sample numbers and the exact loss of every step there")
    return p.parse_args()


def make_model(classes: int, seed: int) -> nn.Module:
    torch.manual_seed(seed)  # the same weights in every process
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, stride=2, padding=2), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(64 * 16, classes))


class Exchange:
    """What is exchanged between the processes beside the gradients.

    Its tensors are kept from step to step, and until the process group is gone: a thread of gloo lets go of a tensor
    some time after the collective is over. If it held the last reference it would need Python's lock, while Python
    waits for that very thread at the end.
    """

    def __init__(self, world: int, micro_batches: int, dtype: torch.dtype):
        self.scores = torch.empty(2, dtype=dtype)
        self.mine = torch.empty(micro_batches, dtype=torch.int64)
        self.every = [torch.empty_like(self.mine) for _ in range(world)]

    def mean(self, loss: torch.Tensor, accuracy: torch.Tensor) -> list:
        """Loss and accuracy, over all processes."""
        self.scores[0], self.scores[1] = loss, accuracy
        if dist.is_initialized():
            dist.all_reduce(self.scores)
            self.scores /= dist.get_world_size()
        return self.scores.tolist()

    def sample_numbers(self, batch: pyplenum.Batch) -> list:
        """The samples of this step in all processes, in the order of the replicas."""
        self.mine.copy_(torch.tensor(batch.samples.reshape(-1).astype("int64")))
        if not dist.is_initialized():
            return self.mine.tolist()
        dist.all_gather(self.every, self.mine)
        return torch.cat(self.every).tolist()


def main() -> int:
    args = parse()
    job = pyplenum.job()
    dtype = torch.float64 if args.double else torch.float32
    if job.num_instances > 1:
        dist.init_process_group("gloo")  # MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE are in the environment
    stream = pyplenum.Stream(args.dataset, args.pipeline, job=args.replicas if job.num_instances == 1 else job,
                             seed=args.seed, micro_batch=args.micro_batch, last="drop", layout="nchw")
    model = make_model(stream.num_classes, args.seed).to(dtype)
    if job.num_instances > 1:
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    log = open(args.log, "w") if args.log and job.instance_index == 0 else None
    first = job.instance_index == 0
    exchange = None
    begin = time.monotonic()
    for step, batch in zip(range(args.steps), stream):
        images, labels, _ = pyplenum.torch.tensors(batch)
        optimizer.zero_grad()
        output = model(images.to(dtype) / 64)
        loss = nn.functional.cross_entropy(output, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
        right = (output.argmax(1) == labels).to(dtype).mean()
        exchange = exchange or Exchange(job.num_instances, len(labels), dtype)
        loss_all, right_all = exchange.mean(loss.detach(), right)
        if args.log:
            numbers = exchange.sample_numbers(batch)
            if log:
                print(step, float(loss_all).hex(), *numbers, file=log)
        if first and (step % 10 == 9 or step == args.steps - 1):
            print(f"step {step + 1:4}  loss {loss_all:.4f}  accuracy {right_all:.2f}", flush=True)
        del images, batch  # the slot is the loader's again
    elapsed, stats = time.monotonic() - begin, stream.stats
    if first:
        samples = args.steps * job.num_instances * (stats.samples // max(1, stats.batches))
        print(f"{samples / elapsed:.0f} images/s, {100 * stats.waited / elapsed:.1f} % of the time spent waiting for data")
    stream.close()
    if log:
        log.close()
    if dist.is_initialized():
        del model, optimizer
        dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
