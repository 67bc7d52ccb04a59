#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Train a small network on a folder of images, on any number of processes.

    plenumctl make-sample /tmp/sample
    python3 train.py /tmp/sample
    plenumrun --num-instances 2 --num-replicas 4 python3 train.py /tmp/sample
    torchrun --nproc_per_node 2 train.py /tmp/sample

This is an ordinary PyTorch script that uses DistributedDataParallel with gloo, which takes rank and world size from the
environment. Only its batches come from Plenum. As long as replicas times micro-batch is the same, a step has the same
samples on any number of processes, and the same loss, up to rounding.

    plenumrun -n 2 --max-restarts 3 python3 train.py /tmp/sample --checkpoint run.pt --checkpoint-every 20 --resume

A checkpoint holds weights, optimizer and the position in the stream. A run that is killed and resumes from it repeats
the uninterrupted run: it has the same samples in every step and, with one or two processes, the same weights to the
last bit. (With more processes, DistributedDataParallel adds up in a different order in its first step.) The number of
processes may change. When plenumrun receives SIGTERM or SIGUSR1, because the hosts are taken away, all processes stop
before the same step, write a checkpoint and end, and plenumrun exits with status 75.

    python3 train.py /tmp/sample --evaluate /tmp/validation

An evaluation shows each sample once, on any number of processes; the last batches are short. Its classes have the same
numbers as in the training set.
"""

import argparse
import hashlib
import os
import sys
import time
from typing import Optional

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

import pyplenum
import pyplenum.torch


def parse() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("dataset", help="a folder with one sub-folder per class")
    p.add_argument("--pipeline", default="rrc(64, scale=0.25:1) flip(0.5)", help="(default: %(default)s)")
    p.add_argument("--replicas", type=int, help="replicas, if there is one process (default: from the launcher)")
    p.add_argument("--micro-batch", type=int, default=16, help="samples per replica and step (default: %(default)s)")
    p.add_argument("--steps", type=int, default=100, help="steps to train (default: %(default)s)")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--lr", type=float, default=0.02)
    p.add_argument("--double", action="store_true", help="compute in float64")
    p.add_argument("--log", metavar="FILE", help="write the sample numbers and the exact loss of every step to FILE")
    p.add_argument("--checkpoint", metavar="FILE",
                   help="write a checkpoint to FILE.N at the end; N is the number of the start")
    p.add_argument("--checkpoint-every", type=int, metavar="N", help="also write one every N steps")
    p.add_argument("--resume", action="store_true", help="resume from the checkpoint, if it exists")
    p.add_argument("--evaluate", metavar="DATASET", help="evaluate on this folder after training")
    p.add_argument("--eval-pipeline", default="resize(72) center_crop(64)", help="(default: %(default)s)")
    args = p.parse_args()
    if (args.resume or args.checkpoint_every) and not args.checkpoint:
        p.error("--resume and --checkpoint-every need --checkpoint FILE")
    return args


def make_model(classes: int, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, stride=2, padding=2), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(64 * 16, classes))


class Exchange:
    """Exchanges losses and sample numbers between the processes in every step, in addition to the gradients.

    Its tensors live until the process group is destroyed, because a gloo thread releases a tensor some time after its
    collective has ended. If the thread held the last reference, it would need the GIL, while Python waits for that very
    thread at exit.
    """

    def __init__(self, world: int, micro_batches: int, dtype: torch.dtype):
        self.scores = torch.empty(2, dtype=dtype)
        self.mine = torch.empty(micro_batches, dtype=torch.int64)
        self.every = [torch.empty_like(self.mine) for _ in range(world)]

    def mean(self, loss: torch.Tensor, accuracy: torch.Tensor) -> list:
        """Return loss and accuracy, averaged over all processes."""
        self.scores[0], self.scores[1] = loss, accuracy
        if dist.is_initialized():
            dist.all_reduce(self.scores)
            self.scores /= dist.get_world_size()
        return self.scores.tolist()

    def sample_numbers(self, samples: torch.Tensor) -> list:
        """Return the samples of this step in all processes, in the order of the replicas."""
        self.mine.copy_(samples)
        if not dist.is_initialized():
            return self.mine.tolist()
        dist.all_gather(self.every, self.mine)
        return torch.cat(self.every).tolist()


class Run:
    """The state that a checkpoint holds."""

    def __init__(self, job: pyplenum.Job, loader: pyplenum.torch.Loader, model: nn.Module,
                 optimizer: torch.optim.Optimizer, checkpoint: Optional[str]):
        self.job, self.loader, self.model, self.optimizer = job, loader, model, optimizer
        self.checkpoint = pyplenum.Checkpoint(checkpoint) if checkpoint and job.instance_index == 0 else None
        self.step = 0
        self.hash = 0  # hash of all batches delivered to all processes up to the last checkpoint
        self.delivered = 0  # hash of the batches delivered to this process since then
        self.stopped = False

    def stops(self) -> bool:
        """Return whether all processes stop before the next step, to resume later. With torchrun, they cannot agree."""
        agree = self.job.num_instances == 1 or self.job.launcher == "plenumrun"
        self.stopped = agree and self.job.should_stop(self.step)
        return self.stopped

    def total_hash(self) -> int:
        """Return the hash of all batches delivered to all processes. This is a collective."""
        self.hash = (self.hash + sum(self.job.allgather_object(self.delivered))) % 2**64
        self.delivered = 0
        return self.hash

    def save(self) -> None:
        """Write a checkpoint. This is a collective; only the first process writes."""
        self.total_hash()
        if self.checkpoint:
            with self.checkpoint.replace() as path:
                torch.save({"step": self.step, "hash": f"{self.hash:016x}", "loader": self.loader.state_dict(),
                            "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, path)

    def load(self) -> None:
        """Read the newest checkpoint. This is a collective. Only the first process reads; others need no file."""
        state = None
        if self.checkpoint and self.checkpoint.newest:
            state = torch.load(self.checkpoint.newest, map_location="cpu")
            self.model.load_state_dict(state.pop("model"))
            self.optimizer.load_state_dict(state.pop("optimizer"))
        state = self.job.broadcast_object(state)
        if state is None:
            return
        pyplenum.torch.broadcast_parameters(self.model)
        pyplenum.torch.broadcast_optimizer_state(self.optimizer)
        self.step, self.hash = state["step"], int(state["hash"], 16)
        self.loader.load_state_dict(state["loader"])
        if self.checkpoint:
            print(f"resuming from step {self.step} of {self.checkpoint.newest}", flush=True)


def train(args: argparse.Namespace, run: Run, model: nn.Module, dtype: torch.dtype) -> None:
    first = run.job.instance_index == 0
    log = open(args.log, "a" if run.step else "w", buffering=1) if args.log and first else None
    exchange = None
    begin, first_step = time.monotonic(), run.step
    while run.step < args.steps and not run.stops():
        for images, labels, samples, hash_of_batch in run.loader:  # to the end of an epoch
            run.optimizer.zero_grad()
            output = model(images.to(dtype))
            loss = nn.functional.cross_entropy(output, labels)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1)
            run.optimizer.step()
            right = (output.argmax(1) == labels).to(dtype).mean()
            exchange = exchange or Exchange(run.job.num_instances, len(labels), dtype)
            loss_all, right_all = exchange.mean(loss.detach(), right)
            if args.log:
                numbers = exchange.sample_numbers(samples)
                if log:
                    print(run.step, float(loss_all).hex(), *numbers, file=log)
            run.delivered += hash_of_batch
            run.step += 1
            if first and (run.step % 10 == 0 or run.step == args.steps):
                print(f"step {run.step:4}  loss {loss_all:.4f}  accuracy {right_all:.2f}", flush=True)
            if args.checkpoint_every and run.step % args.checkpoint_every == 0:
                run.save()
            if run.step >= args.steps or run.stops():  # before the next batch is taken
                break
    elapsed, stats = time.monotonic() - begin, run.loader.stats
    if first and run.step > first_step:
        samples = (run.step - first_step) * run.job.num_instances * len(labels)
        print(f"{samples / elapsed:.0f} images/s, {100 * stats.waited / elapsed:.1f} % of the time spent waiting for "
              f"data")
    if log:
        log.close()


def evaluate(args: argparse.Namespace, run: Run, model: nn.Module, dtype: torch.dtype) -> None:
    """Evaluate the trained model once on every sample of another data set."""
    sums = np.zeros(2, np.int64)  # samples, correct answers
    loss = np.zeros(1, np.float64)
    model.eval()
    with torch.no_grad(), pyplenum.torch.Loader(args.evaluate, args.eval_pipeline, shuffle="none", last="partial",
                                                dtype=torch.float32, job=replicas_of(args, run.job),
                                                micro_batch=args.micro_batch,
                                                classes=run.loader.dataset.classes) as loader:
        for images, labels in loader:
            if len(labels) == 0:  # the last step has fewer samples than there are processes
                continue
            output = model(images.to(dtype))
            sums += len(labels), int((output.argmax(1) == labels).sum())
            loss += float(nn.functional.cross_entropy(output, labels, reduction="sum"))
        run.job.allreduce(sums)
        run.job.allreduce(loss)
        if sums[0] != len(loader.dataset):
            raise RuntimeError(f"{sums[0]} of {len(loader.dataset)} samples were counted")
    if run.job.instance_index == 0:
        print(f"evaluation: {sums[0]} samples, loss {loss[0] / sums[0]:.4f}, accuracy {sums[1] / sums[0]:.4f}")


def replicas_of(args: argparse.Namespace, job: pyplenum.Job):
    """Return the Loader's `job` argument: the job, or, for a single process, the number of replicas (None: from the
    launcher)."""
    return args.replicas if job.num_instances == 1 else job


def digest(model: nn.Module) -> str:
    """Return a hash over every bit of the weights."""
    h = hashlib.sha256()
    for value in model.state_dict().values():
        h.update(value.detach().cpu().contiguous().numpy().tobytes())
    return h.hexdigest()[:16]


def main() -> int:
    args = parse()
    job = pyplenum.job()
    dtype = torch.float64 if args.double else torch.float32
    if job.num_instances > 1:
        dist.init_process_group("gloo")  # MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE are in the environment
    loader = pyplenum.torch.Loader(args.dataset, args.pipeline, job=replicas_of(args, job), seed=args.seed,
                                   micro_batch=args.micro_batch, last="drop", dtype=torch.float32,
                                   fields=("images", "labels", "samples", "hash"))
    model = make_model(loader.stream.num_classes, args.seed).to(dtype)
    pyplenum.torch.broadcast_parameters(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    run = Run(job, loader, model, optimizer, args.checkpoint)
    if args.resume:
        run.load()
    parallel = nn.parallel.DistributedDataParallel(model) if job.num_instances > 1 else model
    train(args, run, parallel, dtype)
    pyplenum.torch.check_same(model)  # raises an error that names tensor and instance if weights differ
    if args.checkpoint:
        run.save()
    total = run.total_hash()
    if job.instance_index == 0:
        print(f"hash {total:016x}  weights {digest(model)}")
    if run.stopped and job.instance_index == 0:
        print(f"stopped before step {run.step}")
    elif args.evaluate and not run.stopped:
        evaluate(args, run, model, dtype)
    loader.close()
    if dist.is_initialized():
        del parallel, model, optimizer, run
        dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
