# SPDX-License-Identifier: MIT
"""Tests the Python package with loaders that it starts itself."""

import copy
import errno
import gc
import importlib.machinery
import io
import os
import pathlib
import pickle
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
import unittest.mock
import warnings

import tap

BUILD = os.environ["top_builddir"]
SOURCE = os.environ["top_srcdir"]
tap.require("numpy")
os.environ["PLENUM_LIBRARY"] = os.path.join(BUILD, ".libs", "libplenum.so.1")
sys.path.insert(0, os.path.join(SOURCE, "python"))
torch = tap.find("torch")

import numpy as np  # noqa: E402

import pyplenum  # noqa: E402

CTL = os.path.join(BUILD, "plenumctl")
T = tempfile.mkdtemp(prefix="plenum-test-")
DATA = os.path.join(T, "data")
PIPELINE = "rrc(32) flip(0.5)"


def setUpModule():
    os.environ["PLENUM_CACHE_DIR"] = os.path.join(T, "cache")
    subprocess.run([CTL, "make-sample", DATA, "--images", "7", "--size", "64"], check=True, stdout=subprocess.DEVNULL)


def tearDownModule():
    shutil.rmtree(T)


def plenumctl_hash(*args):
    out = subprocess.run([CTL, "hash", DATA, "--pipeline", PIPELINE, *args], check=True, capture_output=True, text=True)
    return int(out.stdout, 16)


def run_program(program, **environment):
    """Return the outcome of the program, which gets DATA as its argument."""
    return subprocess.run([sys.executable, "-c", program, DATA], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": os.path.join(SOURCE, "python"), **environment})


def kill_loaders():
    """Kill this test's loaders, which are recognised by its cache folder in their environment."""
    killed = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as comm, open(f"/proc/{pid}/environ", "rb") as environment:
                ours = comm.read() == "plenumd\n" and f"PLENUM_CACHE_DIR={T}/".encode() in environment.read()
            if ours:
                os.kill(int(pid), signal.SIGKILL)
                killed += 1
        except OSError:
            pass  # another user's process, or one that has just ended
    assert killed, "there is no loader to kill"


def stream(**options):
    return pyplenum.Stream(DATA, PIPELINE, **{"micro_batch": 8, "epochs": 2, **options})


def in_child(work):
    """Return whether the function returns true in a forked child."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def all_refused(*asks):
    """Return whether each call raises the error that this is a forked process."""
    for ask in asks:
        try:
            ask()
            return False
        except pyplenum.PlenumError as error:
            if error.errno != errno.ECHILD or "forked" not in str(error):
                return False
    return True


class JobTest(unittest.TestCase):
    def test_alone(self):
        """a single process is a job of one instance, whose collectives do nothing"""
        job = pyplenum.job()
        self.assertIs(job, pyplenum.job())
        self.assertEqual((job.num_instances, job.instance_index, job.num_replicas), (1, 0, 1))
        self.assertEqual(job.launcher, "none")
        x = np.arange(5, dtype=np.float32)
        self.assertIs(job.broadcast(x), x)
        self.assertIs(job.allreduce(x, "mean"), x)
        np.testing.assert_array_equal(x, np.arange(5))
        np.testing.assert_array_equal(job.allgather(x), x[None])
        job.barrier()

    def test_home_in_the_name(self):
        with unittest.mock.patch.dict(os.environ, HOME=T):
            for name in "~/data", pathlib.Path("~/data"), "folder:~/data":
                with pyplenum.Stream(name, PIPELINE, epochs=1, micro_batch=4) as stream:
                    self.assertEqual(stream.num_samples, 56)
            for name in "list,base=~/a,path=1:~/b.csv", "generated:tar:~/x":
                self.assertEqual(pyplenum.stream.with_home(name), name.replace("~", T))
            self.assertEqual(pyplenum.stream.with_home("./~/x"), "./~/x")

    def test_removed_folder(self):
        out = run_program("""
import os, pyplenum, sys, tempfile
folder = tempfile.mkdtemp()
os.chdir(folder)
os.rmdir(folder)
with pyplenum.Stream(sys.argv[1], "rrc(32)", epochs=1, micro_batch=4) as stream:
    print(stream.num_samples)
try:
    pyplenum.Stream("data", "rrc(32)")
except pyplenum.PlenumError as error:
    print(error)
""")
        self.assertIn("56\n[Errno 2] cannot find the current folder", out.stdout, out.stderr)

    def test_closed_descriptors(self):
        """a program that closes descriptors it does not own gets an error"""
        out = run_program("""
import os, pyplenum, sys
stream = pyplenum.Stream(sys.argv[1], "rrc(32)", micro_batch=4)
stream.next()
os.closerange(3, 4096)
for batch in stream:
    pass
""")
        self.assertIn("the program has closed descriptors that libplenum had opened", out.stderr)
        self.assertEqual(out.returncode, 1)

    def test_reused_descriptors(self):
        """a waiting program gets the error, too, if another thread closes them and opens files of the same numbers"""
        out = run_program("""
import os, pyplenum, sys, tempfile, threading
stream = pyplenum.Stream(sys.argv[1], "rrc(32)", micro_batch=4)
stream.next()
files = []
def replace():
    os.closerange(3, 4096)
    files.extend(tempfile.TemporaryFile() for i in range(64))
thread = threading.Thread(target=replace)
thread.start()
try:
    for batch in stream:
        pass
except pyplenum.PlenumError as error:
    print(error)
thread.join()
print([os.fstat(f.fileno()).st_size for f in files] == [0] * 64)
try:
    pyplenum.Stream(sys.argv[1], "rrc(32)", micro_batch=4)
except pyplenum.PlenumError as error:
    print(error)
sys.stdout.flush()
os._exit(0)
""")
        error = "[Errno 5] the program has closed descriptors that libplenum had opened: close only its own\n"
        self.assertEqual((out.returncode, out.stdout), (0, error + "True\n" + error), out.stderr)

    def test_what_cannot_be_worked_on_in_place(self):
        """arrays that are not contiguous, or of a type that cannot be added, are rejected"""
        job = pyplenum.job()
        with self.assertRaisesRegex(ValueError, "contiguous"):
            job.broadcast(np.zeros((4, 4))[:, 1])
        with self.assertRaisesRegex(TypeError, "uint8"):
            job.allreduce(np.zeros(4, np.uint8))
        with self.assertRaisesRegex(ValueError, "median"):
            job.allreduce(np.zeros(4), "median")
        with self.assertRaisesRegex(TypeError, "list"):
            job.broadcast([1, 2])
        with self.assertRaisesRegex(pyplenum.PlenumError, "root 1"):
            job.broadcast(np.zeros(4), root=1)


class StreamTest(unittest.TestCase):
    def test_hash(self):
        """the hash of the delivered batches equals plenumctl's"""
        for options in ({}, {"job": 3}, {"dtype": "uint8", "layout": "nchw"}, {"steps": 3, "micro_batch": 5},
                        {"channels": 4}):
            with stream(**options) as s:
                got = sum(batch.hash() for batch in s) % 2**64
            self.assertEqual(got, plenumctl_hash("--epochs", "2"), options)

    def test_arrays(self):
        """arrays have the documented shapes, types and content"""
        with stream(job=2, steps=3, micro_batch=4) as s:
            self.assertEqual((s.num_samples, s.num_classes, s.steps_per_epoch, len(s)), (56, 8, 7, 5))
            seen = []
            for i, b in enumerate(s):
                self.assertEqual(b.pixels.shape, (3, 2, 4, 32, 32, 3))
                self.assertEqual(b.images.shape, (24, 32, 32, 3))
                self.assertEqual(b.pixels.dtype, np.int8)
                for name, dtype in (("labels", np.int64), ("samples", np.uint32), ("positions", np.uint64),
                                    ("valid", np.bool_)):
                    self.assertEqual((getattr(b, name).shape, getattr(b, name).dtype), ((3, 2, 4), dtype), name)
                np.testing.assert_array_equal(b.epochs, [(i * 3 + k) // 7 for k in range(3)])
                np.testing.assert_array_equal(b.labels, b.samples // 7)
                self.assertEqual(b.num_valid, np.count_nonzero(b.valid))
                for k in range(3):
                    seen += [(int(b.epochs[k]), int(p)) for p in b.positions[k][b.valid[k]]]
            self.assertEqual(sorted(seen), [(e, p) for e in range(2) for p in range(56)])

    def test_deal(self):
        """with repeats dealt round-robin, replicas get a sample's copies in turn"""
        with stream(job=4, micro_batch=2, repeat=3, deal="round-robin", epochs=1) as s:
            self.assertEqual(s.num_positions, 168)
            step = 0
            for b in s:
                want = step * 8 + np.arange(2)[None, :] * 4 + np.arange(4)[:, None]
                np.testing.assert_array_equal(b.positions[0], want)
                for k in np.unique(b.samples[b.valid]):
                    on = np.nonzero((b.samples[0] == k) & b.valid[0])[0]
                    self.assertEqual(len(set(on)), len(on))
                step += 1
        with self.assertRaisesRegex(ValueError, "deal"):
            stream(deal="even")

    def test_int8_is_uint8_less_128(self):
        """int8 pixels are the uint8 ones minus 128, and NCHW is NHWC transposed"""
        with stream() as a, stream(dtype="uint8", layout="nchw") as b:
            x, y = next(a).pixels, next(b).pixels
            np.testing.assert_array_equal(x.astype(int) + 128, y.transpose(0, 1, 2, 4, 5, 3))

    def test_views(self):
        """views hold the slot, also after batch and stream are gone; the last one releases it"""
        s = stream(epochs=None)
        kept = next(s).pixels[0, 0, 3]
        address = kept.__array_interface__["data"][0]
        before = kept.copy()
        addresses = set()
        for _ in range(50):
            addresses.add(next(s).pixels.__array_interface__["data"][0])
        np.testing.assert_array_equal(kept, before)
        self.assertFalse(any(a <= address < a + 8 * 32 * 32 * 3 for a in addresses))
        self.assertEqual(len(addresses), s.slots - 1)
        s.close()
        np.testing.assert_array_equal(kept, before)
        del kept
        gc.collect()

    def test_slots_held(self):
        """when views hold all slots, next() raises an error instead of hanging"""
        with stream(epochs=None) as s:
            held = [next(s).labels for _ in range(s.slots)]
            with self.assertRaisesRegex(pyplenum.SlotsHeldError, "all 5 slots"):
                next(s)
            del held[2]
            next(s)

    def test_release(self):
        """a released batch raises an error, and arrays taken from it before are still valid"""
        with stream() as s:
            with next(s) as b:
                labels = b.labels
            with self.assertRaisesRegex(pyplenum.PlenumError, "released"):
                b.pixels
            self.assertEqual(labels.shape, (1, 1, 8))

    def test_in_place(self):
        """arrays may be modified in place, without changing other batches"""
        with stream(epochs=3) as s, stream(epochs=3) as untouched:
            for b, other in zip(s, untouched):
                for name in ("pixels", "labels", "samples", "positions", "valid", "epochs"):
                    np.testing.assert_array_equal(getattr(b, name), getattr(other, name))
                    getattr(b, name)[...] = 1

    def test_inside_the_ring(self):
        """the pixels of every batch lie inside the ring, each in its own slot, and nothing is copied"""
        with stream(epochs=None) as s:
            base, size = s.ring
            held = [next(s) for _ in range(s.slots)]
            slots = set()
            for b in held:
                at = b.pixels.__array_interface__["data"][0]
                self.assertTrue(base <= at and at + b.pixels.nbytes <= base + size)
                self.assertEqual(b.images.__array_interface__["data"][0], at)
                self.assertTrue(base <= b.labels.__array_interface__["data"][0] < base + size)
                slots.add((at - base) // (size // s.slots))
            self.assertEqual(slots, set(range(s.slots)))

    def test_on_ring(self):
        """a program is notified when memory is mapped and unmapped"""
        told = []
        s = stream(epochs=None, on_ring=lambda base, size, present: told.append((base, size, present)))
        self.assertEqual(told, [])
        batch = next(s)
        self.assertEqual(told, [(*s.ring, True)])
        base, size = s.ring
        s.close()
        self.assertEqual(len(told), 1, "the ring must stay pinned while it holds a batch")
        del s
        del batch
        self.assertEqual(told, [(base, size, True), (base, size, False)])

    def test_names(self):
        """samples have the names of their files"""
        with stream() as s:
            b = next(s)
            names = s.names(b.samples)
            self.assertEqual(len(names), 8)
            classes = sorted(os.listdir(DATA))
            for name, label in zip(names, b.labels.reshape(-1)):
                self.assertTrue(os.path.isfile(name))
                self.assertEqual(os.path.relpath(name, DATA).split(os.sep)[0], classes[label])
            self.assertEqual(len(set(s.names(range(s.num_samples)))), 56)
            self.assertEqual(s.names([]), [])
            with self.assertRaisesRegex(pyplenum.PlenumError, "no sample 56"):
                s.names([3, 56])

    def test_classes(self):
        """classes have the names of their folders; numeric labels have none"""
        with stream() as s:
            self.assertEqual(s.classes, sorted(os.listdir(DATA)))
            self.assertEqual(len(s.classes), s.num_classes)
        with pyplenum.Stream("generated:20", PIPELINE, micro_batch=4) as s:
            self.assertIsNone(s.classes)

    def test_passed_over(self):
        """images in other formats or with other extensions, and classes without images, are reported once"""
        data = os.path.join(T, "mixed")
        shutil.copytree(DATA, data)
        os.mkdir(os.path.join(data, "empty"))
        os.mkdir(os.path.join(data, "scans"))
        first = os.path.join(data, sorted(os.listdir(DATA))[0])
        for folder, name in ((first, "a.bmp"), (os.path.join(data, "scans"), "b.BMP"), (first, "c.gif"),
                             (first, "notes.txt")):
            with open(os.path.join(folder, name), "w") as f:
                f.write(name)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with pyplenum.Stream(data, PIPELINE, micro_batch=8, epochs=2) as s:
                for _ in s:
                    pass
        self.assertEqual([w.category for w in caught], [pyplenum.LoaderWarning])
        sentence = ("3 images in other formats or with other extensions (1 .gif, 2 .bmp) are left out: convert them; "
                    "2 folders without other images count as classes: 'empty', 'scans'")
        self.assertIn(sentence, str(caught[0].message))
        told = subprocess.run([CTL, "index", data], check=True, capture_output=True, text=True).stdout
        self.assertIn(f"warning      {sentence}\n", told)
        self.assertIn("skipped      4 files", told)
        makers = [pyplenum.Stream]
        if torch is not None:
            from pyplenum.torch import Loader
            makers.append(Loader)
        for make in makers:
            with self.subTest(make.__name__), warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                with make(data, PIPELINE, micro_batch=8) as s:  # no batch of it is requested
                    self.assertEqual([(w.category, w.filename) for w in caught], [(pyplenum.LoaderWarning, __file__)])
                    self.assertIn(sentence, str(caught[0].message))
                    if make is pyplenum.Stream:
                        next(s)
                self.assertEqual(len(caught), 1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaisesRegex(pyplenum.LoaderWarning, "count as classes: 'empty'"):
                pyplenum.Stream(data, PIPELINE, micro_batch=8)

    def test_poll(self):
        """select() reports when a batch is ready, so that a whole run never waits in next()"""
        with stream() as s:
            got = 0
            while True:
                self.assertEqual(select.select([s], [], [], 60)[0], [s])
                try:
                    got += s.next(timeout=0).hash()
                except StopIteration:
                    break
            self.assertEqual(got % 2**64, plenumctl_hash("--epochs", "2"))

    def test_place(self):
        """the position has the epoch, the position in it and the steps left"""
        with stream(epochs=None) as s:
            for i in range(20):
                self.assertEqual(s.place, (i // 7, i % 7 * 8, 7 - i % 7))
                next(s)
            s.seek_to(5, 16)
            self.assertEqual(s.place, (5, 16, 5))
            b = next(s)
            self.assertEqual((b.epochs[0], b.positions.min()), (5, 16))

    def test_dlpack(self):
        """arrays go through DLPack without a copy, and hold the slot"""
        with stream(epochs=None) as s:
            b = next(s)
            for name in ("pixels", "labels", "samples", "positions", "epochs"):
                array = getattr(b, name)
                other = np.from_dlpack(array)
                self.assertEqual(other.__array_interface__["data"][0], array.__array_interface__["data"][0])
            kept = np.from_dlpack(b.pixels)
            before = kept.copy()
            del b, array, other
            for _ in range(20):
                next(s)
            np.testing.assert_array_equal(kept, before)

    def test_two_streams(self):
        """two streams of one loader can be read alternately"""
        with stream(epochs=3) as train, stream(epochs=1, shuffle="none", micro_batch=5) as other:
            got = [0, 0]
            streams = [(0, train), (1, other)]
            while streams:
                for k, s in list(streams):
                    try:
                        got[k] += next(s).hash()
                    except StopIteration:
                        streams.remove((k, s))
            self.assertEqual(train.stats.loader, other.stats.loader)
        self.assertEqual(got[0] % 2**64, plenumctl_hash("--epochs", "3"))
        self.assertEqual(got[1] % 2**64, plenumctl_hash("--shuffle", "none"))

    def test_fork(self):
        """a forked child gets an error, may open its own streams, and harms nothing"""
        with stream() as s:
            got = next(s).hash()
            held = next(s)

            def work():
                nonlocal held
                told = all_refused(lambda: next(s), lambda: s.cursor, lambda: s.place, lambda: s.stats, lambda: s.ring)
                del held
                s.close()
                with stream() as own:
                    return told and sum(b.hash() for b in own) % 2**64 == plenumctl_hash("--epochs", "2")

            self.assertTrue(in_child(work))
            got += held.hash()
            del held
            got += sum(b.hash() for b in s)
        self.assertEqual(got % 2**64, plenumctl_hash("--epochs", "2"))

    def test_child_is_told_by_all(self):
        """all calls on a parent's stream raise an error in a forked child"""
        with stream() as s:
            next(s)
            self.assertTrue(in_child(lambda: all_refused(
                lambda: s.place, lambda: s.cursor, lambda: s.stats, lambda: s.ring, lambda: next(s),
                lambda: s.names([0]), lambda: s.fileno(), lambda: s.seek_to(0)) and "of another process" in repr(s)))

    def test_arguments(self):
        """common usage works, or an error says what to write"""
        with stream(shuffle=False, micro_batch=np.int64(8),
                    seed=np.uint64(7)) as s, stream(shuffle="none", seed=7) as same:
            self.assertEqual(s.identity, same.identity)
        with pyplenum.Stream(pathlib.Path(DATA), PIPELINE, shuffle=True, seed=2**64 - 1) as s:
            self.assertEqual(s.num_samples, 56)
        for error, said, options in (
                (ValueError, "seed must be from 0", {"seed": -1}), (ValueError, "seed must be from 0", {"seed": 2**64}),
                (TypeError, "seed must be a whole number", {"seed": 1.5}),
                (TypeError, "seed must be a whole number", {"seed": None}), (ValueError, "micro_batch must be from 1", {
                    "micro_batch": 2**32}), (ValueError, "micro_batch", {"micro_batch": 0}),
                (TypeError, "micro_batch", {"micro_batch": 2.0}), (ValueError, "steps", {"steps": 2**32 + 1}),
                (ValueError, "repeat", {"repeat": 2**32 + 1}), (ValueError, "channels", {"channels": 2**32 + 3}),
                (ValueError, "prefetch_depth", {"prefetch_depth": -1}), (ValueError, "epochs", {"epochs": 0}),
                (ValueError, "epochs", {"epochs": 2**64 + 1}), (ValueError, "seconds", {"loader_timeout": -1}),
                (ValueError, "seconds", {"silence": float("nan")}),
                (TypeError, "seconds", {"silence": "5s"}), (TypeError, "shuffle", {"shuffle": 1}),
                (TypeError, "subset", {"subset": (0, 8)}), (ValueError, "NUL", {"subset": "0:8\0"}),
                (TypeError, "use 'micro_batch'", {"batch_size": 8}), (TypeError, "no worker processes", {
                    "num_workers": 8}), (TypeError, "there is no option 'colour'", {"colour": 1}),
                (ValueError, "last must be one of", {"last": "partial"}), (ValueError, "replicas", {"job": 0}),
                (ValueError, "replicas", {"job": 2**32 + 1}), (ValueError, "pass both", {"rank": 0}),
                (ValueError, "rank must be from 0 to 1", {"rank": 2, "world_size": 2}),
                (ValueError, "pass either 'job'", {"rank": 0, "world_size": 2, "job": 1}),
                (ValueError, "whole job", {"rank": 0, "world_size": 1, "together": True})):
            with self.subTest(options=options), self.assertRaisesRegex(error, said):
                stream(**options)
        with self.assertRaisesRegex(ValueError, "NUL"):
            pyplenum.Stream(DATA + "\0x", PIPELINE)
        with stream() as s:
            for error, said, call in ((ValueError, "samples", lambda: s.names([2**32])),
                                      (ValueError, "samples", lambda: s.names([-1])),
                                      (ValueError, "samples", lambda: s.names([0.5])),
                                      (ValueError, "epoch", lambda: s.seek_to(-1)),
                                      (TypeError, "32 bytes", lambda: s.seek("0" * 32)),
                                      (ValueError, "root", lambda: pyplenum.job().broadcast(np.zeros(1), root=-1)),
                                      (ValueError, "seed", lambda: pyplenum.job().broadcast_seed(2**64)),
                                      (ValueError, "replica", lambda: pyplenum.job().replica_seed(1, -1)),
                                      (ValueError, "seconds", lambda: pyplenum.job().set_timeout(-1))):
                with self.assertRaisesRegex(error, said):
                    call()
        self.assertEqual(pyplenum.job().broadcast_seed(0), 0, "0 must be accepted as a seed")

    def test_rank(self):
        """rank= and world_size= select a stream's share; together the shares are the whole"""
        got = 0
        for rank in range(3):
            with stream(rank=rank, world_size=3) as s:
                got += sum(b.hash() for b in s)
                self.assertIn(f"replicas {rank}..{rank} of 3", repr(s))
        self.assertEqual(got % 2**64, plenumctl_hash("--epochs", "2"))

    def test_for_users(self):
        """repr() describes the object; objects that cannot be copied raise an error that names a remedy"""
        with stream() as s:
            b = next(s)
            self.assertRegex(repr(s), r"Stream '.*data' 'rrc\(32\) flip\(0.5\)': 56 samples of 8 classes, replicas "
                                      r"0..0 of 1, at epoch 0, position 8")
            self.assertRegex(repr(b), r"Batch 0: int8 pixels \[1, 1, 8, 32, 32, 3\], epoch 0, 8 valid")
            for thing, said in ((b, "copy its arrays"), (s, "open another one"), (pyplenum.job(), "call pyplenum.job")):
                for call in (copy.copy, copy.deepcopy, pickle.dumps):
                    with self.assertRaisesRegex(TypeError, said):
                        call(thing)
            b.release()
            self.assertIn("released", repr(b))
        self.assertIn("closed", repr(s))

    def test_no_growth(self):
        """10,000 epochs of a tiny stream leak no memory, descriptors or threads"""
        def usage():
            gc.collect()
            pages = int(open("/proc/self/statm").read().split()[1])
            return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), pages * os.sysconf(
                "SC_PAGESIZE")

        tiny = os.path.join(T, "tiny")
        subprocess.run([CTL, "make-sample", tiny, "--images", "1", "--classes", "4", "--size", "64"], check=True,
                       stdout=subprocess.DEVNULL)
        with pyplenum.Stream(tiny, "rrc(8)", micro_batch=4, epochs=10000) as s:
            for i, b in enumerate(s):
                self.assertEqual((b.epochs[0], b.num_valid), (i, 4))
                total = int(b.pixels.sum()) + int(b.labels.sum()) + int(b.valid.sum())
                self.assertGreater(total, -10**9)
                if i == 2000:
                    before = usage()
            after = usage()
            self.assertEqual(i, 9999)
        self.assertEqual(after[:2], before[:2])
        self.assertLess(after[2] - before[2], 1 << 20, "bytes")

    def test_resume(self):
        """a run stopped anywhere and resumed from its cursor is the same run, also with other replicas"""
        want = plenumctl_hash("--epochs", "2")
        for cut in range(0, 15, 2):
            with stream() as s:
                got = sum(next(s).hash() for _ in range(cut))
                cursor = s.cursor
            self.assertEqual(len(cursor), 32)
            with stream(job=3, micro_batch=5) as s:
                s.seek(cursor)
                got += sum(b.hash() for b in s)
            self.assertEqual(got % 2**64, want, cut)

    def test_errors(self):
        """errors carry errno and a message"""
        with self.assertRaises(pyplenum.PlenumError) as caught:
            pyplenum.Stream(os.path.join(T, "nowhere"))
        self.assertEqual(caught.exception.errno, 2)
        self.assertIn("nowhere", str(caught.exception))
        with self.assertRaisesRegex(pyplenum.PlenumError, "pipeline"):
            pyplenum.Stream(DATA, "blur(3)")
        with self.assertRaisesRegex(ValueError, "float"):
            pyplenum.Stream(DATA, dtype="float32")
        with stream() as s, self.assertRaisesRegex(ValueError, "32 bytes"):
            s.seek(b"short")
        with stream() as s, self.assertRaisesRegex(pyplenum.PlenumError, "another data set"):
            s.seek(bytes(32))
        with self.assertRaisesRegex(pyplenum.PlenumError, "closed"):
            next(s)

    def test_timeout(self):
        """next() with a time limit raises TimeoutError, and the following call continues"""
        with stream(epochs=1) as s:
            got = 0
            while True:
                try:
                    got += s.next(timeout=0).hash()
                except TimeoutError:
                    continue
                except StopIteration:
                    break
            self.assertEqual(got % 2**64, plenumctl_hash())

    def test_warnings(self):
        """a killed loader causes a warning, and no loss"""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            got = 0
            with stream(epochs=40) as s:
                for i, batch in enumerate(s):
                    got += batch.hash()
                    if i == 60:
                        kill_loaders()
                self.assertEqual(s.stats.incidents, 1)
        self.assertEqual(got % 2**64, plenumctl_hash("--epochs", "40"))
        self.assertEqual([w.category for w in caught], [pyplenum.LoaderWarning])
        self.assertEqual(caught[0].filename, __file__, "the line of the program")

    def test_warnings_as_errors(self):
        """turning a warning into an error loses no batch"""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            got, raised, number = 0, 0, 0
            with stream(epochs=40) as s:
                while True:
                    try:
                        got += next(s).hash()
                    except pyplenum.LoaderWarning:
                        raised += 1
                    except StopIteration:
                        break
                    number += 1
                    if number == 60:
                        kill_loaders()
        self.assertEqual((raised, got % 2**64), (1, plenumctl_hash("--epochs", "40")))

    def test_cache_folder(self):
        """when an index cannot be stored, the message names the folder and how to choose another"""
        program = "import pyplenum, sys; next(pyplenum.Stream(sys.argv[1], 'rrc(8)'))"
        file = os.path.join(T, "no-folder")
        with open(file, "w") as f:
            f.write("mine")
        for folder in ("/dev/null/nowhere", file, file + "/below"):
            with self.subTest(folder=folder):
                done = run_program(program, PLENUM_CACHE_DIR=folder)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stderr,
                                 f"its index cannot be saved in the cache folder {folder}, so it is rebuilt each time "
                                 "the data set is opened: check that this is a folder .*PLENUM_CACHE_DIR")
        with open(file) as f:
            self.assertEqual(f.read(), "mine")

    def test_other_threads_run(self):
        """a thread that waits for a batch does not hold the interpreter lock"""
        ticks = []
        done = threading.Event()

        def tick():
            while not done.is_set():
                ticks.append(1)
                time.sleep(0.001)

        thread = threading.Thread(target=tick)
        thread.start()
        with self.assertRaises(pyplenum.PlenumError):
            stream(loader="unix:@plenum-nobody-listens-here", loader_timeout=0.5)
        done.set()
        thread.join()
        self.assertGreater(len(ticks), 50)

    def test_closed_by_another_thread(self):
        """a stream may be closed while other threads use it: they raise, and nothing crashes"""
        for _ in range(20):
            s = stream(epochs=None)
            first = next(s)
            threads, errors = [], []

            def read(call):
                try:
                    while True:
                        call()
                except pyplenum.PlenumError as error:
                    errors.append(error.errno)

            for call in (lambda: s.next(), lambda: s.names([0, 1]), lambda: s.cursor, lambda: s.place):
                threads.append(threading.Thread(target=read, args=(call,)))
                threads[-1].start()
            time.sleep(0.01)
            s.close()
            for thread in threads:
                thread.join(60)
            self.assertEqual(errors, [errno.EBADF] * 4)
            self.assertEqual(first.images.shape[0], 8)
            s.close()

    def test_stats_of_a_closed_stream(self):
        """the statistics remain after a stream is closed, and no longer change"""
        with stream(epochs=1) as s:
            count = sum(b.num_valid for b in s)
            before = s.stats
        last = s.stats
        self.assertEqual((last.samples, last.batches, last.rendered), (count, before.batches, before.rendered))
        self.assertEqual((last.ready, last.in_flight, last.loaders, last.loader), (0, 0, 0, ""))
        self.assertGreaterEqual(last.elapsed, before.elapsed)
        self.assertEqual(s.stats, last)
        s.close()
        self.assertEqual(s.stats, last)
        self.assertTrue(in_child(lambda: all_refused(lambda: s.stats)))
        with self.assertRaises(pyplenum.PlenumError):
            s.place

    def test_a_handler_closes(self):
        """a signal handler may close the stream that the interrupted thread waits in"""
        program = ("import os, pyplenum, signal, sys\n"
                   "s = pyplenum.Stream(sys.argv[1], 'resize(32) center_crop(32)', micro_batch=4, epochs=None)\n"
                   "signal.signal(signal.SIGALRM, lambda *_: s.close())\n"
                   "signal.setitimer(signal.ITIMER_REAL, 0.2)\n"
                   "try:\n"
                   "    while True: next(s)\n"
                   "except pyplenum.PlenumError as e:\n"
                   "    print(e.errno)\n")
        out = run_program(program)
        self.assertEqual((out.stdout, out.returncode), (f"{errno.EBADF}\n", 0), out.stderr)

    def test_trace_and_fork(self):
        """a child that exits normally writes nothing into the parent's trace"""
        program = ("import glob, json, os, pyplenum, sys\n"
                   "s = pyplenum.Stream(sys.argv[1], 'resize(32) center_crop(32)', micro_batch=4, epochs=2)\n"
                   "for i, b in enumerate(s):\n"
                   "    if i % 3 == 0 and os.fork() == 0: sys.exit(0)\n"
                   "del b; s.close()\n"
                   "file, = glob.glob(os.environ['PLENUM_TRACE'] + '/*')\n"
                   "print(len(json.load(open(file))) > 20)\n")
        out = run_program(program, PLENUM_TRACE=os.path.join(T, "trace"))
        self.assertEqual((out.stdout, out.returncode), ("True\n", 0), out.stderr)

    def test_limits(self):
        """next() with an expired limit does not wait; limits of a stream may be infinite, but not negative"""
        with stream(epochs=None, loader_timeout=float("inf"), silence=float("inf")) as s:
            held = [next(s) for _ in range(s.slots)]
            del held
            for timeout in (-0.001, -1e300, 0):
                for _ in range(3):
                    try:
                        s.next(timeout=timeout)
                    except TimeoutError:
                        pass
            next(s)
        for wrong in ({"loader_timeout": -5}, {"silence": -1}, {"loader_timeout": float("nan")}):
            with self.assertRaises(ValueError):
                stream(**wrong)
        with self.assertRaises(ValueError):
            pyplenum.job().set_timeout(-1)

    def test_interrupt(self):
        """Ctrl-C interrupts a wait for a batch"""
        program = ("import pyplenum, sys\n"
                   "try:\n"
                   "    print('waiting', flush=True)\n"
                   "    pyplenum.Stream(sys.argv[1], loader='unix:@plenum-nobody-listens-here')\n"
                   "except KeyboardInterrupt:\n"
                   "    print('interrupted')\n")
        child = subprocess.Popen([sys.executable, "-c", program, DATA], stdout=subprocess.PIPE, text=True,
                                 env={**os.environ, "PYTHONPATH": os.path.join(SOURCE, "python")})
        self.assertEqual(child.stdout.readline(), "waiting\n")
        time.sleep(0.5)  # by then, the program most likely waits in the C library
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=300)
        self.assertEqual((out, child.returncode), ("interrupted\n", 0))

    def test_interrupted_too_late(self):
        """a stream being opened during Ctrl-C is released, without a memory leak"""
        # (In Python 3.11 an interrupted join() considers its thread finished, so existing threads are counted.)
        program = ("import gc, os, pyplenum, signal, sys, threading, time\n"
                   "from pyplenum.stream import lib\n"
                   "open_it, heard = lib.plenum_stream_open, threading.Event()\n"
                   "def interrupted(*arguments):\n"
                   "    code = open_it(*arguments)\n"
                   "    os.kill(os.getpid(), signal.SIGINT)\n"
                   "    heard.wait()\n"
                   "    return code\n"
                   "def rings():\n"
                   "    with open('/proc/self/maps') as f: return f.read().count('plenum-ring')\n"
                   "with pyplenum.Stream(sys.argv[1]): print(rings())\n"
                   "lib.plenum_stream_open = interrupted\n"
                   "try:\n"
                   "    pyplenum.Stream(sys.argv[1])\n"
                   "except KeyboardInterrupt:\n"
                   "    pass\n"
                   "heard.set()\n"
                   "while 'plenum-open' in [t.name for t in threading.enumerate()]: time.sleep(0.01)\n"
                   "gc.collect()\n"
                   "print(rings())\n")
        out = run_program(program)
        self.assertEqual((out.stdout, out.returncode), ("1\n0\n", 0), out.stderr)

    def test_interrupted_with_a_batch(self):
        """Ctrl-C at the moment when a batch arrives leaves no slot held"""
        take = pyplenum.stream.lib.plenum_stream_next

        def interrupted(*arguments):
            self.assertEqual(take(*arguments), 0)
            raise KeyboardInterrupt
        with pyplenum.Stream(DATA, PIPELINE) as s:
            for _ in range(2 * s.slots):
                with unittest.mock.patch.object(pyplenum.stream.lib, "plenum_stream_next", interrupted), \
                        self.assertRaises(KeyboardInterrupt):
                    s.next()
                with s.next(timeout=60) as batch:
                    self.assertEqual(batch.num_valid, 1)


class FakeBar:
    """A fake tqdm that records its calls."""

    made = []

    def __init__(self, iterable, **options):
        self.iterable, self.options, self.postfix = iterable, options, []
        FakeBar.made.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        pass

    def __iter__(self):
        return iter(self.iterable)

    def set_postfix(self, values, refresh):
        self.postfix.append(values)


class ProgressTest(unittest.TestCase):
    def setUp(self):
        FakeBar.made = []
        self.before = sys.modules.get("tqdm")
        tqdm = types.ModuleType("tqdm")
        tqdm.__spec__ = importlib.machinery.ModuleSpec("tqdm", None)  # PyTorch checks whether it can be imported
        tqdm.tqdm = FakeBar
        sys.modules["tqdm"] = tqdm

    def tearDown(self):
        if self.before is None:
            del sys.modules["tqdm"]
        else:
            sys.modules["tqdm"] = self.before

    def test_bar(self):
        """instance 0 shows a bar, with images per second and the share of waiting; all batches arrive"""
        with stream(epochs=3) as s:
            got = 0
            for batch in pyplenum.progress(s, desc="training"):
                got += batch.hash()
                time.sleep(0.07)  # the bar is updated by time
        self.assertEqual(got % 2**64, plenumctl_hash("--epochs", "3"))
        bar, = FakeBar.made
        self.assertEqual(bar.options, {"unit": "batch", "desc": "training"})
        self.assertTrue(bar.postfix)
        for values in bar.postfix:
            self.assertEqual(list(values), ["img/s", "waiting"])
            self.assertGreater(int(values["img/s"]), 0)

    def test_others(self):
        """instances other than 0 show no bar"""
        other = types.SimpleNamespace(instance_index=1)
        self.assertEqual(list(pyplenum.progress([1, 2, 3], job=other)), [1, 2, 3])
        self.assertEqual(FakeBar.made, [])

    def test_missing(self):
        """without tqdm there is a warning, and no bar"""
        sys.modules["tqdm"] = None
        with self.assertWarnsRegex(UserWarning, "tqdm is not installed"):
            self.assertEqual(list(pyplenum.progress([1, 2, 3])), [1, 2, 3])


@unittest.skipIf(torch is None, "PyTorch is not installed for this Python")
class TorchTest(unittest.TestCase):
    def test_tensors(self):
        """tensors are views of the ring, and hold its slot"""
        import pyplenum.torch

        with stream(epochs=None, layout="nchw") as s:
            batch = next(s)
            address = batch.pixels.__array_interface__["data"][0]
            images, labels, valid = pyplenum.torch.tensors(batch)
            self.assertEqual(images.data_ptr(), address)
            self.assertEqual((images.shape, images.dtype), ((8, 3, 32, 32), torch.int8))
            self.assertEqual((labels.shape, labels.dtype), ((8,), torch.int64))
            self.assertEqual((valid.shape, valid.dtype), ((8,), torch.bool))
            del batch
            before = images.clone()
            for _ in range(20):
                next(s)
            self.assertTrue(torch.equal(images, before))

    def test_every_field(self):
        """all arrays are tensors without a copy or a warning, and may be modified"""
        import pyplenum.torch

        with warnings.catch_warnings(), stream(steps=2) as s:
            warnings.simplefilter("error")
            b = next(s)
            for name, dtype, count in (("images", torch.int8, 16), ("labels", torch.int64, 16),
                                       ("valid", torch.bool, 16), ("samples", torch.int32, 16),
                                       ("positions", torch.int64, 16), ("epochs", torch.int64, 2)):
                array, tensor = getattr(b, name), pyplenum.torch.tensor(b, name)
                self.assertEqual(tensor.data_ptr(), array.__array_interface__["data"][0], name)
                self.assertEqual((tensor.dtype, tensor.shape[0]), (dtype, count), name)
                np.testing.assert_array_equal(tensor.numpy(), array.reshape(tensor.shape), name)
                tensor.zero_()
                self.assertFalse(array.any(), name)
            self.assertEqual(torch.from_dlpack(b.pixels).data_ptr(), b.pixels.__array_interface__["data"][0])
            with self.assertRaisesRegex(ValueError, "colour"):
                pyplenum.torch.tensor(b, "colour")

    def test_collectives_take_tensors(self):
        """collectives work on tensors in place"""
        job = pyplenum.job()
        x = torch.ones(4, requires_grad=True)
        self.assertIs(job.broadcast(x), x)
        with self.assertRaisesRegex(ValueError, "contiguous"):
            job.broadcast(torch.zeros(4, 4).t())


def loader(**options):
    import pyplenum.torch

    return pyplenum.torch.Loader(DATA, PIPELINE,
                                 **{"micro_batch": 8, "fields": ("images", "samples", "valid"), **options})


def shown(batches):
    """Return the samples that count, in their order."""
    return [int(n) for _, samples, valid in batches for n, v in zip(samples, valid) if v]


@unittest.skipIf(torch is None, "PyTorch is not installed for this Python")
class LoaderTest(unittest.TestCase):
    def reference(self, epochs=3, **options):
        """Return the samples of each epoch, read from a stream."""
        with stream(epochs=epochs, **options) as s:
            result = [[] for _ in range(epochs)]
            for b in s:
                result[int(b.epochs[0])] += b.samples[b.valid].tolist()
        return result

    def test_hash(self):
        """the sum of the field "hash" equals plenumctl's, for every mode of the last batch, images and floats"""
        import pyplenum.torch

        want = plenumctl_hash("--epochs", "2")
        for options in ({}, {"last": "partial", "micro_batch": 7}, {"last": "pad"}, {"dtype": torch.float32}):
            with self.subTest(options), loader(**{"fields": ("hash", "images"), **options}) as l:
                got = [each for _ in range(2) for each, images in l if len(images)]
                self.assertIs(type(got[0]), int)
                self.assertEqual(sum(got) % 2**64, want)
        with stream() as s, self.assertRaisesRegex(ValueError, r"batch\.hash\(\)"):
            pyplenum.torch.tensor(next(s), "hash")

    def test_epochs(self):
        """each loop is one epoch; len() is its number of batches"""
        for options in ({}, {"micro_batch": 5}, {"micro_batch": 5, "last": "drop"}, {"job": 2, "micro_batch": 3}):
            with loader(**options) as l:
                got = []
                for _ in range(3):
                    batches = list(copied(l))
                    self.assertEqual(len(batches), len(l))
                    got.append(shown(batches))
                    self.assertEqual(l.epoch, len(got))
            self.assertEqual(got, self.reference(**{"micro_batch": 8, **options}), options)

    def test_fields(self):
        """batches have images and labels unless other fields are named"""
        import pyplenum.torch

        with pyplenum.torch.Loader(DATA, PIPELINE, micro_batch=4) as l:
            images, labels = next(iter(l))
            self.assertEqual((images.shape, images.dtype), ((4, 3, 32, 32), torch.uint8))
            self.assertEqual((labels.shape, labels.dtype), ((4,), torch.int64))

    def test_state(self):
        """a loop stopped anywhere continues in another loader from its state, with other replicas, too"""
        want = self.reference(2)
        for cut in range(0, 15):
            with loader() as l:
                got = []
                state = l.state_dict()
                while len(got) < cut:
                    for batch in l:
                        got.append(tuple(t.clone() for t in batch))
                        state = l.state_dict()
                        if len(got) == cut:
                            break
            state = torch_roundtrip(state)
            with loader(**({"job": 4, "micro_batch": 2} if cut % 2 else {"job": 3, "micro_batch": 5})) as l:
                l.load_state_dict(state)
                self.assertEqual(l.epoch, cut // 7)
                while l.epoch < 2:
                    got += list(copied(l))
            self.assertEqual(shown(got), want[0] + want[1], cut)

    def test_left_early(self):
        """leaving a loop early skips the rest of its epoch; of two loops the newer one continues"""
        want = self.reference(3)
        with loader() as l:
            first = iter(l)
            next(first)
            self.assertEqual(shown(copied(l)), want[1])
            with self.assertRaisesRegex(RuntimeError, "newer"):
                next(first)
            l.set_epoch(0)
            self.assertEqual(shown(copied(l)), want[0])
            l.set_epoch(2)
            self.assertEqual(shown(copied(l)), want[2])

    def test_nothing_taken(self):
        """iter() alone skips no batch, also after an abandoned loop, and in mid-epoch"""
        want = self.reference(3)
        with loader() as l:
            iter(l), iter(l)
            next(iter(l))
            state = l.state_dict()
            iter(l), iter(l)
            self.assertEqual(shown(copied(l)), want[1])
            l.load_state_dict(state)
            iter(l), iter(l)
            self.assertEqual(shown(copied(l)), want[0][8:])
            self.assertEqual(shown(copied(l)), want[1])

    def test_dataset(self):
        """a Loader's dataset has a length and classes, but no samples"""
        with loader(repeat=3, subset="0:20") as l:
            self.assertEqual((len(l.dataset), l.dataset.classes), (60, l.stream.classes))
            with self.assertRaisesRegex(TypeError, "but no samples: loop over the Loader"):
                l.dataset[0]

    def test_steps(self):
        """batches of several steps belong to one epoch, or are rejected"""
        with loader(steps=7) as l:
            self.assertEqual(len(l), 1)
            self.assertEqual(sorted(shown(l)), list(range(56)))
        with self.assertRaisesRegex(ValueError, "an epoch has 7 steps, which is not a multiple of the 2 steps"):
            loader(steps=2)
        with loader() as one, loader(steps=7) as seven:
            next(iter(one))
            before = seven.state_dict()
            with self.assertRaisesRegex(ValueError, "6 steps left"):
                seven.load_state_dict(one.state_dict())
            self.assertEqual(seven.state_dict(), before)

    def test_holding(self):
        """batches hold slots, unless they are copies"""
        with loader() as l, self.assertRaises(pyplenum.SlotsHeldError):
            list(l)
        with loader(copy=True) as l:
            self.assertEqual(sorted(shown(list(l))), list(range(56)))

    def test_counting(self):
        """like a DataLoader, each sample counts once: the last batch is short"""
        for options in ({"shuffle": False}, {"shuffle": "none", "steps": 7}, {}, {"repeat": 3, "micro_batch": 9},
                        {"job": 2, "micro_batch": 9}):
            with loader(**{"micro_batch": 9, "fields": ("images", "labels"), "copy": True, **options}) as l:
                for _ in range(2):
                    batches = list(l)
                    self.assertEqual(sum(len(labels) for _, labels in batches), 56 * options.get("repeat", 1), options)
                    self.assertEqual([len(images) for images, _ in batches], [len(labels) for _, labels in batches])
                    self.assertEqual(len(batches), len(l))
        for options, want in (({"last": "pad"}, 63), ({"last": "drop"}, 54), ({"last": "partial"}, 56)):
            with loader(micro_batch=9, fields=("labels",), **options) as l:
                self.assertEqual(sum(len(labels) for labels, in l), want)

    def test_counting_by_several(self):
        """an evaluation by several instances counts each sample once, in equally many batches; training's are full"""
        for micro_batch in (8, 9, 23, 40):
            counts, seen, lengths, last = [], [], set(), []
            for rank in range(3):
                with loader(micro_batch=micro_batch, rank=rank, world_size=3, shuffle=False,
                            fields=("samples", "epochs")) as l:
                    batches = [(samples.tolist(), epochs.tolist()) for samples, epochs in l]
                    seen += sum((samples for samples, _ in batches), [])
                    counts.append(len(batches))
                    last.append(len(batches[-1][0]))
                    self.assertEqual(len(l), len(batches))
                    self.assertEqual({tuple(epochs) for _, epochs in batches}, {(0,)})
                with loader(micro_batch=micro_batch, rank=rank, world_size=3, fields=("labels",)) as l:
                    lengths |= {len(labels) for labels, in l}
            self.assertEqual(sorted(seen), list(range(56)))
            self.assertEqual((len(set(counts)), lengths), (1, {micro_batch}))
            self.assertLessEqual(max(last) - min(last), 1, "the last step is shared")

    def test_filled_up_by_several(self):
        """several instances with padded last batches get a warning, unless the program chose a mode; others do not"""
        def told(**options):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                with loader(**{"fields": ("images", "labels"), "micro_batch": 9, "rank": 1, "world_size": 3,
                               **options}):
                    pass
            return [str(w.message) for w in caught if w.filename == __file__]

        said = told()
        self.assertEqual(len(said), 1)
        self.assertIn('last="partial"', said[0])
        for options in ({"last": "pad"}, {"last": "partial"}, {"last": "drop"}, {"shuffle": "none"},
                        {"fields": ("images", "labels", "valid")}, {"rank": 0, "world_size": 1},
                        {"world_size": 2, "micro_batch": 7}, {"repeat": 3, "world_size": 2, "micro_batch": 7}):
            self.assertEqual(told(**options), [], options)
        self.assertEqual(len(told(micro_batch=8, repeat=2)), 1)

    def test_arguments(self):
        """common usage works, or an error says what to write"""
        import pyplenum.torch

        with pyplenum.torch.Loader(pathlib.Path(DATA), PIPELINE, shuffle=False, fields=["images"]) as l:
            images, = next(iter(l))
            self.assertEqual((images.dtype, images.shape), (torch.uint8, (1, 3, 32, 32)))
            self.assertRegex(repr(l), r"Loader '.*data' .*: 56 batches an epoch of \(images\), uint8, last='partial', "
                                      r"at epoch 0, position 1")
            for call in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(TypeError, "state_dict"):
                    call(l)
        for error, said, options in ((TypeError, "a sequence of names", {"fields": "images"}),
                                     (ValueError, "no 'image'", {"fields": ("image",)}),
                                     (TypeError, "use 'micro_batch'", {"batch_size": 8}),
                                     (ValueError, "seed", {"seed": -1}),
                                     (TypeError, "last='drop'", {"drop_last": True}),
                                     (ValueError, "last must be one of", {"last": "short"})):
            with self.subTest(options=options), self.assertRaisesRegex(error, said):
                loader(**options)

    def test_warnings_as_errors(self):
        """turning a warning into an error loses no batch, even if the loop restarts; the warning names its line"""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            got, raised, killed = [], 0, False
            with loader(prefetch_depth=1) as l:
                while l.epoch < 20:
                    try:
                        for batch in copied(l):
                            got.append(batch)
                            if len(got) == 30 and not killed:
                                kill_loaders()
                                killed = True
                    except pyplenum.LoaderWarning:
                        raised += 1
        self.assertEqual((raised, len(got)), (1, 140))
        self.assertEqual(shown(got), sum(self.reference(20), []))
        with warnings.catch_warnings(record=True) as caught, loader(prefetch_depth=1) as l:
            warnings.simplefilter("always")
            for _ in range(20):
                for i, _ in enumerate(l):
                    if l.epoch == 3 and i == 1:
                        kill_loaders()
        self.assertEqual([(w.category, w.filename) for w in caught], [(pyplenum.LoaderWarning, __file__)])

    def test_child(self):
        """all calls on a parent's Loader raise an error in a forked child"""
        with loader() as l:
            it = iter(l)
            next(it)
            self.assertTrue(in_child(lambda: all_refused(lambda: list(l), lambda: next(it), l.state_dict,
                                                         lambda: l.epoch, lambda: l.set_epoch(0))))
            self.assertEqual(len(shown(it)), 48)

    def test_pin_memory(self):
        """pin_memory copies into pinned memory; without an accelerator, it causes a warning"""
        if torch.cuda.is_available():
            with loader(pin_memory=True) as l:
                batches = list(l)
            self.assertTrue(all(t.is_pinned() for b in batches for t in b))
        else:
            with self.assertWarnsRegex(UserWarning, "no accelerator"), loader(pin_memory=True) as l:
                next(iter(l))

    def test_bad_states(self):
        """an invalid state, or one of a different stream, is rejected"""
        with loader() as l, loader(seed=1) as other:
            for state in ({}, {"version": 2, "cursor": ""}, {"version": 1, "cursor": b""}):
                with self.assertRaisesRegex(ValueError, "not a state"):
                    l.load_state_dict(state)
            with self.assertRaisesRegex(pyplenum.PlenumError, "another data set, pipeline, seed or order"):
                l.load_state_dict(other.state_dict())
            with self.assertRaisesRegex(pyplenum.PlenumError, "seed was 1 and is now 0$"):
                l.load_state_dict(torch_roundtrip(other.state_dict()))
            old = {"version": 1, "cursor": l.state_dict()["cursor"]}
            with self.assertRaisesRegex(ValueError, 'dtype="int8"'):
                l.load_state_dict(old)
        with loader(dtype="int8") as l:
            l.load_state_dict(old)
            self.assertEqual(next(iter(l))[0].dtype, torch.int8)
        with self.assertRaisesRegex(TypeError, "epochs"):
            loader(epochs=3)


def copied(batches):
    for batch in batches:
        yield tuple(t.clone() for t in batch)


def torch_roundtrip(state):
    """Return the state after it was stored in a checkpoint and loaded in untrusted mode."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


tap.main()
