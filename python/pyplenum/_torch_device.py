# SPDX-License-Identifier: MIT
"""Copies of a batch's tensors to a device, on a separate stream, and the memory that they come from."""

import collections
import contextlib
import functools
import threading
import time
import warnings
from typing import Any, Callable, Deque, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple, Union

import numpy as np
import torch

from ._lib import caller
from .stream import Batch, Place

__all__ = ["Copier", "Copies", "FloatsOnDevice", "Pinned", "StreamCopies", "To", "open_copies", "pinned_for_cuda"]

# A function that starts copying a tensor from the host, and returns the tensor on the device.
To = Callable[[torch.Tensor], torch.Tensor]


def _tensors_in(made: Any) -> Iterator[torch.Tensor]:
    if isinstance(made, torch.Tensor):
        yield made
    elif isinstance(made, (list, tuple)):
        for each in made:
            yield from _tensors_in(each)


class Copies:
    """Copies to a device, one at a time. This class is for devices without streams, where each copy is synchronous.

    ``begin(make)`` calls ``make(to)``, now or later, and returns a ticket for its result: tensors, or lists and tuples
    of them. ``is_over(ticket)`` and ``wait(ticket)`` concern the host's memory, which may be overwritten once the copy
    is complete. ``take(ticket)`` returns the result, ready for the program's next operations on the device. ``times()``
    returns the seconds that copies took, and the seconds that the program waited for them.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._copied = self._waited = 0.0

    def begin(self, make: Callable[[To], Any]) -> Any:
        begin = time.perf_counter()
        made = make(lambda tensor: tensor.to(self.device, copy=True))
        seconds = time.perf_counter() - begin
        self._copied += seconds
        self._waited += seconds
        return made

    def is_over(self, ticket: Any) -> bool:
        return True

    def wait(self, ticket: Any) -> None:
        pass

    def take(self, ticket: Any) -> Any:
        return ticket

    def times(self) -> Tuple[float, float]:
        return self._copied, self._waited


class _OnStream(NamedTuple):
    """A ticket of StreamCopies, which take() and the others use."""

    made: Any
    begin: Any  # event before the copies
    end: Any  # event after the copies


class StreamCopies(Copies):
    """Copies on a separate stream. Further processing (normalising) also runs on that stream."""

    def __init__(self, device: torch.device, module: Any) -> None:
        super().__init__(device)
        self._module = module  # torch.cuda or a similar module
        self._stream = module.Stream(device=device)
        # Batches that the program has taken: the copy's ticket, and an event recorded when the program's stream needed
        # it.
        self._taken: Deque[Tuple[_OnStream, Any]] = collections.deque()

    def begin(self, make: Callable[[To], Any]) -> Any:
        with self._module.stream(self._stream):
            begin = self._event(self._stream)
            try:
                made = make(lambda tensor: tensor.to(self.device, non_blocking=True, copy=True))
            except BaseException:
                self._stream.synchronize()  # complete all copies before their memory is overwritten
                raise
            end = self._event(self._stream)
        return _OnStream(made, begin, end)

    def is_over(self, ticket: Any) -> bool:
        return bool(ticket.end.query())

    def wait(self, ticket: Any) -> None:
        begin = time.perf_counter()
        ticket.end.synchronize()
        self._waited += time.perf_counter() - begin

    def take(self, ticket: Any) -> Any:
        current = self._module.current_stream(self.device)
        asked = self._event(current)
        current.wait_event(ticket.end)
        for tensor in _tensors_in(ticket.made):
            tensor.record_stream(current)  # keeps its memory from being reused while the program works with it
        self._taken.append((ticket._replace(made=None), asked))
        self._count()
        return ticket.made

    def times(self) -> Tuple[float, float]:
        self._count()
        return super().times()

    def _event(self, stream: Any) -> Any:
        event = self._module.Event(enable_timing=True)
        event.record(stream)
        return event

    def _count(self) -> None:
        """Add up the times of copies that the device has completed."""
        while self._taken:
            ticket, asked = self._taken[0]
            if not (ticket.end.query() and asked.query()):
                break
            self._taken.popleft()
            with contextlib.suppress(NotImplementedError):  # torch.xpu older than 2.6: these times stay 0
                self._copied += ticket.begin.elapsed_time(ticket.end) * 1e-3
                self._waited += max(0.0, asked.elapsed_time(ticket.end) * 1e-3)


class _Ahead(NamedTuple):
    """A batch whose copy to the device has begun, and which the loop has not received yet."""

    ticket: Any
    cursor: bytes  # position after the batch, like place
    place: Place


class Copier:
    """Batches on their way to a device. Each holds its slot until its copy is complete."""

    def __init__(self, copies: Copies) -> None:
        self.copies = copies
        self.ahead: Deque[_Ahead] = collections.deque()
        # Each entry: a batch, the tensors sliced or computed from it, and its copy's ticket.
        self._held: Deque[Tuple[Tuple[Batch, List[torch.Tensor]], Any]] = collections.deque()
        self._lock = threading.RLock()  # another thread may close the Loader

    def begin(self, batch: Batch, make: Callable[[To], Any], cursor: bytes, place: Place) -> None:
        sources: List[torch.Tensor] = []

        def held(to: To) -> Any:
            def copied(tensor: torch.Tensor) -> torch.Tensor:
                sources.append(tensor)
                return to(tensor)
            return make(copied)
        with torch.inference_mode(False):  # the loop may be in another mode when it receives this batch
            ticket = self.copies.begin(held)
        self._held.append(((batch, sources), ticket))
        self.ahead.append(_Ahead(ticket, cursor, place))

    def give_back(self, wait: bool = False) -> bool:
        """Release the slots of complete copies; with ``wait``, of at least one. Returns False if no slot is held."""
        with self._lock:
            if not self._held:
                return False
            if wait:
                self.copies.wait(self._held[0][1])
            while self._held and self.copies.is_over(self._held[0][1]):
                self._held.popleft()
            return True

    def drop(self) -> None:
        """Complete all copies, and forget the batches that the loop has not received."""
        while self.give_back(wait=True):
            pass
        self.ahead.clear()

    def __del__(self) -> None:
        try:
            self.drop()
        except Exception:  # at exit, the device or this module may be gone
            pass


def open_copies(device: "Union[str, int, torch.device]") -> Copies:
    """Return copies to any torch device except the CPU; asynchronous for cuda (and ROCm), xpu and others with
    streams."""
    found = torch.device(device)
    module: Any = getattr(torch, found.type, None)
    if module is not None and hasattr(module, "is_available") and not module.is_available():
        raise RuntimeError(f"device={str(found)!r}: PyTorch has no such device here ({found.type}.is_available() is "
                           "False)")
    try:
        torch.empty(0, device=found)
    except (RuntimeError, ImportError, AssertionError) as error:
        raise RuntimeError(f"device={str(found)!r}: PyTorch has no such device here "
                           f"({str(error).splitlines()[0]})") from None
    if not all(hasattr(module, name) for name in ("Stream", "Event", "stream", "current_stream", "current_device")):
        return Copies(found)
    if found.index is None:
        found = torch.device(found.type, module.current_device())
    return StreamCopies(found, module)


class Pinned:
    """Pins memory for batches, as a Stream's ``on_ring``, so that copies from it are asynchronous.

    If pinning fails, copies are slower, and there is one warning. ``runtime`` provides cudaHostRegister() and
    cudaHostUnregister(); ``clear_error`` clears the error that a failed call leaves in CUDA. Threads: any.
    """

    def __init__(self, runtime: Any, clear_error: Callable[[], Any]) -> None:
        self._runtime, self._clear_error = runtime, clear_error
        self._pinned: Set[int] = set()
        self._warned = False
        self._lock = threading.RLock()  # recursive: the garbage collector may release another ring's last batch in here

    def __call__(self, address: int, size: int, present: bool) -> None:
        with self._lock:
            if present:
                self._pinned.add(address)  # before the call, because Ctrl-C may interrupt in between
                code = int(self._runtime.cudaHostRegister(address, size, 0))
            elif address in self._pinned:
                code = int(self._runtime.cudaHostUnregister(address))
                self._pinned.discard(address)
            else:
                return
            if code == 0:
                return
            self._pinned.discard(address)
            self._clear_error()
            if self._warned:
                return
            self._warned = True
        warnings.warn(f"CUDA did not {'pin' if present else 'unpin'} {size} bytes of batches (error {code}): copies to "
                      "the device are slower, but everything else works", stacklevel=caller())


class _Cudart:
    """Makes two calls of CUDA's runtime on one device: a thread new to CUDA would otherwise initialise the first
    device."""

    def __init__(self, device: Optional[torch.device]) -> None:
        self._cudart = torch.cuda.cudart()  # type: ignore[no-untyped-call,unused-ignore]
        self._device = device

    def cudaHostRegister(self, address: int, size: int, flags: int) -> Any:
        with torch.cuda.device(self._device):
            return self._cudart.cudaHostRegister(address, size, flags)

    def cudaHostUnregister(self, address: int) -> Any:
        with torch.cuda.device(self._device):
            return self._cudart.cudaHostUnregister(address)

    def clear_error(self) -> None:
        with contextlib.suppress(RuntimeError), torch.cuda.device(self._device):
            torch.empty(1, device="cuda").fill_(0)  # the next launch reports the error and clears it


@functools.lru_cache(maxsize=None)
def pinned_for_cuda(device: Optional[torch.device] = None) -> Pinned:
    """Return a function that pins memory for torch.cuda, which must be available; by default on the current device."""
    cudart = _Cudart(device)
    return Pinned(cudart, cudart.clear_error)


class FloatsOnDevice:
    """Computes (pixel / 255 - mean) / std for the first three channels of uint8 tensors [..., C, H, W] or
    [..., H, W, C], on their device: in float32, rounded to ``dtype``. If torch supports it, memory is read only once.
    """

    def __init__(self, mean: Any, std: Any, dtype: torch.dtype, layout: str) -> None:
        shape = (3, 1, 1) if layout == "nchw" else (3,)
        # Through NumPy, because torch.set_default_device() may create torch's tensors elsewhere.
        mean64, std64 = (np.broadcast_to(np.asarray(each, np.float64), (3,)).reshape(shape) for each in (mean, std))
        self._dtype, self._channels_at = dtype, -len(shape)
        self._host = tuple(torch.from_numpy(each.astype(np.float32)) for each in (1 / (255 * std64), -mean64 / std64))
        self._there: Dict[torch.device, Tuple[torch.Tensor, torch.Tensor, bool]] = {}

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        if pixels.device not in self._there:
            scale, shift = (each.to(pixels.device) for each in self._host)
            self._there[pixels.device] = scale, shift, self._rounds_while_writing(scale, shift)
        scale, shift, in_one_pass = self._there[pixels.device]
        pixels = pixels.narrow(self._channels_at, 0, 3)
        if not in_one_pass:
            return torch.addcmul(shift, pixels, scale).to(self._dtype)
        made = torch.empty(pixels.shape, dtype=self._dtype, device=pixels.device)
        return torch.addcmul(shift, pixels, scale, out=made)

    def _rounds_while_writing(self, scale: torch.Tensor, shift: torch.Tensor) -> bool:
        """Return whether addcmul() computes in float32 and writes ``dtype``, which some versions cannot do."""
        levels = torch.arange(256, dtype=torch.uint8, device=scale.device).reshape(256, 1).repeat(1, 3)
        pixels = levels if self._channels_at == -1 else levels.reshape(256, 3, 1, 1)
        made = torch.empty(pixels.shape, dtype=self._dtype, device=scale.device)
        try:
            torch.addcmul(shift, pixels, scale, out=made)
            return bool(torch.equal(made, torch.addcmul(shift, pixels, scale).to(self._dtype)))
        except RuntimeError:
            return False
