# SPDX-License-Identifier: MIT
"""Plenum's collectives over torch.distributed, for jobs without MPI, such as those under torchrun.

They work on host memory, so they use a gloo group, whatever the program's own group is. The caller's memory is
transferred directly, without copies.

Tensors of a collective are kept for a while. A gloo thread releases a tensor some time after the collective has
completed. If it held the last reference, it would need the interpreter's lock, while the interpreter, at exit, waits
for that very thread.
"""

import collections
import ctypes
import datetime
import errno
from typing import Any, Callable, Deque, List

import numpy as np
import torch
import torch.distributed

from ._lib import (CCarrier, CCarryAllgather, CCarryAllreduce, CCarryBarrier, CCarryBroadcast, CError, byref, check,
                   lib)

__all__ = ["carry"]

dist: Any = torch.distributed  # its functions have no types in every version

_DTYPES = (np.int32, np.int64)  # libplenum adds floats itself
_OPS = (dist.ReduceOp.SUM, dist.ReduceOp.MIN, dist.ReduceOp.MAX, dist.ReduceOp.SUM)
_MEAN = 3


def _tensor(address: int, count: int, dtype: Any) -> torch.Tensor:
    """Return a tensor over the caller's memory."""
    size = count * np.dtype(dtype).itemsize
    array = np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)), dtype)
    return torch.from_numpy(array)


class _TorchCarrier:
    def __init__(self) -> None:
        self.store: Any = None
        self.group = dist.group.WORLD if dist.get_backend() == "gloo" else dist.new_group(backend="gloo")
        self.kept: Deque[Any] = collections.deque(maxlen=64)
        self.number = 0

    def announce(self) -> None:
        """Announce, through the group's store, which collective this instance has reached."""
        self.number += 1
        try:
            self.store = dist.distributed_c10d._get_default_store()
            self.store.add(f"plenum-{dist.get_rank()}", 1)
        except Exception:  # torch may lack this store: then missing instances are not named
            self.store = None

    def missing(self) -> str:
        try:
            names = [str(i) for i in range(dist.get_world_size())
                     if int(self.store.add(f"plenum-{i}", 0)) < self.number]
        except Exception:
            names = []
        if not names:
            return "not all instances have arrived, or the operation did not finish"
        return (f"instances {', '.join(names)} have not arrived" if len(names) > 1
                else f"instance {names[0]} has not arrived")

    def run(self, what: str, timeout_ns: int, error: Any, begin: Callable[[], Any]) -> int:
        """Start a collective and wait for it; turn exceptions into the C library's errors."""
        if timeout_ns:
            self.announce()
        limit = datetime.timedelta(microseconds=max(1, timeout_ns // 1000)) if timeout_ns else None
        try:
            work = begin()
            if limit is None:
                work.wait()
            else:
                work.wait(limit)
        except Exception as exception:
            late = timeout_ns and "timed out" in str(exception).lower()
            text = (f"the time limit has passed and {self.missing()}" if late
                    else f"torch.distributed failed in {what}: {exception}")
            error.contents.text = text.encode("utf-8", "replace")[:500]
            return -errno.ETIMEDOUT if late else -errno.EIO
        return 0

    def broadcast(self, _: Any, buffer: int, size: int, root: int, timeout_ns: int, error: Any) -> int:
        tensor = _tensor(buffer, size, np.uint8)
        self.kept.append(tensor)
        return self.run("broadcast", timeout_ns, error,
                        lambda: dist.broadcast(tensor, root, group=self.group, async_op=True))

    def allreduce(self, _: Any, buffer: int, count: int, type: int, op: int, timeout_ns: int, error: Any) -> int:
        tensor = _tensor(buffer, count, _DTYPES[type])
        self.kept.append(tensor)
        code = self.run("allreduce", timeout_ns, error,
                        lambda: dist.all_reduce(tensor, _OPS[op], group=self.group, async_op=True))
        if code == 0 and op == _MEAN:
            tensor.div_(dist.get_world_size(), rounding_mode="trunc")
        return code

    def allgather(self, _: Any, send: int, size: int, recv: int, timeout_ns: int, error: Any) -> int:
        mine = _tensor(send, size, np.uint8)
        rows: List[torch.Tensor] = list(_tensor(recv, size * dist.get_world_size(), np.uint8).chunk(
            dist.get_world_size()))
        self.kept.append((mine, rows))
        return self.run("allgather", timeout_ns, error,
                        lambda: dist.all_gather(rows, mine, group=self.group, async_op=True))

    def barrier(self, _: Any, timeout_ns: int, error: Any) -> int:
        return self.run("barrier", timeout_ns, error, lambda: dist.barrier(group=self.group, async_op=True))


def carry(job: int) -> Any:
    """Make torch.distributed carry the collectives of a job. The caller must keep the result alive."""
    carrier = _TorchCarrier()
    table = CCarrier(None, CCarryBroadcast(carrier.broadcast), CCarryAllreduce(carrier.allreduce),
                     CCarryAllgather(carrier.allgather), CCarryBarrier(carrier.barrier))
    error = CError()
    check(lib.plenum_job_set_carrier(job, byref(table), byref(error)), error)
    return table
