# SPDX-License-Identifier: MIT
"""Makes allocations and system calls fail, one per run. The worst acceptable result is an error message.

A scenario is a short job, in which fail.c makes one call fail: the N-th of one kind. A run without failures shows how
many calls of each kind there are, and thus which N are possible. The laws for each run:

* It ends by itself, by exit() and not by a signal, within a generous time.
* Its status is 0 and its output is right, or its status is not 0 and a message explains why.
* Conditions that a caller must handle (EINTR, a short count, EAGAIN) change nothing.
* No process is left. A loader for others serves the next client correctly, has no more descriptors than without
  the failure, and ends on request.

PLENUM_FAILURES=all tests all calls, not only a sample; =N makes N runs per scenario (and fewer of the slow ones). SEED
chooses the sample (default: always the same; "clock": a different one each time; it is printed). ONLY='SCENARIO
[KIND[:ERROR[:N]]]' repeats one scenario or one run, which then shows where the call was made.
"""

import concurrent.futures
import contextlib
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
PLENUMD, CTL, RUN, FEED = (os.path.join(BUILD, name) for name in ("plenumd", "plenumctl", "plenumrun", "examples/feed"))
PRELOAD = os.path.join(BUILD, "tests", "failures", ".libs", "fail.so")
SANITIZED = bool(os.environ.get("PLENUM_SANITIZED"))

LIMIT = 300  # seconds within which a run must end: only a hang takes that long
STREAM = ["--pipeline", "rrc(16) flip(0.5)", "--seed", "3"]
SAMPLES = "16"
SEEDS = os.path.join(BUILD, "tests", "fuzz", "seeds")
RECORDS = ["--pipeline", "none", "--seed", "3", "--fields", "format:image/format,n:image/class/label:int64"]
FIELDS = ["--fields", "text:txt,line:txt:line,n:json.n:int64,word:json.word,objects:json:boxes"]
SMALLER = ["--longest", "40", "--samples-per-archive", "3"]

# Which calls fail, and how. The second list: errors after which everything must continue normally.
KINDS = {
    "malloc": (["ENOMEM"], []),
    "mmap": (["ENOMEM"], []),
    "open": (["EMFILE", "EACCES", "EIO"], []),
    "read": (["EIO"], ["EINTR", "short"]),
    "write": (["ENOSPC"], ["EINTR", "short"]),
    "send": (["ECONNRESET"], ["EINTR", "EAGAIN", "short"]),
    "recv": (["ECONNRESET"], ["EINTR", "EAGAIN", "short"]),
    "socket": (["EMFILE"], []),
    "bind": (["EACCES"], []),
    "connect": (["ECONNREFUSED", "EAGAIN"], []),
    "pipe": (["EMFILE"], []),
    "eventfd": (["EMFILE"], []),
    "memfd": (["ENOMEM", "ENOSPC"], []),
    "dup": (["EMFILE"], []),
    "fork": (["EAGAIN", "ENOMEM"], []),
    "pthread": (["EAGAIN"], []),
    "rename": (["EIO", "ENOSPC"], []),
    "unlink": (["EACCES", "EIO"], []),
    "fsync": (["EIO"], []),
    "stat": (["EIO", "EACCES"], []),
    "poll": (["ENOMEM"], ["EINTR"]),
}
PAGE = 4096


class Wrong(Exception):
    """A run that breaks a rule."""


class Place:
    """The folder of one run, and its processes, which are found by a variable in their environment."""

    def __init__(self, stage, watched, kind="all", error="none", at=0):
        self.stage, self.watched = stage, watched
        self.folder = tempfile.mkdtemp(dir=stage.folder)
        self.state = os.path.join(self.folder, "state")
        self.counting = error == "none"
        self.transparent = self.counting or error in KINDS[kind][1]
        with open(self.state, "wb") as f:
            f.write(bytes(PAGE))
        self.mark = f"PLENUM_FAIL_STATE={self.state}"
        self.clean = {k: v for k, v in os.environ.items() if not k.startswith(("PLENUM_LOADER", "LISTEN_", "NOTIFY_"))}
        self.clean.update(PLENUM_CACHE_DIR=os.path.join(self.folder, "cache"), PLENUM_PLENUMD=PLENUMD,
                          XDG_RUNTIME_DIR=self.folder, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                          TMPDIR=self.folder)
        self.environment = dict(self.clean, PLENUM_FAIL=f"{kind}:{error}", PLENUM_FAIL_AT=str(at),
                                PLENUM_FAIL_IN=watched, PLENUM_FAIL_STATE=self.state, LD_PRELOAD=PRELOAD)
        if os.environ.get("ONLY", "").count(":") == 2:
            self.environment["PLENUM_FAIL_TRACE"] = "1"
        if SANITIZED:
            options = os.environ.get("ASAN_OPTIONS", "")
            if watched == "plenumrun":
                options += ":detect_leaks=0"  # Open MPI's own, in the programs
            self.environment["ASAN_OPTIONS"] = f"{options}:verify_asan_link_order=0:allocator_may_return_null=1".strip(
                ":")
        self.said = ""

    def counts(self):
        """Return the number of calls of each kind."""
        with open(self.state, "rb") as f:
            return dict(zip(KINDS, struct.unpack(f"<{1 + len(KINDS)}Q", f.read(8 + 8 * len(KINDS)))[1:]))

    def start(self, *command, failing=True, **options):
        return subprocess.Popen(command, env=self.environment if failing else self.clean, cwd=self.folder,
                                stdin=subprocess.DEVNULL, text=True, errors="replace", start_new_session=True,
                                **options)

    def run(self, *command, failing=True):
        """Run a program. Return its standard output, or None if it failed with a message."""
        with self.start(*command, failing=failing, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
            try:
                out, err = p.communicate(timeout=LIMIT)
            except subprocess.TimeoutExpired:
                stacks = self.stacks(p.pid)
                self.kill()
                out, err = p.communicate()
                raise Wrong(f"hangs: {' '.join(command)}\n{err}\n{stacks}") from None
        self.said += err
        return self.judge(command, p.returncode, out, err)

    def judge(self, command, code, out, err):
        name = os.path.basename(command[0])
        if code < 0 or code > 128:
            raise Wrong(f"{name} was ended by a signal ({code})\n{err}")
        if re.search("Sanitizer|runtime error|Assertion", err):
            raise Wrong(f"a report of {name}\n{err}")
        if "\N{REPLACEMENT CHARACTER}" in err or re.search("[\\0-\\10\\16-\\37]", err):
            raise Wrong(f"{name} prints something other than text\n{err}")
        if code != 0 and not re.search(rf"^{name}[\w ]*: .*\w", err, re.M):
            raise Wrong(f"{name} ended with {code} without a message\n{err}")
        if code != 0 and self.transparent:
            raise Wrong(f"{name} ended with {code}, although the failure should have no effect\n{err}")
        return out if code == 0 else None

    def processes(self):
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as f:
                    if self.mark.encode() not in f.read().split(b"\0"):
                        continue
                with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
                    if f.read().rpartition(")")[2].split()[0] != "Z":
                        found.append(int(pid))
            except OSError:
                pass
        return found

    def stacks(self, pid):
        lines = []
        for one in self.processes():
            for task in sorted(os.listdir(f"/proc/{one}/task")):
                try:
                    with open(f"/proc/{one}/task/{task}/wchan", encoding="utf-8") as f:
                        lines.append(f"{one}/{task} waits in {f.read()}")
                except OSError:
                    pass
        return "\n".join(lines) or str(pid)

    def kill(self):
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def leave(self):
        """Check that nothing is left. Processes that have been asked to end get time to do so."""
        end = time.monotonic() + LIMIT
        while self.processes():
            if time.monotonic() > end:
                names = [open(f"/proc/{p}/cmdline").read().replace("\0", " ") for p in self.processes()]
                self.kill()
                raise Wrong(f"left behind: {names}")
            time.sleep(0.01)

    def remove(self):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def archives_of(folder):
    """Return the contents of a folder of archives: names and bytes, without the record of runs."""
    found = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as f:
            found[name] = f.read() if name != "plenum-pack.txt" else b""
    return found


def table_of(cache):
    """Return the contents of a table of fields, after its index's identity; None if there is none."""
    for name in os.listdir(cache) if os.path.isdir(cache) else []:
        if ".fields-" in name and not name.endswith(".lock"):
            with open(os.path.join(cache, name), "rb") as f:
                return f.read()[48:]
    return None


class Stage:
    """What all runs share: a data set, and the correct results."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="plenum-failures-")
        self.data = os.path.join(self.folder, "data")
        subprocess.run([CTL, "make-sample", self.data, "--classes", "2", "--images", "4", "--size", "48"], check=True,
                       stdout=subprocess.DEVNULL)
        self.hash = subprocess.run([CTL, "hash", self.data, *STREAM, "--samples", SAMPLES], check=True,
                                   stdout=subprocess.PIPE, text=True, env=dict(
                                       os.environ, PLENUM_CACHE_DIR=os.path.join(self.folder, "cache"))).stdout.strip()
        self.packed, self.list = os.path.join(self.folder, "packed"), os.path.join(self.folder, "list.txt")
        subprocess.run([CTL, "pack", self.data, self.packed], check=True, stdout=subprocess.DEVNULL)
        small = os.path.join(self.folder, "small")
        subprocess.run([CTL, "pack", self.data, small, *SMALLER], check=True, stdout=subprocess.DEVNULL)
        self.small = archives_of(small)
        with open(self.list, "w", encoding="utf-8") as f:
            for label, name in enumerate(sorted(os.listdir(self.data))):
                for image in sorted(os.listdir(os.path.join(self.data, name))):
                    f.write(f"{self.data}/{name}/{image}\t{label}\n")
        self.fields = os.path.join(self.folder, "fields")
        shutil.copytree(self.data, self.fields)
        for folder, _, names in os.walk(self.fields):
            for n, name in enumerate(names):
                path = os.path.join(folder, name.rpartition(".")[0])
                with open(path + ".txt", "w", encoding="utf-8") as f:
                    f.write("a line\n" * (n + 1))
                with open(path + ".json", "w", encoding="utf-8") as f:
                    json.dump({"n": n, "word": "x" * n, "objects": n * [{"bbox": [n, 2, 30, 40], "category_id": n}]}, f)
        records, path = os.path.join(self.folder, "records"), os.path.join(self.folder, "a.tfrecord")
        subprocess.run([SEEDS, "tfrecord", records], check=True)
        with open(os.path.join(records, max(os.listdir(records))), "rb") as seed, open(path, "wb") as f:
            f.write(seed.read()[1:])
        self.hashes, self.tables = {}, {}
        for data, options in self.with_fields():
            cache = os.path.join(self.folder, "cache of " + data[:3])
            self.hashes[data] = subprocess.run([CTL, "hash", data, *options], check=True, stdout=subprocess.PIPE,
                                               text=True, env=dict(os.environ, PLENUM_CACHE_DIR=cache)).stdout.strip()
            self.tables[data] = table_of(cache)
        self.key, self.client_key = os.path.join(self.folder, "key"), os.path.join(self.folder, "client-key")
        with open(os.open(self.key, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as f:
            f.write(os.urandom(32))
        with open(os.open(self.client_key, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as f:
            subprocess.run([CTL, "key", self.key, "tester"], check=True, stdout=f)
        self.descriptors = {}  # number of descriptors of a loader without clients, by scenario


    def with_fields(self):
        """Return pairs of a data set with fields and the options to stream it."""
        return ((self.fields, [*STREAM, "--samples", SAMPLES, *FIELDS]),
                (f"tfrecord,image=none:{self.folder}/a.tfrecord", RECORDS))


# ---- scenarios: each runs in a place, and raises Wrong if a rule is broken ----


def is_right(place, out, want=None):
    """Check the hash in the output, if there is one."""
    want = want or place.stage.hash
    if out is not None and want not in out.split():
        raise Wrong(f"status 0 with a hash other than {want}: {out}\n{place.said}")


def job(*more):
    return [FEED, "--loader-timeout", "15", "--silence", "2000", "--micro-batch", "4", *STREAM, *more]


def ctl_hash(data):
    return lambda place: is_right(place, place.run(CTL, "hash", data(place.stage), *STREAM, "--samples", SAMPLES))


def ctl_hash_fields(number):
    def run(place):
        data, options = place.stage.with_fields()[number]
        for failing in (True, False):  # nor may the table that it leaves in the cache mislead the next run
            out = place.run(CTL, "hash", data, *options, failing=failing)
            is_right(place, out, place.stage.hashes[data])
            if table_of(os.path.join(place.folder, "cache")) not in (None, place.stage.tables[data]):
                raise Wrong(f"the run left a different table of fields in the cache\n{place.said}")
        if out is None:
            raise Wrong(f"what it left in the cache stops the next one:\n{place.said}")
    return run


def ctl_index(place):
    out = place.run(CTL, "index", place.stage.data)
    if out is not None and not re.search(r"^samples +8 ", out, re.M):
        raise Wrong(f"it says, with status 0: {out}")
    # Files left in the cache must not mislead the next run.
    out = place.run(CTL, "hash", place.stage.data, *STREAM, "--samples", SAMPLES, failing=False)
    is_right(place, out)
    if out is None:
        raise Wrong(f"what it left in the cache stops the next one:\n{place.said}")


def ctl_pack(place):
    packed = os.path.join(place.folder, "packed")
    if place.run(CTL, "pack", place.stage.data, packed) is not None:
        out = place.run(CTL, "hash", packed, *STREAM, "--samples", SAMPLES, failing=False)
        is_right(place, out)
        if out is None:
            raise Wrong(f"status 0, and the copy cannot be used:\n{place.said}")


def ctl_pack_smaller(place):
    """Check that, whether or not the run failed, running the same command again gives the same archives."""
    small = os.path.join(place.folder, "small")
    command = CTL, "pack", place.stage.data, small, *SMALLER
    if place.run(*command) is None and place.run(*command, failing=False) is None:
        raise Wrong(f"the next run does not continue:\n{place.said}")
    if archives_of(small) != place.stage.small:
        raise Wrong(f"status 0, but different archives:\n{place.said}")


def ctl_verify(place):
    out = place.run(CTL, "verify", place.stage.data)
    if out is not None and not re.search(r"\b8\b", out):
        raise Wrong(f"it says, with status 0: {out}")


def own_loader(place):
    is_right(place, place.run(*job(place.stage.data)))


def check_descriptors(place, kind, pid):
    """Check that a loader whose clients have gone keeps no descriptors of theirs. It may take a while to notice."""
    limit = place.stage.descriptors.get(kind)
    end = time.monotonic() + (1 if place.counting else LIMIT)
    while time.monotonic() < end:
        try:
            now = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            return
        if limit is not None and len(now) <= limit:
            return
        time.sleep(0.01)
    if place.counting:
        place.stage.descriptors[kind] = len(now)
    else:
        raise Wrong(f"plenumd keeps {len(now)} descriptors, and {limit} without a failure")


def listens(path):
    """Return whether a program listens on that socket. (A connection would add a call of the loader's.)"""
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as f:
        return any(line.endswith(f" {path}\n") and line.split()[3] == "00010000" for line in f)


@contextlib.contextmanager
def loader(place, *arguments):
    """Run a scenario with a loader at {place.folder}/s, and end it."""
    path, log = os.path.join(place.folder, "s"), os.path.join(place.folder, "log")
    with open(log, "w", encoding="utf-8") as err:
        daemon = place.start(PLENUMD, "--socket", f"unix:{path}", "--threads", "2", *arguments,
                             stdout=subprocess.DEVNULL, stderr=err)
    end = time.monotonic() + LIMIT
    while not listens(path) and daemon.poll() is None and time.monotonic() < end:
        time.sleep(0.005)
    try:
        yield daemon
    finally:
        if daemon.poll() is None:
            daemon.terminate()
        try:
            daemon.wait(LIMIT)
        except subprocess.TimeoutExpired:
            stacks = place.stacks(daemon.pid)
            daemon.kill()
            daemon.wait()
            raise Wrong(f"plenumd does not end\n{stacks}") from None
    with open(log, encoding="utf-8", errors="replace") as f:
        place.judge([PLENUMD], daemon.returncode, "", f.read())


def service(place, kind, address, *arguments):
    """Check that a loader keeps running: whatever happens to one client, the next is served normally."""
    with loader(place, *arguments) as daemon:
        if daemon.poll() is None:
            is_right(place, place.run(*job(place.stage.data, "--loader", address), failing=place.watched == "feed"))
        if daemon.poll() is None:
            out = place.run(*job(place.stage.data, "--loader", address), failing=False)
            is_right(place, out)
            if out is None and daemon.poll() is None and place.watched == "feed":
                raise Wrong(f"the next client is not served:\n{place.said}")
        if daemon.poll() is None:
            check_descriptors(place, f"{kind} {place.watched}", daemon.pid)


def unix_service(place):
    service(place, "unix", f"unix:{place.folder}/s")


def tls_service(place):
    """Test a loader over TCP with a key, at this run's own address."""
    host = f"127.{random.randrange(1, 255)}.{random.randrange(256)}.{random.randrange(1, 255)}"
    address = f"{host}:{random.randrange(10000, 30000)}"
    for environment in (place.clean, place.environment):
        environment["PLENUM_LOADER_KEY"] = place.stage.client_key
    service(place, "tls", f"tcp:{address}", "--listen", address, "--tls-key", place.stage.key)


def ctl_status(place):
    with loader(place) as daemon:
        for failing in (True, False):
            out = place.run(CTL, "status", f"unix:{place.folder}/s", "--json", failing=failing)
            if out is not None and not (json.loads(out) and '"sessions": 1,' in out):
                raise Wrong(f"it says, with status 0: {out}")
            if out is None and not failing:
                raise Wrong(f"the next client is not answered:\n{place.said}")
        check_descriptors(place, "status", daemon.pid)


def launcher(place):
    is_right(place, place.run(RUN, "-n", "2", "--grace", "2", *job(place.stage.data)))


SCENARIOS = {
    "hash": (ctl_hash(lambda stage: stage.data), "plenumctl"),
    "hash-of-archives": (ctl_hash(lambda stage: stage.packed), "plenumctl"),
    "hash-of-list": (ctl_hash(lambda stage: f"list:{stage.list}"), "plenumctl"),
    "hash-of-fields": (ctl_hash_fields(0), "plenumctl"),
    "hash-of-records": (ctl_hash_fields(1), "plenumctl"),
    "index": (ctl_index, "plenumctl"),
    "pack": (ctl_pack, "plenumctl"),
    "pack-smaller": (ctl_pack_smaller, "plenumctl"),
    "verify": (ctl_verify, "plenumctl"),
    "status": (ctl_status, "plenumctl"),
    "client": (own_loader, "feed"),
    "loader": (own_loader, "plenumd"),
    "service": (unix_service, "plenumd"),
    "client-of-service": (unix_service, "feed"),
    "service-by-tls": (tls_service, "plenumd"),
    "client-by-tls": (tls_service, "feed"),
    "launcher": (launcher, "plenumrun"),
}
SLOW = {"launcher": 3}  # a sample has fewer of these, by this factor


# ---- which calls fail ----


def cases(stage, name, only):
    """Return all (kind, error, n) of a scenario. A run without a failure shows how many calls of each kind it makes."""
    function, watched = SCENARIOS[name]
    place = Place(stage, watched)
    try:
        function(place)
        place.leave()
        calls = place.counts()
    finally:
        place.remove()
    every = [(kind, error, n + 1) for kind in KINDS for error in KINDS[kind][0] + KINDS[kind][1]
             for n in range(calls[kind])]
    return [case for case in every if [str(c) for c in case][: len(only)] == only]


def attempt(stage, name, kind, error, n):
    """Make one run, and return the error, or None."""
    function, watched = SCENARIOS[name]
    place = Place(stage, watched, kind, error, n)
    try:
        function(place)
        place.leave()
    except Wrong as e:
        return str(e)
    except Exception as e:  # an error in the test counts, too
        return f"{type(e).__name__}: {e}"
    finally:
        place.remove()
    return None


def where(text):
    """Return a trace's addresses as functions and lines."""
    for path, offset in re.findall(r"^(/\S+)\(\+(0x[0-9a-f]+)\)", text, re.M):
        if "fail.so" not in path:
            yield subprocess.run(["addr2line", "-fspe", path, offset], capture_output=True, text=True).stdout.strip()


def try_all(stage, name, chosen, how, dice, pool):
    """Run the chosen cases. Return the message that describes them, and the errors."""
    try:
        every = cases(stage, name, chosen)
    except Wrong as e:
        return f"{name}: without a failure", [(("all", "none", 0), str(e))]
    if how != "all" and not chosen:
        every, of = sorted(dice.sample(every, min(len(every), int(how) // SLOW.get(name, 1)))), len(every)
    else:
        of = len(every)
    runs = list(pool.map(lambda c: (c, attempt(stage, name, *c)), every))
    return f"{name}: {len(every)} of {of} failures of {SCENARIOS[name][1]}", [(c, text) for c, text in runs if text]


def can_preload(stage):
    """Return whether calls can be intercepted. Static linking and sanitizers with their own allocator prevent it."""
    place = Place(stage, "plenumctl")
    try:
        return place.run(CTL, "index", stage.data) is not None and place.counts()["malloc"] > 0
    except Wrong:
        return False
    finally:
        place.remove()


def main():
    how = os.environ.get("PLENUM_FAILURES") or "30"
    seed = os.environ.get("SEED") or "1"
    seed = time.time_ns() % 1000000 if seed == "clock" else int(seed)
    only = os.environ.get("ONLY", "").split()
    chosen = only[1].split(":") if len(only) > 1 else []
    names = only[:1] or list(SCENARIOS)
    print(f"# SEED={seed}", flush=True)
    if not shutil.which("mpirun") and "launcher" in names:
        names.remove("launcher")
    stage = Stage()
    dice = random.Random(seed)
    try:
        if not can_preload(stage):
            print("1..0 # SKIP calls of these programs cannot be intercepted (linked statically, or a sanitizer's)")
            return
        with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS") or os.cpu_count() or 1)) as pool:
            for count, name in enumerate(names, 1):
                sentence, wrong = try_all(stage, name, chosen, how, dice, pool)
                print(f"{'not ok' if wrong else 'ok'} {count} - {sentence}")
                for (kind, error, n), text in wrong:
                    print(f"# ONLY='{name} {kind}:{error}:{n}'")
                    for line in [*where(text), *text.splitlines()[-25:]]:
                        print(f"#     {line}")
                sys.stdout.flush()
        print(f"1..{len(names)}")
    finally:
        shutil.rmtree(stage.folder, ignore_errors=True)


main()
