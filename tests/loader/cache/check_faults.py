# SPDX-License-Identifier: MIT
"""make check-stores: streams from a store have the hash of the files, whatever happens to the store, the loader and its
cache.

Each run feeds one stream through a loader, with random faults of the store in its answers, and with other faults at
random moments: storms of 503, expired credentials, killed loaders, damaged or missing files of the cache, a full disk.
In some runs, an object changes; then the stream must end with an error that names it, or have the right hash. A fault
counts only if it has struck.

PLENUM_CACHE_RUNS is the number of runs (20), PLENUM_CACHE_SEED the first one's seed (1): PLENUM_CACHE_RUNS=1 repeats a
run. PLENUM_CACHE_TABLE names a file to which a line is added per run: seed, form, cache, and how often each fault
struck.
"""

import os
import random
import resource
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import test_caches  # noqa: E402
from test_caches import store_server, tap, test_stores  # noqa: E402

RUNS = int(os.environ.get("PLENUM_CACHE_RUNS", "20"))
FIRST = int(os.environ.get("PLENUM_CACHE_SEED", "1"))
TABLE = os.environ.get("PLENUM_CACHE_TABLE")
LIMIT_S = 300
CACHES = (("--cache-size", "0"), ("--cache-size", "200K"), ("--cache-size", "1G"), ("--cache-memory", "200K"))
FULL = "File too large"
EVENTS = ("storm", "expire", "kill", "damage", "unlink", "fill")


class Faults(store_server.Faults):
    """Random faults, and storms in which all requests get 503."""

    def __init__(self, store, seed, share):
        super().__init__(store, seed, share, stall_s=3)
        self.storm = 0

    def add(self, kind):
        with self.store.lock:
            self.counts[kind] = self.counts.get(kind, 0) + 1

    def __call__(self, request, path):
        with self.store.lock:
            strikes, self.storm = self.storm > 0, max(0, self.storm - 1)
        if strikes:
            self.add("storm")
            return self.slow(request, path, 0)
        try:
            return super().__call__(request, path)
        except store_server.Answer as answer:
            if answer.code == "ExpiredToken":
                self.add("expired")
            raise


class CacheFaults(test_caches.Caches):
    def setUp(self):
        super().setUp()
        self.tokens = 0
        self.store.token = "token-0"
        self.store.routes["/creds"] = self.give_credentials
        for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            del self.env[key]
        self.env.update(AWS_CONTAINER_CREDENTIALS_FULL_URI=self.store.url + "/creds", PLENUM_STORE_TIMEOUT="2s",
                        PLENUM_STORE_RETRY="200s")

    def give_credentials(self, request):
        request.send(200, (f'{{"AccessKeyId": "{store_server.KEY_ID}", "SecretAccessKey": "{store_server.SECRET}", '
                           f'"Token": "{self.store.token}", "Expiration": "2036-01-01T00:00:00Z"}}').encode())

    # ---- events; each returns how often it has struck ----

    def storm(self):
        self.faults.storm = self.random.randrange(1, 15)
        return 0  # the requests count

    def expire(self):
        """Let credentials expire. A request renews them once, so those that have done so must have ended."""
        if self.store.count < self.expired_at + 200:
            return 0
        self.expired_at = self.store.count
        self.tokens += 1
        self.store.token = f"token-{self.tokens}"
        return 0  # the requests count

    def kill(self):
        if "feed: batch" not in self.read_out():
            return 0  # a stream whose only loader ends while it opens its data set fails
        self.loader.kill()
        self.loader.wait()
        struck = self.feeder.poll() is None
        self.stop()
        self.start(self.cache_size, *self.more, where=self.cache_kind)
        return struck

    def damage(self):
        """Overwrite some bytes of rows and records."""
        struck = 0
        for path in self.files():
            with open(path, "r+b") as file:
                for _ in range(self.random.randrange(1, 12)):
                    row, size = self.random.randrange(test_caches.SAMPLES), self.random.randrange(1, 64)
                    file.seek(self.random.choice((4096 + row * 48 + self.random.randrange(48),
                                                  (1 << 20) + (row << 24) + self.random.randrange(3000))))
                    at, before = file.tell(), file.read(size)
                    bad = self.random.randbytes(size)
                    file.seek(at)
                    file.write(bad)
                    struck += any(before) and before != bad
        return struck

    def unlink(self):
        """Remove or truncate a file of the cache."""
        for path in self.files():
            if self.random.random() < 0.5:
                os.unlink(path)
            else:
                os.truncate(path, self.random.randrange(1 << 21))
            return 1
        return 0

    def fill(self):
        """Let the disk be full for a while: files can no longer grow."""
        before, pid = self.read_log().count(FULL), self.loader.pid
        hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (8 << 20, hard))
        self.wait_requests(30)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
        return self.read_log().count(FULL) - before

    def change(self):
        """Change an object that the stream reads."""
        names = [n for n in self.store.objects if n.startswith(self.prefix) and n.endswith((".tar", ".jpg"))]
        self.changed = self.random.choice(names)
        self.store.put(self.changed, self.store.objects[self.changed] + bytes(512))
        return 1

    # ---- a run ----

    def wait_requests(self, count):
        """Wait until the store has got this many requests more, or the stream has ended."""
        want, end = self.store.count + count, time.monotonic() + 5
        while self.store.count < want and self.feeder.poll() is None and time.monotonic() < end:
            test_stores.select.select([], [], [], 0.005)

    def read_out(self):
        with open(self.out, encoding="utf-8") as out:
            return out.read()

    def choose(self, seed):
        self.random = random.Random(seed)
        self.cache_kind, self.cache_size = self.random.choice(CACHES)
        self.expired_at = self.store.count
        self.changed, self.changes = None, self.random.random() < 0.1
        if self.random.random() < 0.3:
            self.prefix, self.name, self.local_name = ("/data/sets/list", "list:s3://data/sets/list/train.csv",
                                                       f"list:{self.cache}/made/train.csv")
        else:
            self.prefix, self.name, self.local_name = "/data/sets/train", test_caches.NAME, f"tar:{self.shards}"
        self.more = ("--io-threads", "4", "--fetch-memory", self.random.choice(("16K", "40K")))  # for many requests
        self.options = ("--epochs", "8", "--seed", str(seed), "--shuffle",
                        self.random.choice(("global", "none", "block:8")))
        self.faults = Faults(self.store, seed, self.random.uniform(0.02, 0.1))

    def start_feed(self, out):
        self.feeder = subprocess.Popen([os.path.join(test_caches.BUILD, "examples", "feed"), self.name, "--loader",
                                        f"unix:{self.socket}", "--verbose", "--micro-batch", "8", "--pipeline",
                                        "rrc(32)", *self.options], stdout=out, stderr=out, env=self.env)
        self.addCleanup(self.feeder.wait)
        self.addCleanup(self.feeder.kill)

    def strike(self, seed):
        """Cause faults until the stream ends."""
        end = time.monotonic() + LIMIT_S
        events = ("change",) if self.changes else EVENTS
        while self.feeder.poll() is None:
            self.assertLess(time.monotonic(), end, f"seed {seed}: the stream makes no progress")
            self.wait_requests(self.random.randrange(1, 150))
            event = self.random.choice(events)
            if self.feeder.poll() is not None or (self.changes and self.changed):
                continue
            for _ in range(getattr(self, event)()):
                self.faults.add(event)

    def feed_once(self, seed):
        self.choose(seed)
        want = self.ctl_hash(self.local_name, os.environ, *self.options)
        self.assertRegex(want, "^[0-9a-f]{16}$")
        self.out = os.path.join(self.cache, "out")
        self.store.fault = self.faults
        self.start(self.cache_size, *self.more, where=self.cache_kind)
        with open(self.out, "w", encoding="utf-8") as out:
            self.start_feed(out)
            self.strike(seed)
        self.store.fault = None
        self.stop(signal.SIGTERM if self.random.random() < 0.5 else signal.SIGKILL)
        text = self.read_out()
        if self.changed and want not in text:
            self.assertNotEqual(self.feeder.returncode, 0, f"seed {seed}: {text}")
            self.assertIn(f"s3:/{self.changed} has changed since", text, f"seed {seed}")
        else:
            self.assertIn(want, text, f"seed {seed}: {self.read_log()}")
        if self.changed:
            self.store.put(self.changed, self.store.objects[self.changed][:-512])

    def record(self, seed):
        if not TABLE:
            return
        counts = " ".join(f"{k}={n}" for k, n in sorted(self.faults.counts.items()))
        with open(TABLE, "a", encoding="utf-8") as table:
            table.write(f"{seed}\t{self.name.partition(':')[0]}\t{self.cache_kind} {self.cache_size}\t{counts}\n")

    def test_runs(self):
        """random faults of the store, the loader and the cache change no stream"""
        self.put_list()
        total = {}
        for seed in range(FIRST, FIRST + RUNS):
            self.feed_once(seed)
            self.record(seed)
            for kind, count in self.faults.counts.items():
                total[kind] = total.get(kind, 0) + count
        print("#", sum(total.values()), "faults:", total)
        self.assertGreater(sum(total.values()), 10 * RUNS)


for name in dir(test_caches.Caches):
    if name.startswith("test_") and name not in CacheFaults.__dict__:
        setattr(CacheFaults, name, None)  # test_caches.py has already run them
del name

if __name__ == "__main__":
    tap.main()
