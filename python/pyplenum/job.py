"""Who is this process in the training job, and what all its instances do together."""

import ctypes
import errno
import io
import pickle
import sys
import threading
from typing import Any, Callable, List, Optional

import numpy as np
import numpy.typing as npt

from ._lib import CError, CPrepare, PlenumError, byref, c_void_p, check, lib, nanoseconds

__all__ = ["Job", "job"]

_TYPES = {"int32": 0, "int64": 1, "float32": 2, "float64": 3}
_OPS = {"sum": 0, "min": 1, "max": 2, "mean": 3}
_LAUNCHERS = ("none", "plenumrun", "torchrun", "mpirun", "srun")


class _Memory:
    """An array's or tensor's memory: what it refers to stays alive as long as this does."""

    __slots__ = ("address", "nbytes", "size", "dtype", "shape", "keep")

    def __init__(self, address: int, nbytes: int, size: int, dtype: str, shape: Any, keep: Any) -> None:
        self.address, self.nbytes, self.size, self.dtype = address, nbytes, size, dtype
        self.shape, self.keep = shape, keep


def _memory_of(x: Any, what: str, written: bool) -> _Memory:
    """Where a NumPy array, or a torch tensor in host memory, lies; never a copy."""
    if isinstance(x, np.ndarray):
        if not x.flags.c_contiguous:
            raise ValueError(f"{what}: the array is not contiguous, so it cannot be changed in place")
        if written and not x.flags.writeable:
            raise ValueError(f"{what}: the array is read-only, so it cannot be changed in place")
        return _Memory(x.ctypes.data, x.nbytes, x.size, x.dtype.name, x.shape, x)
    if hasattr(x, "detach") and hasattr(x, "data_ptr"):
        x = x.detach()
        if x.device.type != "cpu":
            raise ValueError(f"{what}: the tensor lies on {x.device}; collectives work on host memory")
        if not x.is_contiguous():
            raise ValueError(f"{what}: the tensor is not contiguous, so it cannot be changed in place")
        return _Memory(x.data_ptr(), x.numel() * x.element_size(), x.numel(), str(x.dtype).split(".")[-1],
                       tuple(x.shape), x)
    raise TypeError(f"{what}: a NumPy array or a torch tensor is needed, not {type(x).__name__}")


class Job:
    """The job that this process belongs to.

    Made by :func:`job`. The attributes say who this process is:

    ``num_instances``, ``instance_index``
        processes of the job, and which of them this is
    ``num_local_instances``, ``local_instance_index``
        the same on this host
    ``num_replicas``, ``num_local_replicas``, ``replica_offset``
        copies of the model in the job; how many of them, from which one on, this process owns
    ``devices_per_replica``, ``restart_count``
        accelerators of a replica; how often the job was started again
    ``launcher``
        who told: "plenumrun", "torchrun", "mpirun", "srun" or "none"
    ``job_id``
        the same text in all instances of the job

    Collectives are called by all instances, in the same order, with the same sizes. They work in place on NumPy arrays
    and on torch tensors in host memory. With one instance they do nothing. The interpreter's lock is not held while
    they wait.

    Under torchrun, where there is no MPI, torch.distributed carries them, once the program has called its
    ``init_process_group()``; before, they raise ``ENOTSUP``.

    Errors are raised as :class:`PlenumError` with the C library's ``errno`` (see comm.h): among them ``ETIMEDOUT``, with
    the instances that have not come, and ``EBADMSG`` from :meth:`same`.
    """

    def __init__(self) -> None:
        handle, error = c_void_p(), CError()
        check(lib.plenum_job_open(byref(handle), byref(error)), error)
        self._handle: Optional[int] = handle.value
        self._info = lib.plenum_job_get_info(handle).contents
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
        self.launcher: str = _LAUNCHERS[info.launcher]
        self.job_id: str = info.job_id.decode()

    def _open_handle(self) -> int:
        if self._handle is None:
            raise PlenumError(errno.EBADF, "the job is closed")
        return self._handle

    def _for_collective(self) -> int:
        """The handle, with something that carries collectives where that is not MPI."""
        handle = self._open_handle()
        if self.launcher == "torchrun" and self.num_instances > 1 and self._carrier is None:
            distributed = sys.modules.get("torch.distributed")
            if distributed is not None and distributed.is_available() and distributed.is_initialized():
                from ._torch_carrier import carry

                self._carrier = carry(handle)
        return handle

    def close(self) -> None:
        """Give the job up. What the collectives have started ends with the process."""
        if self._handle is not None:
            lib.plenum_job_close(self._handle)
            self._handle = None

    def set_timeout(self, seconds: Optional[float]) -> None:
        """How long a collective may take before ``ETIMEDOUT`` is raised; None waits for ever."""
        lib.plenum_job_set_timeout(self._open_handle(), 0 if seconds is None else max(1, nanoseconds(seconds, "the time limit")))

    def broadcast(self, x: Any, root: int = 0) -> Any:
        """Give every instance the content of ``x`` in instance ``root``, in place; returns ``x``. Any dtype."""
        memory, error = _memory_of(x, "broadcast", True), CError()
        check(lib.plenum_broadcast(self._for_collective(), memory.address, memory.nbytes, root, byref(error)), error)
        return x

    def allreduce(self, x: Any, op: str = "sum") -> Any:
        """Combine ``x`` of all instances element by element ("sum", "min", "max", "mean"), in place; returns ``x``.

        int32, int64, float32 or float64. Integers wrap; their mean is rounded towards zero.
        """
        memory, error = _memory_of(x, "allreduce", True), CError()
        if memory.dtype not in _TYPES:
            raise TypeError(f"allreduce: {memory.dtype} is none of {', '.join(_TYPES)}")
        if op not in _OPS:
            raise ValueError(f"allreduce: '{op}' is none of {', '.join(_OPS)}")
        check(lib.plenum_allreduce(self._for_collective(), memory.address, memory.size, _TYPES[memory.dtype],
                                   _OPS[op], byref(error)), error)
        return x

    def allgather(self, x: Any) -> Any:
        """A new array or tensor [num_instances, *x.shape] of what each instance gave."""
        memory, error = _memory_of(x, "allgather", False), CError()
        shape = (self.num_instances,) + tuple(memory.shape)
        result = np.empty(shape, x.dtype) if isinstance(x, np.ndarray) else x.detach().new_empty(shape)
        check(lib.plenum_allgather(self._for_collective(), memory.address, memory.nbytes,
                                   _memory_of(result, "allgather", True).address, byref(error)), error)
        return result

    def barrier(self) -> None:
        """Return when every instance has called it."""
        error = CError()
        check(lib.plenum_barrier(self._for_collective(), byref(error)), error)

    def same(self, x: Any) -> None:
        """Raise ``EBADMSG``, naming the instances that differ, unless all hold the same bytes in ``x``.

        It costs the reading of the bytes, and 24 bytes of traffic an instance.
        """
        memory, error = _memory_of(x, "same", False), CError()
        check(lib.plenum_same(self._for_collective(), memory.address, memory.nbytes, byref(error)), error)

    def broadcast_seed(self, seed: Optional[int] = None) -> int:
        """One seed for the whole job: instance 0's ``seed``, or a number from the system's randomness where it has none."""
        number, error = ctypes.c_uint64(seed or 0), CError()
        check(lib.plenum_broadcast_seed(self._for_collective(), byref(number), byref(error)), error)
        return number.value

    def replica_seed(self, seed: int, replica: Optional[int] = None) -> int:
        """A seed for one replica, this process's first unless told: each has another, wherever it runs. No collective."""
        return int(lib.plenum_replica_seed(seed, self.replica_offset if replica is None else replica))

    def broadcast_object(self, x: Any, root: int = 0) -> Any:
        """What instance ``root`` gave, pickled and made again in the others."""
        data = np.frombuffer(pickle.dumps(x), np.uint8) if self.instance_index == root else np.empty(0, np.uint8)
        size = self.broadcast(np.array([data.size], np.int64), root)
        buffer = data.copy() if self.instance_index == root else np.empty(int(size[0]), np.uint8)
        self.broadcast(buffer, root)
        return x if self.instance_index == root else pickle.load(io.BytesIO(buffer.data))

    def allgather_object(self, x: Any) -> List[Any]:
        """What each instance gave, pickled, in the order of the instances."""
        data = np.frombuffer(pickle.dumps(x), np.uint8)
        sizes: npt.NDArray[np.int64] = self.allgather(np.array([data.size], np.int64)).reshape(-1)
        room = np.zeros(int(sizes.max()), np.uint8)
        room[:data.size] = data
        return [pickle.loads(row[:size].tobytes()) for row, size in zip(self.allgather(room), sizes)]

    def once_per_host(self, prepare: Callable[[], Any]) -> None:
        """Have one instance of each host call ``prepare()``, and return in all when all hosts are ready.

        For what the other instances of a host need done, such as unpacking data on a local disk. What it raises is raised
        there; the other instances of the job raise a :class:`PlenumError` with its text.
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

    def __repr__(self) -> str:
        return (f"<plenum job {self.job_id}: instance {self.instance_index} of {self.num_instances}, replicas "
                f"{self.replica_offset}..{self.replica_offset + self.num_local_replicas - 1} of "
                f"{self.num_replicas}, told by {self.launcher}>")


_job: Optional[Job] = None
_lock = threading.Lock()


def job() -> Job:
    """This process's job: the same object at each call."""
    global _job
    with _lock:
        if _job is None or _job._handle is None:
            _job = Job()
        return _job
