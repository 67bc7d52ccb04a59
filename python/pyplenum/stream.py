"""The stream of batches of one instance, as views of the memory that the loader writes to."""

import ctypes
import errno
import threading
import warnings
from typing import Any, Iterator, NamedTuple, Optional, Tuple, Union

import numpy as np

from . import _lib
from ._lib import (CBatch, CCursor, CError, CInfo, CJobInfo, COptions, CStats, PlenumError, byref, c_void_p,
                   check, lib)
from .job import Job, job as this_job

__all__ = ["Batch", "Stats", "Stream", "SlotsHeldError", "LoaderWarning"]

# How long a call into the library may take before Python looks for Ctrl-C.
_SLICE_NS = 100_000_000


class SlotsHeldError(PlenumError):
    """Every slot of the ring is held by views of earlier batches: drop or copy some before asking for the next."""


class LoaderWarning(UserWarning):
    """The stream went on, but something happened: a loader died, went silent, or was restarted."""


class Stats(NamedTuple):
    """How a stream has gone so far. Times are in seconds."""

    batches: int
    samples: int
    substituted: int
    waited: float
    elapsed: float
    incidents: int
    lost: float
    ready: int
    in_flight: int
    loader: str


class _Lease:
    """Holds a slot of the ring. Every array that views the slot refers to it; with the last one it goes."""

    __slots__ = ("batch", "__weakref__")

    def __init__(self, batch: CBatch) -> None:
        self.batch = batch

    def __del__(self) -> None:
        lib.plenum_batch_release(byref(self.batch))


class _View:
    """Memory of a slot, for NumPy: its array keeps this object, and this object keeps the lease."""

    __slots__ = ("lease", "__array_interface__")

    def __init__(self, lease: _Lease, address: int, shape: Tuple[int, ...], typestr: str, writable: bool) -> None:
        self.lease = lease
        self.__array_interface__ = {
            "version": 3,
            "data": (address, not writable),
            "shape": shape,
            "typestr": typestr,
        }


class Batch:
    """One batch: views of a slot of the ring, nothing is copied.

    S is the number of steps in a batch, R that of this instance's replicas, M the micro-batch.

    ``pixels``
        int8 or uint8, [S, R, M, H, W, C] or [S, R, M, C, H, W]; may be changed in place
    ``labels``
        int64 [S, R, M], class indices
    ``samples``
        uint32 [S, R, M], index in the data set of what is shown
    ``positions``
        uint64 [S, R, M], place in the epoch's order
    ``valid``
        bool [S, R, M]; False where a sample only fills up the last step
    ``epochs``
        uint64 [S], the epoch of each step
    ``images``
        ``pixels`` with S, R and M as one dimension: [S * R * M, H, W, C]
    ``index``, ``num_valid``, ``num_substituted``
        number of the batch since the stream was opened or sought; how many of its samples count; how
        many stand in for bad ones

    The slot is free again when the last view of it is gone: keep a copy, not a view, of what is needed for long.
    """

    __slots__ = ("_lease", "index", "num_valid", "num_substituted")

    def __init__(self, batch: CBatch) -> None:
        self._lease: Optional[_Lease] = _Lease(batch)
        self.index: int = batch.index
        self.num_valid: int = batch.num_valid
        self.num_substituted: int = batch.num_substituted

    def _view(self, field: str, shape: Tuple[int, ...], typestr: str, writable: bool = False) -> np.ndarray:
        if self._lease is None:
            raise PlenumError(errno.EINVAL, "the batch has been released")
        return np.asarray(_View(self._lease, getattr(self._lease.batch, field), shape, typestr, writable))

    def _shape(self) -> Tuple[int, int, int]:
        if self._lease is None:
            raise PlenumError(errno.EINVAL, "the batch has been released")
        b = self._lease.batch
        return (b.steps, b.replicas, b.micro_batch)

    @property
    def pixels(self) -> np.ndarray:
        shape = self._shape()
        b = self._lease.batch  # type: ignore[union-attr]
        image = (b.channels, b.height, b.width) if b.layout else (b.height, b.width, b.channels)
        return self._view("pixels", shape + image, "|u1" if b.dtype else "|i1", True)

    @property
    def images(self) -> np.ndarray:
        pixels = self.pixels
        return pixels.reshape((-1,) + pixels.shape[3:])

    @property
    def labels(self) -> np.ndarray:
        return self._view("labels", self._shape(), "<i8")

    @property
    def samples(self) -> np.ndarray:
        return self._view("samples", self._shape(), "<u4")

    @property
    def positions(self) -> np.ndarray:
        return self._view("positions", self._shape(), "<u8")

    @property
    def valid(self) -> np.ndarray:
        return self._view("valid", self._shape(), "|b1")

    @property
    def epochs(self) -> np.ndarray:
        return self._view("epochs", self._shape()[:1], "<u8")

    def hash(self) -> int:
        """The sum modulo 2**64 of the hashes of the valid samples; see ``plenumctl hash``."""
        self._shape()
        return int(lib.plenum_batch_hash(byref(self._lease.batch)))  # type: ignore[union-attr]

    def release(self) -> None:
        """Let go of the slot now, unless views of it are still held."""
        self._lease = None

    def __enter__(self) -> "Batch":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.release()


def _choice(value: str, choices: Tuple[str, ...], what: str) -> int:
    if value not in choices:
        raise ValueError(f"{what} is one of {', '.join(choices)}, not {value!r}")
    return choices.index(value)


class Stream:
    """The batches of one instance, in order; an iterator.

    >>> for batch in Stream("/data/train", pipeline="train", micro_batch=16, epochs=90):  # doctest: +SKIP
    ...     train(batch.pixels, batch.labels)

    Parameters
    ----------
    dataset
        "folder:DIR", "tar:ARCHIVES" or a plain path: see plenumctl(1).
    pipeline
        "train", "eval", or stages such as "rrc(160, scale=0.25:1) flip(0.5)".
    job
        whose share to stream; this process's unless told. Or a number of replicas that this process owns alone.
    seed
        keys every random number.
    epochs
        the stream ends before this epoch, counted from 0; None: never.
    micro_batch, steps
        samples that a replica takes in a step; steps in a batch.
    shuffle
        "global", "none" or "block:B".
    last
        "pad": the last step of an epoch is filled up with samples that are not valid; "drop": it is left out.
    bad
        "substitute": another sample stands in for one that cannot be decoded; "fail": an error is raised.
    dtype, layout, channels
        "int8" (value - 128) or "uint8"; "nhwc" or "nchw"; 3, or 4 with a last channel of zero points.
    prefetch_depth
        batches asked for ahead of time.
    loader
        addresses, separated by commas; None: the job's own.
    loader_timeout, silence
        seconds without any loader before an error; seconds of silence before another loader is asked.

    Errors are raised as :class:`PlenumError`, whose ``errno`` and sentence are those of the C library. A stream
    belongs to the process that opened it; one thread at a time may ask it for batches.
    """

    def __init__(self, dataset: str, pipeline: str = "train", *, job: Union[Job, int, None] = None, seed: int = 0,
                 epochs: Optional[int] = None, micro_batch: int = 1, steps: int = 1, shuffle: str = "global",
                 last: str = "pad", bad: str = "substitute", dtype: str = "int8", layout: str = "nhwc",
                 channels: int = 3, prefetch_depth: int = 3, loader: Optional[str] = None,
                 loader_timeout: float = 60.0, silence: float = 5.0) -> None:
        self._handle: Optional[int] = None
        self._closed = False
        o = COptions()
        lib.plenum_stream_options_init(byref(o))
        o.dataset = dataset.encode("utf-8", "surrogateescape")
        o.pipeline = pipeline.encode()
        o.shuffle = shuffle.encode()
        o.loader = loader.encode() if loader is not None else None
        o.seed = seed
        o.epochs = epochs or 0
        o.micro_batch = micro_batch
        o.steps = steps
        o.prefetch_depth = prefetch_depth
        o.dtype = _choice(dtype, ("int8", "uint8"), "dtype")
        o.layout = _choice(layout, ("nhwc", "nchw"), "layout")
        o.channels = channels
        o.last = _choice(last, ("pad", "drop"), "last")
        o.bad = _choice(bad, ("substitute", "fail"), "bad")
        o.loader_timeout_ns = int(loader_timeout * 1e9)
        o.silence_ns = int(silence * 1e9)
        if epochs is not None and epochs < 1:
            raise ValueError("epochs must be at least 1, or None for an endless stream")
        self._open(self._info_of(job), o)
        info = CInfo()
        lib.plenum_stream_get_info(self._handle, byref(info))
        self.num_samples: int = info.num_samples
        self.num_classes: int = info.num_classes
        self.steps_per_epoch: int = info.steps_per_epoch
        self.fingerprint: bytes = bytes(info.fingerprint)
        self.identity: bytes = bytes(info.identity)
        self.slots: int = info.slots
        self._batches: int = info.batches

    @staticmethod
    def _info_of(job: Union[Job, int, None]) -> CJobInfo:
        info = CJobInfo()
        source = job if isinstance(job, Job) else this_job()
        ctypes.memmove(byref(info), byref(source._info), ctypes.sizeof(info))
        if isinstance(job, int):
            if source.num_instances > 1:
                raise ValueError("a number of replicas can be chosen only where the job has one instance")
            info.num_replicas = info.num_local_replicas = job
        return info

    def _open(self, info: CJobInfo, options: COptions) -> None:
        """Open in a thread of its own, so that Ctrl-C is heard while an index is being built."""
        handle, error = c_void_p(), CError()
        state = {"code": 0, "abandoned": False}
        lock = threading.Lock()

        def run() -> None:
            code = lib.plenum_stream_open(byref(info), byref(options), byref(handle), byref(error))
            with lock:
                state["code"] = code
                if state["abandoned"] and code == 0:
                    lib.plenum_stream_destroy(handle)

        thread = threading.Thread(target=run, name="plenum-open", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(0.1)
        except BaseException:
            with lock:
                state["abandoned"] = True
                if not thread.is_alive() and state["code"] == 0:
                    lib.plenum_stream_destroy(handle)
            raise
        check(state["code"], error)
        self._handle = handle.value

    def _open_handle(self) -> int:
        if self._handle is None:
            raise PlenumError(errno.EBADF, "the stream is closed")
        return self._handle

    def next(self, timeout: Optional[float] = None) -> Batch:
        """The next batch; waits at most ``timeout`` seconds.

        Raises :class:`TimeoutError` when none was ready in time, :class:`StopIteration` after the last,
        :class:`SlotsHeldError` when views of earlier batches hold every slot, and :class:`PlenumError`.
        """
        handle, batch, error = self._open_handle(), CBatch(), CError()
        left = None if timeout is None else int(timeout * 1e9)
        while True:
            piece = _SLICE_NS if left is None else min(_SLICE_NS, left)
            code = lib.plenum_stream_next(handle, piece, byref(batch), byref(error))
            if code != -errno.EAGAIN:
                break
            if left is not None:
                left -= piece
                if left <= 0:
                    raise TimeoutError(errno.ETIMEDOUT, f"no batch was ready within {timeout} s")
        self._show_warnings()
        if code == -errno.ENODATA:
            raise StopIteration
        if code == -errno.ENOBUFS:
            raise SlotsHeldError(errno.ENOBUFS, f"views of earlier batches hold all {self.slots} slots of the ring: "
                                 "drop or copy some before asking for the next batch")
        check(code, error)
        return Batch(batch)

    def _show_warnings(self) -> None:
        error = CError()
        while lib.plenum_stream_take_warning(self._handle, byref(error)):
            warnings.warn(error.text.decode("utf-8", "replace"), LoaderWarning, stacklevel=4)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        return self.next()

    def __len__(self) -> int:
        """Batches of the whole stream, from epoch 0 on."""
        if self._batches == 0:
            raise TypeError("an endless stream has no length")
        return self._batches

    @property
    def cursor(self) -> bytes:
        """The place behind the last batch: 32 bytes for the checkpoint."""
        cursor = CCursor()
        lib.plenum_stream_cursor(self._open_handle(), byref(cursor))
        return bytes(cursor)

    def seek(self, cursor: bytes) -> None:
        """Go on from a cursor. It may come from a run with another number of replicas or another micro-batch."""
        if len(cursor) != ctypes.sizeof(CCursor):
            raise ValueError(f"a cursor has {ctypes.sizeof(CCursor)} bytes, not {len(cursor)}")
        error = CError()
        check(lib.plenum_stream_seek(self._open_handle(), byref(CCursor.from_buffer_copy(cursor)), byref(error)),
              error)

    @property
    def stats(self) -> Stats:
        """How it has gone so far."""
        s = CStats()
        lib.plenum_stream_get_stats(self._open_handle(), byref(s))
        return Stats(s.batches, s.samples, s.substituted, s.wait_ns * 1e-9, s.elapsed_ns * 1e-9, s.incidents,
                     s.lost_ns * 1e-9, s.ready, s.in_flight, s.loader.decode("utf-8", "replace"))

    def close(self) -> None:
        """End the stream. Views of its batches stay valid."""
        if self._handle is not None:
            lib.plenum_stream_destroy(self._handle)
            self._handle = None

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()
