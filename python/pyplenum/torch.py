# SPDX-License-Identifier: MIT
"""PyTorch: batches as tensors, a loader with a state, and models that start with the same weights in all instances.

Tensors are views of the memory that the loader wrote to, unless documented otherwise.
"""

import difflib
import errno
import functools
import io
import math
import os
import re
import threading
import warnings
import weakref
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NoReturn, Optional, Tuple, Union, cast

import numpy as np
import torch

from ._lib import PlenumError, caller, dtype_name, whole
from ._torch_device import Copier, Copies, FloatsOnDevice, To, open_copies, pinned_for_cuda
from .job import Job, job as this_job
from .normalise import IMAGENET_MEAN, IMAGENET_STD, normalise
from .stream import (Batch, Boxes, Instances, Keypoints, Place, SlotsHeldError, Stats, Stream, _Coming, shuffle_of,
                     taking)

__all__ = ["Loader", "broadcast_optimizer_state", "broadcast_parameters", "check_same", "pin_ring", "tensor", "tensors",
           "view_list"]

# NumPy's unsigned types that torch lacks. Signed integers of the same size can hold every value that occurs.
_SIGNED = {"samples": np.int32, "sizes": np.int32, "positions": np.int64, "epochs": np.int64}

_GEOMETRY = ("boxes", "flips", "sizes")

_FLOATS = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}

_FIELDS = ("images", "views", *_GEOMETRY, "labels", "labels2", "weights", "soft_labels", "valid", "samples",
           "sets", "positions", "epochs", "hash")

Parameters = Union[torch.nn.Module, Mapping[str, Any], Iterable[Tuple[str, torch.Tensor]]]


def _nothing() -> None:
    pass


def _of_numpy(array: Any) -> torch.Tensor:
    """Return a tensor from an array of any type that fields have."""
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        array = array.astype(np.int32) if array.dtype.itemsize == 2 else array.view(f"i{array.dtype.itemsize}")
    return torch.from_numpy(array)


def _rows(array: Any) -> Any:
    """Return the array of a batch with one axis for its samples; the others may have the length 0."""
    return array.reshape((math.prod(array.shape[:3]),) + array.shape[3:])


def _no_field(field: str) -> ValueError:
    if field in ("names", "paths", "filenames", "index", "indices"):
        return ValueError(f"a batch has no '{field}': use \"samples\", their numbers in the data set: "
                          "loader.stream.names(samples) returns the names of their files")
    near = difflib.get_close_matches(field, _FIELDS, 1)
    return ValueError(f"a batch has no '{field}'{f' (did you mean {near[0]!r}?)' if near else ''}: it has "
                      f"{', '.join(_FIELDS)}; a field of the data set has a colon, as in 'caption:txt'")


def tensor(batch: Batch, field: str) -> torch.Tensor:
    """Return one array of a batch as a tensor, with steps, replicas and micro-batch merged into one dimension.

    ``field`` is "images" (int8 or uint8 [N, H, W, C] or [N, C, H, W]), "labels" (int64 [N]), "valid" (bool [N]),
    "samples" (int32 [N]), "positions" (int64 [N]), "boxes" (float32 [N, 4]), "flips" (uint8 [N]), "sizes" (int32
    [N, 2]) or "epochs" (int64 [S]). If the pipeline ends with mixup, cutmix or mix, it can also be "labels2" (int64
    [N]) or "weights" (float32 [N], the weights of "labels"). With a :class:`pyplenum.Mix`, it can also be "sets" (uint8
    [N], an index of ``stream.sets``). The tensor is a view of the ring and may be changed in
    place; the slot is free once the last view of it is gone.
    """
    if field == "images":
        return torch.from_numpy(batch.images)
    if field not in _FIELDS:
        raise _no_field(field)
    if field == "views":
        raise ValueError("views are several tensors: use pyplenum.torch.view_list(batch)")
    if field == "hash":
        raise ValueError("a batch's hash is an int, too large for a tensor: use batch.hash()")
    if field == "soft_labels":
        raise ValueError("soft labels need the number of classes: use torch.from_numpy(batch.soft_labels(num_classes))")
    array = getattr(batch, field)
    if array is None and field in _GEOMETRY:
        raise ValueError(f"a batch has '{field}' only from a loader with protocol version 1.9 or later")
    if array is None and field == "sets":
        raise ValueError("a batch has 'sets' only if the data set is a Mix, or a plan")
    if array is None:
        raise ValueError(f"a batch has '{field}' only if the pipeline ends with mixup, cutmix or mix")
    if isinstance(array, dict):
        raise ValueError(f"{field} are several tensors if the pipeline has views: use "
                         f"pyplenum.torch.view_list(batch, {field!r})")
    array = _rows(array) if field in _GEOMETRY else array.reshape(-1)
    return torch.from_numpy(array.view(_SIGNED[field]) if field in _SIGNED else array)


def view_list(batch: Batch, field: str = "views") -> List[torch.Tensor]:
    """Return all images of a batch whose pipeline has views, as the reference loops of SimCLR, DINO and others expect
    them.

    Returns one tensor for each image of a sample, int8 or uint8 [N, C, H, W] or [N, H, W, C], in the pipeline's order.
    (``torch.from_numpy(batch.views[name])`` has all images of one view in one tensor.) The tensors are views of the
    ring, like those of :func:`tensor`. ``field`` can also be "boxes" (float32 [N, 4]) or "flips" (uint8 [N]).
    """
    if field not in ("views", "boxes", "flips"):
        raise ValueError(f"field must be views, boxes or flips, not {field!r}")
    if not batch.views:
        raise ValueError("the pipeline has no views: request \"images\", or write view(NAME, COUNT, STAGES) ...")
    return [torch.from_numpy(_rows(array)[:, i])
            for array in getattr(batch, field).values() for i in range(array.shape[3])]


def tensors(batch: Batch) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return ``(images, labels, valid)`` of a batch: see :func:`tensor`."""
    return tensor(batch, "images"), tensor(batch, "labels"), tensor(batch, "valid")


class _Given(_Coming):
    """The next batch of a loop that copies batches to a device, with the positions before and after it."""

    __slots__ = ("behind",)

    def __init__(self, cursor: bytes, place: Place) -> None:
        super().__init__()
        self.cursor, self.place = cursor, place
        self.behind = cursor, place
        self.made = True


def _of_each(objects: Any, change: Any) -> Any:
    """Return Boxes, Keypoints or Instances with each of their arrays changed."""
    return type(objects)(*(part if isinstance(part, tuple) else change(part) for part in objects))


def _copied(made: Any) -> Any:
    """Return a copy with the same structure."""
    if isinstance(made, torch.Tensor):
        return made.clone()
    if isinstance(made, (Boxes, Keypoints, Instances)):
        return _of_each(made, _copied)
    return type(made)(map(_copied, made)) if isinstance(made, (list, tuple)) else made


class _Loop:
    """One loop over a Loader."""

    __slots__ = ("epoch", "ended")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.ended = False


class _DataSet:
    """Has the attributes that programs use of a DataLoader's ``dataset``. It does not provide samples."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __len__(self) -> int:
        return self._stream.num_positions

    @property
    def classes(self) -> Optional[List[str]]:
        """The names of the classes: ``classes[label]``. None if labels are numbers without names."""
        return self._stream.classes

    @property
    def class_to_idx(self) -> Optional[Dict[str, int]]:
        """The label of each class by its name. None if classes have no names."""
        return self._stream.class_to_idx

    @property
    def targets(self) -> List[int]:
        """The labels of all samples, in the order of the data set. With ``subset``, samples outside it have -1. The
        first use requests the labels from the loader, which reads no images. ``loader.stream.targets`` is an array of
        the same labels."""
        return cast(List[int], self._stream.targets.tolist())

    def __getitem__(self, index: Any) -> NoReturn:
        raise TypeError("a Loader's dataset has a length and classes, but no samples: loop over the Loader for batches")


class Loader:
    """Batches of tensors, one epoch per loop, with a state: a replacement for a DataLoader.

    >>> loader = Loader("/data/train", micro_batch=64)  # doctest: +SKIP
    >>> for epoch in range(90):
    ...     for images, labels in loader:
    ...         train(images, labels)
    ...     torch.save({"loader": loader.state_dict(), ...}, "checkpoint.pt")

    Each ``for`` loop iterates over one epoch, and the next loop over the next epoch. Leaving a loop early skips the
    rest of its epoch. If an error of the loader ended the loop (a warning turned into an error, a lost loader), the
    next loop continues where it stopped. ``len()`` is the number of batches per epoch, the same in all instances.

    ``peek()`` shows the next batch without taking it. ``next(iter(loader))`` counts as a loop that is left early.

    ``state_dict()`` returns the position after the last batch that the loop received, even in mid-epoch. If an
    exception, even one from a signal handler, interrupts the loop, no batch is lost. Only the built-in ``next()`` can
    lose a batch, if a signal handler raises just as ``next()`` returns. After ``load_state_dict()``, the next loop
    continues from that position to the end of its epoch. This works like torchdata's StatefulDataLoader, but the state
    is valid for any number of instances and any micro-batch, and resuming does not read the skipped batches.

    Threads that share one loop take turns: each batch goes to one of the threads, and the loop ends in all threads.

    A Loader belongs to the process that created it. It has no worker processes and cannot be passed to a DataLoader.

    A Loader has the parameters of :class:`Stream`, with the defaults ``layout="nchw"`` and ``dtype="uint8"``, and:

    fields
        The elements of each batch, a tuple. Default: ("images", "labels"); ("views", "labels") if the pipeline has
        views; ("images", "soft_labels") if it ends with mixup, cutmix or mix, like torchvision's MixUp and CutMix.

        - The names of :func:`tensor`. With mixing, "labels" without "weights" or "soft_labels" raises ValueError.
        - "soft_labels": float32 [N, num_classes], from ``Batch.soft_labels()``, for ``cross_entropy()``.
        - "views": a list of tensors, from :func:`view_list`.
        - "hash": an int, :meth:`Batch.hash`. The sum over all batches of all instances, modulo 2**64, equals the output
          of ``plenumctl hash``.
        - Names with a colon, such as "caption:txt" or "mask:seg.png:mask": further data of each sample, as in the
          ``fields`` of a :class:`Stream`. Text is a list of str, bytes a list of bytes; numbers and arrays are tensors
          [N, ...], masks [N, H, W], boxes :class:`pyplenum.Boxes` of tensors, key points
          :class:`pyplenum.Keypoints`, and instances :class:`pyplenum.Instances` of tensors, whose ``masks(i)`` returns
          those of image i. With views, masks, boxes, key points and instances are lists of these, like "views".
          Unsigned integers become signed tensors: uint16 becomes int32, others keep their bits.
    dtype
        "uint8" or "int8", as in a Stream; or "float32", "float16" or "bfloat16"; or the corresponding type of torch or
        NumPy. With floats, images and views are copies with three channels, and their values are
        (pixel / 255 - mean) / std for each channel (:func:`pyplenum.normalise`). With ``device``, bytes are copied to
        the device and converted to floats there.
    mean, std
        For floats: values for red, green and blue, in units where pixels are 0 ... 1. They default to ImageNet's.
    smoothing
        Label smoothing for "soft_labels", 0 by default.
    last
        What happens at the end of an epoch.

        - "partial": the last batch of an epoch is shorter, so that each sample counts once, as in a DataLoader. All
          instances have the same number of batches, but the last one may be shorter in some, or even empty if fewer
          samples than instances are left: compute sums, not means.
        - "pad": the last batch is padded with samples whose "valid" is False, so that all batches have the same shape.
        - "drop": samples that do not fill a step are dropped.

        The default is "partial" with a single instance or if shuffle is "none" (evaluation). It is "pad" if several
        instances train together, because the mean over an empty batch is NaN. In that case a UserWarning reports epochs
        that are padded, unless "valid" is among the fields.
    deal
        As in a Stream. The default is "round-robin" if shuffle is "none" and "last" leaves short batches, so that
        instances share the last step evenly.
    device
        Device of the tensors in a batch, such as "cuda". The Loader copies the tensors in advance, on its own CUDA
        stream and from pinned memory, so that they are ready for the loop's next operation. Text, bytes and names stay
        on the host. "cuda" is the device that is current when the Loader is created; "cpu" means no device.
        ``loader.stats`` has the time that copies took, and how long the loop waited for them.
    prefetch
        Number of batches that are copied to the device in advance, within an epoch (default 2). Do not confuse it with
        ``prefetch_depth``, the number of batches that the loader renders in advance, which should not be smaller.
    memory_format
        With torch.channels_last, images and views have this memory format, but still the shape [N, C, H, W];
        ``layout`` is then "nhwc".
    pin_memory
        Copy each batch into torch's pinned memory, so that ``.to(device, non_blocking=True)`` need not wait. The slot
        is free at once. Without an accelerator there is a warning and no copy, as in a DataLoader.
    copy
        Copy each batch. Without this (and without ``pin_memory``), a batch holds a slot of the ring until its last
        tensor is gone, and the program can hold at most ``slots`` of them.

    The number of steps in an epoch must be a multiple of ``steps``, because each batch of a Loader belongs to one
    epoch.

    ``len(loader.dataset)`` is the number of samples in an epoch. ``loader.dataset.classes``, ``class_to_idx`` and
    ``targets`` work as in torchvision's ImageFolder, and ``loader.batch_size`` works as in a DataLoader. Pass
    ``classes=train.dataset.classes`` to give a validation set the class numbers of its training set.

    ``stream`` is the underlying :class:`Stream`, for its properties: ``loader.stream.num_samples``, ``num_classes``,
    ``classes``, ``fingerprint`` and ``names()``. The Loader itself takes batches from this stream and moves its
    position, so call neither ``next()`` nor ``seek()`` on it.
    """

    def __init__(self, dataset: "Union[str, os.PathLike[str]]", pipeline: str = "train", *,
                 fields: Optional[Iterable[str]] = None, smoothing: float = 0.0, pin_memory: bool = False,
                 copy: bool = False, layout: Optional[str] = None, dtype: Any = None,
                 device: "Union[str, int, torch.device, None]" = None, prefetch: int = 2,
                 memory_format: torch.memory_format = torch.contiguous_format,
                 mean: Any = None, std: Any = None, last: Optional[str] = None,
                 seed: int = 0, shuffle: Union[str, bool] = "global", deal: Optional[str] = None,
                 **options: Any) -> None:
        if "epochs" in options:
            raise TypeError("a Loader has no 'epochs': each loop over it is one epoch")
        if isinstance(fields, str):
            raise TypeError(f"fields must be a sequence of names, as in fields=({fields!r},)")
        self._fields_were_chosen = fields is not None
        self._fields_fit = False  # checked with the first batch
        chosen = ("images", "labels") if fields is None else tuple(fields)
        of_data = [field for field in chosen if ":" in field]
        self.fields = tuple(field.split(":")[0].strip() for field in chosen)
        self._of_data = {field.split(":")[0].strip() for field in of_data}
        for field in chosen:
            if field not in of_data and field not in _FIELDS:
                raise _no_field(field)
        for field in self._of_data & set(_FIELDS):
            raise ValueError(f"a field of the data set cannot be called {field!r}, because every batch already has "
                             "such a field")
        if last not in (None, "pad", "drop", "partial"):
            raise ValueError(f"last must be one of pad, drop, partial, not {last!r}")
        if not 0 <= smoothing <= 1:
            raise ValueError(f"smoothing must be from 0 to 1, not {smoothing}")
        self.smoothing = smoothing
        self.copy = copy
        self.pin_memory = pin_memory
        if pin_memory and not torch.cuda.is_available():
            warnings.warn("pin_memory was requested, but there is no accelerator: memory is not pinned",
                          stacklevel=caller())
            self.pin_memory = False
        order, dropped = shuffle_of(shuffle), last == "drop"
        if deal is None:
            deal = "round-robin" if order == "none" and last in (None, "partial") else "consecutive"
        dtype = dtype_name(dtype)
        self._floats: Optional[torch.dtype] = None
        if dtype in _FLOATS.values():
            self._floats, dtype = getattr(torch, dtype), "uint8"
        elif dtype not in (None, "uint8", "int8"):
            raise ValueError(f"dtype must be 'uint8', 'int8' or one of {', '.join(_FLOATS.values())}, or the torch or "
                             f"NumPy dtype of that name, not {dtype!r}")
        elif mean is not None or std is not None:
            raise ValueError("mean and std apply to floats: add dtype=torch.float32, or another float type")
        self._mean, self._std = IMAGENET_MEAN if mean is None else mean, IMAGENET_STD if std is None else std
        if memory_format not in (torch.contiguous_format, torch.channels_last):
            raise ValueError("memory_format must be torch.contiguous_format or torch.channels_last, not "
                             f"{memory_format}")
        self._channels_last = memory_format == torch.channels_last
        if self._channels_last and layout not in (None, "nhwc"):
            raise ValueError(f"memory_format=torch.channels_last needs layout='nhwc', not {layout!r}")
        layout = self._layout = layout or ("nhwc" if self._channels_last else "nchw")
        if self._floats:  # raises if mean or std is invalid
            normalise(np.zeros((0, 1, 1, 3), np.uint8), self._mean, self._std)
        self._copier: Optional[Copier] = None
        self._on_device: Optional[FloatsOnDevice] = None
        self._prefetch = whole(prefetch, "prefetch, batches copied ahead,", 0, 64)
        self._failed: Optional[Exception] = None  # while batches are ahead of the loop
        self._given: Optional[_Given] = None  # the stream may be ahead of the loop
        self._astray = False  # was a batch taken from the stream and lost?
        if device is not None and torch.device(device).type != "cpu":
            if pin_memory:
                raise ValueError("with a device, batches are pinned in place: leave pin_memory out")
            self._use_device(open_copies(device), options)
        self.dtype = dtype or "uint8"
        self._dtype_was_chosen = dtype is not None
        self.stream = Stream(dataset, pipeline, layout=layout, dtype=self.dtype, last="drop" if dropped else "pad",
                             seed=seed, shuffle=order, deal=deal, fields=of_data,
                             **options)
        back = weakref.WeakMethod(self._go_back)
        self.stream._go_back = lambda: (back() or _nothing)()
        pads_unasked = last is None and order != "none" and self.stream._share.num_instances > 1
        if last is None:
            last = "pad" if pads_unasked else "partial"
        self.last: str = last
        # Everything that determines the order, to explain why a state does not fit.
        self._choices = {"data set": self.stream.fingerprint.hex(), "pipeline": pipeline, "seed": int(seed),
                         "shuffle": order, "last": "drop" if dropped else "pad", "subset": options.get("subset"),
                         "repeat": int(options.get("repeat", 1)), "split": options.get("split", "sample")}
        steps = int(options.get("steps", 1))
        if self.stream.steps_per_epoch % steps:
            self.stream.close()
            raise ValueError(f"an epoch has {self.stream.steps_per_epoch} steps, which is not a multiple of the "
                             f"{steps} steps of a batch: choose another number, or use pyplenum.Stream, whose batches "
                             "may cross an epoch's end")
        if pads_unasked and "valid" not in self.fields and self._is_filled_up(options):
            warnings.warn("the last batch of an epoch is padded with samples that do not count: for an evaluation, "
                          "pass last=\"partial\" (each sample counts once) or request the field \"valid\"; for "
                          "training, pass last=\"pad\" or last=\"drop\"",
                          stacklevel=caller())
        self._steps = steps
        self._micro_batch = int(options.get("micro_batch", 1))
        self._loaded = True  # the next loop begins at the stream's position, even in mid-epoch
        self._loop: Optional[_Loop] = None  # the newest loop; None: a position was set since
        self._fresh = True  # no loop has finished an epoch since the position was set, or begun another one

    def _use_device(self, copies: Copies, options: Dict[str, Any]) -> None:
        self._copier = Copier(copies)
        if self._floats:
            self._on_device = FloatsOnDevice(self._mean, self._std, self._floats, self._layout)
        if copies.device.type == "cuda" and "on_ring" not in options:
            options["on_ring"] = pinned_for_cuda(copies.device)

    def _is_filled_up(self, options: Mapping[str, Any]) -> bool:
        """Do the steps of an epoch need more positions than it has?"""
        share = self.stream._share
        # each part has its own positions
        replicas = share.num_local_replicas if options.get("split") == "file" else share.num_replicas
        return bool(
            self.stream.steps_per_epoch * replicas * int(options.get("micro_batch", 1)) > self.stream.num_positions)

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        return self.stream.steps_per_epoch // self._steps

    def __getitem__(self, index: Any) -> NoReturn:
        raise TypeError("a Loader is not a data set for a DataLoader, but replaces the DataLoader: get its "
                        "batches with a loop: for images, labels in loader")

    @property
    def batch_size(self) -> int:
        """Samples in a full batch of this process: steps times its replicas times micro_batch."""
        return self._steps * int(self.stream._share.num_local_replicas) * self._micro_batch

    @property
    def dataset(self) -> _DataSet:
        """The number of samples in an epoch, their classes (``classes``, ``class_to_idx``) and labels (``targets``),
        for programs that read these from a DataLoader's dataset."""
        return _DataSet(self.stream)

    @property
    def _stands(self) -> Optional[Tuple[bytes, Place]]:
        """The position after the last batch that the loop received, if the stream is ahead of the loop."""
        given = self._given
        if given is None:
            return None
        return (given.cursor, given.place) if given.is_kept() else given.behind

    @property
    def _place(self) -> Place:
        stands = self._stands
        return stands[1] if stands else self.stream.place

    @property
    def epoch(self) -> int:
        """The epoch of the next batch: that of the current loop, or the next one after its last batch. After a loop
        that was left early it is still that loop's epoch; the next loop begins ``epoch + 1``."""
        return self._place.epoch

    @property
    def stats(self) -> Stats:
        """Statistics of the stream and of copies to the device, so far or up to :meth:`close`."""
        found = self.stream.stats
        if not self._copier:
            return found
        copied, copy_waited = self._copier.copies.times()
        return found._replace(copied=copied, copy_waited=copy_waited)

    def __iter__(self) -> Iterator[Tuple[Any, ...]]:
        with self.stream._lock:
            self._go_back()
            place = self.stream.place
            if place.position != 0 and not self._loaded:
                self._warn_of_rest(place)
                self.stream.seek_to(place.epoch + 1)  # the last loop was left early
                place = self.stream.place
                self._loaded = True  # Lightning calls iter() twice: a loop that takes no batch must skip none
            loop = self._loop = _Loop(place.epoch)
            return taking(functools.partial(self._fill, loop))

    def _warn_of_rest(self, place: Place) -> None:
        """Warn if the first loop was left early: programs that do so only to look at the data train for one epoch
        less."""
        if self._fresh and self._choices["shuffle"] != "none":
            taken = len(self) - place.steps_left // self._steps
            warnings.warn(f"the previous loop was left after {taken} of {len(self)} batches of epoch {place.epoch}, "
                          f"and this one runs epoch {place.epoch + 1}: loader.peek() shows a batch without taking "
                          f"it, and loader.set_epoch({place.epoch}) goes back", stacklevel=caller())
        self._fresh = False

    def peek(self) -> Tuple[Any, ...]:
        """Return a copy of the next batch without taking it.

        Use it to look at the data before training: it does not affect loops, ``epoch`` or ``state_dict()``. Within a
        loop it returns that loop's next batch, or at its end the first one of the next epoch.
        """
        with self.stream._lock:
            coming = self._ready()
            coming.thread = None
            return cast(Tuple[Any, ...], _copied(coming[0]))

    def _fill(self, loop: _Loop) -> _Coming:
        """Prepare the next batch of a loop."""
        loaded = self._loaded
        try:
            with self.stream._lock:
                if loop is self._loop and self._place.epoch == loop.epoch:
                    self._loaded = False
                    return self._ready()
                if loop is self._loop:
                    loop.ended = True
                    self._fresh = False
        except BaseException as error:
            self._loaded = loaded or isinstance(error, Exception)  # the next loop continues here
            raise
        if not loop.ended:
            raise RuntimeError("another loop over this loader has begun, and only the newer of two loops can continue")
        raise StopIteration

    def _ready(self) -> _Coming:
        return self._ready_on_device(self._copier) if self._copier else self.stream._fill(None, self._tensors)

    def _ready_on_device(self, copier: Copier) -> _Coming:
        """Return the next batch, and start copying the ready ones after it in this epoch."""
        self.stream._open_handle()  # raises an error if the stream is closed or belongs to another process
        if self._given is None or self._astray:
            self._go_back()
            self._given, self._astray = _Given(self.stream.cursor, self.stream.place), False
        given = self._given
        if given.is_kept():
            return given
        if copier.ahead and copier.ahead[0].cursor == given.behind[0]:
            copier.ahead.popleft()  # the loop has received it, but was interrupted before the last line below
        self._astray = True  # until every batch taken from the stream is among the copies
        self._copy_ahead(copier, given.behind[1].steps_left // self._steps)
        self._astray = False
        if not copier.ahead and self._failed:
            failed, self._failed = self._failed, None
            self._astray = True
            raise failed
        ahead = copier.ahead[0]
        coming = _Given(*given.behind)
        coming.append(copier.copies.take(ahead.ticket))
        coming.behind, coming.thread = (ahead.cursor, ahead.place), threading.get_ident()
        self._given = coming
        copier.ahead.popleft()
        return coming

    def _copy_ahead(self, copier: Copier, left: int) -> None:
        """Start copying batches that are ready, at most ``left`` ones, the rest of this epoch."""
        copier.give_back()
        while not self._failed and len(copier.ahead) < min(1 + self._prefetch, left):
            try:
                batch = self.stream.next(timeout=0 if copier.ahead else None)
            except TimeoutError:
                break
            except SlotsHeldError:
                if copier.ahead:
                    break
                if not copier.give_back(wait=True):
                    raise
                continue
            except Exception as error:
                if not copier.ahead:
                    raise
                # The loop raises the error after the batches that come first. Until then, it must keep no frame or
                # batch alive.
                self._failed = error.with_traceback(None)
                break
            copier.begin(batch, functools.partial(self._tensors, batch), self.stream.cursor, self.stream.place)

    def _go_back(self) -> None:
        """Drop what was copied in advance, and move the stream back to the loop's position."""
        stands = self._stands
        if self._copier and stands:
            if self._copier.ahead:
                self._copier.drop()
            if self.stream.cursor != stands[0]:
                self.stream.seek(stands[0])
        self._given = self._failed = None

    def _tensor(self, batch: Batch, field: str) -> Union[torch.Tensor, List[torch.Tensor]]:
        if field == "views" or field in ("boxes", "flips") and batch.views:
            return view_list(batch, field)
        if field != "soft_labels":
            return tensor(batch, field)
        classes = self.stream.num_classes
        return torch.from_numpy(batch.soft_labels(classes, self.smoothing).reshape(-1, classes))

    def _check_fields(self, batch: Batch) -> None:
        """Check that the fields fit this pipeline; choose them if the program did not."""
        mixes, views = batch.weights is not None, batch.views
        if not self._fields_were_chosen and mixes:
            self.fields = ("images", "soft_labels")
        if not self._fields_were_chosen and views:
            self.fields = ("views", "labels")
        if not views and "images" in self.fields and batch.pixels.size == 0:
            raise ValueError("the pipeline 'none' produces no images: choose the fields of a batch with fields=")
        if mixes and "labels" in self.fields and not {"weights", "soft_labels"} & set(self.fields):
            raise ValueError("the pipeline mixes samples, so labels are not enough: request the field "
                             "\"soft_labels\", or \"labels2\" and \"weights\"")
        self._fields_fit = True

    def _tensors(self, batch: Batch, to: Optional[To] = None) -> Tuple[Any, ...]:
        if not self._fields_fit:
            self._check_fields(batch)
        counts = batch.valid.reshape(-1) if self.last == "partial" else None
        if counts is not None and batch.num_valid == len(counts):
            counts = None  # all samples count
        valid = None if counts is None else torch.from_numpy(counts)

        def finish(array: torch.Tensor, field: str) -> torch.Tensor:
            if valid is not None and field != "epochs":
                array = array[valid]
            if to:
                return to(array)
            if self.pin_memory:
                return array.contiguous().pin_memory()
            return array.clone() if self.copy else array

        def make(field: str) -> Any:
            if field in self._of_data:
                return self._field_of_data(batch, field, None if counts is None else counts.tolist(), finish)
            if field in ("images", "views"):
                return self._pixels(batch, field, finish, counts)
            if field == "hash":
                return batch.hash()
            found = self._tensor(batch, field)
            return [finish(each, field) for each in found] if isinstance(found, list) else finish(found, field)

        return tuple(make(field) for field in self.fields)

    def _field_of_data(self, batch: Batch, field: str, valid: Optional[List[bool]], finish: Any) -> Any:
        """Return a field of the data set for a batch's samples; only for the valid ones, unless ``valid`` is None."""
        value = batch[field]
        if isinstance(value, list):
            return value if valid is None else [each for each, counts in zip(value, valid) if counts]
        if isinstance(value, (Boxes, Keypoints, Instances)):
            return _of_each(value, lambda array: finish(_of_numpy(_rows(array)), field))
        if isinstance(value, dict) and isinstance(next(iter(value.values())), (Boxes, Keypoints, Instances)):
            return [_of_each(each, lambda array: finish(
                        _of_numpy(_rows(array)[:, i]), field))  # noqa: B023 - called at once
                    for each in value.values() for i in range(each.counts.shape[3])]
        if isinstance(value, dict):  # a mask for each view
            rows = [_rows(array)[:, i] for array in value.values()
                    for i in range(array.shape[3])]
            return [finish(_of_numpy(row), field) for row in rows]
        return finish(_of_numpy(_rows(value)), field)

    def _pixels(self, batch: Batch, field: str, finish: Any, valid: Any) -> Any:
        """Return a batch's images, or a list of those of its views; only of the valid samples, unless ``valid`` is
        None."""
        if field == "views" and not batch.views:
            view_list(batch)  # raises an error
        made: List[torch.Tensor] = []
        for array in batch.views.values() if field == "views" else (batch.images,):
            array = _rows(array) if field == "views" else array
            if self._floats and not self._on_device:
                pixels = self._floats_of(array if valid is None else array[valid])
            else:
                pixels = finish(torch.from_numpy(array), field)
            if self._on_device:
                pixels = self._on_device(pixels)
            if self._channels_last:
                pixels = pixels.movedim(-1, -3)
            made += [pixels[:, i] for i in range(pixels.shape[1])] if field == "views" else [pixels]
        return made if field == "views" else made[0]

    def _floats_of(self, array: Any) -> torch.Tensor:
        shape = list(array.shape)
        shape[-3 if self._layout == "nchw" else -1] = 3
        floats = torch.empty(shape, dtype=self._floats, device="cpu", pin_memory=self.pin_memory)
        out = floats.view(torch.int16).numpy().view("u2") if self._floats == torch.bfloat16 else floats.numpy()
        normalise(array, self._mean, self._std, _FLOATS[self._floats], out=out, source=self._layout)
        return floats

    def set_epoch(self, epoch: int) -> None:
        """Make the next loop iterate over this epoch, from its start."""
        with self.stream._lock:
            self._go_back()
            self.stream.seek_to(epoch)
            self._loop = None
            self._loaded = self._fresh = True

    def reshape(self, rank: int, size: int, at: Optional[Mapping[str, Any]] = None) -> None:
        """Continue as rank ``rank`` of ``size``, because replicas have come or gone: see :meth:`Stream.reshape`.

        It may be called within a loop, which then continues with the rest of its epoch, after the last batch that
        it received; or from ``at``, the :meth:`state_dict` of a rank whose weights this one has taken over. If
        that is in another epoch, the loop ends, and the next one continues there. ``len(loader)`` changes. After a
        loop's end, the next loop begins the next epoch, even if the last one has dropped samples (``last="drop"``) that
        would fill a step of the new size.
        """
        where = self._cursor_in(at) if at is not None else None
        with self.stream._lock:
            self._go_back()
            share = self.stream._share
            local, before = share.num_local_replicas, self.stream.cursor
            old = (share.replica_offset // local, share.num_replicas // local)
            try:
                self.stream.reshape(rank, size, self._cursor() if where is None else where)
            except PlenumError as error:
                raise self._explained(error, at) from None
            left = self.stream.place.steps_left
            if left % self._steps or self.stream.steps_per_epoch % self._steps:
                self.stream.reshape(*old, before)
                raise ValueError(f"with {size} ranks, the epoch has {left} steps left, which is not a multiple of the "
                                 f"{self._steps} steps of a batch")
            self._loaded = True  # for whichever loop is next

    def state_dict(self) -> Dict[str, Any]:
        """Return the position after the last batch that a loop received, even if the loop was interrupted since. It is
        equal in all instances, so storing it once is enough."""
        return {"version": 1, "cursor": self._cursor().hex(), "dtype": self.dtype, "made with": dict(self._choices)}

    def _cursor(self) -> bytes:
        """Return the position after the last batch that a loop received. After an epoch that dropped its last samples,
        this is the start of the next epoch, even if another world size could fill a step with them."""
        place, stands = self._place, self._stands
        if self._choices["last"] == "drop" and place.position == 0:
            return self.stream._cursor_at(place.epoch, 0)
        return stands[0] if stands else self.stream.cursor

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make the next loop continue from this state, to the end of its epoch."""
        cursor = self._cursor_in(state)
        self._go_back()
        before = self.stream.cursor
        try:
            self.stream.seek(cursor)
        except PlenumError as error:
            raise self._explained(error, state) from None
        left = self.stream.place.steps_left
        if left % self._steps:
            self.stream.seek(before)
            raise ValueError(f"the epoch has {left} steps left there, which is not a multiple of the {self._steps} "
                             "steps of a batch")
        self._loop = None
        self._loaded = self._fresh = True

    def _cursor_in(self, state: Mapping[str, Any]) -> bytes:
        """Return the cursor in a state. Raise ValueError if it is not a state that this loader can load."""
        found = state.get("cursor") if isinstance(state, Mapping) and state.get("version") == 1 else None
        if not isinstance(found, str) or not re.fullmatch("[0-9a-f]{64}", found):
            raise ValueError("this is not a state of a pyplenum.torch.Loader, or it has a different version")
        if "dtype" not in state and not self._dtype_was_chosen:
            raise ValueError("this state was made when a Loader returned int8 by default, but the default is now "
                             "uint8: pass dtype=\"int8\" to continue as before")
        return bytes.fromhex(found)

    def _explained(self, error: PlenumError, state: Optional[Mapping[str, Any]]) -> PlenumError:
        """Return an error about a state's cursor, extended by the options that differ."""
        return PlenumError(error.errno, f"{error.strerror}{self._differences(state) if state else ''}")

    def _differences(self, state: Mapping[str, Any]) -> str:
        made = state.get("made with")
        if not isinstance(made, Mapping):
            return ""
        # States record "partial" as "pad", and None becomes one of these two: show the value in use now.
        here = {**self._choices, "last": self.last}
        differ = [f"{name} was {made[name]!r} and is now {here[name]!r}" for name, now in self._choices.items()
                  if name in made and made[name] != now]
        if made.get("last", self._choices["last"]) != self._choices["last"]:
            differ.append(f"pass last={made['last']!r} to continue as before")
        return f": {'; '.join(differ)}" if differ else ""

    def close(self) -> None:
        """End the stream. Tensors of its batches stay valid."""
        try:
            if self._copier:
                self._copier.drop()
        finally:
            self.stream.close()

    def __enter__(self) -> "Loader":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a Loader belongs to the process that created it and cannot be copied or pickled: create it in "
                        "the process that uses its batches, and pass its state_dict() to that process")

    def __repr__(self) -> str:
        fields = f" of ({', '.join(self.fields)})" if self._fields_were_chosen or self._fields_fit else ""
        return (f"<pyplenum.torch.Loader {self.stream._named}: {len(self)} batches an epoch{fields}, "
                f"{self._floats or self.dtype}, last={self.last!r}, {self.stream._where()}>")


def _named(parameters: Parameters) -> List[Tuple[str, torch.Tensor]]:
    pairs: Iterable[Tuple[Any, Any]]
    if isinstance(parameters, torch.nn.Module):
        pairs = parameters.state_dict().items()
    elif isinstance(parameters, Mapping):
        pairs = parameters.items()
    else:
        pairs = cast(Iterable[Tuple[str, torch.Tensor]], parameters)
    return [(str(name), value.detach()) for name, value in pairs if isinstance(value, torch.Tensor)]


def _check_alike(job: Job, named: List[Tuple[str, torch.Tensor]]) -> None:
    """Check that names, shapes and types agree before any data moves. This is a collective."""
    text = "\n".join(f"{name} {tuple(value.shape)} {value.dtype}" for name, value in named)
    try:
        job.same(np.frombuffer(text.encode() or b" ", np.uint8))
    except PlenumError as error:
        if error.errno == errno.EBADMSG:
            raise PlenumError(error.errno, f"the models differ in names, shapes or types: {error.strerror}") from None
        raise


def _on_host(value: torch.Tensor) -> torch.Tensor:
    """Return the tensor itself if a collective can work on it, otherwise a copy."""
    value = value.resolve_conj().resolve_neg()
    return value if value.device.type == "cpu" and value.is_contiguous() else value.cpu().contiguous()


def broadcast_parameters(parameters: Parameters, root: int = 0, *, job: Optional[Job] = None) -> None:
    """Copy a model (parameters and buffers), a state_dict or named tensors of instance ``root`` to all, in place.

    A collective. Tensors that are on a device, or not contiguous, go through a copy in host memory. Raises ``EBADMSG``,
    naming the instance, if the models have different tensors.
    """
    job = job or this_job()
    named = _named(parameters)
    _check_alike(job, named)
    for _, value in named:
        host = _on_host(value)
        job.broadcast(host, root)
        if host is not value:
            value.copy_(host)


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root: int = 0, *, job: Optional[Job] = None) -> None:
    """Copy the state and options of the optimizer in instance ``root`` to all, even if they have no state yet.

    A collective. For a run that resumes from a checkpoint that only ``root`` has read.
    """
    job = job or this_job()

    def save() -> bytes:
        buffer = io.BytesIO()
        torch.save(optimizer.state_dict(), buffer)
        return buffer.getvalue()

    data = job._broadcast_pickled("broadcast_optimizer_state", save, root)
    if job.instance_index != root:
        optimizer.load_state_dict(torch.load(io.BytesIO(data), map_location="cpu", weights_only=False))  # our own data


def check_same(parameters: Parameters, *, job: Optional[Job] = None) -> None:
    """Raise ``EBADMSG``, naming tensor and instances, unless the models of all instances hold the same bytes.

    A collective. It reads each tensor once. Checking every few hundred steps detects weights that drift apart.
    """
    job = job or this_job()
    named = _named(parameters)
    _check_alike(job, named)
    for name, value in named:
        try:
            job.same(_on_host(value))
        except PlenumError as error:
            if error.errno == errno.EBADMSG:
                raise PlenumError(error.errno, f"{name}: {error.strerror}") from None
            raise


def pin_ring(address: int, size: int, present: bool) -> None:
    """Pin the memory of batches for CUDA: ``Stream(..., on_ring=pyplenum.torch.pin_ring)``.

    A batch's tensors can then be copied to the device with ``non_blocking=True`` and without an intermediate copy. Hold
    the batch until that copy is complete.
    """
    if torch.cuda.is_available():
        pinned_for_cuda()(address, size, present)
