# SPDX-License-Identifier: MIT
"""Tests Streams and Loaders whose share changes while they run.

The law: whatever ranks come and go, if all continue from the same position, each position of each epoch is shown once.
"""

import os
import random
import shutil
import sys
import tempfile
import unittest

SOURCE = os.environ["top_srcdir"]
sys.path.append(os.path.join(SOURCE, "tests", "e2e"))

import jobs  # noqa: E402
import tap  # noqa: E402

tap.require("numpy", "torch")
sys.path.insert(0, os.path.join(SOURCE, "python"))
os.environ["OMP_NUM_THREADS"] = "1"
T = tempfile.mkdtemp(prefix="plenum-test-")
jobs.set_up(T)

import pyplenum  # noqa: E402
import pyplenum.torch  # noqa: E402

SAMPLES, MICRO_BATCH, EPOCHS = 50, 3, 12
DATA, PIPELINE = f"generated:{SAMPLES}", "rrc(8)"


def tearDownModule():
    shutil.rmtree(T)


def shown_by(batch):
    """Return the positions of a batch that count, with their epochs."""
    return [(int(epoch), int(p)) for step, epoch in enumerate(batch.epochs)
            for p, valid in zip(batch.positions[step].reshape(-1), batch.valid[step].reshape(-1)) if valid]


class Streams(unittest.TestCase):
    def test_come_and_go(self):
        """each position is shown once although streams' ranks come and go"""
        draw = random.Random(3)
        ranks = [pyplenum.Stream(DATA, PIPELINE, micro_batch=MICRO_BATCH, epochs=EPOCHS, rank=i, world_size=4)
                 for i in range(4)]
        size, shown, changes = 4, [], 0
        while ranks[0].place.epoch < EPOCHS:
            for _ in range(draw.randint(1, 3)):
                if ranks[0].place.epoch < EPOCHS:
                    for stream in ranks[:size]:
                        shown += shown_by(stream.next())
            if draw.random() < 0.3 and ranks[0].place.epoch < EPOCHS:
                ranks[0].peek()  # a batch that the program has not received
            at, size = ranks[0].cursor, draw.randint(1, 4)
            for i, stream in enumerate(ranks[:size]):
                stream.reshape(i, size, at if i > 0 or draw.random() < 0.5 else None)
            changes += 1
        self.assertEqual(sorted(shown), [(e, p) for e in range(EPOCHS) for p in range(SAMPLES)])
        self.assertGreater(changes, 30)
        for stream in ranks:
            stream.close()

    def test_properties(self):
        """a stream's properties are those of its new share"""
        with pyplenum.Stream(DATA, PIPELINE, micro_batch=MICRO_BATCH, epochs=2, rank=1, world_size=4) as stream:
            self.assertEqual((stream.steps_per_epoch, len(stream)), (5, 10))
            stream.reshape(0, 2)
            self.assertEqual((stream.steps_per_epoch, len(stream)), (9, 18))
            self.assertIn("replicas 0..0 of 2", repr(stream))
            with pyplenum.Stream(DATA, PIPELINE, micro_batch=MICRO_BATCH, epochs=2, rank=0, world_size=2) as other:
                self.assertEqual([b.hash() for b in stream], [b.hash() for b in other])

    def test_refused(self):
        """an impossible share is rejected, and the old one still holds"""
        with pyplenum.Stream(DATA, PIPELINE, micro_batch=MICRO_BATCH, last="drop", rank=1, world_size=4) as stream:
            first = shown_by(stream.peek())
            for arguments, sentence in (((4, 4), "rank"), ((0, 0), "size, a number of ranks"), ((-1, 2), "rank"),
                                        ((0, 2, b"short"), "a cursor has 32 bytes, not 5"),
                                        ((0, 17), "an epoch of 50 samples is shorter than one step of 51")):
                with self.subTest(arguments), self.assertRaisesRegex((ValueError, pyplenum.PlenumError), sentence):
                    stream.reshape(*arguments)
            self.assertEqual(shown_by(stream.next()), first)

    def test_tag(self):
        """the tags of two streams are equal if and only if their steps were"""
        with pyplenum.Stream(DATA, PIPELINE, micro_batch=MICRO_BATCH, rank=0, world_size=2) as a, \
                pyplenum.Stream(DATA, PIPELINE, micro_batch=MICRO_BATCH, rank=1, world_size=2) as b:
            one = two = 0
            for _ in range(3):
                a.next(), b.next()
                one, two = a.tag(one), b.tag(two)
                self.assertEqual(one, two)
            for _ in range(2):
                a.next()
                one = a.tag(one)
            b.reshape(0, 4)
            b.next()
            two = b.tag(two)
            self.assertEqual(a.cursor, b.cursor)
            self.assertNotEqual(one, two)


class Loaders(unittest.TestCase):
    def open(self, rank, size, **options):
        return pyplenum.torch.Loader(DATA, PIPELINE, micro_batch=MICRO_BATCH, rank=rank, world_size=size,
                                     fields=("positions", "valid", "epochs"), **{"last": "pad", **options})

    def shown(self, batch):
        positions, valid, epochs = batch
        return [(int(epochs[0]), int(p)) for p, v in zip(positions.reshape(-1), valid.reshape(-1)) if v]

    def test_within_loops(self):
        """a loop continues with its new share, whatever was requested in advance"""
        draw = random.Random(4)
        loaders = [self.open(i, 3) for i in range(3)]
        size, shown = 3, []
        for epoch in range(6):
            loops = [iter(loader) for loader in loaders]
            while True:
                batches = [next(loop, None) for loop in loops[:size]]
                self.assertEqual(len({batch is None for batch in batches}), 1)
                if batches[0] is None:
                    break
                for batch in batches:
                    shown += self.shown(batch)
                state = loaders[0].state_dict()
                if draw.random() < 0.4:
                    size = draw.randint(1, 3)
                    for i in range(3):  # idle ones follow, for a later change
                        loaders[i].reshape(min(i, size - 1), size, state if i else None)
                else:
                    for loader in loaders[size:]:
                        loader.reshape(size - 1, size, state)
            for loader in loaders[size:]:
                loader.load_state_dict(loaders[0].state_dict())
        self.assertEqual(sorted(shown), [(e, p) for e in range(6) for p in range(SAMPLES)])
        for loader in loaders:
            loader.close()

    def test_after_dropped(self):
        """an epoch whose last samples were dropped is over, even if fewer ranks could fill a step with them"""
        loaders = [self.open(i, 3, last="drop") for i in range(3)]
        self.assertEqual([len(list(loader)) for loader in loaders], [5, 5, 5])  # 5 samples are dropped
        state = loaders[0].state_dict()
        self.assertEqual({loader.state_dict()["cursor"] for loader in loaders}, {state["cursor"]})
        loaders[0].reshape(0, 1)
        loaders[1].reshape(0, 4)
        loaders[1].reshape(0, 1, state)  # the state is of three ranks
        with self.open(0, 1, last="drop") as other:
            other.load_state_dict(state)
            for loader in (loaders[0], loaders[1], other):
                self.assertEqual(loader.epoch, 1)
                self.assertEqual(self.shown(next(iter(loader))), [(1, 0), (1, 1), (1, 2)])
        for loader in loaders:
            loader.close()

    def test_states(self):
        """a Loader continues only from the state of a Loader with the same order"""
        with self.open(0, 2) as loader, self.open(0, 2, seed=7) as other:
            next(iter(loader))
            state = loader.state_dict()
            for at in ({}, {"version": 1}, {**state, "version": 2}, {**state, "cursor": "00"}, {**state, "cursor": 3},
                       {**state, "cursor": "z" * 64}, loader.stream.cursor):
                with self.subTest(at=at), self.assertRaisesRegex(ValueError, "this is not a state of a"):
                    loader.reshape(0, 4, at)
                with self.subTest(at=at), self.assertRaisesRegex(ValueError, "this is not a state of a"):
                    loader.load_state_dict(at)
            with self.assertRaisesRegex(pyplenum.PlenumError, "seed was 7 and is now 0"):
                loader.reshape(0, 4, other.state_dict())
            self.assertEqual((loader.state_dict(), len(loader)), (state, 9))

    def test_length(self):
        """len() is that of the new share, and a share whose steps do not fill all batches is rejected"""
        with self.open(0, 3) as loader:
            self.assertEqual(len(loader), 6)
            loader.reshape(1, 2)
            self.assertEqual(len(loader), 9)
            self.assertEqual(sum(1 for _ in loader), 9)
        with self.open(0, 3, steps=2) as loader:
            with self.assertRaisesRegex(ValueError, "with 2 ranks, the epoch has 9 steps left, .*not a multiple"):
                loader.reshape(0, 2)
            self.assertEqual(sum(1 for _ in loader), 3)


if __name__ == "__main__":
    tap.main()
