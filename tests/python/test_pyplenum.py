"""The Python package, against a real loader that it starts itself."""

import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings

import tap

BUILD = os.environ["top_builddir"]
SOURCE = os.environ["top_srcdir"]
if os.environ.get("PLENUM_SANITIZED"):
    tap.skip_all("a sanitized library cannot be loaded into an ordinary Python")
os.environ["PLENUM_LIBRARY"] = os.path.join(BUILD, ".libs", "libplenum.so.0")
sys.path.insert(0, os.path.join(SOURCE, "python"))
try:
    import numpy as np
except ImportError:
    tap.skip_all("NumPy is not installed for this Python")
try:
    import torch
except ImportError:
    torch = None

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


def stream(**options):
    return pyplenum.Stream(DATA, PIPELINE, **{"micro_batch": 8, "epochs": 2, **options})


class JobTest(unittest.TestCase):
    def test_alone(self):
        """a process alone is a job of one instance, whose collectives do nothing"""
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

    def test_what_cannot_be_worked_on_in_place(self):
        """arrays that are not contiguous, or of a type that cannot be added, are refused"""
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
        """the hash of what is delivered is plenumctl's"""
        for options in ({}, {"job": 3}, {"dtype": "uint8", "layout": "nchw"}, {"steps": 3, "micro_batch": 5},
                        {"channels": 4}):
            with stream(**options) as s:
                got = sum(batch.hash() for batch in s) % 2**64
            self.assertEqual(got, plenumctl_hash("--epochs", "2"), options)

    def test_arrays(self):
        """arrays have the shapes, types and content that are documented"""
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

    def test_int8_is_uint8_less_128(self):
        """int8 pixels are the uint8 ones less 128, NCHW the transposed NHWC"""
        with stream() as a, stream(dtype="uint8", layout="nchw") as b:
            x, y = next(a).pixels, next(b).pixels
            np.testing.assert_array_equal(x.astype(int) + 128, y.transpose(0, 1, 2, 4, 5, 3))

    def test_views(self):
        """views hold the slot, also after batch and stream are gone; the last one frees it"""
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
        """an error, and no hang, when views hold all slots"""
        with stream(epochs=None) as s:
            held = [next(s).labels for _ in range(s.slots)]
            with self.assertRaisesRegex(pyplenum.SlotsHeldError, "all 5 slots"):
                next(s)
            del held[2]
            next(s)

    def test_release(self):
        """a batch that was released is gone, unless views of it are held"""
        with stream() as s:
            with next(s) as b:
                labels = b.labels
            with self.assertRaisesRegex(pyplenum.PlenumError, "released"):
                b.pixels
            self.assertEqual(labels.shape, (1, 1, 8))

    def test_read_only(self):
        """pixels may be changed in place, the other arrays not"""
        with stream() as s:
            b = next(s)
            b.pixels[...] = 0
            with self.assertRaises(ValueError):
                b.labels[...] = 0

    def test_resume(self):
        """a run cut anywhere and resumed from its cursor is the same run, also with other replicas"""
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
        """errors carry errno and a sentence"""
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
        """next() with a time limit raises TimeoutError, and the next call goes on"""
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
        """a loader that was killed is a warning, and loses nothing"""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            got = 0
            with stream(epochs=40) as s:
                for i, batch in enumerate(s):
                    got += batch.hash()
                    if i == 60:
                        subprocess.run(["pkill", "-9", "-P", str(os.getpid()), "-x", "plenumd"], check=True)
                self.assertEqual(s.stats.incidents, 1)
        self.assertEqual(got % 2**64, plenumctl_hash("--epochs", "40"))
        self.assertEqual([w.category for w in caught], [pyplenum.LoaderWarning])

    def test_other_threads_run(self):
        """a thread that waits for a batch holds no lock of the interpreter's"""
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

    def test_interrupt(self):
        """Ctrl-C is heard while a batch is waited for"""
        program = ("import pyplenum, sys\n"
                   "try:\n"
                   "    pyplenum.Stream(sys.argv[1], loader='unix:@plenum-nobody-listens-here')\n"
                   "except KeyboardInterrupt:\n"
                   "    print('interrupted')\n")
        child = subprocess.Popen([sys.executable, "-c", program, DATA], stdout=subprocess.PIPE, text=True,
                                 env={**os.environ, "PYTHONPATH": os.path.join(SOURCE, "python")})
        time.sleep(1)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=20)
        self.assertEqual((out, child.returncode), ("interrupted\n", 0))


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

    def test_collectives_take_tensors(self):
        """collectives work on tensors in place"""
        job = pyplenum.job()
        x = torch.ones(4, requires_grad=True)
        self.assertIs(job.broadcast(x), x)
        with self.assertRaisesRegex(ValueError, "contiguous"):
            job.broadcast(torch.zeros(4, 4).t())


tap.main()
