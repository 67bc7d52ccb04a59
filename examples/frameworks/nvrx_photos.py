#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""NVRx: a training function that starts again within its processes after a failure, on the ranks that are left.

    plenumctl make-sample photos
    torchrun --nproc_per_node 3 --master_port 29600 nvrx_photos.py photos --checkpoint run.pt

Open the stream outside of the function that starts again: it stays open, with its loader, and only its share and
position change. Weights and position come from the checkpoint, because a failure can leave some ranks a step ahead, and
corrupt the tensors that were being reduced. A rank that waits for a batch needs no abort: the restart interrupts it.
"""

import argparse
import datetime
import os

import nvidia_resiliency_ext.inprocess as inprocess
import torch
import torch.distributed as dist
from torch import nn

import pyplenum


@inprocess.Wrapper()
def train(stream: pyplenum.Stream, start: bytes, args: argparse.Namespace, call: inprocess.CallWrapper = None) -> None:
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])       # set by the wrapper before each start
    dist.init_process_group("gloo", store=dist.PrefixStore(f"training-{call.iteration}", call.base_store), rank=rank,
                            world_size=size, timeout=datetime.timedelta(seconds=args.timeout))
    torch.manual_seed(7)
    network = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
                            nn.Linear(256, stream.num_classes))
    optimizer, step, cursor = torch.optim.SGD(network.parameters(), lr=0.02, momentum=0.9), 0, start
    if os.path.exists(args.checkpoint):
        state = torch.load(args.checkpoint)
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        step, cursor = state["step"], state["cursor"]
    stream.reshape(rank, size, cursor)
    replica = nn.parallel.DistributedDataParallel(network)
    while stream.place.epoch < args.epochs:
        batch = stream.next()
        images, labels, valid = (torch.from_numpy(a) for a in (batch.images, batch.labels.ravel(), batch.valid.ravel()))
        losses = nn.functional.cross_entropy(replica(images / 255), labels, reduction="none")
        optimizer.zero_grad()
        ((losses * valid).sum() / args.micro_batch).backward()                # padding of the last step has no weight
        optimizer.step()
        step += 1
        if rank == 0:
            print(f"step {step} of {size}: loss {losses.mean():.4f}", flush=True)
            if step % args.checkpoint_every == 0:
                with call.atomic():                                           # a restart waits until it is complete
                    torch.save({"network": network.state_dict(), "optimizer": optimizer.state_dict(), "step": step,
                                "cursor": stream.cursor}, f"{args.checkpoint}.new")
                    os.replace(f"{args.checkpoint}.new", args.checkpoint)
    dist.destroy_process_group()


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("dataset")
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--micro-batch", type=int, default=8)
    p.add_argument("--checkpoint", default="run.pt")
    p.add_argument("--checkpoint-every", type=int, default=5, metavar="STEPS")
    p.add_argument("--timeout", type=int, default=20, help="seconds until a collective fails (default: %(default)s)")
    args = p.parse_args()
    with pyplenum.Stream(args.dataset, "rrc(32)", seed=7, micro_batch=args.micro_batch, dtype="uint8",
                         layout="nchw", rank=0, world_size=1) as stream:
        train(stream, stream.cursor, args)


if __name__ == "__main__":
    main()
