# SPDX-License-Identifier: MIT
"""The C library, through ctypes: structures as in include/plenum/*.h, and functions that raise.

ctypes releases the interpreter's lock during every call, so a thread that waits for a batch or for other instances does
not block any other thread.
"""

import ctypes
import operator
import os
import sys
from ctypes import (CFUNCTYPE, POINTER, Structure, byref, c_char, c_char_p, c_double, c_int, c_size_t,
                    c_uint8, c_uint32, c_uint64, c_void_p)
from typing import Any, Dict, List, Tuple

__all__ = ["FOREVER", "PlenumError", "byref", "c_void_p", "caller", "check", "lib", "libc_free", "nanoseconds",
           "text_of", "whole"]

FOREVER = 2**64 - 1


class PlenumError(OSError):
    """An error of the library: ``errno`` for programs, and a message that names the option, file or host at fault."""


class CError(Structure):
    _fields_ = [("text", c_char * 512)]


class CJobInfo(Structure):
    _fields_ = [
        ("num_instances", c_uint32),
        ("instance_index", c_uint32),
        ("num_local_instances", c_uint32),
        ("local_instance_index", c_uint32),
        ("num_replicas", c_uint32),
        ("num_local_replicas", c_uint32),
        ("replica_offset", c_uint32),
        ("devices_per_replica", c_uint32),
        ("restart_count", c_uint32),
        ("launcher", c_int),
        ("job_id", c_char_p),
        ("loader", c_char_p),
    ]


CRingCall = CFUNCTYPE(None, c_void_p, c_void_p, c_size_t, c_int)


class COptions(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("dataset", c_char_p),
        ("pipeline", c_char_p),
        ("shuffle", c_char_p),
        ("loader", c_char_p),
        ("seed", c_uint64),
        ("epochs", c_uint64),
        ("micro_batch", c_uint32),
        ("steps", c_uint32),
        ("prefetch_depth", c_uint32),
        ("dtype", c_int),
        ("layout", c_int),
        ("channels", c_uint32),
        ("last", c_int),
        ("bad", c_int),
        ("loader_timeout_ns", c_uint64),
        ("silence_ns", c_uint64),
        ("subset", c_char_p),
        ("repeat", c_uint32),
        ("split", c_int),
        ("deal", c_int),
        ("on_ring", CRingCall),
        ("on_ring_arg", c_void_p),
        ("fields", c_char_p),
    ]


class CInfo(Structure):
    _fields_ = [
        ("num_samples", c_uint64),
        ("num_positions", c_uint64),
        ("steps_per_epoch", c_uint64),
        ("batches", c_uint64),
        ("num_classes", c_uint32),
        ("height", c_uint32),
        ("width", c_uint32),
        ("channels", c_uint32),
        ("steps", c_uint32),
        ("replicas", c_uint32),
        ("micro_batch", c_uint32),
        ("slots", c_uint32),
        ("batch_bytes", c_uint64),
        ("fingerprint", c_uint8 * 16),
        ("identity", c_uint8 * 16),
    ]


class CSet(Structure):
    _fields_ = [("name", c_char_p), ("first", c_uint64), ("num_samples", c_uint64)]


class CBatch(Structure):
    _fields_ = [
        ("pixels", c_void_p),
        ("labels", c_void_p),
        ("samples", c_void_p),
        ("positions", c_void_p),
        ("valid", c_void_p),
        ("epochs", c_void_p),
        ("index", c_uint64),
        ("count", c_uint32),
        ("num_valid", c_uint32),
        ("num_substituted", c_uint32),
        ("steps", c_uint32),
        ("replicas", c_uint32),
        ("micro_batch", c_uint32),
        ("height", c_uint32),
        ("width", c_uint32),
        ("channels", c_uint32),
        ("dtype", c_int),
        ("layout", c_int),
        ("lease", c_void_p),
    ]


class CMix(Structure):
    _fields_ = [("labels2", c_void_p), ("weights", c_void_p)]


class CGeometry(Structure):
    _fields_ = [("boxes", c_void_p), ("sizes", c_void_p), ("flips", c_void_p)]


class CView(Structure):
    _fields_ = [("name", c_char_p), ("pixels", c_void_p), ("count", c_uint32), ("height", c_uint32),
                ("width", c_uint32)]


VIEWS_MAX = 4
SETS_MAX = 64


class CField(Structure):
    _fields_ = [("name", c_char_p), ("type", c_int), ("dims", c_uint32), ("shape", c_uint32 * 4), ("mask", c_uint32),
                ("room", c_uint64), ("values", c_void_p), ("lengths", c_void_p)]


FIELDS_MAX = 16

# The types of fields: text, bytes, the element types of arrays in NumPy's notation, boxes, key points, and instances.
FIELD_TYPES = ("text", "bytes", "|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8",
               "boxes", "keypoints", "instances")


class CImages(Structure):
    _fields_ = [("size", c_size_t), ("pixels", c_void_p), ("count", c_uint64), ("height", c_uint32),
                ("width", c_uint32), ("channels", c_uint32), ("dtype", c_int), ("layout", c_int)]


class CShare(Structure):
    _fields_ = [("replica_offset", c_uint32), ("num_local_replicas", c_uint32), ("num_replicas", c_uint32)]


class CCursor(Structure):
    _fields_ = [("identity", c_uint8 * 16), ("epoch", c_uint64), ("position", c_uint64)]


class CPlace(Structure):
    _fields_ = [("epoch", c_uint64), ("position", c_uint64), ("steps_left", c_uint64)]


class CRing(Structure):
    _fields_ = [("base", c_void_p), ("bytes", c_size_t)]


class CStats(Structure):
    _fields_ = [
        ("batches", c_uint64),
        ("samples", c_uint64),
        ("substituted", c_uint64),
        ("wait_ns", c_uint64),
        ("elapsed_ns", c_uint64),
        ("incidents", c_uint64),
        ("lost_ns", c_uint64),
        ("rendered", c_uint64),
        ("queue_ns", c_uint64),
        ("read_ns", c_uint64),
        ("render_ns", c_uint64),
        ("loader_threads", c_uint32),
        ("loader_io_threads", c_uint32),
        ("ready", c_uint32),
        ("in_flight", c_uint32),
        ("loader", c_char * 128),
        ("loaders", c_uint32),
        ("moved", c_uint64),
        ("hedged", c_uint64),
        ("hedges_won", c_uint64),
        ("verified", c_uint64),
    ]


_ERR = POINTER(CError)

CPrepare = CFUNCTYPE(c_int, c_void_p, _ERR)
CCarryBroadcast = CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_uint32, c_uint64, _ERR)
CCarryAllreduce = CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_int, c_int, c_uint64, _ERR)
CCarryAllgather = CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_void_p, c_uint64, _ERR)
CCarryBarrier = CFUNCTYPE(c_int, c_void_p, c_uint64, _ERR)


class CCarrier(Structure):
    _fields_ = [
        ("arg", c_void_p),
        ("broadcast", CCarryBroadcast),
        ("allreduce", CCarryAllreduce),
        ("allgather", CCarryAllgather),
        ("barrier", CCarryBarrier),
    ]


def _load() -> ctypes.CDLL:
    """Load libplenum from the first of these places:

    - $PLENUM_LIBRARY;
    - this package, where a wheel has it;
    - PREFIX/lib, if this package is in PREFIX/lib/python3.N/site-packages;
    - the linker's search path;
    - this Python's prefix;
    - where "make install" puts it, because the linker's cache may not know it yet.
    """
    named, here = os.environ.get("PLENUM_LIBRARY"), os.path.dirname(os.path.abspath(__file__))
    candidates = [named] if named else []
    candidates.append(os.path.join(here, "bin", "libplenum.so.1"))
    candidates.append(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(here))), "libplenum.so.1"))
    candidates.append("libplenum.so.1")
    for prefix in dict.fromkeys((sys.prefix, sys.base_prefix, "/usr/local")):
        candidates += [os.path.join(prefix, folder, "libplenum.so.1") for folder in ("lib", "lib64")]
    problems = []
    for path in candidates:
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            problems.append(str(error))
    raise ImportError("libplenum.so.1 cannot be loaded: install Plenum's wheel, or libplenum (\"make install\" from "
                      "its sources), or set PLENUM_LIBRARY to its path (" + "; ".join(problems) + ")")


lib = _load()

libc_free = ctypes.CDLL(None).free
libc_free.restype = None
libc_free.argtypes = [c_void_p]

_PROTOTYPES: Dict[str, Tuple[Any, List[Any]]] = {
    "plenum_job_open": (c_int, [POINTER(c_void_p), _ERR]),
    "plenum_job_open_as": (c_int, [POINTER(CJobInfo), POINTER(c_void_p), _ERR]),
    "plenum_job_close": (None, [c_void_p]),
    "plenum_job_get_info": (POINTER(CJobInfo), [c_void_p]),
    "plenum_job_set_timeout": (None, [c_void_p, c_uint64]),
    "plenum_job_should_stop": (c_int, [c_void_p, c_uint64, _ERR]),
    "plenum_broadcast": (c_int, [c_void_p, c_void_p, c_size_t, c_uint32, _ERR]),
    "plenum_allreduce": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, _ERR]),
    "plenum_alltoall": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p, _ERR]),
    "plenum_reduce_scatter": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, _ERR]),
    "plenum_allgather": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p, _ERR]),
    "plenum_barrier": (c_int, [c_void_p, _ERR]),
    "plenum_same": (c_int, [c_void_p, c_void_p, c_size_t, _ERR]),
    "plenum_replica_seed": (c_uint64, [c_uint64, c_uint32]),
    "plenum_once_per_host": (c_int, [c_void_p, CPrepare, c_void_p, _ERR]),
    "plenum_job_describe": (None, [c_void_p, c_char_p, c_char_p]),
    "plenum_job_set_carrier": (c_int, [c_void_p, POINTER(CCarrier), _ERR]),
    "plenum_stream_options_init": (None, [POINTER(COptions)]),
    "plenum_stream_open": (c_int, [POINTER(CJobInfo), POINTER(COptions), POINTER(c_void_p), _ERR]),
    "plenum_stream_open_all": (c_int, [c_void_p, POINTER(COptions), POINTER(c_void_p), _ERR]),
    "plenum_stream_shutdown": (None, [c_void_p]),
    "plenum_stream_destroy": (None, [c_void_p]),
    "plenum_stream_next": (c_int, [c_void_p, c_uint64, POINTER(CBatch), _ERR]),
    "plenum_stream_get_fd": (c_int, [c_void_p, _ERR]),
    "plenum_stream_get_place": (c_int, [c_void_p, POINTER(CPlace)]),
    "plenum_stream_get_ring": (None, [c_void_p, POINTER(CRing)]),
    "plenum_stream_class_names": (c_int, [c_void_p, POINTER(POINTER(c_char_p)), POINTER(c_uint32), _ERR]),
    "plenum_stream_sample_names": (c_int, [c_void_p, POINTER(c_uint32), c_uint32, POINTER(POINTER(c_char_p)), _ERR]),
    "plenum_batch_release": (None, [POINTER(CBatch)]),
    "plenum_stream_get_info": (None, [c_void_p, POINTER(CInfo)]),
    "plenum_stream_get_dataset": (c_char_p, [c_void_p]),
    "plenum_stream_cursor": (c_int, [c_void_p, POINTER(CCursor)]),
    "plenum_stream_cursor_at": (c_int, [c_void_p, c_uint64, c_uint64, POINTER(CCursor)]),
    "plenum_stream_get_sets": (c_uint32, [c_void_p, POINTER(CSet)]),
    "plenum_batch_get_sets": (c_int, [POINTER(CBatch), c_void_p]),
    "plenum_stream_amend": (c_int, [c_void_p, c_char_p, _ERR]),
    "plenum_stream_seek": (c_int, [c_void_p, POINTER(CCursor), _ERR]),
    "plenum_stream_reshape": (c_int, [c_void_p, POINTER(CShare), POINTER(CCursor), _ERR]),
    "plenum_stream_tag": (c_int, [c_void_p, c_uint64, POINTER(CCursor), POINTER(c_uint64)]),
    "plenum_stream_get_stats": (None, [c_void_p, POINTER(CStats)]),
    "plenum_stream_take_warning": (c_int, [c_void_p, _ERR]),
    "plenum_batch_get_mix": (c_int, [POINTER(CBatch), POINTER(CMix)]),
    "plenum_batch_get_geometry": (c_int, [POINTER(CBatch), POINTER(CGeometry)]),
    "plenum_batch_get_fields": (c_int, [POINTER(CBatch), POINTER(CField)]),
    "plenum_batch_get_views": (c_int, [POINTER(CBatch), POINTER(CView)]),
    "plenum_batch_hash": (c_uint64, [POINTER(CBatch)]),
    "plenum_normalise": (c_int, [POINTER(CImages), POINTER(c_double), POINTER(c_double), c_void_p, c_int, c_int, _ERR]),
}

for _name, (_result, _arguments) in _PROTOTYPES.items():
    _function = getattr(lib, _name)
    _function.restype = _result
    _function.argtypes = _arguments


def nanoseconds(seconds: float, what: str) -> int:
    """Convert a time limit for the C library, which takes no negative numbers: 0 polls, infinity means no limit."""
    if isinstance(seconds, str):
        raise TypeError(f"{what} must be a number of seconds, not {seconds!r}")
    if seconds != seconds or seconds < 0:
        raise ValueError(f"{what} must be a number of seconds, 0 or more, not {seconds}")
    return min(int(seconds * 1e9), FOREVER) if seconds < 1e10 else FOREVER


def check(code: int, error: CError) -> None:
    """Raise :class:`PlenumError` if ``code`` is a negative errno."""
    if code < 0:
        raise PlenumError(-code, error.text.decode("utf-8", "replace"))


def whole(value: Any, what: str, low: int, high: int) -> int:
    """Return an integer within bounds, because C would silently truncate it to 32 or 64 bits."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} must be a whole number, not {value!r}") from None
    if not low <= number <= high:
        raise ValueError(f"{what} must be from {low} to {high}, not {number}")
    return number


def dtype_name(value: Any) -> Any:
    """Return the name of a numeric type: "uint8" for "uint8", numpy.uint8, numpy.dtype("uint8") and torch.uint8."""
    text = str(value)
    if text.startswith("torch.") and not isinstance(value, str):
        return text[len("torch."):]
    name = getattr(value, "name", getattr(value, "__name__", None))
    return name if isinstance(name, str) and not isinstance(value, str) else value


def text_of(value: Any, what: str, example: str = "") -> bytes:
    """Return a string for C, where the first NUL would end it."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str{f', such as {example},' if example else ','} not {value!r}")
    if "\0" in value:
        raise ValueError(f"{what} contains a NUL character: {value!r}")
    return value.encode("utf-8", "surrogateescape")


def caller() -> int:
    """Return the ``stacklevel`` for a warning of the calling function, so that it points to the line of the program
    that called the package."""
    here, level = os.path.dirname(__file__), 1
    frame = sys._getframe(1)
    while frame.f_back is not None and os.path.dirname(frame.f_code.co_filename) == here:
        frame, level = frame.f_back, level + 1
    return level
