"""Who is this process in the training job, and what all its instances do together."""

import ctypes
import threading
from typing import Any, Optional

import numpy as np

from . import _lib
from ._lib import CError, byref, c_void_p, check, lib

__all__ = ["Job", "job"]

_TYPES = {"int32": 0, "int64": 1, "float32": 2, "float64": 3}
_OPS = {"sum": 0, "min": 1, "max": 2, "mean": 3}
_LAUNCHERS = ("none", "plenumrun", "torchrun", "mpirun", "srun")


def _as_array(x: Any, what: str) -> np.ndarray:
    """A NumPy view of an array, or of a torch tensor in host memory; never a copy."""
    if not isinstance(x, np.ndarray) and hasattr(x, "detach"):
        x = x.detach()
        if x.device.type != "cpu":
            raise ValueError(f"{what}: the tensor lies on {x.device}; collectives work on host memory")
        if not x.is_contiguous():
            raise ValueError(f"{what}: the tensor is not contiguous, so it cannot be changed in place")
        x = x.numpy()
    if not isinstance(x, np.ndarray):
        raise TypeError(f"{what}: a NumPy array or a torch tensor is needed, not {type(x).__name__}")
    if not x.flags.c_contiguous:
        raise ValueError(f"{what}: the array is not contiguous, so it cannot be changed in place")
    return x


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
    and on torch tensors in host memory. With one instance they do nothing. Errors are raised as
    :class:`PlenumError`; under torchrun, where there is no MPI, it is ``ENOTSUP``: use torch.distributed there.
    """

    def __init__(self) -> None:
        handle, error = c_void_p(), CError()
        check(lib.plenum_job_open(byref(handle), byref(error)), error)
        self._handle: Optional[int] = handle.value
        self._info = lib.plenum_job_get_info(handle).contents
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

    def close(self) -> None:
        """Give the job up; the last close ends MPI if the collectives started it."""
        if self._handle is not None:
            lib.plenum_job_close(self._handle)
            self._handle = None

    def set_timeout(self, seconds: Optional[float]) -> None:
        """How long a collective may take before ``ETIMEDOUT`` is raised; None waits for ever."""
        lib.plenum_job_set_timeout(self._handle, 0 if seconds is None else int(seconds * 1e9))

    def broadcast(self, x: Any, root: int = 0) -> Any:
        """Give every instance the content of ``x`` in instance ``root``, in place; returns ``x``."""
        array, error = _as_array(x, "broadcast"), CError()
        check(lib.plenum_broadcast(self._handle, array.ctypes.data, array.nbytes, root, byref(error)), error)
        return x

    def allreduce(self, x: Any, op: str = "sum") -> Any:
        """Combine ``x`` of all instances element by element ("sum", "min", "max", "mean"), in place; returns ``x``."""
        array, error = _as_array(x, "allreduce"), CError()
        if array.dtype.name not in _TYPES:
            raise TypeError(f"allreduce: {array.dtype} is none of {', '.join(_TYPES)}")
        if op not in _OPS:
            raise ValueError(f"allreduce: '{op}' is none of {', '.join(_OPS)}")
        check(lib.plenum_allreduce(self._handle, array.ctypes.data, array.size, _TYPES[array.dtype.name],
                                   _OPS[op], byref(error)), error)
        return x

    def allgather(self, x: Any) -> np.ndarray:
        """A new array [num_instances, *x.shape] of what each instance gave."""
        array, error = _as_array(x, "allgather"), CError()
        result = np.empty((self.num_instances,) + array.shape, array.dtype)
        check(lib.plenum_allgather(self._handle, array.ctypes.data, array.nbytes, result.ctypes.data,
                                   byref(error)), error)
        return result

    def barrier(self) -> None:
        """Return when every instance has called it."""
        error = CError()
        check(lib.plenum_barrier(self._handle, byref(error)), error)

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
