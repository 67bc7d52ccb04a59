# SPDX-License-Identifier: MIT
"""The hostile client beside an honest one of another user, the hostile loader beside an honest one and alone: hashes
are right, nothing crashes or hangs, nothing is left behind. HOSTILE_SECONDS (per case, default 6) and HOSTILE_SEED
(default: a new one each time)."""

import json
import os
import pwd
import random
import signal
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "loader", "serve"))

from rawclient import STATS, Raw, frame  # noqa: E402
from service import CTL, FEED, LIMIT, STREAM, ServiceCase, wait_for, why_no_other_users  # noqa: E402
import tap  # noqa: E402
from ports import free_port  # noqa: E402

SECONDS = float(os.environ.get("HOSTILE_SECONDS") or 6)
SEED = os.environ.get("HOSTILE_SEED") or str(random.randrange(10**6))
PEOPLE = ("nobody", "daemon", "games")


class HostileProgramsTest(ServiceCase):
    def setUp(self):
        super().setUp()
        self.many = not why_no_other_users()
        self.make_data()
        os.chmod(self.folder, 0o755)
        self.theirs = os.path.join(self.folder, "theirs")
        self.run_ok(CTL, "make-sample", self.theirs, "--classes", "4", "--images", "10", "--size", "96")
        self.address = f"unix:{self.socket}"

    def start(self, *arguments):
        roots = ["--root", self.data, "--root",
                 f"{self.theirs} readers={PEOPLE[0]}"] if self.many else ["--root", self.folder]
        return self.serve(*roots, "--socket-mode", "0666", *arguments)

    def hostile(self, program, *arguments, seconds=SECONDS):
        p = subprocess.Popen([sys.executable, os.path.join(HERE, program), "--seconds", str(seconds), "--seed", SEED,
                              *arguments],
                             env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, p)
        self.addCleanup(p.stdout.close)
        return p

    def reported(self, p):
        """Return a hostile program's report."""
        out, _ = p.communicate(timeout=SECONDS + 4 * LIMIT)
        result = json.loads(out)
        print(f"# seed {SEED}: {result['tried']} of {result['of']} messages and states; {result['count']}", flush=True)
        self.assertEqual(result["breaches"], [], f"seed {SEED}")
        self.assertEqual(p.returncode, 0)
        return result

    def honest(self, data, *arguments):
        """Start a feed as the honest user, from this test's loader unless another is given."""
        who = pwd.getpwnam(PEOPLE[0]) if self.many else None
        p = subprocess.Popen([FEED, data, *STREAM, "--loader", self.address, "--json", *arguments],
                             env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, errors="replace",
                             **({"user": who.pw_uid, "group": who.pw_gid, "extra_groups": ()} if who else {}))
        self.addCleanup(self.end_feed, p)
        return p

    def at_rest(self):
        with Raw(self.address) as c:
            c.send(frame(STATS, request=1))
            numbers = struct.unpack("<7Q", c.wait_for(STATS))
        return numbers[1] - 1, numbers[4], numbers[5], len(os.listdir(f"/proc/{self.loader.pid}/fd"))

    def open_files(self):
        """Describe the loader's open files, for messages."""
        folder = f"/proc/{self.loader.pid}/fd"
        return sorted(os.readlink(f"{folder}/{name}") for name in os.listdir(folder))

    def beside(self, address, *arguments):
        """Run honest feeds, one after another, during the attack of hostile clients."""
        before = self.at_rest()
        epochs = 4
        want = self.run_ok(CTL, "hash", self.theirs, *STREAM, "--epochs", str(epochs)).strip()
        users = [word for name in PEOPLE[1:] for word in ("--user", name)] if self.many else []
        closed = ["--closed", f"folder:{self.theirs}"] if self.many else []
        fed = 0
        p = self.hostile("client.py", "--socket", address, "--open", f"folder:{self.data}", *closed, *users, "--share",
                         "0.5", *arguments)
        while p.poll() is None:
            result, err = self.fed(self.honest(self.theirs, "--epochs", str(epochs)))
            self.assertEqual((result["hash"], result["incidents"]), (want, 0), f"seed {SEED}: {err}")
            self.assertIsNone(self.loader.poll(), f"seed {SEED}: {self.said()[-2000:]}")
            fed += 1
        self.assertGreater(fed, 0)
        result = self.reported(p)
        self.assertGreaterEqual(result["tried"], result["of"] / 2)
        try:
            wait_for(f"all to be as before {before}",
                     lambda: all(now <= then for now, then in zip(self.at_rest(), before)))
        except AssertionError as e:
            self.fail(f"seed {SEED}: {e}: {self.at_rest()}; open: {self.open_files()}; {self.said()[-2000:]}")
        self.loader.send_signal(signal.SIGTERM)
        self.assertEqual(self.loader.wait(2 * LIMIT), 0, f"seed {SEED}: {self.said()[-4000:]}")

    def test_clients(self):
        """hostile clients on the socket: other users are served throughout, and nothing is left afterwards"""
        self.loader = self.start()
        self.beside(self.address, "--job", "the honest one's")

    def test_clients_by_tcp(self):
        """hostile clients over TCP: other users are served throughout"""
        self.loader = self.start("--listen", "0")
        wait_for("a loader that listens", lambda: "listening on tcp:" in self.said())
        place = self.said().split("listening on tcp:")[1].split()[0].rstrip(",;")
        self.beside(f"tcp:{place}")

    def test_loaders_beside_an_honest_one(self):
        """hostile loaders beside an honest one: a stream that uses all of them delivers the honest one's data"""
        self.loader = self.start()
        epochs = 10
        want = self.run_ok(CTL, "hash", self.theirs, *STREAM, "--epochs", str(epochs)).strip()
        addresses = [f"unix:{self.folder}/hostile", "unix:@plenum-test-hostile-%d" % os.getpid(),
                     "tcp:127.0.0.1:%d" % free_port()]
        players = [self.hostile("loader.py", "--socket", a, "--model", self.address, "--never-done") for a in addresses]
        wait_for("hostile loaders", lambda: os.path.exists(f"{self.folder}/hostile"))
        if self.many:
            os.chmod(f"{self.folder}/hostile", 0o666)
        while any(p.poll() is None for p in players):
            feeds = [self.honest(self.theirs, "--epochs", str(epochs), "--pause", "2", "--silence", "1000", "--loader",
                                 ",".join(which))
                     for which in ([self.address, *addresses], [addresses[0], self.address],
                                   [*addresses[1:], self.address])]
            for p in feeds:
                out, err = p.communicate(timeout=4 * LIMIT)
                self.assertEqual(p.returncode, 0, f"seed {SEED}: {err}")
                self.assertEqual(json.loads(out)["hash"], want, f"seed {SEED}: {err}")
        for p in players:
            self.reported(p)

    def test_loaders_alone(self):
        """hostile loaders alone: a stream ends with a message, or continues, and never hangs"""
        self.loader = self.start()
        addresses = [f"unix:{self.folder}/hostile", "tcp:127.0.0.1:%d" % free_port()]
        players = [self.hostile("loader.py", "--socket", a, "--model", self.address) for a in addresses]
        wait_for("hostile loaders", lambda: os.path.exists(f"{self.folder}/hostile"))
        if self.many:
            os.chmod(f"{self.folder}/hostile", 0o666)
        ends = {0: 0, 1: 0}
        while any(p.poll() is None for p in players):
            feeds = [self.honest(self.theirs, "--epochs", "5", "--batches", "100", "--silence", "100",
                                 "--loader-timeout", "1", "--loader", ",".join(which))
                     for which in (addresses[:1], addresses[1:], addresses)]
            for p in feeds:
                out, err = p.communicate(timeout=SECONDS + 4 * LIMIT)
                self.assertIn(p.returncode, ends, f"seed {SEED}: {err}")
                ends[p.returncode] += 1
                if p.returncode == 1:
                    self.assertRegex(err, "(?m)^feed: .*[a-z]{3}", f"seed {SEED}")
                    self.assertNotIn("\x1b", err, f"seed {SEED}")
        for p in players:
            self.reported(p)
        self.assertGreater(ends[1], 0)


if __name__ == "__main__":
    tap.main()
