# SPDX-License-Identifier: MIT
"""This process's rank and world size in the training job, and collectives across all its instances."""

import errno
import hashlib
import os
import pickle
import platform
import secrets
import sys
import threading
from datetime import timedelta
from typing import Any, Callable, Dict, List, NamedTuple, NoReturn, Optional, Tuple

import numpy as np
import numpy.typing as npt

from ._lib import CError, CJobInfo, CPrepare, PlenumError, byref, c_void_p, check, lib, nanoseconds, whole

__all__ = ["Job", "job"]

_TYPES = {"int32": 0, "int64": 1, "float32": 2, "float64": 3, "float16": 4, "bfloat16": 5}
_OPS = {"sum": 0, "min": 1, "max": 2, "mean": 3}
_LAUNCHERS = ("none", "plenumrun", "torchrun", "mpirun", "srun", "program")
_MOST = 2**32 - 1
_STEP_MOST = 2**62 - 1
_OTHERS_S = 60.0  # how long ranks without LOCAL_RANK wait for each other to announce their hosts


class _Place(NamedTuple):
    """A rank and world size that do not come from the environment."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    by: str  # "program" or "torch.distributed"

    def info(self) -> CJobInfo:
        return CJobInfo(num_instances=self.world_size, instance_index=self.rank,
                        num_local_instances=self.local_world_size, local_instance_index=self.local_rank,
                        num_replicas=self.world_size, num_local_replicas=1, replica_offset=self.rank,
                        devices_per_replica=1)


def _place_of(rank: Any, world_size: Any, local_rank: Any = None, local_world_size: Any = None) -> Optional[_Place]:
    """Return the rank and world size that the program passes, or None if it passes nothing."""
    if rank is None and world_size is None and local_rank is None and local_world_size is None:
        return None
    for one, other, names in ((rank, world_size, "rank and world_size"),
                              (local_rank, local_world_size, "local_rank and local_world_size")):
        if (one is None) != (other is None):
            raise ValueError(f"pass both {names}: which process this is, and how many there are")
    if rank is None:
        raise ValueError("local_rank and local_world_size can only be passed with rank and world_size")
    world = whole(world_size, "world_size", 1, _MOST)
    local_world = 1 if local_world_size is None else whole(local_world_size, "local_world_size", 1, world)
    return _Place(whole(rank, "rank", 0, world - 1), world,
                  0 if local_rank is None else whole(local_rank, "local_rank", 0, local_world - 1), local_world,
                  "program")


def _group() -> Optional[Tuple[int, int]]:
    """Return rank and world size of torch.distributed, or None if the program has not initialised it."""
    distributed = sys.modules.get("torch.distributed")
    is_initialized = getattr(distributed, "is_initialized", None)  # torch may be built without it
    if is_initialized is None or not is_initialized():
        return None
    return int(distributed.get_rank()), int(distributed.get_world_size())  # type: ignore[union-attr]


def in_worker() -> bool:
    """Return whether this is a worker process of a DataLoader."""
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None


def _in_child() -> bool:
    """Return whether multiprocessing has started this process, as torch.multiprocessing.spawn() does."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def _hosts(rank: int, world_size: int) -> List[str]:
    """Return the host of each rank, exchanged through the group's store, which works with any backend."""
    import torch.distributed as dist

    here: Any = dist
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            host = f"{platform.node()} {file.read().strip()}"
        store = here.distributed_c10d._get_default_store()
        store.set(f"plenum/host/{rank}", host)
    except Exception as error:
        raise PlenumError(errno.ENOTSUP, "torch.distributed does not report which ranks are on this host: set "
                          "LOCAL_RANK and LOCAL_WORLD_SIZE, or call pyplenum.job(rank=..., world_size=..., ...) "
                          f"({error})") from None
    hosts = []
    for other in range(world_size):
        try:
            store.wait([f"plenum/host/{other}"], timedelta(seconds=_OTHERS_S))
            hosts.append(store.get(f"plenum/host/{other}").decode())
        except Exception:
            raise PlenumError(errno.ETIMEDOUT, f"rank {other} of torch.distributed has opened neither a job nor a "
                              f"stream within {_OTHERS_S:.0f} s: all ranks must, unless LOCAL_RANK and "
                              f"LOCAL_WORLD_SIZE are set") from None
    return hosts


def _adopted(rank: int, world_size: int) -> _Place:
    """Return the rank and world size that torch.distributed gives this process."""
    local = os.environ.get("LOCAL_RANK", ""), os.environ.get("LOCAL_WORLD_SIZE", "")
    if local[0].isdecimal() and local[1].isdecimal() and int(local[0]) < int(local[1]) <= world_size:
        return _Place(rank, world_size, int(local[0]), int(local[1]), "torch.distributed")
    hosts = _hosts(rank, world_size)
    return _Place(rank, world_size, hosts[:rank].count(hosts[rank]), hosts.count(hosts[rank]), "torch.distributed")


class _Memory:
    """The memory of an array or tensor, which stays alive as long as this object. `dtype` is its native type, and
    `text` describes its contents exactly."""

    __slots__ = ("address", "nbytes", "size", "dtype", "shape", "text", "keep")

    def __init__(self, address: int, nbytes: int, size: int, dtype: str, shape: Any, text: str, keep: Any) -> None:
        self.address, self.nbytes, self.size, self.dtype = address, nbytes, size, dtype
        self.shape, self.text, self.keep = shape, f"{text} {tuple(shape)}", keep


def _type_text(dtype: Any) -> str:
    """Return a description that differs whenever the bytes mean something different: it includes a foreign byte order
    and all fields of a structure."""
    if dtype.fields is None and dtype.subdtype is None:
        return str(dtype.name if dtype.isnative else dtype.str)
    return repr(dtype)


def _array_memory(x: Any, what: str, written: bool) -> _Memory:
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"{what}: a masked array's mask would be lost: pass x.filled(...), or pass x.data "
                        "and x.mask separately")
    if x.dtype.hasobject:
        raise TypeError(f"{what}: an array of {x.dtype} holds references to Python objects, which mean nothing in "
                        "another process: use broadcast_object() or allgather_object()")
    if not x.flags.c_contiguous:
        raise ValueError(f"{what}: the array is not contiguous, so it cannot be changed in place")
    if written and not x.flags.writeable:
        raise ValueError(f"{what}: the array is read-only, so it cannot be changed in place")
    return _Memory(x.ctypes.data, x.nbytes, x.size, x.dtype.name, x.shape, _type_text(x.dtype), x)


def _memory_of(x: Any, what: str, written: bool) -> _Memory:
    """Return the memory of a NumPy array, or of a torch tensor in host memory; never a copy."""
    if isinstance(x, np.ndarray):
        return _array_memory(x, what, written)
    if hasattr(x, "detach") and hasattr(x, "data_ptr"):
        x = x.detach()
        if x.device.type != "cpu":
            raise ValueError(f"{what}: the tensor is on {x.device}; collectives work on host memory")
        if str(x.layout) != "torch.strided":
            raise TypeError(f"{what}: a tensor of layout {x.layout} has no memory of its own: pass x.to_dense()")
        if getattr(x, "is_quantized", False):
            raise TypeError(f"{what}: a quantized tensor's scale would be lost: pass x.int_repr() or x.dequantize()")
        if x.is_conj() or getattr(x, "is_neg", bool)():
            raise TypeError(f"{what}: the tensor is a view whose numbers differ from those in its memory: pass "
                            "x.resolve_conj().resolve_neg()")
        if not x.is_contiguous():
            raise ValueError(f"{what}: the tensor is not contiguous, so it cannot be changed in place")
        dtype = str(x.dtype).split(".")[-1]
        return _Memory(x.data_ptr(), x.numel() * x.element_size(), x.numel(), dtype, tuple(x.shape), dtype, x)
    raise TypeError(f"{what}: a NumPy array or a torch tensor is needed, not {type(x).__name__}")


_WHAT_BYTES = 55  # bytes of the longest description (plenum_job_describe())


def _description(text: str) -> bytes:
    """Return the description, cut to what the library accepts: a long one ends with a digest of the whole."""
    data = text.encode("utf-8", "replace")
    if len(data) <= _WHAT_BYTES:
        return data
    return data[:_WHAT_BYTES - 19] + b"..." + hashlib.blake2b(data, digest_size=8).hexdigest().encode()


# Memory of the last collective that failed: if it is still in progress, MPI may write to it later. No further
# collective runs after that.
_lost: List[Any] = []


def _check(code: int, error: CError, *used: _Memory) -> None:
    if -code in (errno.ETIMEDOUT, errno.EIO):
        _lost[:] = used
    check(code, error)


def _check_reduction(name: str, memory: _Memory, op: str) -> None:
    if memory.dtype not in _TYPES:
        raise TypeError(f"{name}: dtype must be one of {', '.join(_TYPES)}, not {memory.dtype}")
    if op not in _OPS:
        raise ValueError(f"{name}: op must be one of {', '.join(_OPS)}, not '{op}'")


_TOLD_BYTES = 128  # room for a pickled object's size, or for -1 and the reason why there is none


class _Pickled:
    """An object's pickled bytes, or the reason why there are none."""

    def __init__(self, dump: Callable[[], bytes]) -> None:
        self.data: npt.NDArray[np.uint8] = np.empty(0, np.uint8)  # writable
        self.raised: Optional[BaseException] = None
        self.told: npt.NDArray[np.uint8] = np.zeros(_TOLD_BYTES, np.uint8)
        try:
            self.data = np.frombuffer(dump(), np.uint8).copy()
        except Exception as error:
            self.raised = error
            text = f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:_TOLD_BYTES - 8]
            self.told[8:8 + len(text)] = np.frombuffer(text, np.uint8)
        size = -1 if self.raised is not None else self.data.size
        self.told[:8] = np.array([size], np.int64).view(np.uint8)


def _size_told(row: Any) -> int:
    return int(row[:8].copy().view(np.int64)[0])


class Job:
    """The job that this process belongs to.

    Created by :func:`job`. Attributes:

    ``num_instances``, ``instance_index``
        Processes in the job (the world size), and the index of this one (its rank).
    ``num_local_instances``, ``local_instance_index``
        Processes of the job on this host, and the index of this process among them.
    ``num_replicas``, ``num_local_replicas``, ``replica_offset``
        Copies of the model in the job, their number in this process, and the index of the first one in this process.
    ``devices_per_replica``
        Accelerators that a replica uses.
    ``restart_count``
        The number of times that the job has been restarted.
    ``launcher``
        The source of these numbers: "plenumrun", "torchrun", "mpirun", "srun", "torch.distributed", "program" or
        "none".
    ``job_id``
        Identifies the job; the same in all its instances.

    All instances must call collectives in the same order, with the same dtypes and shapes. Before any data moves, the
    instances compare their calls. If the calls differ, or if an instance's program has ended, all instances raise
    ``EIO`` and name the difference. Collectives work in place on NumPy arrays and on torch tensors in host memory. With
    one instance they have no effect. They do not hold the interpreter's lock while they wait.

    Without MPI, for example under torchrun, torch.distributed carries the collectives once the program has called its
    ``init_process_group()``; before that, they raise ``ENOTSUP``.

    Errors are raised as :class:`PlenumError` with the C library's ``errno`` (see comm.h). They include ``ETIMEDOUT``,
    which names the missing instances, and ``EBADMSG`` from :meth:`same`.
    """

    def __init__(self, place: Optional[_Place] = None) -> None:
        self._handle: Optional[int] = None
        self._pid = os.getpid()
        self._open(place)
        if place is None:
            group = _group()
            alone = self._handle is None or self._info.launcher == 0
            if group is not None and alone and group != (0, 1):
                place = _adopted(*group)
                self.close()
                self._open(place)
            elif self._handle is None:
                raise self._half_told
            elif alone and in_worker():
                self.close()
                raise PlenumError(errno.ECHILD, "a worker process of a DataLoader cannot know which process of the job "
                                  "it belongs to: pass rank= and world_size=")
            elif group is None and self._info.num_instances == 1 and _in_child():
                self.close()
                raise PlenumError(errno.ECHILD, "multiprocessing has started this process, which cannot know whether "
                                  "it is one of several: pass rank= and world_size= (rank=0, world_size=1: all "
                                  "samples), or call torch.distributed.init_process_group() first")
        self._info = lib.plenum_job_get_info(self._handle).contents
        self._carrier: Any = None
        info = self._info
        self.num_instances: int = info.num_instances
        self.instance_index: int = info.instance_index
        self.num_local_instances: int = info.num_local_instances
        self.local_instance_index: int = info.local_instance_index
        self.num_replicas: int = info.num_replicas
        self.num_local_replicas: int = info.num_local_replicas
        self.replica_offset: int = info.replica_offset
        self.devices_per_replica: int = info.devices_per_replica
        self.restart_count: int = info.restart_count
        self.launcher: str = place.by if place is not None else _LAUNCHERS[info.launcher]
        self.job_id: str = info.job_id.decode()
        try:
            self._check_group()
        except PlenumError:
            self.close()
            raise

    def _open(self, place: Optional[_Place]) -> None:
        """Open the job from `place` or the environment. If the environment is incomplete, torch.distributed may know
        the rest."""
        handle, error = c_void_p(), CError()
        if place is not None:
            check(lib.plenum_job_open_as(byref(place.info()), byref(handle), byref(error)), error)
        else:
            try:
                check(lib.plenum_job_open(byref(handle), byref(error)), error)
            except PlenumError as half_told:
                self._half_told = half_told
                return
        self._handle = handle.value
        self._info = lib.plenum_job_get_info(handle).contents

    def _check_group(self) -> None:
        """Reject a torch.distributed group that is not this job: if each rank believed that it is alone, all would get
        the same samples. Numbers that the program has passed itself take precedence."""
        group = None if self.launcher == "program" else _group()
        if group is not None and group != (self.instance_index, self.num_instances):
            raise PlenumError(errno.EINVAL, f"torch.distributed says that this is rank {group[0]} of {group[1]}, but "
                              f"when the job was opened it was instance {self.instance_index} of {self.num_instances} "
                              f"(according to {self.launcher}): call init_process_group() before the first job, stream "
                              "or loader is opened, or pass rank= and world_size=")

    def _open_handle(self) -> int:
        if self._handle is None:
            raise PlenumError(errno.EBADF, "the job is closed")
        return self._handle

    def _for_collective(self) -> int:
        """Return the handle, with a carrier for collectives if MPI does not carry them."""
        handle = self._open_handle()
        self._check_group()
        by_torch = self.launcher in ("torchrun", "torch.distributed", "program")
        if by_torch and self.num_instances > 1 and self._carrier is None:
            group = _group()
            if group is not None and group != (self.instance_index, self.num_instances):
                raise PlenumError(errno.EINVAL, f"torch.distributed cannot carry the collectives of instance "
                                  f"{self.instance_index} of {self.num_instances}, which is rank {group[0]} of "
                                  f"{group[1]} there")
            if group is not None:
                from ._torch_carrier import carry

                self._carrier = carry(handle)
        return handle

    def close(self) -> None:
        """Close the job. MPI, if the collectives initialised it, ends with the process."""
        if self._handle is not None:
            lib.plenum_job_close(self._handle)
            self._handle = None

    def set_timeout(self, seconds: Optional[float]) -> None:
        """Set how long a collective may take before it raises ``ETIMEDOUT``; None means no limit."""
        lib.plenum_job_set_timeout(self._open_handle(), 0
                                   if seconds is None else max(1, nanoseconds(seconds, "the time limit")))

    def should_stop(self, step: int) -> bool:
        """Return whether the program should stop before this step, so that it can continue later.

        Call it once per step, before the step begins, in all instances. When it returns True, save a checkpoint and
        exit with status 0::

            for step in range(first, steps):
                if job.should_stop(step):
                    break
                ...

        Under plenumrun, it returns True for the same step in all instances, after plenumrun was asked to stop the job:
        by SIGTERM or SIGUSR1, by its ``--stop-command``, or by ``plenumctl job stop`` or ``grow``. Until the first
        call, plenumrun passes both signals on to the programs. Without plenumrun, a program with one instance stops at
        its next call after it has received one of these signals, unless it handles that signal itself; several
        instances raise ``ENOTSUP``.

        A call takes about a microsecond, and waits only before the step at which the program may have to stop.
        """
        error = CError()
        code: int = lib.plenum_job_should_stop(self._open_handle(), whole(step, "step", 0, _STEP_MOST), byref(error))
        check(code, error)
        return code == 1

    def broadcast(self, x: Any, root: int = 0) -> Any:
        """Copy ``x`` of instance ``root`` to every instance, in place; returns ``x``.

        Any dtype without Python objects. All instances must use the same dtype and shape.
        """
        return self._broadcast("broadcast", x, root)

    def _describe(self, handle: int, name: str, memory: _Memory) -> int:
        lib.plenum_job_describe(handle, name.encode(), _description(memory.text))
        return handle

    def _broadcast(self, name: str, x: Any, root: int) -> Any:
        memory, error, root = _memory_of(x, name, True), CError(), whole(root, "root", 0, _MOST)
        handle = self._describe(self._for_collective(), name, memory)
        _check(lib.plenum_broadcast(handle, memory.address, memory.nbytes, root, byref(error)), error, memory)
        return x

    def allreduce(self, x: Any, op: str = "sum") -> Any:
        """Combine ``x`` of all instances element by element ("sum", "min", "max", "mean"), in place; returns ``x``.

        int32, int64, float32, float64, float16 or bfloat16, in either byte order. All instances must use the same dtype
        and shape. The result has the same bits in every run with the same number of instances. Integers wrap; their
        mean is rounded towards zero. "min" and "max" are NaN if any instance has NaN, like ``numpy.minimum`` and
        ``numpy.maximum``. float16 and bfloat16 are added as float32 and rounded once.
        """
        memory, error = _memory_of(x, "allreduce", True), CError()
        _check_reduction("allreduce", memory, op)
        if isinstance(x, np.ndarray) and not x.dtype.isnative:
            x[...] = self.allreduce(x.astype(x.dtype.newbyteorder("=")), op)
            return x
        self._describe(self._for_collective(), "allreduce", memory)
        _check(lib.plenum_allreduce(self._for_collective(), memory.address, memory.size, _TYPES[memory.dtype],
                                    _OPS[op], byref(error)), error, memory)
        return x

    def reduce_scatter(self, x: Any, op: str = "sum") -> Any:
        """Combine ``x`` of all instances element by element, like :meth:`allreduce`, and return this instance's part of
        the result: a new array or tensor with the ``instance_index``-th of ``num_instances`` equal parts of the first
        dimension.
        """
        memory, error = _memory_of(x, "reduce_scatter", False), CError()
        _check_reduction("reduce_scatter", memory, op)
        if isinstance(x, np.ndarray) and not x.dtype.isnative:
            return self.reduce_scatter(x.astype(x.dtype.newbyteorder("=")), op).astype(x.dtype)
        result = self._empty_like(x, self._part("reduce_scatter", memory))
        into = _memory_of(result, "reduce_scatter", True)
        handle = self._describe(self._for_collective(), "reduce_scatter", memory)
        _check(lib.plenum_reduce_scatter(handle, memory.address, into.address, into.size, _TYPES[memory.dtype],
                                         _OPS[op], byref(error)), error, memory, into)
        return result

    def alltoall(self, x: Any) -> Any:
        """Return a new array or tensor like ``x``. Its part k comes from instance k: this instance's part of its ``x``.

        A part is one of ``num_instances`` equal parts of the first dimension. Any dtype without Python objects. All
        instances must use the same dtype and shape.
        """
        memory, error = _memory_of(x, "alltoall", False), CError()
        self._part("alltoall", memory)
        result = self._empty_like(x, tuple(memory.shape))
        into = _memory_of(result, "alltoall", True)
        handle = self._describe(self._for_collective(), "alltoall", memory)
        _check(lib.plenum_alltoall(handle, memory.address, memory.nbytes // self.num_instances, into.address,
                                   byref(error)), error, memory, into)
        return result

    def _part(self, name: str, memory: _Memory) -> Tuple[int, ...]:
        """Return the shape of one of the equal parts of an array."""
        rows, shape = self.num_instances, tuple(memory.shape)
        if not shape or shape[0] % rows:
            raise ValueError(f"{name}: the first dimension must be divisible by the number of instances, {rows}; the "
                             f"shape is {shape}")
        return (shape[0] // rows,) + shape[1:]

    @staticmethod
    def _empty_like(x: Any, shape: Tuple[int, ...]) -> Any:
        return np.empty(shape, x.dtype) if isinstance(x, np.ndarray) else x.detach().new_empty(shape)

    def allgather(self, x: Any) -> Any:
        """Return a new array or tensor ``[num_instances, *x.shape]`` with ``x`` of each instance.

        Any dtype without Python objects. All instances must use the same dtype and shape.
        """
        return self._allgather("allgather", x)

    def _allgather(self, name: str, x: Any) -> Any:
        memory, error = _memory_of(x, name, False), CError()
        shape = (self.num_instances,) + tuple(memory.shape)
        result = self._empty_like(x, shape)
        into = _memory_of(result, name, True)
        handle = self._describe(self._for_collective(), name, memory)
        _check(lib.plenum_allgather(handle, memory.address, memory.nbytes, into.address, byref(error)), error, memory,
               into)
        return result

    def barrier(self) -> None:
        """Wait until every instance has called this."""
        error = CError()
        check(lib.plenum_barrier(self._for_collective(), byref(error)), error)

    def same(self, x: Any) -> None:
        """Raise ``EBADMSG``, naming the instances that differ, unless ``x`` has the same bytes in all instances.

        It costs one read of the bytes, and 256 bytes of traffic per instance.
        """
        memory, error = _memory_of(x, "same", False), CError()
        check(lib.plenum_same(self._for_collective(), memory.address, memory.nbytes, byref(error)), error)

    def _same_bytes(self, data: bytes) -> None:
        error = CError()
        check(lib.plenum_same(self._for_collective(), data, len(data), byref(error)), error)

    def broadcast_seed(self, seed: Optional[int] = None) -> int:
        """Agree on one seed for the whole job: instance 0's ``seed``, or a number from the system's random source if
        instance 0 passes none."""
        mine = secrets.randbits(64) or 1 if seed is None else whole(seed, "seed", 0, 2**64 - 1)
        return int(self._broadcast("broadcast_seed", np.array([mine], np.uint64), 0)[0])

    def replica_seed(self, seed: int, replica: Optional[int] = None) -> int:
        """Return a replica's seed, by default that of this process's first replica. Each replica has its own seed,
        which does not depend on where the replica runs. This is not a collective."""
        number = self.replica_offset if replica is None else whole(replica, "replica", 0, _MOST)
        return int(lib.plenum_replica_seed(whole(seed, "seed", 0, 2**64 - 1), number))

    def broadcast_object(self, x: Any, root: int = 0) -> Any:
        """Return the object ``x`` of instance ``root`` in all instances, transferred by pickle.

        If it cannot be pickled, that instance raises the error from pickle, and the others raise a
        :class:`PlenumError` that names the instance.
        """
        data = self._broadcast_pickled("broadcast_object", lambda: pickle.dumps(x), root)
        return x if self.instance_index == root else pickle.loads(data)

    def _broadcast_pickled(self, name: str, dump: Callable[[], bytes], root: int) -> bytes:
        """Return, in all instances, the bytes that ``dump()`` returned in instance ``root``."""
        mine = _Pickled(dump if self.instance_index == root else bytes)
        told = self._broadcast(name, mine.told, root)
        self._raise_unpickled(name, {root: told}, mine)
        buffer = mine.data if self.instance_index == root else np.empty(_size_told(told), np.uint8)
        return bytes(self._broadcast(name, buffer, root).data)

    def allgather_object(self, x: Any) -> List[Any]:
        """Return the object ``x`` of each instance, transferred by pickle, ordered by instance index.

        If an object cannot be pickled, its instance raises the error from pickle, and the others raise a
        :class:`PlenumError` that names the instance.
        """
        mine = _Pickled(lambda: pickle.dumps(x))
        told = self._allgather("allgather_object", mine.told)
        self._raise_unpickled("allgather_object", dict(enumerate(told)), mine)
        sizes = [_size_told(row) for row in told]
        room = np.zeros(max(sizes), np.uint8)
        room[:mine.data.size] = mine.data
        rows = self._allgather("allgather_object", room)
        return [pickle.loads(row[:size].tobytes()) for row, size in zip(rows, sizes)]

    def _raise_unpickled(self, name: str, told: Dict[int, Any], mine: "_Pickled") -> None:
        """Raise in every instance if any object could not be pickled, so that none waits for its bytes."""
        if mine.raised is not None:
            raise mine.raised
        for instance, row in told.items():
            if _size_told(row) < 0:
                text = row[8:].tobytes().rstrip(b"\0").decode("utf-8", "replace")
                raise PlenumError(errno.EBADMSG, f"{name}: instance {instance} cannot pickle its object: {text}")

    def once_per_host(self, prepare: Callable[[], Any]) -> None:
        """Call ``prepare()`` in one instance of each host; return in all instances once all hosts are done.

        Use it for work on which a host's other instances depend, such as unpacking data on a local disk. If
        ``prepare()`` raises, its instance raises the same exception, and the others raise a :class:`PlenumError` with
        its text.
        """
        raised: List[BaseException] = []

        def call(_: Any, error: Any) -> int:
            try:
                prepare()
            except BaseException as exception:
                raised.append(exception)
                text = str(exception) or type(exception).__name__
                error.contents.text = text.encode("utf-8", "replace")[:500]
                code = exception.errno if isinstance(exception, OSError) else None
                return -(code or errno.ECANCELED)
            return 0

        error = CError()
        code = lib.plenum_once_per_host(self._for_collective(), CPrepare(call), None, byref(error))
        if raised:
            raise raised[0]
        check(code, error)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "a Job belongs to its process and cannot be pickled or copied: call pyplenum.job() where it is needed")

    def __repr__(self) -> str:
        return (f"<plenum job {self.job_id}: instance {self.instance_index} of {self.num_instances}, replicas "
                f"{self.replica_offset}..{self.replica_offset + self.num_local_replicas - 1} of "
                f"{self.num_replicas}, according to {self.launcher}>")


_job: Optional[Job] = None
_lock = threading.Lock()


def _as_place(job: Job) -> _Place:
    return _Place(job.instance_index, job.num_instances, job.local_instance_index, job.num_local_instances,
                  job.launcher)


def job(*, rank: Optional[int] = None, world_size: Optional[int] = None, local_rank: Optional[int] = None,
        local_world_size: Optional[int] = None) -> Job:
    """Return this process's job: the same object at each call.

    Rank and world size come from the launcher's variables (see plenum_job(3)). If there are none, they come from a
    torch.distributed process group if one has been initialised, for example under ``torch.multiprocessing.spawn``. All
    ranks must then open their job or a stream, unless LOCAL_RANK and LOCAL_WORLD_SIZE are set. A group that contradicts
    the launcher is rejected.

    ``rank`` and ``world_size`` override the launcher and the group. ``local_rank`` and ``local_world_size`` are
    optional; they set the rank and the number of processes on this host (default 0 of 1).
    """
    global _job
    place = _place_of(rank, world_size, local_rank, local_world_size)
    with _lock:
        # a forked child has its own job
        if _job is not None and _job._handle is not None and _job._pid != os.getpid():
            if place is None and _job.launcher in ("program", "torch.distributed"):
                place = _as_place(_job)
            _job = None
        if _job is None or _job._handle is None:
            _job = Job(place)
        elif place is not None and place[:4] != _as_place(_job)[:4]:
            raise PlenumError(errno.EBUSY, f"this process is already instance {_job.instance_index} of "
                              f"{_job.num_instances} (according to {_job.launcher}): call pyplenum.job(rank=..., "
                              "world_size=...) before opening any stream or loader")
        return _job


def info_as(rank: Any, world_size: Any) -> CJobInfo:
    """Return the job's description for a stream with an explicit rank, regardless of this process's own rank."""
    place = _place_of(rank, world_size)
    assert place is not None
    with _lock:
        known = _job if _job is not None and _job._handle is not None and _job._pid == os.getpid() else None
        source = known or Job(place)
        info = place.info()
        info.job_id, info.loader = source._info.job_id, source._info.loader  # ctypes copies these
        if known is None:
            source.close()
    return info
