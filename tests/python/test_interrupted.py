# SPDX-License-Identifier: MIT
"""Tests the state of a loop after an interruption.

The law: whatever is raised between two steps of the package's code (or by a signal handler, or by copying a batch), the
program gets each position of an epoch exactly once if it continues, with the same iterator or from ``state_dict()`` or
``cursor``.

PLENUM_INTERRUPTIONS=N interrupts each kind of loop N times; SEED=clock picks new points each time.
"""

import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import unittest
import warnings

SOURCE = os.environ["top_srcdir"]
sys.path.append(os.path.join(SOURCE, "tests", "e2e"))

import jobs  # noqa: E402
import tap  # noqa: E402

tap.require("numpy", "torch")
sys.path.insert(0, os.path.join(SOURCE, "python"))
os.environ["OMP_NUM_THREADS"] = "1"
T = tempfile.mkdtemp(prefix="plenum-test-")
jobs.set_up(T)

import torch  # noqa: E402

import pyplenum  # noqa: E402
import pyplenum.torch  # noqa: E402
from pyplenum import _torch_device  # noqa: E402

TIMES = int(os.environ.get("PLENUM_INTERRUPTIONS", "60"))
PACKAGE = os.path.dirname(pyplenum.__file__)
POSITIONS = list(range(96))
DATA, PIPELINE = "generated:96", "rrc(8)"


def tearDownModule():
    shutil.rmtree(T)


class Stop(BaseException):
    """An exception like KeyboardInterrupt and SystemExit."""


class Broken(RuntimeError):
    """An exception like an out-of-memory error."""


class Interrupter:
    """Raises an error at the n-th step of the package's code, counted over all its frames. `event` is the kind of step:
    "opcode" or "line"."""

    def __init__(self, event):
        self.event, self.left, self.kind, self.raised = event, 0, Stop, 0

    def arm(self, steps, kind):
        self.left, self.kind = steps, kind
        sys.settrace(self.enter)

    def disarm(self):
        sys.settrace(None)

    def go_on(self):
        if self.left > 0:
            sys.settrace(self.enter)

    def enter(self, frame, event, argument):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes = self.event == "opcode"
        return self.step

    def step(self, frame, event, argument):
        if event == self.event or (self.event == "opcode" and event == "return"):
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                self.raised += 1
                raise self.kind("interrupted")
        return self.step


def loader(**options):
    return pyplenum.torch.Loader(DATA, PIPELINE, micro_batch=8, seed=3,
                                 **{"fields": ("images", "positions"), **options})


def on_device():
    """Return a Loader on a device whose memory is the host's."""
    before = pyplenum.torch.open_copies
    pyplenum.torch.open_copies = lambda device: _torch_device.Copies(torch.device("cpu"))
    try:
        return loader(device="cuda")
    finally:
        pyplenum.torch.open_copies = before


LOADERS = {"views": loader, "copies": lambda: loader(copy=True), "floats": lambda: loader(dtype="float32"),
           "a device": on_device}


class InterruptedTest(unittest.TestCase):
    def setUp(self):
        self.random = random.Random(time.time() if os.environ.get("SEED") == "clock" else 1)

    def go_on(self, loop, loader):
        """Return the loop itself, or one created from its state."""
        if self.random.randrange(2):
            return loop
        loader.load_state_dict(loader.state_dict())
        return iter(loader)

    def interrupt_epochs(self, loader, interrupter, most):
        """Iterate over epochs, interrupted again and again, until TIMES interruptions have happened."""
        epoch = 0
        while interrupter.raised < TIMES:
            loop, got = iter(loader), []
            while True:
                interrupter.arm(self.random.randrange(1, most), self.random.choice((Stop, Broken)))
                try:
                    for images, positions in loop:
                        got += positions.tolist()
                    break
                except (Stop, Broken):
                    interrupter.disarm()
                    self.assertEqual(loader.epoch, epoch + (len(got) == len(POSITIONS)))
                    loop = self.go_on(loop, loader) if len(got) < len(POSITIONS) else iter(())
                finally:
                    interrupter.disarm()
            self.assertEqual(got, POSITIONS, f"epoch {epoch}, after {interrupter.raised} interruptions")
            epoch += 1
        return interrupter.raised

    def test_loaders(self):
        """no position is lost or repeated if a Loader's loop is interrupted at any instruction of the package"""
        for name, make in LOADERS.items():
            with self.subTest(name), make() as made:
                self.interrupt_epochs(made, Interrupter("opcode"), 2500)

    def test_stream(self):
        """the same holds for a Stream, at any instruction of a for loop, and at any line of next()"""
        for event, take in (("opcode", iter), ("line", lambda stream: iter(lambda: next(stream), None))):
            interrupter = Interrupter(event)
            with self.subTest(event), pyplenum.Stream(DATA, PIPELINE, micro_batch=8, seed=3) as stream:
                epoch, got = 0, []
                while interrupter.raised < TIMES:
                    interrupter.arm(self.random.randrange(1, 1200 if event == "opcode" else 150), Stop)
                    try:
                        for batch in take(stream):
                            interrupter.disarm()
                            got += batch.positions[batch.valid].tolist()
                            if len(got) == len(POSITIONS):
                                self.assertEqual(got, POSITIONS, f"epoch {epoch}")
                                epoch, got = epoch + 1, []
                            interrupter.go_on()
                    except Stop:
                        interrupter.disarm()
                        self.assertEqual(stream.place[:2], (epoch, len(got)))
                        if self.random.randrange(2):
                            stream.seek(stream.cursor)

    def test_signals(self):
        """no position is lost or repeated if a signal handler raises in the package's code, or while the library
        waits"""
        raised = 0

        def handler(number, frame):
            nonlocal raised
            if frame.f_code.co_filename.startswith(PACKAGE):  # otherwise the program already has its batch
                signal.setitimer(signal.ITIMER_REAL, 0)
                raised += 1
                raise Stop

        before = signal.signal(signal.SIGALRM, handler)
        try:
            with loader(dtype="float32") as made:
                for epoch in range(max(5, TIMES // 10)):
                    loop, got = iter(made), []
                    while len(got) < len(POSITIONS):
                        signal.setitimer(signal.ITIMER_REAL, self.random.uniform(1e-5, 3e-3), 1e-4)
                        try:
                            for images, positions in loop:
                                got += positions.tolist()
                        except Stop:
                            self.assertEqual(made.stream.place[:2], divmod(epoch * len(POSITIONS) + len(got),
                                                                           len(POSITIONS)))
                            loop = self.go_on(loop, made) if len(got) < len(POSITIONS) else iter(())
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    self.assertEqual(got, POSITIONS)
                    made.set_epoch(epoch + 1)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        self.assertGreater(raised, 0)

    def test_broken_copies(self):
        """if a call of clone() fails, the next loop gets that batch"""
        clone, calls = torch.Tensor.clone, 0

        def failing(tensor, *arguments, **options):
            nonlocal calls
            calls += 1
            if calls % 3 == 2:
                raise self.random.choice((MemoryError, RuntimeError))("no memory")
            return clone(tensor, *arguments, **options)

        with loader(copy=True) as made:
            torch.Tensor.clone = failing
            got, failures = [], 0
            try:
                while len(got) < len(POSITIONS):
                    try:
                        for images, positions in made:
                            got += positions.tolist()
                    except (MemoryError, RuntimeError):
                        failures += 1
                        self.assertEqual(made.stream.place.position, len(got))
            finally:
                torch.Tensor.clone = clone
            self.assertEqual(got, POSITIONS)
            self.assertGreater(failures, 5)

    def test_handler_takes(self):
        """no batch is lost or delivered twice if a signal handler saves the state, or takes a batch itself"""
        with loader() as made:
            loop, got, states = iter(made), [], []
            interrupter = Interrupter("opcode")

            def step(frame, event, argument):
                interrupter.left -= 1
                if interrupter.left == 0:
                    sys.settrace(None)
                    states.append((made.stream.place.position, len(got)))
                    got.extend(next(loop)[1].tolist())
                return step

            interrupter.step = step
            for _ in range(4):
                interrupter.arm(self.random.randrange(1, 150), Stop)
                got += next(loop)[1].tolist()
                interrupter.disarm()
            for images, positions in loop:
                got += positions.tolist()
            self.assertEqual(sorted(got), POSITIONS)
            for position, had in states:
                self.assertEqual(position, had)

    def test_released_without_python(self):
        """batches and streams are released without Python code, where a handler's exception would be lost"""
        ran = []

        def profile(frame, event, argument):
            if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
                ran.append(frame.f_code.co_name)

        stream = pyplenum.Stream(DATA, PIPELINE, micro_batch=8)
        batch = next(stream)
        sys.setprofile(profile)
        del batch, stream
        sys.setprofile(None)
        self.assertEqual(ran, [])


class SharedTest(unittest.TestCase):
    def share(self, take, count=4):
        """Call `take()` in `count` threads until it raises. Return the items, and each exception's name."""
        got, ended = [], []
        barrier = threading.Barrier(count)

        def run():
            barrier.wait()
            try:
                while True:
                    got.extend(take())
            except BaseException as error:
                ended.append(type(error).__name__)

        threads = [threading.Thread(target=run) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sorted(got), ended

    def test_loop(self):
        """a loop shared by threads ends in all of them, and each batch goes to one"""
        for name, make in LOADERS.items():
            with self.subTest(name), make() as made:
                for epoch in range(3):
                    loop = iter(made)
                    got, ended = self.share(lambda: next(loop)[1].tolist())
                    self.assertEqual((got, ended), (POSITIONS, ["StopIteration"] * 4))
                    self.assertEqual(made.epoch, epoch + 1)

    def test_stream(self):
        """a stream shared by threads ends in all of them"""
        with pyplenum.Stream(DATA, PIPELINE, micro_batch=8, epochs=2) as stream:
            got, ended = self.share(lambda: next(stream).positions.reshape(-1).tolist())
            self.assertEqual((got, ended), (sorted(POSITIONS * 2), ["StopIteration"] * 4))

    def drain_while_first_is_taken(self, owner, positions_of):
        """Return the positions of a loop whose first batch is prepared in this thread, but taken only after another
        thread has reached the loop's end."""
        fill, rest = owner._fill, []
        drain = threading.Thread(target=lambda: rest.extend(n for batch in loop for n in positions_of(batch)))

        def slow(*arguments):
            coming = fill(*arguments)
            if not drain.ident:
                drain.start()
                drain.join()
            return coming

        owner._fill = slow
        loop = iter(owner)
        got = positions_of(next(loop)) + rest
        self.assertRaises(StopIteration, next, loop)
        owner._fill = fill
        return got

    def test_end_overtakes(self):
        """the end of a loop, reached by one thread, leaves another one the batch that it is about to take"""
        for name, make in LOADERS.items():
            with self.subTest(name), make() as made:
                self.assertEqual(self.drain_while_first_is_taken(made, lambda batch: batch[1].tolist()), POSITIONS)
        with pyplenum.Stream(DATA, PIPELINE, micro_batch=8, epochs=1) as stream:
            got = self.drain_while_first_is_taken(stream, lambda batch: batch.positions.reshape(-1).tolist())
            self.assertEqual(got, POSITIONS)

    def test_ended_loop(self):
        """a loop that has ended stays at its end, whatever the loader does later"""
        with loader() as made:
            loop = iter(made)
            self.assertEqual(sum(1 for _ in loop), len(made))
            begun = iter(made)
            self.assertEqual(list(loop), [])
            next(begun)
            made.set_epoch(0)
            self.assertEqual(list(loop), [])
            self.assertRaises(RuntimeError, next, begun)


class PeekTest(unittest.TestCase):
    def test_loader(self):
        """peek() takes nothing: the next loop starts with that batch, and the state is unchanged"""
        for name, make in LOADERS.items():
            with self.subTest(name), make() as made:
                state = made.state_dict()
                images, positions = made.peek()
                again = made.peek()
                self.assertEqual((made.state_dict(), made.epoch), (state, 0))
                self.assertEqual(positions.tolist(), POSITIONS[:8])
                self.assertTrue(torch.equal(images, again[0]))
                images.zero_()
                loop = iter(made)
                first = next(loop)
                self.assertTrue(torch.equal(first[0], again[0]), "a batch from peek() belongs to the program")
                self.assertEqual(made.peek()[1].tolist(), POSITIONS[8:16])
                rest = [n for images, positions in loop for n in positions.tolist()]
                self.assertEqual(first[1].tolist() + rest, POSITIONS)
                self.assertEqual((made.epoch, made.peek()[1].tolist()), (1, POSITIONS[:8]))

    def test_stream(self):
        """peek() of a Stream returns the memory that next() then returns"""
        with pyplenum.Stream(DATA, PIPELINE, micro_batch=8, epochs=1) as stream:
            looked, cursor = stream.peek(), stream.cursor
            self.assertEqual(stream.place.position, 0)
            batch = next(stream)
            self.assertEqual(looked.positions.tolist(), batch.positions.tolist())
            self.assertEqual(looked.pixels.ctypes.data, batch.pixels.ctypes.data)
            self.assertNotEqual(stream.cursor, cursor)
            self.assertEqual(sum(1 for _ in stream), len(stream) - 1)
            self.assertRaises(StopIteration, stream.peek)

    def test_look(self):
        """next(iter()) before training shortens the epoch, with a warning; an evaluation loses nothing"""
        def words(look, **options):
            with loader(**options) as made, warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                look(made)
                epochs = []
                for _ in range(2):
                    epochs.append(made.epoch)
                    self.assertEqual(len(list(made)), len(made))
                return made.epoch, [str(warning.message) for warning in caught]

        for taken in (1, 2):
            epoch, said = words(lambda made: [next(loop) for loop in [iter(made)] for _ in range(taken)], copy=True)
            self.assertEqual((epoch, len(said)), (3, 1), said)
            self.assertIn(f"left after {taken} of 12 batches of epoch 0, and this one runs epoch 1", said[0])
            self.assertIn("loader.peek()", said[0])
            self.assertIn("loader.set_epoch(0)", said[0])
        self.assertEqual(words(lambda made: made.peek(), copy=True), (2, []))
        self.assertEqual(words(lambda made: (next(iter(made)), made.set_epoch(0)), copy=True), (2, []))
        self.assertEqual(words(lambda made: next(iter(made)), copy=True, shuffle=False), (3, []))

    def test_resumed(self):
        """after peek(), `for epoch in range(loader.epoch, N)` runs the same epochs, whether resumed or not"""
        def train(made, epochs, most=None):
            done = []
            for epoch in range(made.epoch, epochs):
                self.assertEqual(made.stream.place.epoch, epoch)
                done.append((epoch, sum(len(positions) for images, positions in made)))
                if len(done) == most:
                    break
            return done

        with loader() as made:
            made.peek()
            whole = train(made, 3)
        with loader() as made:
            made.peek()
            first, state = train(made, 3, 1), made.state_dict()
        with loader() as made:
            made.load_state_dict(state)
            self.assertEqual(first + train(made, 3), whole)


tap.main()
