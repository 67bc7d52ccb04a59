# SPDX-License-Identifier: MIT
"""Tests Loader(device=...), which copies batches to a device ahead of the loop. The device is simulated: it copies as
late as a device may, so that a slot released too early, or a tensor used too early, has wrong bytes.
"""

import ctypes
import errno
import functools
import gc
import os
import random
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
import warnings
import weakref

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
CTL = os.path.join(BUILD, "plenumctl")
os.environ["PLENUM_LIBRARY"] = os.path.join(BUILD, ".libs", "libplenum.so.1")
sys.path.insert(0, os.path.join(SOURCE, "python"))

import tap  # noqa: E402

tap.require("numpy")
tap.require("torch")

import numpy as np  # noqa: E402
import torch  # noqa: E402

import pyplenum  # noqa: E402
import pyplenum.torch as plenum_torch  # noqa: E402
from made import npy, png, write_tar  # noqa: E402
from pyplenum import _torch_device  # noqa: E402

COUNT = 61
PIPELINE = "rrc(12x10) flip(0.5)"
VIEWS = "view(a, 2, rrc(12)) view(b, 1, rrc(8x6))"


def without_lease(tensor):
    """Return an array on the same memory, without a reference to its owner."""
    size = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride())) + 1 if tensor.numel() else 0
    memory = (ctypes.c_char * (size * tensor.element_size())).from_address(tensor.data_ptr())
    flat = torch.frombuffer(memory, dtype=tensor.dtype) if size else torch.empty(0, dtype=tensor.dtype)
    return flat.as_strided(tensor.shape, tensor.stride())


class Late(_torch_device.Copies):
    """A device that copies only when it must: when the host waits, when the program receives the result, or sometimes
    at random. Memory outside the ring, but derived from it, must exist until then, too."""

    rings = {}  # registered, as a real device requires

    def __init__(self):
        super().__init__(torch.device("cpu"))
        self.random, self.waiting, self.late = random.Random(5), [], 0

    @classmethod
    def on_ring(cls, base, size, present):
        if present:
            cls.rings[base] = size
        else:
            del cls.rings[base]

    def begin(self, make):
        ticket = {"copies": [], "over": False}

        def to(tensor):
            at = tensor.data_ptr()
            in_ring = any(base <= at < base + size for base, size in self.rings.items())
            self.late += in_ring
            there = torch.full(tensor.shape, 77).to(tensor.dtype)
            # Does not hold the tensor, so a slot that is released too early is copied with another batch's bytes.
            here = without_lease(tensor)
            ticket["copies"].append((there, (lambda: here) if in_ring else weakref.ref(tensor)))
            return there
        ticket["made"] = make(to)
        self.waiting.append(ticket)
        return ticket

    def run_to(self, ticket):
        while not ticket["over"]:
            first = self.waiting.pop(0)
            for there, here in first.pop("copies"):
                there.copy_(here())
            first["over"] = True

    def is_over(self, ticket):
        if self.random.random() < 0.3:
            self.run_to(ticket)
        return ticket["over"]

    def wait(self, ticket):
        self.run_to(ticket)

    def take(self, ticket):
        self.run_to(ticket)
        return ticket["made"]


class AtOnce(_torch_device.Copies):
    """A device that copies at once."""

    def __init__(self):
        super().__init__(torch.device("cpu"))


def path_of(name):
    return os.path.join(T.name, name)


def picture(n):
    return np.random.default_rng(n).integers(0, 256, (20 + n % 5, 24, 3), np.uint8)


def setUpModule():
    global T, DATA
    T = tempfile.TemporaryDirectory(prefix="plenum-test-")
    os.environ["PLENUM_CACHE_DIR"] = path_of("cache")
    os.mkdir(path_of("tars"))
    DATA = f"tar,label=cls:{path_of('tars')}"
    for k in range(3):
        write_tar(path_of(f"tars/{k}.tar"), [(f"{n:03d}", {
            "cls": str(n % 4).encode(), "png": png(picture(n)), "txt": f"picture {n}".encode(),
            "npy": npy(np.arange(3, dtype=np.uint16) + n),
            "json": f'[{{"bbox": [1, 2, {n % 7 + 3}, 4], "category_id": {n}}}]'.encode()})
            for n in range(k, COUNT, 3)])


def tearDownModule():
    T.cleanup()


def late_loader(pipeline=PIPELINE, copies=Late, **options):
    """Return a Loader on the simulated device."""
    with unittest.mock.patch.object(plenum_torch, "open_copies", lambda _: copies()):
        return plenum_torch.Loader(DATA, pipeline, device="meta", **{"micro_batch": 4, "seed": 3,
                                                                     "on_ring": Late.on_ring, **options})


def here(pipeline=PIPELINE, **options):
    return plenum_torch.Loader(DATA, pipeline, **{"micro_batch": 4, "seed": 3, "copy": True, **options})


def alike(one, two):
    """Return whether two batches are equal, bit for bit."""
    if isinstance(one, torch.Tensor):
        return one.dtype == two.dtype and one.shape == two.shape and torch.equal(one, two)
    if isinstance(one, (tuple, list)):
        return len(one) == len(two) and all(alike(a, b) for a, b in zip(one, two))
    return one == two


class DeviceTest(unittest.TestCase):
    def check(self, epochs=2, pipeline=PIPELINE, **options):
        """Check that all batches of some epochs, held to the end, equal those of a Loader without a device."""
        with late_loader(pipeline, **options) as there, here(pipeline, **{k: v for k, v in options.items()
                                                                          if k != "prefetch"}) as loader:
            for _ in range(epochs):
                got, want = list(there), list(loader)
                self.assertEqual(len(got), len(want))
                for one, two in zip(got, want):
                    self.assertTrue(alike(one, two))
            return got

    def test_bytes(self):
        """every batch arrives as rendered, in order, with the smallest ring and a large one"""
        for options in ({}, {"prefetch": 0}, {"prefetch": 1, "prefetch_depth": 1}, {"prefetch": 9}, {"last": "pad"},
                        {"last": "drop"}, {"prefetch": 64, "prefetch_depth": 1}, {"steps": 2, "last": "drop"},
                        {"dtype": "int8", "layout": "nhwc"}):
            with self.subTest(**options):
                if options.get("steps"):
                    options["micro_batch"] = 5  # 6 steps of twice 5
                self.check(**options)
        with late_loader() as loader:
            list(loader)
            self.assertGreater(loader._copier.copies.late, len(loader))  # images and labels of each batch

    def test_amend(self):
        """weights change from the first batch that the loop has not received, even if it was copied in advance"""
        mix = pyplenum.Mix(red=(1, "generated:40"), blu=(1, "generated:40"))
        with unittest.mock.patch.object(plenum_torch, "open_copies", lambda _: Late()):
            loader = plenum_torch.Loader(mix, PIPELINE, device="meta", on_ring=Late.on_ring, micro_batch=8, block=8,
                                         epoch=80, prefetch=4, fields=("positions", "sets"))
        with loader:
            loop = iter(loader)
            next(loop), next(loop)
            while len(loader._copier.ahead) < 3:
                loader._copy_ahead(loader._copier, 8)
            with self.assertRaisesRegex(OSError, "position 8 has been shown: the stream is at position 16"):
                loader.stream.amend({8: {"blu": 1}})
            loader.stream.amend({16: {"blu": 1}})
            for at, (positions, sets) in enumerate(loop, 2):
                self.assertEqual(positions.tolist(), list(range(8 * at, 8 * at + 8)))
                self.assertEqual(set(sets.tolist()), {1})
            self.assertEqual(at, 9)

    def test_hash(self):
        """the batches on the device hold the Stream's samples and pixels; their hash is that of `plenumctl hash`"""
        done = subprocess.run([CTL, "hash", DATA, "--pipeline", PIPELINE, "--seed", "3", "--epochs", "3"], check=True,
                              capture_output=True, text=True)
        with pyplenum.Stream(DATA, PIPELINE, micro_batch=4, seed=3, epochs=3, layout="nchw", dtype="uint8") as s, \
                late_loader(prefetch=5, fields=("images", "samples")) as loader:
            hashed, batches = 0, []
            for batch in s:
                hashed += batch.hash()
                images = batch.images[batch.valid.reshape(-1)]
                batches += list(zip(images.copy(), batch.samples.reshape(-1)[batch.valid.reshape(-1)]))
            got = [each for _ in range(3) for images, samples in loader for each in zip(images, samples)]
            self.assertEqual(hashed % 2**64, int(done.stdout.split()[0], 16))
        self.assertEqual(len(got), len(batches))
        for (image, sample), (want, number) in zip(got, batches):
            self.assertTrue(int(sample) == number and np.array_equal(image.numpy(), want))

    def test_fields(self):
        """all fields are copied: labels, geometry, texts, arrays, boxes, views, soft labels"""
        fields = ("images", "labels", "boxes", "flips", "sizes", "samples", "positions", "epochs", "valid", "text:txt",
                  "vector:npy:npy", "objects:json:boxes")
        last = self.check(fields=fields)[0]
        self.assertEqual((type(last[9][0]), last[10].dtype, type(last[11])), (str, torch.int32, pyplenum.Boxes))
        self.check(pipeline=VIEWS, fields=("views", "labels", "objects:json:boxes"))
        self.check(pipeline="rrc(12) mixup(0.4)", fields=("images", "soft_labels"), smoothing=0.1)

    def test_floats(self):
        """floats are computed on the device, and equal those of normalise(), up to rounding"""
        for dtype, least in ((torch.float32, 1e-6), (torch.float16, 4e-3), (torch.bfloat16, 4e-2)):
            for options in ({}, {"layout": "nhwc"}, {"channels": 4}, {"memory_format": torch.channels_last},
                            {"mean": 0.5, "std": (0.1, 0.2, 0.3)}):
                options["dtype"] = dtype
                with late_loader(copies=AtOnce, **options) as there, here(**options) as loader:
                    for (one, _), (two, _) in zip(there, loader):
                        self.assertEqual((one.dtype, one.shape, one.stride()), (two.dtype, two.shape, two.stride()))
                        self.assertLessEqual(float((one.double() - two.double()).abs().max()), least * 4)
        floats = {"pipeline": VIEWS, "dtype": torch.float32}
        with late_loader(copies=AtOnce, **floats) as there, here(**floats) as loader:
            for (one, _), (two, _) in zip(there, loader):
                for a, b in zip(one, two):
                    self.assertTrue(a.shape == b.shape and torch.allclose(a, b, atol=1e-5))

    def test_inference_mode(self):
        """a batch copied ahead while the loop is in inference mode can be trained on afterwards"""
        weights = torch.ones(3, requires_grad=True)
        with late_loader(copies=AtOnce, dtype=torch.float32, layout="nhwc") as loader:
            loop = iter(loader)
            with torch.inference_mode():
                first = next(loop)
            for images, _ in [first, *loop]:
                (images * weights).sum().backward()
        self.assertIsNotNone(weights.grad)

    def test_default_device(self):
        """floats are created on the Loader's device, whatever torch.set_default_device() says"""
        if not hasattr(torch, "set_default_device"):
            self.skipTest("this torch has none")
        for make in (here, functools.partial(late_loader, copies=AtOnce)):
            with make(dtype=torch.float32) as loader:
                want = [images for images, _ in loader]
            torch.set_default_device("meta")
            try:
                with make(dtype=torch.float32) as loader:
                    got = [images for images, _ in loader]
            finally:
                torch.set_default_device("cpu")
            self.assertTrue(alike(got, want))

    def test_channels_last(self):
        """the memory format changes the pixel layout, and no value"""
        for make in (here, late_loader):
            with make(memory_format=torch.channels_last) as lies, here() as loader:
                for (one, _), (two, _) in zip(lies, loader):
                    self.assertTrue(torch.equal(one, two))
                    self.assertTrue(one.is_contiguous(memory_format=torch.channels_last))

    def test_state(self):
        """the state has the position after the last delivered batch, whatever was copied ahead"""
        with here() as loader:
            want = [batch for _ in range(3) for batch in loader]
        for prefetch in (0, 1, 3, 30):
            with late_loader(prefetch=prefetch) as loader:
                got = []
                for i, batch in enumerate(loader):
                    got.append(batch)
                    if i == 5:
                        state = loader.state_dict()
                        self.assertEqual(loader.epoch, 0)
                        break
            with late_loader(prefetch=prefetch) as loader:
                for _ in zip(range(3), loader):  # load_state_dict() must undo this
                    pass
                before = loader.state_dict()
                with self.assertRaises(pyplenum.PlenumError):
                    loader.load_state_dict({**state, "cursor": "00" * 32})
                self.assertEqual(loader.state_dict(), before)
                loader.load_state_dict(state)
                self.assertEqual(loader.state_dict()["cursor"], state["cursor"])
                got += [batch for _ in range(3) for batch in loader]
            self.assertEqual(len(got), len(want))
            self.assertTrue(all(alike(a, b) for a, b in zip(got, want)))

    def test_left_early(self):
        """leaving a loop early skips the rest of its epoch; the next epoch is complete"""
        with here() as loader:
            epochs = [list(loader) for _ in range(4)]
        for leave in (1, 7, len(epochs[0]) - 1, len(epochs[0])):
            with late_loader(prefetch=4) as loader:
                for _ in zip(range(leave), loader):
                    pass
                self.assertTrue(alike(list(loader), epochs[1]))
                loader.set_epoch(3)
                self.assertTrue(alike(list(loader), epochs[3]))
                for _ in zip(range(2), loader):
                    pass
                loader.set_epoch(1)
                self.assertTrue(alike(list(loader), epochs[1]))

    def test_no_waiting(self):
        """a loop does not wait for a copy while a batch is ready, even if copies hold all slots"""
        with late_loader(prefetch=8, prefetch_depth=1) as loader:
            copies, ask, alone = loader._copier.copies, loader.stream.next, []
            copies.random.random = lambda: 1  # no copy completes before something waits
            loader.stream.next = lambda timeout: ask(60)  # every slot is ready

            def wait(ticket):
                alone.append(not loader._copier.ahead)
                Late.wait(copies, ticket)
            copies.wait = wait
            self.assertEqual(len(list(loader)), len(loader))
            self.assertTrue(all(alone))

    def test_outlive(self):
        """tensors stay valid after the end of loop, Loader and stream"""
        with here() as loader:
            want = list(loader)
        loader = late_loader(prefetch=8)
        got = [batch for _, batch in zip(range(5), loader)]
        loader.close()
        del loader
        gc.collect()
        self.assertTrue(alike(got, want[:5]))

    def test_close(self):
        """a Loader can be closed after its device failed; closing it in another thread releases no slot too early"""
        loader = late_loader(prefetch=3)
        next(iter(loader))
        with unittest.mock.patch.object(loader._copier.copies, "wait", side_effect=RuntimeError("CUDA error")), \
                self.assertRaisesRegex(RuntimeError, "CUDA error"):
            loader.close()
        with self.assertRaisesRegex(pyplenum.PlenumError, "is closed"):
            loader.stream.place
        copier = _torch_device.Copier(Late())
        for i in range(4):
            copier.begin(i, lambda to: (), b"", None)
        tickets = [ticket for _, ticket in copier._held]
        closing = threading.Thread(target=copier.give_back)
        asked = []

        def is_over(ticket):
            asked.append(ticket)
            if len(asked) == 1:
                closing.start()
                closing.join(0.2)  # a copy that did not wait would have finished long before
            return ticket is tickets[0]
        copier.copies.is_over = is_over
        copier.give_back()
        closing.join()
        self.assertEqual([batch for (batch, _), _ in copier._held], [1, 2, 3])
        del copier.copies.is_over

    def test_fork(self):
        """a forked process gets an error, whatever was copied ahead"""
        with late_loader(prefetch=3) as loader:
            loop = iter(loader)
            next(loop)
            loader._copier.give_back(wait=True)
            child = os.fork()
            if child == 0:
                try:
                    next(loop)
                except pyplenum.PlenumError as error:
                    os._exit(error.errno)
                except BaseException:
                    os._exit(254)
                os._exit(255)
            _, status = os.waitpid(child, 0)
            self.assertEqual(os.waitstatus_to_exitcode(status), errno.ECHILD)
            self.assertEqual(1 + len(list(loop)), len(loader))

    def test_killed(self):
        """if the loader process is killed during copies, batches are unchanged"""
        address, loaders, rings = f"unix:{T.name}/killed.sock", [], []

        def start():
            loaders.append(subprocess.Popen([os.environ.get("PLENUM_PLENUMD") or os.path.join(BUILD, "plenumd"),
                                             "--socket", address, "--root", T.name, "--quiet"]))
        with here() as loader:
            want = [batch for _ in range(4) for batch in loader]
        start()
        try:
            def on_ring(base, size, present):
                Late.on_ring(base, size, present)
                rings.append(present)

            with warnings.catch_warnings(), late_loader(loader=address, prefetch=3, on_ring=on_ring) as loader:
                warnings.simplefilter("ignore", pyplenum.LoaderWarning)
                got = []
                for _ in range(4):
                    for batch in loader:
                        got.append(batch)
                        if len(got) in (6, 21, 40):
                            loaders[-1].kill()
                            loaders[-1].wait()
                            start()
            self.assertEqual(len(got), len(want))
            self.assertTrue(all(alike(a, b) for a, b in zip(got, want)))
            del loader
            gc.collect()
            self.assertGreater(sum(rings), 1)
        finally:
            loaders[-1].terminate()
            loaders[-1].wait()

    def test_error(self):
        """an error is raised after the batches that were copied before it, and the next loop continues there"""
        with here() as loader:
            want = list(loader)
        with late_loader(prefetch=3) as loader:
            real, calls = loader.stream.next, []

            def failing(timeout=None):
                calls.append(timeout)
                if len(calls) == 8:
                    raise pyplenum.PlenumError(5, "the disk is on fire")
                return real(timeout)
            loader.stream.next = failing
            got = []
            with self.assertRaisesRegex(pyplenum.PlenumError, "on fire"):
                for batch in loader:
                    got.append(batch)
            self.assertTrue(alike(got, want[:len(got)]))
            got += list(loader)
            self.assertTrue(alike(got, want))

    def test_lost(self):
        """an error during a batch's copies (no memory, Ctrl-C) loses no batch, wherever it occurs"""
        with here() as loader:
            want, later = list(loader), list(loader)

        def strike(error, at):
            loader = late_loader(prefetch=3)
            real, calls = loader._tensors, []

            def tensors(batch, to):
                made = real(batch, to)
                calls.append(batch.index)
                if len(calls) == at:
                    raise error
                return made
            loader._tensors = tensors
            return loader
        for at in (1, 3, 4, 9, len(want)):
            with self.subTest(at=at), strike(MemoryError("no"), at) as loader:  # and the same loop continues
                got, loop = [], iter(loader)
                for _ in range(len(want) + 1):
                    try:
                        got.append(next(loop))
                    except MemoryError:
                        state = loader.state_dict()["cursor"]
                        self.assertEqual(int.from_bytes(bytes.fromhex(state)[-8:], "little"), 4 * len(got))
                self.assertTrue(alike(got, want))
                self.assertTrue(alike(list(loader), later))
            with self.subTest(at=at), strike(MemoryError("no"), at) as loader:  # and so can a different loop
                got = []
                with self.assertRaises(MemoryError):
                    for batch in loader:
                        got.append(batch)
                self.assertTrue(alike(got + list(loader), want))
            with self.subTest(at=at), strike(KeyboardInterrupt(), at) as loader:
                got = []
                with self.assertRaises(KeyboardInterrupt):
                    for batch in loader:
                        got.append(batch)
                state = loader.state_dict()
                self.assertTrue(alike(list(loader), later if got else want))
                loader.load_state_dict(state)
                self.assertTrue(alike(got + list(loader), want))

    def test_left_behind(self):
        """an error in batches ahead of an abandoned loop does not affect the next loop"""
        with here() as loader:
            list(loader)
            want = list(loader)
        with late_loader(prefetch=3) as loader:
            real = loader.stream.next
            loader.stream.next = unittest.mock.Mock(side_effect=[real(), pyplenum.PlenumError(5, "a bad sample")])
            for _ in loader:
                break
            loader.stream.next = real
            self.assertTrue(alike(list(loader), want))
        gc.disable()
        try:
            loader = late_loader(prefetch=3)
            loader.stream.next = unittest.mock.Mock(side_effect=[loader.stream.next(), pyplenum.PlenumError(5, "no")])
            for _ in loader:
                break
            gone = weakref.ref(loader)
            del loader
            self.assertIsNone(gone())  # at once, and everything it held
        finally:
            gc.enable()

    def test_refused(self):
        """invalid combinations are rejected with a message"""
        for options, why in (({"prefetch": -1}, "batches copied ahead, must be from 0 to 64"),
                             ({"memory_format": torch.preserve_format}, "memory_format must be"),
                             ({"memory_format": torch.channels_last, "layout": "nchw"}, "needs layout='nhwc'"),
                             ({"device": "cuda"}, "has no such device here"), ({"device": "nothing"}, "."),
                             ({"device": "xla"}, "device='xla': PyTorch has no such device here")):
            if options.get("device") == "cuda" and torch.cuda.is_available():
                continue
            with self.subTest(**options), self.assertRaisesRegex((ValueError, RuntimeError), why):
                here(**options)
        with warnings.catch_warnings(), self.assertRaisesRegex(ValueError, "leave pin_memory out"):
            warnings.simplefilter("ignore")
            late_loader(pin_memory=True)
        with self.assertRaisesRegex(ValueError, "mean must be three numbers"):
            late_loader(mean="red", dtype=torch.float32)

    def test_cpu(self):
        """device="cpu" is a Loader without a device"""
        with here(device="cpu", dtype=torch.float32) as one, here(dtype=torch.float32) as two:
            self.assertTrue(alike(list(one), list(two)))


class StreamsTest(unittest.TestCase):
    """Tests which calls a device with streams receives, and in which order."""

    def test_order(self):
        """copies run on their own stream, followed by an event that the program's stream waits for"""
        log = []

        class Stream:
            def __init__(self, device=None):
                self.name = "copies" if device else "the program's"

            def __enter__(self):
                log.append("enter")

            def __exit__(self, *exc):
                log.append("leave")

            def wait_event(self, event):
                log.append(f"program waits for {event.number}")

        class Event:
            count = 0

            def __init__(self, enable_timing=False):
                Event.count += 1
                self.number, self.over = Event.count, False
                self.at = 1.5 * self.number  # milliseconds

            def record(self, stream):
                log.append(f"event {self.number} behind {stream.name}")

            def query(self):
                return self.over

            def synchronize(self):
                self.over = True
                log.append(f"host waits for {self.number}")

            def elapsed_time(self, end):
                return end.at - self.at

        class Module:
            stream = staticmethod(lambda stream: stream)
            current_stream = staticmethod(lambda device: Stream())
        Module.Stream, Module.Event = Stream, Event
        copies = _torch_device.StreamCopies(torch.device("cpu"), Module)

        class Tensor(torch.Tensor):
            def to(self, *args, **options):
                log.append(f"copy {sorted(options.items())}")
                return self

            def record_stream(self, stream):
                log.append("recorded")

        source = torch.zeros(3).as_subclass(Tensor)
        ticket = copies.begin(lambda to: (to(source), ["a string"], [to(source)]))
        copy = "copy [('copy', True), ('non_blocking', True)]"
        self.assertEqual(log, ["enter", "event 1 behind copies", copy, copy, "event 2 behind copies", "leave"])
        self.assertFalse(copies.is_over(ticket))
        del log[:]
        made = copies.take(ticket)
        self.assertEqual(made[1], ["a string"])
        self.assertEqual(log, ["event 3 behind the program's", "program waits for 2", "recorded", "recorded"])
        copies.wait(ticket)
        self.assertTrue(copies.is_over(ticket))

    def test_failed(self):
        """an error during a batch's copies is raised when those already started have completed"""
        module = unittest.mock.MagicMock()
        copies = _torch_device.StreamCopies(torch.device("cpu"), module)
        with self.assertRaisesRegex(MemoryError, "no"):
            copies.begin(unittest.mock.Mock(side_effect=MemoryError("no")))
        module.Stream.return_value.synchronize.assert_called_once_with()

    def test_times(self):
        """the duration of copies, and how long the program's stream waited for them, come from device events"""
        log, events = [], []

        class Event:
            def __init__(self, enable_timing):
                self.over, self.at = False, len(events)  # seconds; all the device's work takes one
                events.append(self)

            def record(self, stream):
                pass

            def query(self):
                return self.over

            def elapsed_time(self, end):
                assert self.over and end.over
                return (end.at - self.at) * 1000

        module = unittest.mock.MagicMock(Event=Event)
        copies = _torch_device.StreamCopies(torch.device("cpu"), module)
        for _ in range(2):
            copies.take(copies.begin(log.append))
        self.assertEqual((copies.times(), len(events)), ((0, 0), 6))
        for event in events[:3]:
            event.over = True
        self.assertEqual(copies.times(), (1, 0))  # once the copy has completed
        events[4].at = 8  # the second copy completed late
        for event in events:
            event.over = True
        self.assertEqual(copies.times(), (1 + 5, 3))

    def test_no_times(self):
        """a device whose events have no times still copies"""
        event = unittest.mock.Mock()
        event.elapsed_time.side_effect = NotImplementedError("elapsed_time is not supported by XPUEvent.")
        module = unittest.mock.MagicMock()
        module.Event.return_value = event
        copies = _torch_device.StreamCopies(torch.device("cpu"), module)
        for i in range(3):
            self.assertEqual(copies.take(copies.begin(functools.partial(lambda made, to: made, [i]))), [i])
        self.assertEqual((copies.times(), len(copies._taken)), ((0, 0), 0))

    def test_stats(self):
        """a Loader's statistics include the times of copies and of waiting for them"""
        with late_loader(copies=AtOnce) as there, here() as loader:
            list(there)
            list(loader)
            self.assertEqual((loader.stats.copied, loader.stats.copy_waited), (0, 0))
            self.assertGreater(there.stats.copied, 0)
            self.assertEqual(there.stats.copied, there.stats.copy_waited)

    def test_without_streams(self):
        """a device without streams uses plain copies"""
        copies = _torch_device.open_copies("meta")
        self.assertIs(type(copies), _torch_device.Copies)
        ticket = copies.begin(lambda to: to(torch.zeros(3)))
        self.assertEqual((copies.take(ticket).device.type, copies.is_over(ticket)), ("meta", True))


class PinnedTest(unittest.TestCase):
    class Runtime:
        """A stand-in for torch.cuda.cudart(), and the memory it has registered."""

        def __init__(self, code=0):
            self.code, self.registered = code, {}

        def cudaHostRegister(self, address, size, flags):
            if self.code == 0 and address in self.registered:
                return 712  # cudaErrorHostMemoryAlreadyRegistered
            if self.code == 0:
                self.registered[address] = size
            return self.code

        def cudaHostUnregister(self, address):
            return 0 if self.registered.pop(address, None) else 713

    def test_losses(self):
        """after a thousand rings were mapped and unmapped, none is still registered"""
        runtime, cleared = self.Runtime(), []
        pinned = _torch_device.Pinned(runtime, lambda: cleared.append(1))
        for i in range(1000):
            pinned(4096 * (i + 1), 4096, True)
            if i > 0:
                pinned(4096 * i, 4096, False)
            self.assertLessEqual(len(runtime.registered), 2)
        pinned(4096 * 1000, 4096, False)
        self.assertEqual((runtime.registered, cleared), ({}, []))

    def test_refused(self):
        """where pinning is impossible, one warning reports it, and the error is cleared each time"""
        cleared = []
        pinned = _torch_device.Pinned(self.Runtime(2), lambda: cleared.append(1))
        with self.assertWarnsRegex(UserWarning, "CUDA did not pin 4096 bytes of batches .error 2.") as told:
            for i in range(5):
                pinned(4096 * (i + 1), 4096, True)
                pinned(4096 * (i + 1), 4096, False)
        self.assertEqual((len(told.warnings), len(cleared)), (1, 5))

    def test_interrupted(self):
        """Ctrl-C while a ring is being pinned leaves it unpinned: its address will be reused"""
        runtime = self.Runtime()
        pinned = _torch_device.Pinned(runtime, lambda: None)
        register = runtime.cudaHostRegister

        def interrupted(*which):
            self.assertEqual(register(*which), 0)
            raise KeyboardInterrupt
        runtime.cudaHostRegister = interrupted
        with self.assertRaises(KeyboardInterrupt):
            pinned(4096, 4096, True)
        pinned(4096, 4096, False)
        self.assertEqual(runtime.registered, {})

    def test_within(self):
        """a ring may be freed while another one is being pinned, if its last batch is collected just then"""
        runtime = self.Runtime()
        pinned = _torch_device.Pinned(runtime, lambda: None)
        pinned(4096, 4096, True)
        register = runtime.cudaHostRegister

        def finds_garbage(*which):
            pinned(4096, 4096, False)
            return register(*which)
        runtime.cudaHostRegister = finds_garbage
        thread = threading.Thread(target=pinned, args=(8192, 4096, True), daemon=True)
        thread.start()
        thread.join(60)
        self.assertEqual(runtime.registered, {8192: 4096})
        self.assertFalse(thread.is_alive())

    def test_stream(self):
        """the rings of a real stream are registered as long as they hold batches"""
        runtime = self.Runtime()
        pinned = _torch_device.Pinned(runtime, lambda: None)
        with pyplenum.Stream(DATA, PIPELINE, micro_batch=4, on_ring=pinned) as s:
            batch = next(s)
            address = batch.images.__array_interface__["data"][0]
            self.assertTrue(any(base <= address < base + size for base, size in runtime.registered.items()))
        self.assertEqual(len(runtime.registered), 1)  # the batch is still there
        del batch
        gc.collect()
        self.assertEqual(runtime.registered, {})


if __name__ == "__main__":
    tap.main()
