#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""torchft: replica groups that come and go at any step, without a lost or repeated sample.

    plenumctl make-sample photos
    torchft_lighthouse --min_replicas 1 --join_timeout_ms 1000 & export TORCHFT_LIGHTHOUSE=http://localhost:29510
    for i in 0 1; do REPLICA_GROUP_ID=$i torchrun --master_port 2960$i torchft_photos.py photos & done

The samples of a step depend on the groups that take part in it, so the quorum comes first (use_async_quorum=False). If
a group is killed within a step, the others do not commit it, and the next quorum takes its samples again.
"""

import os
import sys

import torch
from torch import nn
from torchft import Manager, ProcessGroupGloo

import pyplenum

EPOCHS, MICRO_BATCH = 2, 8


class Data:
    """A stream whose position is part of the manager's state, so that a group that heals continues from it."""
    def __init__(self, manager: Manager, stream: pyplenum.Stream):
        self.manager, self.stream, self.share = manager, stream, None
        self.committed = {"cursor": stream.cursor, "tag": 0, "epoch": stream.place.epoch}
        manager.register_state_dict_fn("data", self.committed.update, lambda: dict(self.committed))

    def next(self) -> pyplenum.Batch:
        before, self.share = self.share, (self.manager.participating_rank() or 0, self.manager.num_participants())
        if self.share != before or self.stream.cursor != self.committed["cursor"]:
            self.stream.reshape(*self.share, self.committed["cursor"])
        return self.stream.next()

    def check(self) -> None:
        """Reject the step if groups have taken equally many, but different steps: torchft does not heal such groups."""
        mine, tags = self.committed["tag"] >> 1, torch.zeros(self.share[1], dtype=torch.int64)
        tags[self.share[0]] = mine
        self.manager.allreduce(tags, reduce_op=torch.distributed.ReduceOp.SUM).wait()        # zeros from spares
        if not self.manager.errored() and len(tags.unique()) > 1:
            self.manager.report_error(RuntimeError("some groups have taken different steps"))
            if mine != tags.mode().values:
                sys.exit("this group has taken other steps than the majority: start it again, and it will heal")

    def commit(self) -> None:
        self.committed.update(cursor=self.stream.cursor, tag=self.stream.tag(self.committed["tag"]),
                              epoch=self.stream.place.epoch)


def main() -> None:
    stream = pyplenum.Stream(sys.argv[1], "rrc(32)", seed=7, micro_batch=MICRO_BATCH, dtype="uint8", layout="nchw")
    network = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
                            nn.Linear(256, stream.num_classes))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.02, momentum=0.9)
    manager = Manager(ProcessGroupGloo(), min_replica_size=1, use_async_quorum=False,
                      replica_id=os.environ.get("REPLICA_GROUP_ID", "0"),
                      state_dict=lambda: [network.state_dict(), optimizer.state_dict()],
                      load_state_dict=lambda both: [a.load_state_dict(b) for a, b in zip((network, optimizer), both)])
    data = Data(manager, stream)
    while data.committed["epoch"] < EPOCHS:
        optimizer.zero_grad()
        manager.start_quorum()
        batch = data.next()
        images, labels, valid = (torch.from_numpy(a) for a in (batch.images, batch.labels.ravel(), batch.valid.ravel()))
        losses = nn.functional.cross_entropy(network(images / 255), labels, reduction="none")
        ((losses * valid).sum() / MICRO_BATCH).backward()    # padding of the last step has no weight
        all(manager.allreduce(parameter.grad).wait() for parameter in network.parameters())
        data.check()
        if manager.should_commit():
            optimizer.step()
            data.commit()
            print(f"step {manager.current_step()} of {data.share[1]}: loss {losses.mean():.4f}", flush=True)
    manager.shutdown()


if __name__ == "__main__":
    main()
