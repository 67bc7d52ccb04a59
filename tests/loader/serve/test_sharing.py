# SPDX-License-Identifier: MIT
"""Jobs that share renderings (plenumd --share-memory): each receives exactly its own pixels, even if they are copied
from another job's. SHARING_RUNS=N is the number of random schedules (3), SHARING_SEED=N the first one's seed (1)."""

import itertools
import json
import os
import random
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from service import CTL, ServiceCase, stop, wait_for  # noqa: E402
import tap  # noqa: E402

RUNS = int(os.environ.get("SHARING_RUNS", "3"))
SEED = int(os.environ.get("SHARING_SEED", "1"))
IMAGES = 12
CLASSES = 4
SAMPLES = IMAGES * CLASSES
PIPELINES = ["rrc(48)flip(0.5)", "rrc(32x40)flip(0.5)color_jitter(0.4,0.4,0.4)", "rrc(40)mixup(0.2)",
             "view(large, 1, rrc(48)) view(small, 2, rrc(24)flip(0.5))"]


class SharingTest(ServiceCase):
    def setUp(self):
        super().setUp()
        self.make_data(IMAGES)
        wait_for("an index that is kept", self.index_is_kept)

    def index_is_kept(self):
        """Return whether two openings use one index. While files are new, each opening builds it again, and then their
        streams do not share."""
        stamps = []
        for _ in range(2):
            st = os.stat(json.loads(self.run_ok(CTL, "index", self.data, "--json"))["index"])
            stamps.append((st.st_ino, st.st_mtime_ns))
        return stamps[0] == stamps[1]

    def status(self):
        return json.loads(self.run_ok(CTL, "status", f"unix:{self.socket}", "--json"))["loader"]

    def rendered(self):
        """Return the number of samples that were rendered, not copied, and of those that were copied."""
        loader = self.status()
        return loader["samples"] - loader["shared"]["copied"], loader["shared"]["copied"]

    def hash(self, *arguments):
        return self.run_ok(CTL, "hash", self.data, *arguments).strip()

    def received(self, p, hash_alone):
        self.assertEqual(self.fed(p)[0]["hash"], hash_alone)

    def wait_until_read(self, *jobs):
        """Wait until each job has received a batch: it prints a line for each."""
        for job in jobs:
            self.assertTrue(job.stderr.readline(), "a job has ended")

    def test_equal_jobs_are_rendered_once(self):
        """All jobs of a sweep get their own batches, and the loader renders fewer samples than they receive"""
        epochs, batch = 12, 4
        forms = [["--dtype", "uint8"], ["--layout", "nchw"], ["--replicas", "3"], ["--steps", "2"]]
        self.serve("--share-memory", "64M")
        alone = self.alone(epochs)
        jobs = []
        for form in forms:  # no job may end before the others have begun
            jobs.append(self.feed("--epochs", str(epochs), "--pause", "10", "--verbose", *form))
            self.wait_until_read(jobs[-1])
            stop(jobs[-1])
        for job in jobs:
            job.send_signal(signal.SIGCONT)
        for job in jobs:
            self.received(job, alone)
        rendered, copied = self.rendered()
        shown = len(jobs) * epochs * SAMPLES
        self.assertGreaterEqual(rendered + copied, shown)
        # Nothing is evicted. A sample is rendered again only for a job that has started later.
        self.assertEqual(self.status()["shared"]["evicted"], 0)
        self.assertGreater(copied, 0)
        self.assertLess(rendered, shown - batch)

    def test_other_pixels_are_not_shared(self):
        """Jobs with another seed, pipeline, order or policy for bad samples share nothing"""
        self.serve("--share-memory", "64M")
        forms = [["--seed", "4"], ["--pipeline", "rrc(48)"], ["--shuffle", "block:4"], ["--subset", "0:40"],
                 ["--bad", "fail"], []]
        jobs = [self.feed("--epochs", "4", "--pause", "5", *form) for form in forms]
        for form, job in zip(forms, jobs):
            bad = form and form[0] == "--bad"
            self.received(job, self.hash("--pipeline", "rrc(48)flip(0.5)", "--seed", "3", "--epochs", "4",
                                         *([] if bad else form)))
        self.assertEqual(self.rendered()[1], 0)

    def test_one_job_shares_nothing(self):
        """A single job is rendered straight into its slots"""
        self.serve("--share-memory", "64M")
        self.received(self.feed("--epochs", "3"), self.alone(3))
        shared = self.status()["shared"]
        self.assertEqual([shared[name] for name in ("rendered", "copied", "kept", "refused")], [0, 0, 0, 0])

    def test_a_job_that_stops_delays_no_other(self):
        """A job that is stopped delays no other, and then continues with its own pixels"""
        self.serve("--share-memory", "40K")
        slow, fast = (self.feed("--epochs", "9", "--pause", "5", "--verbose", "--silence", "1000000")
                      for _ in range(2))
        self.wait_until_read(slow, fast)
        slow.send_signal(signal.SIGSTOP)
        self.received(fast, self.alone(9))
        slow.send_signal(signal.SIGCONT)
        self.received(slow, self.alone(9))

    def form(self, choose):
        """Return random options that change neither pixels nor the order."""
        return ["--replicas", str(choose.randint(1, 3)), "--micro-batch", str(choose.choice([1, 3, 4, 7])),
                "--dtype", choose.choice(["int8", "uint8"]), "--layout", choose.choice(["nhwc", "nchw"]),
                "--steps", str(choose.randint(1, 2)), "--prefetch-depth", str(choose.randint(1, 4)),
                "--pause", str(choose.choice([0, 1, 4, 10]))]

    def run_schedule(self, choose):
        """Run jobs of random forms and paces, some of which are killed, stopped or begin late. Return how many samples
        were copied."""
        memory, pipeline = choose.choice(["20K", "100K", "64M"]), choose.choice(PIPELINES)
        stream = ["--pipeline", pipeline, "--seed", str(choose.randint(1, 9))]
        stream += choose.choice([[], [], ["--shuffle", "block:4"], ["--subset", "3:40"]])
        epochs = choose.randint(1, 6)
        p = self.serve("--share-memory", memory)
        alone = self.hash(*stream, "--epochs", str(epochs))
        others = [self.feed(*stream, "--epochs", "1000000", *self.form(choose), "--verbose") for _ in range(2)]
        self.wait_until_read(*others)
        jobs = []
        for _ in range(4):
            jobs.append(self.feed(*stream, "--epochs", str(epochs), *self.form(choose)))
            if choose.random() < 0.5 and others:  # lose a job with which others share, at a random moment
                others.pop().kill()
            if choose.random() < 0.5:
                self.wait_for_samples(choose.randint(1, 2 * SAMPLES))
        for job in jobs:
            self.received(job, alone)
        copied = self.rendered()[1]
        for other in others:
            other.kill()
        self.assertLessEqual(self.status()["shared"]["bytes"], self.status()["shared"]["limit_bytes"])
        p.terminate()
        self.assertEqual(p.wait(), 0, self.said())
        return copied

    def wait_for_samples(self, more):
        before = self.status()["samples"]
        if any(True for _ in self.status_streams()):
            wait_for("some samples", lambda: self.status()["samples"] >= before + more or not self.status_streams())

    def status_streams(self):
        return json.loads(self.run_ok(CTL, "status", f"unix:{self.socket}", "--json"))["streams"]

    def test_random_schedules(self):
        """Random jobs, of which some are killed or begin late, receive exactly their own pixels"""
        copied = []
        for seed in itertools.islice(itertools.count(SEED), RUNS):
            with self.subTest(seed=seed):
                copied.append(self.run_schedule(random.Random(seed)))
        self.assertGreater(sum(copied), 0)


if __name__ == "__main__":
    tap.main()
