# SPDX-License-Identifier: MIT
"""One instance's stream of batches, as views of the memory that the loader writes to."""

import ctypes
import errno
import functools
import itertools
import os
import re
import threading
import warnings
from decimal import Decimal
from typing import (Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, NoReturn, Optional, Sequence,
                    Tuple, Union, cast)

import numpy as np
import numpy.typing as npt

from ._lib import (CBatch, CCursor, CError, CField, CGeometry, CInfo, CJobInfo, CMix, COptions, CPlace, CRing,
                   CRingCall, CSet, CShare, CStats, CView, FIELDS_MAX, FIELD_TYPES, PlenumError, SETS_MAX, VIEWS_MAX,
                   byref, c_void_p, caller, check, dtype_name, lib, libc_free, nanoseconds, text_of, whole)
from .job import Job, in_worker, info_as, job as this_job
from .mix import Mix, amend_text, labels_plan, plan_of

__all__ = ["Batch", "Boxes", "Instances", "Keypoints", "Place", "Stats", "Stream", "SlotsHeldError", "LoaderWarning"]

_MOST = 2**32 - 1

# Options of DataLoader and other loaders, and what to use instead.
_ELSEWHERE = {
    "batch_size": "use 'micro_batch', the number of samples that a replica (in PyTorch: a process) takes in a step",
    "drop_last": "use last='drop'",
    "num_workers": "there are no worker processes: plenumd decodes with one thread per CPU",
    "persistent_workers": "there are no worker processes",
    "worker_init_fn": "there are no worker processes",
    "multiprocessing_context": "there are no worker processes",
    "generator": "'seed' determines the order and everything else that is random",
    "in_order": "batches always arrive in order",
    "shuffle_buffer": "'shuffle' mixes the whole data set, or blocks of it",
    "buffer_size": "'shuffle' mixes the whole data set, or blocks of it",
    "prefetch_factor": "use 'prefetch_depth'",
    "pin_memory_device": "use 'device'",
    "sampler": "'seed' and 'shuffle' determine the order, 'weights', 'balance' and 'select' which samples are shown "
               "and how often, and each instance gets its share",
    "batch_sampler": "'seed' and 'shuffle' determine the order, 'balance' and 'stratify' the classes of a batch",
    "collate_fn": "a batch consists of arrays; change them in the loop",
    "transform": "use 'pipeline' for crop, flip, colours, mixup and cutmix, and do everything else on the batch",
    "mixup_alpha": "write it as the pipeline's last word, as in 'rrc(224) mixup(0.2)'",
    "cutmix_alpha": "write it as the pipeline's last word, as in 'rrc(224) cutmix(1)'",
    "timeout": "use 'loader_timeout'",
    "num_replicas": "use 'world_size', with 'rank'",
    "root": "the first argument is the data set",
    "limit": "use 'subset', such as subset=\"0:1000\"",
    "num_samples": "use 'subset', such as subset=\"0:1000\"",
    "target_transform": "labels are those of the data set: map them in the loop, as in table[labels]",
    "return_paths": "request the field \"samples\": stream.names(batch.samples) returns the files",
    "return_indices": "request the field \"samples\"",
}

# The format and the settings of a data set's name.
_SETTINGS = re.compile(r"[a-z]{1,15}((,[a-z-]+=(\\.|[^,:\\])*)*)(?=:)", re.DOTALL)
# A name that is a decimal number, as the loader reads it.
_NUMERAL = re.compile(r"[ \t-\r]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t-\r]*")

# How long a call into the library may block before Python checks for Ctrl-C.
_SLICE_NS = 100_000_000


class SlotsHeldError(PlenumError):
    """Views of earlier batches hold every slot of the ring: drop or copy some before requesting the next batch."""


class LoaderWarning(UserWarning):
    """A warning about the data set, or about a loader that died, went silent or was restarted. The stream continues."""


class Place(NamedTuple):
    """A position in a stream: epoch and position of the next step, and the steps left in that epoch."""

    epoch: int
    position: int
    steps_left: int


class Boxes(NamedTuple):
    """The boxes of objects in each image: arrays [S, R, M], with views [S, R, M, COUNT]; from a Loader, tensors [N].

    K is the largest number of boxes in any sample. Entries after the first ``counts`` are zeros.
    """

    boxes: Any  # float32 [..., K, 4]: left, top, right, bottom in pixels of the image, after crop, resize and flips
    classes: Any  # int64 [..., K]: as in the data set
    ids: Any  # int64 [..., K]: the objects' ids, or their indices in the data set's list
    counts: Any  # int64 [...]


class Keypoints(NamedTuple):
    """The key points of objects in each image: arrays [S, R, M], with views [S, R, M, COUNT]; from a Loader, tensors
    [N].

    K is the largest number of objects in any sample, and P the largest number of points of any object. Entries after
    the first ``counts`` are zeros.
    """

    keypoints: Any  # float32 [..., K, P, 3]: x and y in pixels of the image, and visibility; (0, 0, 0) if not shown
    classes: Any  # int64 [..., K]: as in the data set
    ids: Any  # int64 [..., K]: the objects' ids, or their indices in the data set's list
    counts: Any  # int64 [...]


class Instances(NamedTuple):
    """The masks of objects in each image: arrays [S, R, M], with views [S, R, M, COUNT]; from a Loader, tensors [N].

    K is the largest number of objects in any sample. Entries after the first ``counts`` are zeros. The objects are
    those of a field of boxes with the same source and share, in the same order.
    """

    bits: Any  # uint8 [..., K, ceil(H * W / 64) * 8]: a bit for each pixel, row by row, the lowest bit of a byte first
    classes: Any  # int64 [..., K]: as in the data set
    ids: Any  # int64 [..., K]: the objects' ids, or their indices in the data set's list
    counts: Any  # int64 [...]
    size: Tuple[int, int]  # H and W

    def masks(self, *index: int) -> Any:
        """Return the masks of one image: uint8 [N, H, W], where N is its number of objects, with 1 for the pixels of
        an object and 0 for others. ``index`` is s, r, m, with views s, r, m, k; from a Loader, the image's number."""
        count, (height, width) = int(self.counts[index]), self.size
        bits = self.bits[index][:count]
        if isinstance(bits, np.ndarray):
            bytes_of = np.unpackbits(bits, axis=-1, bitorder="little")
        else:
            bytes_of = (bits.unsqueeze(-1) >> bits.new_tensor(range(8))) & 1
        return bytes_of.reshape(count, bits.shape[-1] * 8)[:, :height * width].reshape(count, height, width)


# The kinds of fields that have objects for each image.
_OBJECTS: Dict[str, Any] = {"boxes": Boxes, "keypoints": Keypoints, "instances": Instances}


def _row_of(kind: str, shape: Sequence[int], pixels: int) -> "np.dtype[Any]":
    """Return the layout of the objects of an image with this number of pixels."""
    value, size = {"boxes": (("<f4", (4,)), 16), "keypoints": (("<f4", (shape[1], 3)), 12 * shape[1]),
                   "instances": (("|u1", ((pixels + 63) // 64 * 8,)), (pixels + 63) // 64 * 8)}[kind]
    at = 16 if kind == "boxes" else 0
    each = np.dtype({"names": ["value", "class_id", "id"], "formats": [value, "<i8", "<i8"],
                     "offsets": [16 - at, at, at + 8], "itemsize": (16 + size + 7) // 8 * 8})
    return np.dtype([("count", "<i8"), ("each", each, (shape[0],))])


class Stats(NamedTuple):
    """Statistics of a stream. Times are in seconds. ``queued`` is a sum over batches; ``read`` and ``render`` are sums
    over the samples that loaders rendered."""

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
    rendered: int
    queued: float
    read: float
    render: float
    loader_threads: int
    loader_io_threads: int
    loaders: int  # number of loaders in use
    moved: int  # batches requested again from another loader, because the first was lost or could not render them
    hedged: int  # late batches that were also requested from a second loader
    hedges_won: int  # hedged batches that the second loader delivered first
    verified: int  # batches that two loaders rendered with the same result
    copied: float = 0.0  # duration of copies to a device; only with pyplenum.torch.Loader(device=...)
    copy_waited: float = 0.0  # time that the program or the device waited for these copies; only with device=...


class _Lease:
    """Holds a slot of the ring. Every array that views the slot refers to the lease, which ends with the last of
    them."""

    __slots__ = ("batch", "on_ring", "__del__")

    def __init__(self, batch: CBatch, on_ring: Any) -> None:
        self.batch = batch
        self.on_ring = on_ring  # kept alive, because it may be called when the slot is released
        # Not a method: Python would run signal handlers in it, and lose the exceptions that they raise.
        self.__del__ = functools.partial(lib.plenum_batch_release, byref(batch))

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("the lease of a slot cannot be copied")


class _Owner:
    """Frees the handle when the last reference to the Stream is dropped. close() does not free it, because another
    thread that holds a reference may be about to use it."""

    __slots__ = ("__del__",)

    def __init__(self, handle: c_void_p) -> None:
        self.__del__ = functools.partial(lib.plenum_stream_destroy, handle)  # not a method, for the same reason


class _Coming(List[Any]):
    """A batch on its way to the program: a list with the object that the program will receive; empty afterwards.

    Taking the object from the list is one step, which no signal can interrupt. Until then the stream's position is
    before the batch, and the next call returns it.
    """

    __slots__ = ("lease", "cursor", "place", "labels", "made", "thread")

    def __init__(self) -> None:
        self.lease: Optional[_Lease] = None  # until the batch is made
        self.cursor = b""  # before the batch
        self.place = Place(0, 0, 0)
        self.labels: Optional[List[Any]] = None  # a copy from before they are renumbered
        self.made = False
        self.thread: Optional[int] = None  # the thread that is about to take it

    def is_kept(self) -> bool:
        """Return whether the batch is available, and not reserved by another thread."""
        if self.made:
            return bool(self) and self.thread in (None, threading.get_ident())
        return self.lease is not None and bool(self.lease.batch.lease)


def taking(fill: Callable[[], _Coming]) -> Iterator[Any]:
    """Return an iterator over what ``fill()`` prepares. The program receives each object in C code, where no signal or
    error can intervene: either the program has the batch, or the next call returns it.

    ``iter(fill, None)`` would be shorter, but loses what ``fill()`` returns if another thread has reached the end by
    then (CPython's issue 101892).
    """
    return map(list.pop, itertools.starmap(fill, itertools.repeat(())))


class _View:
    """Memory of a slot, for NumPy. The array keeps this object alive, and this object keeps the lease."""

    __slots__ = ("lease", "__array_interface__")

    def __init__(self, lease: _Lease, address: int, shape: Tuple[int, ...], typestr: str) -> None:
        self.lease = lease
        self.__array_interface__ = {"version": 3, "data": (address, False), "shape": shape, "typestr": typestr}


class Batch:
    """One batch: views of a slot of the ring, without copies.

    Shapes: S is the number of steps in a batch, R the number of replicas of this instance, M the micro-batch.

    ``pixels``
        int8 or uint8, [S, R, M, H, W, C] or [S, R, M, C, H, W]. Raises ValueError if the pipeline has views.
    ``images``
        ``pixels`` with S, R and M merged into one dimension: [S * R * M, H, W, C].
    ``views``
        If the pipeline is view(NAME, COUNT, STAGES) ..., a dict from NAME to array, in the pipeline's order: int8 or
        uint8, [S, R, M, COUNT, H, W, C] or [S, R, M, COUNT, C, H, W]. Otherwise an empty dict.
    ``labels``
        int64 [S, R, M], class indices.
    ``labels2``, ``weights``
        If the pipeline ends with mixup, cutmix or mix: int64 [S, R, M], the class of the sample that is mixed in, and
        float32 [S, R, M], the weight of ``labels``; the weight of ``labels2`` is ``1 - weights``. Otherwise None.
    ``boxes``, ``flips``, ``sizes``
        Where the pixels come from, for masks, boxes and key points that the program handles itself.

        - ``boxes``: float32 [S, R, M, 4], left, top, right and bottom of the crop, in pixels of the whole picture (as
          rotated by EXIF if the pipeline says exif). A crop may extend beyond the picture; that part is padding.
        - ``flips``: uint8 [S, R, M], bit 0: left and right are swapped; bit 1: top and bottom are swapped.
        - ``sizes``: uint32 [S, R, M, 2], height and width of the whole picture.

        The image is the crop, resized, then flipped. Rotations and other operations that move pixels are not included.
        With views, ``boxes`` and ``flips`` are dicts like ``views``, of float32 [S, R, M, COUNT, 4] and uint8
        [S, R, M, COUNT]. All three are None if the loader is older than version 1.9 of the protocol.
    ``fields``
        A dict of the stream's ``fields``, in their order. Text is a list of str and bytes a list of bytes, for all
        samples with S, R and M merged into one dimension. Numbers and arrays are arrays [S, R, M, ...]. A mask is uint8
        or uint16 [S, R, M, H, W], or with views a dict of arrays [S, R, M, COUNT, H, W]. ``batch["caption"]`` is
        ``batch.fields["caption"]``.
    ``samples``
        uint32 [S, R, M], the sample's index in the data set. In a mixture, the sets' samples are numbered one
        set after the other.
    ``sets``
        With a plan of data sets, a new uint8 array [S, R, M]: the set of each sample, as an index of ``stream.sets``.
        Otherwise None.
    ``positions``
        uint64 [S, R, M], position in the epoch's order.
    ``valid``
        bool [S, R, M]; False where a sample only pads the last step.
    ``epochs``
        uint64 [S], the epoch of each step.
    ``index``
        Number of the batch since open, seek or reshape, from 0.
    ``num_valid``
        Number of valid samples.
    ``num_substituted``
        Number of samples that replace bad ones.

    The arrays may be changed in place. They are ordinary NumPy arrays: ``torch.from_numpy(batch.images)`` and
    ``jax.dlpack.from_dlpack(batch.images)`` (DLPack, also in torch) do not copy. Older NumPy cannot export bool through
    DLPack; use ``batch.valid.view("u1")`` there.

    The ring has few slots, and a batch's slot is free again once the last view of it is gone. A program that keeps
    images or labels for longer than a few batches must copy them with ``batch.images.copy()``. So must a program that
    passes them to a framework that keeps its input (TensorFlow).
    """

    __slots__ = ("_lease", "index", "num_valid", "num_substituted")

    def __init__(self, lease: _Lease) -> None:
        self._lease: Optional[_Lease] = lease
        batch = lease.batch
        self.index: int = batch.index
        self.num_valid: int = batch.num_valid
        self.num_substituted: int = batch.num_substituted

    def _held(self) -> _Lease:
        if self._lease is None:
            raise PlenumError(errno.EINVAL, "the batch has been released")
        return self._lease

    def _view(self, field: str, typestr: str, dimensions: int = 3) -> "npt.NDArray[Any]":
        lease = self._held()
        b = lease.batch
        shape = (b.steps, b.replicas, b.micro_batch)[:dimensions]
        return np.asarray(_View(lease, getattr(b, field), shape, typestr))

    def _view_at(self, address: Optional[int], typestr: str) -> "Optional[npt.NDArray[Any]]":
        if not address:
            return None
        lease = self._held()
        return np.asarray(_View(lease, address, (lease.batch.steps, lease.batch.replicas, lease.batch.micro_batch),
                                typestr))

    def _views(self) -> List[Tuple[str, "npt.NDArray[Any]"]]:
        """Return names and arrays [S, R, M, COUNT, ...]; the name is "" if the pipeline has no views."""
        lease = self._held()
        b = lease.batch
        views = (CView * VIEWS_MAX)()
        found = []
        for view in views[:lib.plenum_batch_get_views(byref(b), views)]:
            image = (b.channels, view.height, view.width) if b.layout else (view.height, view.width, b.channels)
            shape = (b.steps, b.replicas, b.micro_batch, view.count) + image
            array = np.asarray(_View(lease, view.pixels, shape, "|u1" if b.dtype else "|i1"))
            found.append((view.name.decode(), array))
        return found

    @property
    def views(self) -> "Dict[str, npt.NDArray[Any]]":
        return {name: array for name, array in self._views() if name}

    def _geometry(self, field: str, typestr: str, more: Tuple[int, ...]) -> Any:
        """Return an array over all images, split by view."""
        lease = self._held()
        b = lease.batch
        geometry = CGeometry()
        images = lib.plenum_batch_get_geometry(byref(b), byref(geometry))
        if not images:
            return None
        shape = (b.steps, b.replicas, b.micro_batch, images) + more
        array = np.asarray(_View(lease, getattr(geometry, field), shape, typestr))
        cut, at = {}, 0
        for name, pixels in self._views():
            cut[name] = array[:, :, :, at:at + pixels.shape[3]]
            at += pixels.shape[3]
        return cut if cut.keys() != {""} else array[:, :, :, 0]

    @property
    def boxes(self) -> Any:
        return self._geometry("boxes", "<f4", (4,))

    @property
    def flips(self) -> Any:
        return self._geometry("flips", "|u1", ())

    @property
    def sizes(self) -> "Optional[npt.NDArray[np.uint32]]":
        geometry = CGeometry()
        lease = self._held()
        b = lease.batch
        if not lib.plenum_batch_get_geometry(byref(b), byref(geometry)):
            return None
        return np.asarray(_View(lease, geometry.sizes, (b.steps, b.replicas, b.micro_batch, 2), "<u4"))

    @property
    def pixels(self) -> "npt.NDArray[Any]":
        (name, array), *_ = self._views()
        if name:
            raise ValueError("the pipeline has views, so a sample has several images: use "
                             f"batch.views[{name!r}] and similar keys, or in a Loader the field \"views\"")
        return array[:, :, :, 0]

    @property
    def images(self) -> "npt.NDArray[Any]":
        pixels = self.pixels
        return pixels.reshape((-1,) + pixels.shape[3:])

    @property
    def labels(self) -> "npt.NDArray[np.int64]":
        return self._view("labels", "<i8")

    def _mix(self) -> CMix:
        mix = CMix()
        lib.plenum_batch_get_mix(byref(self._held().batch), byref(mix))
        return mix

    @property
    def sets(self) -> "Optional[npt.NDArray[np.uint8]]":
        b = self._held().batch
        numbers = np.empty((b.steps, b.replicas, b.micro_batch), np.uint8)
        return numbers if lib.plenum_batch_get_sets(byref(b), numbers.ctypes.data) else None

    @property
    def labels2(self) -> "Optional[npt.NDArray[np.int64]]":
        return self._view_at(self._mix().labels2, "<i8")

    @property
    def weights(self) -> "Optional[npt.NDArray[np.float32]]":
        return self._view_at(self._mix().weights, "<f4")

    def soft_labels(self, num_classes: int, smoothing: float = 0.0) -> "npt.NDArray[np.float32]":
        """Return the labels as probabilities that add up to 1: a new float32 array [S, R, M, num_classes].

        ``labels`` get ``weights`` and ``labels2`` the rest; without mixing, ``labels`` get 1. With ``smoothing`` x,
        these are scaled by 1 - x, and every class gets x / num_classes, like label smoothing in torch and timm.
        """
        labels, labels2, weights = self.labels, self.labels2, self.weights
        if not 0 <= smoothing <= 1:
            raise ValueError(f"smoothing must be from 0 to 1, not {smoothing}")
        for some in (labels,) if labels2 is None else (labels, labels2):
            if not 0 <= int(some.min()) <= int(some.max()) < num_classes:
                raise ValueError(f"labels are {some.min()} to {some.max()}, but num_classes is {num_classes}")
        soft = np.full(labels.shape + (num_classes,), smoothing / num_classes, np.float32)
        flat, rows = soft.reshape(-1, num_classes), np.arange(labels.size)
        share = np.float32(1 - smoothing)
        if labels2 is None or weights is None:
            flat[rows, labels.reshape(-1)] += share
        else:
            flat[rows, labels.reshape(-1)] += share * weights.reshape(-1)
            flat[rows, labels2.reshape(-1)] += share * (1 - weights.reshape(-1))
        return soft

    def _field(self, field: CField) -> Any:
        lease = self._held()
        b = lease.batch
        shape = (b.steps, b.replicas, b.micro_batch)
        kind = FIELD_TYPES[field.type]
        if kind in _OBJECTS:
            return self._objects(field, kind)
        if not field.lengths:
            array = np.asarray(_View(lease, field.values, shape + tuple(field.shape[:field.dims]), kind))
            return self._mask(array) if field.mask else array
        lengths = np.asarray(_View(lease, field.lengths, shape, "<u4")).reshape(-1).tolist()
        found = [ctypes.string_at(field.values + i * field.room, min(length, field.room))
                 for i, length in enumerate(lengths)]
        return [each.decode("utf-8", "replace") for each in found] if kind == "text" else found

    def _objects(self, field: CField, kind: str) -> Any:
        """Return Boxes, Keypoints or Instances, or a dict of these by the names of views."""
        lease = self._held()
        b = lease.batch
        views = (CView * VIEWS_MAX)()
        found = list(views[:lib.plenum_batch_get_views(byref(lease.batch), views)])
        rows = [_row_of(kind, list(field.shape), view.height * view.width) for view in found]
        ends = list(itertools.accumulate(view.count * row.itemsize for view, row in zip(found, rows)))
        sample = np.dtype({"names": [str(i) for i in range(len(found))],
                           "formats": [(row, (view.count,)) for view, row in zip(found, rows)],
                           "offsets": [0] + ends[:-1], "itemsize": field.room})
        bytes_of = np.asarray(_View(lease, field.values, (b.steps, b.replicas, b.micro_batch, field.room), "|u1"))
        samples = bytes_of.view(sample)[..., 0]

        def cut(images: "npt.NDArray[Any]", view: CView) -> Any:
            each = images["each"]
            parts = each["value"], each["class_id"], each["id"], images["count"]
            return Instances(*parts, (view.height, view.width)) if kind == "instances" else _OBJECTS[kind](*parts)

        if not found[0].name:
            return cut(samples["0"][..., 0], found[0])
        return {view.name.decode(): cut(samples[str(i)], view) for i, view in enumerate(found)}

    def _mask(self, array: "npt.NDArray[Any]") -> Any:
        """Return a mask; if there are views, split by view: [S, R, M, COUNT, H, W] for each."""
        lease = self._held()
        views = (CView * VIEWS_MAX)()
        found = list(views[:lib.plenum_batch_get_views(byref(lease.batch), views)])
        if not found[0].name:
            return array
        rows, at, cut = array.reshape(array.shape[:3] + (-1,)), 0, {}
        for view in found:
            end = at + view.count * view.height * view.width
            cut[view.name.decode()] = np.lib.stride_tricks.as_strided(
                rows[..., at:end], rows.shape[:3] + (view.count, view.height, view.width),
                rows.strides[:3] + tuple(n * rows.itemsize for n in (view.height * view.width, view.width, 1)))
            at = end
        return cut

    def _field_list(self) -> List[CField]:
        fields = (CField * FIELDS_MAX)()
        return list(fields[:lib.plenum_batch_get_fields(byref(self._held().batch), fields)])

    @property
    def fields(self) -> Dict[str, Any]:
        return {field.name.decode(): self._field(field) for field in self._field_list()}

    def __getitem__(self, name: str) -> Any:
        """Return one of ``fields``. KeyError lists the existing ones."""
        fields = self._field_list()
        for field in fields:
            if field.name.decode() == name:
                return self._field(field)
        raise KeyError(f"{name!r}: the stream's fields are "
                       f"{', '.join(repr(field.name.decode()) for field in fields) or 'none: see Stream(fields=...)'}")

    @property
    def samples(self) -> "npt.NDArray[np.uint32]":
        return self._view("samples", "<u4")

    @property
    def positions(self) -> "npt.NDArray[np.uint64]":
        return self._view("positions", "<u8")

    @property
    def valid(self) -> "npt.NDArray[np.bool_]":
        return self._view("valid", "|b1")

    @property
    def epochs(self) -> "npt.NDArray[np.uint64]":
        return self._view("epochs", "<u8", 1)

    def hash(self) -> int:
        """Return the sum modulo 2**64 of the hashes of the valid samples; see ``plenumctl hash``."""
        return int(lib.plenum_batch_hash(byref(self._held().batch)))

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a Batch is a view of the loader's memory and cannot be copied or pickled: copy its arrays, "
                        "such as batch.images.copy()")

    def __repr__(self) -> str:
        if self._lease is None:
            return f"<pyplenum.Batch {self.index}: released>"
        arrays = ", ".join(f"{name or array.dtype.name + ' pixels'} {list(array.shape if name else self.pixels.shape)}"
                           for name, array in self._views())
        return f"<pyplenum.Batch {self.index}: {arrays}, epoch {self.epochs[0]}, {self.num_valid} valid>"

    def release(self) -> None:
        """Release the slot now, unless views of it are still held."""
        self._lease = None

    def __enter__(self) -> "Batch":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.release()


def _choice(value: Any, choices: Tuple[str, ...], what: str) -> int:
    if value not in choices:
        raise ValueError(f"{what} must be one of {', '.join(choices)}, not {value!r}")
    return choices.index(value)


def path_of(dataset: Any) -> str:
    """Return a data set's name, from a string or a path."""
    if isinstance(dataset, (str, bytes, os.PathLike)):
        return os.fsdecode(dataset)
    root = getattr(dataset, "root", None)
    way = f"its root, {os.fspath(root)!r}" if isinstance(root, (str, os.PathLike)) else "the folder or archive it reads"
    raise TypeError(f"the data set must be a folder or a name such as tar:train.tar, not a {type(dataset).__name__}: "
                    f"pass {way}. plenumd reads and decodes the files itself")


def shuffle_of(value: Any) -> str:
    """Return the order's name; also accepts True and False, like a DataLoader."""
    if isinstance(value, (bool, np.bool_)):
        return "global" if value else "none"
    if not isinstance(value, str):
        raise TypeError(f"shuffle must be \"global\", \"none\", \"block:B\", True or False, not {value!r}")
    return value


def _with_setting(dataset: Union[str, bytes], key: str, value: Union[str, bytes]) -> str:
    """Return a data set's name with one more setting."""
    dataset, value = os.fsdecode(dataset), re.sub(r"([,:\\])", r"\\\1", os.fsdecode(value))
    begin = _SETTINGS.match(dataset)
    if begin is None:
        return f"auto,{key}={value}:{dataset}"
    return f"{begin.group()},{key}={value}{dataset[begin.end():]}"


# Clauses of warnings that classes are numbered in the order of their names (loader/dataset/index_warning.c).
_ORDER_WARNING = re.compile(
    r"(?<=: )(classes are numbered in the byte order of their names, so '.*?' is class \d+ and '.*?' is class \d+: "
    r"classes=FILE sets their order|all class names are numbers, but they are numbered in byte order \(1, 10, 2\): "
    r"classes=numbers makes each name its own number)(; |$)")


def _names_of(classes: Any) -> Optional[List[str]]:
    """Return class names that are passed as such; None if they come from a path, or are not given."""
    if classes is None or isinstance(classes, (str, bytes, os.PathLike)):
        return None
    names = list(classes)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"classes must be a path, \"numbers\" or names of classes, which are strings, not {name!r}")
    seen = set()
    for name in names:
        if name and name in seen:
            raise ValueError(f"classes contains {name!r} twice")
        seen.add(name)
    if not names:
        raise ValueError("classes is empty: it must name at least one class")
    return names


def _integer_of(name: str) -> Optional[int]:
    """Return the value of a name that is an integer, however it is spelled."""
    if not _NUMERAL.fullmatch(name):
        return None
    try:
        value = Decimal(name.strip())
    except ArithmeticError:  # an exponent beyond all bounds
        return None
    if value.is_zero():
        return 0
    return int(value) if value.adjusted() < 19 and value == value.to_integral_value() else None


def _has_offset(dataset: str) -> bool:
    """Return whether the name of a data set moves its labels by label-offset."""
    begin = _SETTINGS.match(dataset)
    offset = re.search(r",label-offset=([^,:]*)", begin.group()) if begin else None
    return offset is not None and offset.group(1).lstrip("+-").strip("0") != ""


def _sets_of(dataset: Any, own: Dict[str, Any], shuffle: Any,
             repeat: Any) -> Dict[str, Tuple[Any, str, Dict[str, Any]]]:
    """Return the sets of a Mix, or the one data set; options apply to all of them, unless a set has its own."""
    order = {key: value for key, value in (("shuffle", shuffle_of(shuffle)), ("repeat", repeat))
             if value not in ("global", 1)}
    sets = dataset.sets if isinstance(dataset, Mix) else {"data": (1, dataset, {})}
    return {name: (weight, with_home(path_of(path)), {**order, **own, **options})
            for name, (weight, path, options) in sets.items()}


def with_home(dataset: str) -> str:
    """Return the data set's name with ``~`` or ``~user`` expanded at the beginning of its path and of its settings.

    >>> with_home("list,base=~/images:~/train.csv").count(os.path.expanduser("~"))
    2
    """
    found = re.fullmatch(r"((?:[a-z]+(?:,[^:]*)?:)*)(.*)", dataset, re.DOTALL)
    assert found is not None  # the pattern matches everything
    settings = re.sub(r"(?<==)~[^,:]*", lambda setting: os.path.expanduser(setting[0]), found[1])
    return settings + os.path.expanduser(found[2])


def _cursor_from(cursor: Any) -> CCursor:
    if not isinstance(cursor, (bytes, bytearray)):
        raise TypeError(f"a cursor must be the {ctypes.sizeof(CCursor)} bytes of Stream.cursor, not {cursor!r}")
    if len(cursor) != ctypes.sizeof(CCursor):
        raise ValueError(f"a cursor has {ctypes.sizeof(CCursor)} bytes, not {len(cursor)}")
    return CCursor.from_buffer_copy(cursor)


class Stream:
    """The batches of one instance, in order. An iterator.

    ``cursor`` and ``place`` are the position after the last batch that the program received. If an exception, even one
    from a signal handler, interrupts a ``for`` loop or :meth:`next`, the batch is not lost: the next call returns it.
    Python's built-in ``next(stream)`` cannot guarantee this, because Python runs signal handlers after the built-in
    function has returned and before the program has the batch. If a handler raises at that time, the batch is lost.
    Several threads may call :meth:`next` on one stream: the calls are serialised, each batch goes to one thread, and
    every thread sees the end.

    >>> for batch in Stream("/data/train", pipeline="train", micro_batch=16, epochs=90):  # doctest: +SKIP
    ...     train(batch.pixels, batch.labels)

    Parameters
    ----------
    dataset
        "folder:DIR", "tar:ARCHIVES", or a plain path, which can be a :class:`pathlib.Path`; see plenumctl(1). A path
        may begin with ``~``.
    pipeline
        "train", "eval", or stages such as "rrc(160, scale=0.25:1) flip(0.5)" or "rrc(224) mixup(0.2)".
    job
        The job whose share to stream; defaults to this process's job. It can also be a number of replicas, all in this
        process.
    rank, world_size
        The share to stream, regardless of this process's own rank. Rank 0 of 1 gets everything.
    seed
        The seed of all random numbers, 0 ... 2**64 - 1.
    epochs
        The stream ends before this epoch, counted from 0. With None, it never ends.
    micro_batch
        Samples per replica and step.
    steps
        Steps per batch.
    shuffle
        "global" (or True), "none" (or False) or "block:B".
    last
        "pad": pad the last step of an epoch with samples that are not valid; "drop": drop it.
    bad
        "substitute": show another sample in place of one that cannot be decoded; "fail": raise an error.
    dtype, layout, channels
        "int8" (value - 128) or "uint8"; "nhwc" or "nchw"; 3, or 4, which adds a channel of zeros (128 as uint8).
    prefetch_depth
        Batches requested in advance.
    loader
        Addresses of loaders, separated by commas. None means those of the job.
    loader_timeout
        The stream fails after this number of seconds without any loader.
    silence
        Another loader is used after this number of seconds without an answer.
    subset
        "a:b" shows only samples a ... b - 1 of the data set.
    repeat
        Show each sample this many times in a row, each time with a different crop.
    split
        "sample": every instance can read the whole data set and takes its share of each step. "file": each instance has
        an equal part of the data set's archives, which is a separate data set; this implies ``together``.
    deal
        "consecutive": a replica takes micro_batch consecutive positions of a step. "round-robin": replicas take turns.
        With ``repeat``, the latter is repeated augmentation: the copies of a sample go to different replicas.
    together
        Open the stream as a collective of all instances of the job. If their streams would show different samples
        (because data set, pipeline, seed or order differ), all instances raise an error that names the difference.
    fields
        Further data to deliver with each sample: a list of "NAME:SOURCE:KIND".

        NAME is the field's name in a batch.

        SOURCE is where the data set stores the field, and defaults to NAME. In tar: and folder: it is the extension of
        a member or file that belongs to the image ("txt", "seg.png"), or a member of its JSON ("json.caption"). In
        tfrecord: it is a feature, and in parquet: and mds: a column. In list: it is a column, by its name, or by its
        number if the list has no header; for bytes, npy and mask the column holds paths.

        KIND is one of

        - "text": UTF-8, the default;
        - "line": one line of such a string, drawn for each position;
        - "bytes";
        - "npy": an array in NumPy's format, of the same type and shape in all samples;
        - "int64", "float32": numbers, with the same count in all samples: features, or a string of numbers
          separated by spaces, commas or brackets;
        - "mask": a PNG of indices or grey levels, of the image's size. It is cropped and moved like each image of the
          sample, with nearest-neighbour sampling, and is 255 (65535 with 16 bits) where the image shows padding or
          the fill of an operation;
        - "boxes": object boxes as JSON in COCO ("bbox", "category_id"), Pascal VOC ("bndbox") or torchvision ("boxes",
          "labels") format. They are cropped and moved with each image of the sample (:class:`Boxes`). "boxes:0.3"
          drops boxes if the image shows less than 0.3 of their area;
        - "keypoints": key points of objects as JSON, in COCO's format ("keypoints": x, y and visibility of each point)
          or torchvision's. They are cropped and moved with each image of the sample (:class:`Keypoints`); points that
          leave the image become (0, 0, 0). "keypoints:coco" or "keypoints:1-2 3-4" names pairs of left and right
          points, from 0, which are swapped in mirror images;
        - "instances": the masks of objects as JSON in COCO's format ("segmentation": polygons or run lengths). They are
          drawn in each image of the sample, for the objects that "boxes" has (:class:`Instances`). "instances:0.3" is
          like "boxes:0.3".

        A sample that lacks a field, or has a damaged field, is bad. docs/datasets.md, section 4, has the rules.
    classes
        The classes and their numbers, so that a validation set can use the classes of its training set. This can be the
        names themselves (``train.classes``; the first name is class 0), a file with one name per line, a folder with
        one folder per class, or "numbers", which means that the names are the numbers. A data set that contains any
        other class is rejected; a class without samples keeps its number. None means the data set's own classes, in
        byte order. docs/datasets.md, section 3, has the rules.
    select, relabel, weights, draw, stratify, balance, each, block, epoch, at, labels, skip
        Which samples are shown, and how often: docs/sampling.md has examples. ``dataset`` may then also be a
        :class:`Mix` of several data sets, or the text of a plan.

        - ``select="label 0..9 and not fold 0/5"`` shows only these samples;
        - ``relabel=FILE`` gives classes new names or numbers: a line for each has the class, a tab or a comma, and its
          new class. Classes without a line are left out;
        - ``weights="class"``, ``"class:1/2"``, ``"lvis:0.001"``, ``"file:w.npy"``, ``"column:NAME"`` or
          ``"json.NAME"`` shows samples by weight: in an epoch of ``epoch`` positions, each sample is shown its expected
          number of times, rounded up or down. ``draw="independent"`` draws each position by itself.
          ``weights={0: RULE, 3: RULE}`` changes the weights from epoch 3 on, and ``{}`` sets none until :meth:`amend`
          does;
        - ``stratify="label", block=B`` shows each sample once per epoch, and in each B samples, each class in
          proportion to its size;
        - ``balance="label", block=B`` shows equally many samples of each class in each B samples;
          ``balance="label", classes=P, each=K`` shows blocks of K samples of each of P classes;
        - with a Mix, ``block`` is the number of positions that sets share, ``epoch`` a number of positions or the set
          that an epoch shows completely, ``at={position: {name: weight}}`` new weights from a position on
          (``(first, last)`` for a ramp), and ``labels`` "names" (default), "numbers" or "stack";
        - ``skip=[(first, end)]`` never shows these positions, counted from the start of the run.
    on_ring
        Called as ``on_ring(address, size, present)`` when memory for batches appears (True) or is about to go away
        (False), for programs that pin this memory; for example :func:`pyplenum.torch.pin_ring`. A stream has a ring for
        each loader on this host and one for all remote loaders. When a loader is lost, its ring is replaced.

    ``num_samples``, ``num_classes``, ``steps_per_epoch``, ``slots``, ``fingerprint`` and ``identity`` are properties of
    the open stream; see ``struct plenum_stream_info``. Only :meth:`reshape` changes one, ``steps_per_epoch``.

    A stream has a ``fileno()``, so ``select`` and ``asyncio``'s ``add_reader`` accept it. It is readable when
    ``next(timeout=0)`` would return a batch or raise anything other than :class:`TimeoutError`.

    Any thread may :meth:`close` the stream; calls that wait in other threads then raise :class:`PlenumError` with
    ``EBADF``. The constant properties and :attr:`stats` of a closed stream remain available.

    Errors are raised as :class:`PlenumError`, with the ``errno`` and message of the C library. A stream belongs to the
    process that opened it. In a forked process, such as a DataLoader worker, everything that returns batches or a
    position raises ``ECHILD``.

    A :class:`LoaderWarning` about the data set is issued when the stream is opened. Any other warning is issued before
    a batch is taken, so no batch is lost if warnings are turned into errors.
    """

    def __init__(self, dataset: "Union[str, os.PathLike[str]]", pipeline: str = "train", *,
                 job: Union[Job, int, None] = None, rank: Optional[int] = None, world_size: Optional[int] = None,
                 seed: int = 0, epochs: Optional[int] = None, micro_batch: int = 1, steps: int = 1,
                 shuffle: Union[str, bool] = "global",
                 last: str = "pad", bad: str = "substitute", dtype: str = "int8", layout: str = "nhwc",
                 channels: int = 3, prefetch_depth: int = 3, loader: Optional[str] = None,
                 loader_timeout: float = 60.0, silence: float = 5.0, subset: Optional[str] = None, repeat: int = 1,
                 split: str = "sample", deal: str = "consecutive", together: bool = False,
                 fields: Union[str, Iterable[str], None] = None,
                 classes: "Union[str, os.PathLike[str], Iterable[str], int, None]" = None,
                 select: Optional[str] = None, relabel: "Union[str, os.PathLike[str], None]" = None,
                 weights: "Union[str, Mapping[int, Optional[str]], None]" = None, draw: Optional[str] = None,
                 stratify: Optional[str] = None, balance: Optional[str] = None, each: Optional[int] = None,
                 block: Optional[int] = None, epoch: Union[int, str, None] = None,
                 at: "Optional[Mapping[Any, Mapping[str, Any]]]" = None, labels: Optional[str] = None,
                 skip: Optional[Iterable[Tuple[int, int]]] = None,
                 on_ring: Optional[Callable[[int, int, bool], Any]] = None, **unknown: Any) -> None:
        self._handle: Optional[int] = None
        self._pid = os.getpid()
        self._closed = False
        self._lock = threading.RLock()  # threads that share a stream take turns
        self._coming: Optional[_Coming] = None
        self._targets: Optional["npt.NDArray[np.int64]"] = None  # not requested yet
        # maps the data set's labels to the numbers of the names that the program gave
        self._renumbered: Optional[Callable[["npt.NDArray[np.int64]"], "npt.NDArray[np.int64]"]] = None
        number = classes if isinstance(classes, int) else None  # with balance
        given_names = _names_of(classes) if number is None else None
        self._named = f"{dataset if isinstance(dataset, Mix) else path_of(dataset)!r} {pipeline!r}"
        own_options = {"select": select, "relabel": relabel, "weights": weights, "draw": draw}
        sets = _sets_of(dataset, own_options, shuffle, repeat)
        if classes is not None and given_names is None and number is None:
            sets = {name: (weight, _with_setting(path, "classes", os.fspath(cast(str, classes))), options)
                    for name, (weight, path, options) in sets.items()}
        wanted = (select, relabel, weights, draw, stratify, balance, each, block, epoch, at, labels, skip, number)
        if isinstance(dataset, Mix) or any(value is not None for value in wanted):
            if not isinstance(dataset, Mix) and balance is None:  # a single set has its own epochs
                (weight, path, own), = sets.values()
                sets, epoch = {"data": (weight, path, {**own, "epoch": epoch})}, None
            text = plan_of(sets, block=block, epoch=epoch, labels=labels, stratify=stratify, balance=balance,
                           classes=number, each=each, at=at, skip=skip)
            shuffle, repeat = "global", 1  # in the lines of sets
        else:
            (_, text, _), = sets.values()
        for name in unknown:
            raise TypeError(f"there is no option '{name}'" + (f": {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""))
        o = COptions()
        lib.plenum_stream_options_init(byref(o))
        o.dataset = text_of(text, "dataset")
        o.pipeline = text_of(pipeline, "pipeline")
        o.shuffle = text_of(shuffle_of(shuffle), "shuffle")
        o.loader = text_of(loader, "loader") if loader is not None else None
        o.seed = whole(seed, "seed", 0, 2**64 - 1)
        o.epochs = whole(epochs, "epochs", 1, 2**64 - 1) if epochs is not None else 0
        o.micro_batch = whole(micro_batch, "micro_batch", 1, _MOST)
        o.steps = whole(steps, "steps", 1, _MOST)
        o.prefetch_depth = whole(prefetch_depth, "prefetch_depth", 1, _MOST)
        o.dtype = _choice(dtype_name(dtype), ("int8", "uint8"), "dtype")
        o.layout = _choice(layout, ("nhwc", "nchw"), "layout")
        o.channels = whole(channels, "channels", 0, _MOST)
        o.last = _choice(last, ("pad", "drop"), "last")
        o.bad = _choice(bad, ("substitute", "fail"), "bad")
        o.loader_timeout_ns = nanoseconds(loader_timeout, "loader_timeout")
        o.silence_ns = nanoseconds(silence, "silence")
        o.subset = text_of(subset, "subset", "'0:100' (a list file names any samples)") if subset is not None else None
        o.repeat = whole(repeat, "repeat", 1, _MOST)
        o.split = _choice(split, ("sample", "file"), "split")
        o.deal = _choice(deal, ("consecutive", "round-robin"), "deal")
        o.fields = text_of(fields if isinstance(fields, str) else ",".join(fields or ()), "fields")
        self._on_ring = CRingCall(0)
        if on_ring is not None:
            call = on_ring  # for mypy: never None
            self._on_ring = CRingCall(lambda _, base, size, present: call(base, size, bool(present)))
        o.on_ring = self._on_ring
        # the job whose torch.distributed group must not change while the stream is open
        self._of_job: Optional[Job] = None
        # Moves the stream back to the program's position; a Loader that copies batches ahead replaces it.
        self._go_back: Callable[[], None] = lambda: None
        told = rank is not None or world_size is not None
        if told and job is not None:
            raise ValueError("pass either 'job' or 'rank' and 'world_size': both say which share to stream")
        if in_worker() and not told:
            raise PlenumError(errno.ECHILD, "each worker process of a DataLoader would be given all of this process's "
                              "samples: take the batches in the process itself (num_workers=0), or pass this worker's "
                              "share as rank= and world_size=")
        if together or split == "file":
            if told or (job is not None and not isinstance(job, Job)):
                raise ValueError("streams that are opened together belong to a whole job: 'job' cannot be a number, "
                                 "and 'rank' and 'world_size' cannot be passed: see pyplenum.job()")
            self._of_job = job or this_job()
            whole_job = self._of_job._for_collective()
            self._open(lambda *to: lib.plenum_stream_open_all(whole_job, byref(o), *to))
            self._share = self._of_job._info
        else:
            self._share = info_as(rank, world_size) if told else self._share_of(job)
            self._open(lambda *to: lib.plenum_stream_open(byref(self._share), byref(o), *to))
        info = CInfo()
        lib.plenum_stream_get_info(self._handle, byref(info))
        self.num_samples: int = info.num_samples
        self.num_positions: int = info.num_positions
        self.num_classes: int = info.num_classes
        self._classes: Optional[List[str]] = None  # not requested yet
        self.steps_per_epoch: int = info.steps_per_epoch
        self.fingerprint: bytes = bytes(info.fingerprint)
        self.identity: bytes = bytes(info.identity)
        self.slots: int = info.slots
        found = (CSet * SETS_MAX)()
        #: the names of the sets of a mixture, in the order of ``batch.sets``
        self.sets: List[str] = [s.name.decode() for s in found[:lib.plenum_stream_get_sets(self._handle, found)]]
        self._batches: int = info.batches
        self._is_endless = epochs is None
        self._reopened: Dict[str, Any] = {"loader": loader, "loader_timeout": loader_timeout, "silence": silence}
        self._first = int((subset or "").partition(":")[0] or 0)  # index of the subset's first sample
        # The data set's name as the library opened it. Its paths are absolute, so it stays valid after os.chdir().
        self._dataset = os.fsdecode(lib.plenum_stream_get_dataset(self._handle))
        try:
            if given_names is not None:
                self._use_classes(given_names)
            self._names_given = given_names is not None
            self._show_warnings(self._open_handle())
        except BaseException:
            self.close()
            raise

    def _use_classes(self, names: List[str]) -> None:
        """Number classes like the program, which gave the names: ``names[label]``."""
        own, numbers = self.classes, {name: number for number, name in enumerate(names)}
        if own is None and any(map(_NUMERAL.fullmatch, names)):
            self._use_numerals(names)
        elif own is None:
            if self.num_classes > len(names):
                raise ValueError(f"{self._named}: its labels are numbers up to {self.num_classes - 1}, but 'classes' "
                                 f"has {len(names)} names")
        else:
            for name in own:
                if name not in numbers:
                    raise ValueError(f"{self._named}: its class {name!r} is not among the {len(names)} names in "
                                     "'classes'")
            self._renumbered = np.array([numbers[name] for name in own], np.int64).__getitem__
        self.num_classes = len(names)
        self._classes = names

    def _use_numerals(self, names: List[str]) -> None:
        """Handle a data set with numeric labels and names that are numerals: each label maps to the name with that
        value, as in a file of classes."""
        if _has_offset(self._dataset):
            raise ValueError(f"{self._named}: names in 'classes' are numbers, so its labels are names of classes: "
                             "label-offset cannot be used with them")
        numbers: Dict[int, List[int]] = {}
        for number, name in enumerate(names):
            spelled = _integer_of(name)
            if spelled is not None:
                numbers.setdefault(spelled, []).append(number)
        values = np.unique(self._find_targets()[self._first:][:self.num_samples])
        for value in values.tolist():
            found = [names[number] for number in numbers.get(value, ())]
            if not found:
                raise ValueError(f"{self._named}: its label {value} is not among the {len(names)} names in 'classes'")
            if len(found) > 1:
                raise ValueError(f"{self._named}: its label {value} could be {found[0]!r} or {found[1]!r} of "
                                 "'classes': list each number only once, whatever its spelling")
        table = np.array([numbers[value][0] for value in values.tolist()], np.int64)
        self._renumbered = lambda labels: table[np.searchsorted(values, labels)]

    def _renumber(self, coming: _Coming, batch: Batch) -> None:
        """Give the labels the numbers that the program requested. An interrupted call can be repeated."""
        if self._renumbered is None:
            return
        if coming.labels is None:
            coming.labels = [own if own is None else own.copy() for own in (batch.labels, batch.labels2)]
        for labels, own in zip((batch.labels, batch.labels2), coming.labels):
            if labels is not None:
                labels[...] = self._renumbered(own)

    def _share_of(self, job: Union[Job, int, None]) -> CJobInfo:
        info = CJobInfo()
        self._of_job = source = job if isinstance(job, Job) else this_job()
        source._check_group()
        ctypes.memmove(byref(info), byref(source._info), ctypes.sizeof(info))
        if job is not None and not isinstance(job, Job):
            if source.num_instances > 1:
                raise ValueError("a number of replicas can be chosen only if the job has one instance")
            info.num_replicas = info.num_local_replicas = whole(job, "job, a number of replicas,", 1, _MOST)
        return info

    def _open(self, opener: Callable[..., int]) -> None:
        """Open in a separate thread, so that Ctrl-C works while an index is being built."""
        error, codes = CError(), []

        def run() -> None:
            handle = c_void_p()
            code = opener(byref(handle), byref(error))
            if code == 0:
                self._owner = _Owner(handle)
                self._handle = handle.value
            codes.append(code)
            if self._closed:  # the caller has given up
                self.close()

        thread = threading.Thread(target=run, name="plenum-open", daemon=True)
        try:
            thread.start()
            while thread.is_alive():
                thread.join(0.1)
        except BaseException:
            self.close()
            raise
        check(codes[0], error)

    def _open_handle(self) -> int:
        if self._closed:
            raise PlenumError(errno.EBADF, "the stream is closed")
        return self._own_handle()

    def _own_handle(self) -> int:
        """Return the handle, even of a closed stream: it is freed with the last reference to this object."""
        if self._handle is None:
            raise PlenumError(errno.EBADF, "the stream is closed")
        if self._pid != os.getpid():
            raise PlenumError(errno.ECHILD, "this process was forked from the one that opened the stream (as workers "
                              "of a DataLoader are): request batches there")
        return self._handle

    def next(self, timeout: Optional[float] = None) -> Batch:
        """Return the next batch, waiting at most ``timeout`` seconds; 0 or less does not wait.

        Unlike the built-in ``next(stream)``, it loses no batch if a signal handler raises.

        Raises :class:`TimeoutError` if no batch was ready in time, :class:`StopIteration` after the last,
        :class:`SlotsHeldError` if views of earlier batches hold every slot, and :class:`PlenumError`.
        """
        coming = self._fill(timeout)
        batch: Batch = coming[0]
        # On one line and without a call, so that neither a signal nor a debugger can come in between.
        del coming[:]; return batch  # noqa: E702

    def _fill(self, timeout: Optional[float] = None, make: Optional[Callable[[Batch], Any]] = None) -> _Coming:
        """Prepare the next batch for the program, or what ``make`` returns for it."""
        self._open_handle()
        with self._lock:
            while True:
                coming = self._undelivered()
                if coming is None:
                    coming = _Coming()
                    self._take(coming, timeout)
                if not coming.made:
                    assert coming.lease is not None
                    if not coming:
                        batch = Batch(coming.lease)
                        self._renumber(coming, batch)
                        coming.append(make(batch) if make else batch)
                    coming.made = True
                    coming.lease = None
                if coming:  # otherwise a signal handler has taken it
                    coming.thread = threading.get_ident()
                    return coming

    def _undelivered(self) -> Optional[_Coming]:
        coming = self._coming
        return coming if coming is not None and coming.is_kept() else None

    def _take(self, coming: _Coming, timeout: Optional[float]) -> None:
        """Take the next batch from the library."""
        handle, error = self._open_handle(), CError()
        lease = coming.lease = _Lease(CBatch(), self._on_ring)
        left = None if timeout is None else nanoseconds(max(timeout, 0.0), "timeout")
        if self._of_job is not None:
            self._of_job._check_group()
        while True:
            self._show_warnings(handle)  # before a batch is taken, because a filter may turn them into errors
            piece = _SLICE_NS if left is None else min(_SLICE_NS, left)
            coming.cursor, coming.place = self._cursor_of(handle), self._place_of(handle)
            self._coming = coming
            code = lib.plenum_stream_next(handle, piece, byref(lease.batch), byref(error))
            if code != -errno.EAGAIN:
                break
            if left is not None:
                left -= piece
                if left <= 0:
                    raise TimeoutError(errno.ETIMEDOUT, f"no batch was ready within {timeout} s")
        if code == 0:
            return
        self._show_warnings(handle)
        if code == -errno.ENODATA:
            raise StopIteration
        if code == -errno.ENOBUFS:
            raise SlotsHeldError(errno.ENOBUFS, f"views of earlier batches hold all {self.slots} slots of the ring: "
                                 "drop or copy some before requesting the next batch (an array's .copy(), a tensor's "
                                 ".clone(), Loader(..., copy=True); frameworks such as TensorFlow keep the arrays that "
                                 "they are given)")
        check(code, error)
        raise AssertionError("a code that is neither 0 nor an error")

    def peek(self) -> Batch:
        """Return the next batch without taking it: ``next()`` returns it again. Raises what ``next()`` raises."""
        with self._lock:
            coming = self._fill()
            coming.thread = None
            return Batch(coming[0]._held())

    def _show_warnings(self, handle: int) -> None:
        error = CError()
        while lib.plenum_stream_take_warning(handle, byref(error)):
            text = error.text.decode("utf-8", "replace")
            if self._names_given:  # the program has set the order of the classes
                text = _ORDER_WARNING.sub("", text)
            if not text.endswith(": "):
                warnings.warn(text, LoaderWarning, stacklevel=caller())

    def __iter__(self) -> Iterator[Batch]:
        return taking(self._fill)

    def __next__(self) -> Batch:
        coming = self._fill()
        batch: Batch = coming[0]
        del coming[:]; return batch  # noqa: E702 (as in next())

    def __len__(self) -> int:
        """Return the number of batches in the whole stream, from epoch 0 on."""
        if self._is_endless:
            raise TypeError("an endless stream has no length")
        return self._batches

    @property
    def cursor(self) -> bytes:
        """The position after the last batch that the program received: 32 bytes for the checkpoint."""
        handle, coming = self._open_handle(), self._undelivered()
        return coming.cursor if coming is not None else self._cursor_of(handle)

    @property
    def place(self) -> Place:
        """Epoch and position of the next step. At the end of an epoch, this is the start of the next one."""
        handle, coming = self._open_handle(), self._undelivered()
        return coming.place if coming is not None else self._place_of(handle)

    def _cursor_of(self, handle: int) -> bytes:
        """Return the position after the last batch that the library returned."""
        cursor = CCursor()
        check(lib.plenum_stream_cursor(handle, byref(cursor)), CError())
        return bytes(cursor)

    def _place_of(self, handle: int) -> Place:
        p = CPlace()
        check(lib.plenum_stream_get_place(handle, byref(p)), CError())
        return Place(p.epoch, p.position, p.steps_left)

    def seek_to(self, epoch: int, position: int = 0) -> None:
        """Continue from a position in this stream."""
        self.seek(self._cursor_at(whole(epoch, "epoch", 0, 2**64 - 1), whole(position, "position", 0, 2**64 - 1)))

    def _cursor_at(self, epoch: int, position: int) -> bytes:
        cursor = CCursor()
        check(lib.plenum_stream_cursor_at(self._open_handle(), epoch, position, byref(cursor)), CError())
        return bytes(cursor)

    def seek(self, cursor: bytes) -> None:
        """Continue from a cursor, which may come from a run with a different number of replicas or a different
        micro-batch."""
        wanted = _cursor_from(cursor)
        handle, error = self._open_handle(), CError()
        with self._lock:
            before, coming = self._cursor_of(handle), self._undelivered()
            self._coming = None
            try:
                check(lib.plenum_stream_seek(handle, byref(wanted), byref(error)), error)
            except BaseException:
                if self._cursor_of(handle) == before:  # the stream has not moved
                    self._coming = coming
                raise

    def reshape(self, rank: int, size: int, at: Optional[bytes] = None) -> None:
        """Continue with another share of each step, because replicas have come or gone: this process is now rank
        ``rank`` of ``size``. If this process has several replicas, every process must have the same number of them.

        The next batch begins at the cursor ``at``, or after the last batch that the program received. The rest of
        the epoch is divided into steps of the new size. If all ranks continue from the same position, no sample is
        lost or shown twice. Nothing is sent to other ranks, so it works while they cannot be reached. Batches that the
        program holds stay valid. ``steps_per_epoch`` and ``len()`` change.

        Raises :class:`PlenumError` if there is no such share, if no step of this size is left (``last="drop"``), or
        with ``split="file"``, where each instance has its own data; the old share then still holds.
        """
        size = whole(size, "size, a number of ranks,", 1, _MOST)
        rank = whole(rank, "rank", 0, size - 1)
        local = self._share.num_local_replicas
        if size * local > _MOST:
            raise ValueError(f"{size} ranks of {local} replicas each are too many")
        with self._lock:
            where = _cursor_from(self.cursor if at is None else at)
            handle, error, info = self._open_handle(), CError(), CInfo()
            share = CShare(replica_offset=rank * local, num_local_replicas=local, num_replicas=size * local)
            coming = self._coming
            self._coming = None
            try:
                check(lib.plenum_stream_reshape(handle, byref(share), byref(where), byref(error)), error)
            except BaseException:
                self._coming = coming
                raise
            lib.plenum_stream_get_info(handle, byref(info))
            self.steps_per_epoch, self._batches = info.steps_per_epoch, info.batches
            changed = CJobInfo()
            ctypes.memmove(byref(changed), byref(self._share), ctypes.sizeof(changed))
            changed.replica_offset, changed.num_replicas = share.replica_offset, share.num_replicas
            self._share = changed

    def tag(self, previous: int = 0) -> int:
        """Return a 64-bit hash of the tag before the last step, the position after it, and the size of a step.

        Processes that call ``tag = stream.tag(tag)`` after every step have equal tags if and only if they have taken
        the same steps. Equal positions with different tags mean different weights: take over another process's state.
        Compare tags as integers; a float cannot hold them.
        """
        found = ctypes.c_uint64()
        where = _cursor_from(self.cursor)
        check(lib.plenum_stream_tag(self._open_handle(), whole(previous, "previous, a tag,", 0, 2**64 - 1),
                                    byref(where), byref(found)), CError())
        return found.value

    def amend(self, at: "Optional[Mapping[Any, Mapping[str, Any]]]" = None, *,
              weights: "Optional[Mapping[Any, Any]]" = None) -> None:
        """Change weights during the run. Prefetched batches are dropped.

        ``at`` changes the weights of the sets of a :class:`Mix`: ``{position: {set: weight}}``, like the option. The
        positions are counted from the start of the run, and must not have been shown yet. Changes that were
        planned at or after the first of them are dropped.

        ``weights`` changes the weights of the samples: ``{epoch: rule}``, like the option. The stream must have been
        opened with ``weights``, at least ``{}``. The epoch must not have begun, and later changes are dropped. In a
        mixture, each set has its own passes: ``{set: {pass: rule}}``.

        If the new weights are not valid, this raises, and the stream continues with the old ones.

        All instances must make the same call between the same two batches; for a stream of a :class:`Job`, this is
        checked. To resume later, open the stream with the same ``at`` and ``weights`` up to the cursor.
        """
        lines = amend_text(self.sets, at, weights).encode(errors="surrogateescape")
        handle, error = self._open_handle(), CError()
        several = self._of_job if self._of_job is not None and self._of_job.num_instances > 1 else None
        if several is not None:
            several._same_bytes(lines)
        with self._lock:
            self._go_back()
            code = lib.plenum_stream_amend(handle, lines, byref(error))
            coming = self._undelivered()
            if code == -errno.EINVAL and coming is not None:  # it may be about a batch that was only prepared
                self.seek(coming.cursor)
                code = lib.plenum_stream_amend(handle, lines, byref(error))
            self._dataset = os.fsdecode(lib.plenum_stream_get_dataset(handle))
        if several is not None:
            self._check_amended(several, code)
        check(code, error)

    def _check_amended(self, job: Job, code: int) -> None:
        """Compare what the instances will show: a file may be missing, or different, on one of the hosts."""
        try:
            job._same_bytes(self._cursor_at(2**32 - 1, 0))
        except PlenumError as problem:
            if code == 0 and problem.errno == errno.EBADMSG:
                raise PlenumError(errno.EBADMSG, "amend: the weights are no longer the same in all instances, so amend "
                                  f"them again: {problem.strerror}") from None
            if problem.errno != errno.EBADMSG:
                raise

    @property
    def classes(self) -> Optional[List[str]]:
        """The names of the classes: ``classes[label]``. None if labels are numbers and classes have no names."""
        if self._classes is None:
            result, count, error = ctypes.POINTER(ctypes.c_char_p)(), ctypes.c_uint32(), CError()
            check(lib.plenum_stream_class_names(self._open_handle(), byref(result), byref(count), byref(error)), error)
            self._classes = [os.fsdecode(result[i] or b"") for i in range(count.value)]
            libc_free(result)
        return list(self._classes) or None

    @property
    def class_to_idx(self) -> Optional[Dict[str, int]]:
        """The label of each class by its name, as in torchvision. None if classes have no names. If several classes
        share a name, or have none, the last one is used."""
        classes = self.classes
        return {name: label for label, name in enumerate(classes)} if classes is not None else None

    @property
    def targets(self) -> "npt.NDArray[np.int64]":
        """The labels of all samples, int64 [samples of the data set], in the order of the data set:
        ``targets[batch.samples]`` are the labels of a batch. With ``subset``, samples outside it have the label -1.

        The first use requests them from the loader with a stream of labels only, which reads no images: a million
        labels take about a second. If the data set has changed since this stream was opened, that raises
        :class:`PlenumError` with ``ESTALE``. The caller owns the array.
        """
        if self._targets is None:
            self._targets = self._find_targets()
        return self._targets.copy()

    def _find_targets(self) -> "npt.NDArray[np.int64]":
        self._open_handle()
        begin, end = self._first, self._first + self.num_samples
        batches = -(-self.num_samples // 65536)
        plan = labels_plan(self._dataset) if self.sets else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LoaderWarning)  # this stream shows its warnings
            with Stream(plan or self._dataset, "none", rank=0, world_size=1, epochs=1,
                        shuffle="global" if plan else "none", micro_batch=-(-self.num_samples // batches),
                        **self._reopened) as labels:
                if labels.fingerprint != self.fingerprint and not plan:
                    raise PlenumError(errno.ESTALE, f"{self._named}: the data set has changed since the stream was "
                                      "opened, so its targets may not be the labels of the batches: open another "
                                      "stream")
                targets = np.full(labels.num_samples, -1, np.int64)
                labels.seek_to(0, begin)
                for batch in labels:
                    valid = batch.valid.reshape(-1)
                    targets[batch.samples.reshape(-1)[valid]] = batch.labels.reshape(-1)[valid]
                    if batch.positions.max() >= end - 1:
                        break
        targets[:begin] = targets[end:] = -1
        if self._renumbered is not None:
            targets[begin:end] = self._renumbered(targets[begin:end])
        return targets

    def names(self, samples: "Union[Iterable[int], npt.NDArray[Any]]") -> List[str]:
        """Return the names of the given samples (for example ``batch.samples``) in the data set; in a folder, the paths
        of their files."""
        given = np.asarray(samples if isinstance(samples, np.ndarray) else list(samples)).reshape(-1)
        if given.size and (given.dtype.kind not in "iu" or given.min() < 0 or given.max() > _MOST):
            raise ValueError(f"samples must be whole numbers from 0 to {_MOST}")
        ids = np.ascontiguousarray(given, dtype=np.uint32)
        result, error = ctypes.POINTER(ctypes.c_char_p)(), CError()
        check(lib.plenum_stream_sample_names(self._open_handle(), ids.ctypes.data_as(ctypes.POINTER(ctypes.c_uint32)),
                                             len(ids), byref(result), byref(error)), error)
        names = [os.fsdecode(result[i] or b"") for i in range(len(ids))]
        libc_free(result)
        return names

    def fileno(self) -> int:
        """Return a descriptor to poll. The stream owns it: do not read from it or close it."""
        error = CError()
        descriptor: int = lib.plenum_stream_get_fd(self._open_handle(), byref(error))
        check(descriptor, error)
        return descriptor

    @property
    def ring(self) -> Tuple[int, int]:
        """Address and size in bytes of the memory that holds new batches; zeros while there is no loader."""
        ring = CRing()
        lib.plenum_stream_get_ring(self._open_handle(), byref(ring))
        return ring.base or 0, ring.bytes

    @property
    def stats(self) -> Stats:
        """Statistics so far, or up to the end of a closed stream."""
        s = CStats()
        lib.plenum_stream_get_stats(self._own_handle(), byref(s))
        return Stats(s.batches, s.samples, s.substituted, s.wait_ns * 1e-9, s.elapsed_ns * 1e-9, s.incidents,
                     s.lost_ns * 1e-9, s.ready, s.in_flight, s.loader.decode("utf-8", "replace"), s.rendered,
                     s.queue_ns * 1e-9, s.read_ns * 1e-9, s.render_ns * 1e-9, s.loader_threads, s.loader_io_threads,
                     s.loaders, s.moved, s.hedged, s.hedges_won, s.verified)

    def close(self) -> None:
        """End the stream. Views of its batches stay valid; calls in other threads raise ``EBADF``."""
        self._closed = True
        if self._handle is None:
            return
        lib.plenum_stream_shutdown(self._handle)
        if self._pid == os.getpid():
            self._show_warnings(self._handle)

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a Stream belongs to the process that opened it and cannot be copied or pickled: open another "
                        "one, and pass it this one's cursor")

    def _where(self) -> str:
        """Return the stream's position, for people."""
        if self._pid != os.getpid():
            return "of another process"
        try:
            place = self.place
        except PlenumError:
            return "closed"
        return f"at epoch {place.epoch}, position {place.position}"

    def __repr__(self) -> str:
        share = self._share
        first, count = share.replica_offset, share.num_local_replicas
        return (f"<pyplenum.Stream {self._named}: {self.num_samples} samples of {self.num_classes} classes, replicas "
                f"{first}..{first + count - 1} of {share.num_replicas}, {self._where()}>")
