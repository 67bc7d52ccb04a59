# SPDX-License-Identifier: MIT
"""Conversion of pixels to the normalised floats that a network takes."""

import ctypes
from typing import Any, Dict, Optional, Sequence, Tuple, Union

import numpy as np
import numpy.typing as npt

from ._lib import CError, CImages, byref, c_void_p, check, dtype_name, lib

__all__ = ["normalise"]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

# In the order of enum plenum_float and of enum plenum_layout. NumPy has no bfloat16.
_FLOATS: "Dict[str, np.dtype[Any]]" = {"float32": np.dtype("f4"), "float16": np.dtype("f2"), "bfloat16": np.dtype("u2")}
_LAYOUTS = ("nhwc", "nchw")


def _three(values: Any, what: str) -> "ctypes.Array[ctypes.c_double]":
    """Return the values for red, green and blue; a single number applies to all three."""
    try:
        return (ctypes.c_double * 3)(*np.broadcast_to(np.asarray(values, np.float64), (3,)).tolist())
    except (TypeError, ValueError):
        raise ValueError(f"{what} must be three numbers (red, green, blue), or one, not {values!r}") from None


def _layout_of(shape: Tuple[int, ...], told: Optional[str]) -> str:
    """Return the layout of images with this shape: find their three or four channels."""
    if told is not None and told not in _LAYOUTS:
        raise ValueError(f"source must be nhwc or nchw, not {told!r}")
    found = [layout for layout, at in (("nhwc", -1), ("nchw", -3)) if len(shape) >= 3 and shape[at] in (3, 4)]
    if told in found:
        return str(told)
    if told is not None or not found:
        raise ValueError(f"images must be [..., H, W, C] or [..., C, H, W] with 3 or 4 channels C: {list(shape)} is "
                         f"not {told or 'such a shape'}")
    if len(found) == 2:
        raise ValueError(f"images of {list(shape)} could be NHWC or NCHW: pass source=\"nhwc\" or source=\"nchw\"")
    return found[0]


def normalise(images: "npt.NDArray[Any]", mean: Union[float, Sequence[float]] = IMAGENET_MEAN,
              std: Union[float, Sequence[float]] = IMAGENET_STD, dtype: Any = "float32",
              layout: Optional[str] = None, out: "Optional[npt.NDArray[Any]]" = None,
              source: Optional[str] = None) -> "npt.NDArray[Any]":
    """Convert pixels to floats: ``(pixel / 255 - mean) / std`` for each channel, like torchvision's ToTensor and
    Normalize, at the speed of memory.

    >>> floats = pyplenum.normalise(batch.images, layout="nchw")  # doctest: +SKIP

    Parameters
    ----------
    images
        int8 (value - 128, as in a stream) or uint8, [..., H, W, C] or [..., C, H, W], where C is 3 or 4; a fourth
        channel is dropped. The array must be C-contiguous: ``batch.images``, ``batch.pixels``, ``batch.views["a"]``, or
        a slice of their first dimension.
    mean, std
        Values for red, green and blue, in units where pixels are 0 ... 1. They default to ImageNet's.
    dtype
        "float32", "float16" or "bfloat16", or the corresponding type of NumPy or torch. NumPy has no bfloat16, so the
        result is then uint16 with the same bits, which torch reads without a copy as
        ``torch.from_numpy(floats.view("i2")).view(torch.bfloat16)``.
    layout
        Layout of the floats: "nhwc", "nchw", or None for the layout of the images.
    out
        A C-contiguous array for the result, with the shape and type of the result. Memory that has been written to
        before is several times faster than fresh memory. For a tensor, pass ``tensor.numpy()``, or with bfloat16
        ``tensor.view(torch.int16).numpy().view("u2")``.
    source
        Layout of the images, needed if their shape could be either.

    Returns ``out``, or a new array: [..., H, W, 3] or [..., 3, H, W]. The images are only read, and no reference to
    them is kept. The function uses one thread and releases the interpreter's lock, so other threads can convert other
    parts.

    The exact formula, for a ``level`` of 0 ... 255 (an int8 value plus 128), is ``level.astype("f4") * scale + bias``
    with ``scale = np.float32(1 / (255 * std))`` and ``bias = np.float32(-mean / std)``, rounded to the nearest float16
    or bfloat16. The result is bitwise the same on every processor.
    """
    if not isinstance(images, np.ndarray) or images.dtype not in (np.int8, np.uint8):
        raise TypeError("images must be a NumPy array of int8 or uint8, not "
                        f"{images.dtype if isinstance(images, np.ndarray) else type(images).__name__}")
    if not images.flags.c_contiguous:
        raise ValueError("the images are not contiguous: numpy.ascontiguousarray(images) makes a contiguous copy")
    dtype = dtype_name(dtype)
    if dtype not in _FLOATS:
        raise ValueError(f"dtype must be one of {', '.join(_FLOATS)}, not {dtype!r}")
    if max(_three(mean, "mean")) > 1:
        raise ValueError(f"mean and std must be for pixel values from 0 to 1: divide {mean!r} by 255")
    if layout is not None and layout not in _LAYOUTS:
        raise ValueError(f"layout must be nhwc or nchw, not {layout!r}")
    lies = _layout_of(images.shape, source)
    layout = layout or lies
    height, width, channels = images.shape[-3:] if lies == "nhwc" else images.shape[-2:] + images.shape[-3:-2]
    shape = images.shape[:-3] + ((height, width, 3) if layout == "nhwc" else (3, height, width))
    if out is None:
        out = np.empty(shape, _FLOATS[dtype])
    elif not isinstance(out, np.ndarray) or out.dtype != _FLOATS[dtype] or out.shape != shape:
        what = f"{out.dtype} {list(out.shape)}" if isinstance(out, np.ndarray) else type(out).__name__
        raise ValueError(f"out must be a NumPy array, {_FLOATS[dtype].name} {list(shape)}, not {what}")
    elif not (out.flags.c_contiguous and out.flags.writeable):
        raise ValueError("out must be contiguous and writeable")
    count = int(np.prod(images.shape[:-3], dtype=np.int64))
    described = CImages(ctypes.sizeof(CImages), images.ctypes.data, count, height, width, channels,
                        int(images.dtype == np.uint8), _LAYOUTS.index(lies))
    error = CError()
    check(lib.plenum_normalise(byref(described), _three(mean, "mean"), _three(std, "std"), c_void_p(out.ctypes.data),
                               list(_FLOATS).index(dtype), _LAYOUTS.index(layout), byref(error)), error)
    return out
