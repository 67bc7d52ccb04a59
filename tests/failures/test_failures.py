"""Each allocation and each system call fails once, and nothing worse comes of it than a sentence.

A scenario is a short job. One call of one kind fails in it (fail.c): the first, the second, and so on, until a run has passed in
which no call was left to fail. The laws, of each run:

* It ends by itself, by exit() and not by a signal, within a time that no machine needs.
* Its status is 0 and what it delivered is right, or it is not 0 and a sentence says why.
* What a caller must live with (EINTR, a short count, "not now") makes no difference at all.
* No process is left. A loader that serves others serves the next client rightly, has no more descriptors than before, and ends when told.

PLENUM_FAILURES=all goes through all calls, and not through a sample of them; =N takes about N runs a scenario. SEED chooses the sample
(default: by the clock; it is printed). ONLY='SCENARIO [KIND[:ERROR[:N]]]' repeats one run, and shows where the call was made.
"""

import concurrent.futures
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

LIMIT = 120 if SANITIZED else 60  # seconds in which a run must have ended: only a hang takes so long
STREAM = ["--pipeline", "rrc(16) flip(0.5)", "--seed", "3"]
SAMPLES = "16"

# What fails, and how. The second list: after these all must go on as if nothing had been.
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


class Wrong(Exception):
    """What a run did against the laws."""


class Place:
    """A folder of one run's own, and its processes, which are known by a variable in their environment."""

    def __init__(self, stage, watched, kind="malloc", error="none", at=0):
        self.stage, self.watched = stage, watched
        self.folder = tempfile.mkdtemp(dir=stage.folder)
        self.state = os.path.join(self.folder, "state")
        self.transparent = error in KINDS[kind][1]
        with open(self.state, "wb") as f:
            f.write(bytes(16))
        self.mark = f"PLENUM_FAIL_STATE={self.state}"
        self.clean = {k: v for k, v in os.environ.items() if not k.startswith(("PLENUM_LOADER", "LISTEN_", "NOTIFY_"))}
        self.clean.update(PLENUM_CACHE_DIR=os.path.join(self.folder, "cache"), PLENUM_PLENUMD=PLENUMD, XDG_RUNTIME_DIR=self.folder,
                          OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", TMPDIR=self.folder)
        self.environment = dict(self.clean, PLENUM_FAIL=f"{kind}:{error}", PLENUM_FAIL_AT=str(at), PLENUM_FAIL_IN=watched,
                                PLENUM_FAIL_STATE=self.state, LD_PRELOAD=PRELOAD)
        if os.environ.get("ONLY", "").count(":") == 2:
            self.environment["PLENUM_FAIL_TRACE"] = "1"
        if SANITIZED:
            options = os.environ.get("ASAN_OPTIONS", "")
            self.environment["ASAN_OPTIONS"] = f"{options}:verify_asan_link_order=0:allocator_may_return_null=1".strip(":")
        self.said = ""

    def counts(self):
        with open(self.state, "rb") as f:
            return struct.unpack("<QQ", f.read(16))

    def start(self, *command, failing=True, **options):
        return subprocess.Popen(command, env=self.environment if failing else self.clean, cwd=self.folder, stdin=subprocess.DEVNULL,
                                text=True, errors="replace", start_new_session=True, **options)

    def run(self, *command, failing=True):
        """Standard output, or None where it failed with a sentence."""
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
            raise Wrong(f"{name} says what is no text\n{err}")
        if code != 0 and not re.search(rf"^{name}[\w ]*: .*\w", err, re.M):
            raise Wrong(f"{name} ended with {code} and no sentence\n{err}")
        if code != 0 and self.transparent:
            raise Wrong(f"{name} ended with {code} after what should make no difference\n{err}")
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
        """Nothing may be left: processes that know that they are to end are given time."""
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


class Stage:
    """What all runs share: a data set, and what is right."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="plenum-failures-")
        self.data = os.path.join(self.folder, "data")
        subprocess.run([CTL, "make-sample", self.data, "--classes", "2", "--images", "4", "--size", "48"], check=True, stdout=subprocess.DEVNULL)
        self.hash = subprocess.run([CTL, "hash", self.data, *STREAM, "--samples", SAMPLES], check=True, stdout=subprocess.PIPE, text=True,
                                   env=dict(os.environ, PLENUM_CACHE_DIR=os.path.join(self.folder, "cache"))).stdout.strip()
        self.key = os.path.join(self.folder, "key")
        with open(os.open(self.key, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as f:
            f.write(os.urandom(32))


# ---- scenarios: each does its job in a place, and raises Wrong ----


def is_right(place, out):
    """The hash in what was printed, where something was."""
    if out is not None and place.stage.hash not in out.split():
        raise Wrong(f"another hash than {place.stage.hash}, and status 0: {out}\n{place.said}")


def job(*more):
    return [FEED, "--loader-timeout", "15", "--silence", "2000", "--micro-batch", "4", *STREAM, *more]


def ctl_hash(place):
    is_right(place, place.run(CTL, "hash", place.stage.data, *STREAM, "--samples", SAMPLES))


def ctl_index(place):
    out = place.run(CTL, "index", place.stage.data)
    if out is not None and not re.search(r"^samples +8 ", out, re.M):
        raise Wrong(f"it says, with status 0: {out}")
    # What it has left in the cache must not mislead the next one.
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


def ctl_verify(place):
    out = place.run(CTL, "verify", place.stage.data)
    if out is not None and not re.search(r"\b8\b", out):
        raise Wrong(f"it says, with status 0: {out}")


def own_loader(place):
    is_right(place, place.run(*job(place.stage.data)))


def service(place, address, arguments, client):
    """A loader that goes on: whatever becomes of one client, the next is served as if nothing had been."""
    log = os.path.join(place.folder, "log")
    with open(log, "w", encoding="utf-8") as err:
        daemon = place.start(PLENUMD, "--socket", f"unix:{place.folder}/s", "--threads", "2", *arguments, stdout=subprocess.DEVNULL, stderr=err)
    path = f"{place.folder}/s"
    end = time.monotonic() + LIMIT
    while not os.path.exists(path) and daemon.poll() is None and time.monotonic() < end:
        time.sleep(0.005)
    try:
        if daemon.poll() is None:
            is_right(place, place.run(*job(place.stage.data, "--loader", address, *client), failing=place.watched == "feed"))
        if daemon.poll() is None:
            is_right(place, place.run(*job(place.stage.data, "--loader", address, *client), failing=False))
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


def unix_service(place):
    service(place, f"unix:{place.folder}/s", [], [])


def launcher(place):
    is_right(place, place.run(RUN, "-n", "2", "--grace", "2", *job(place.stage.data)))


SCENARIOS = {
    "hash": (ctl_hash, "plenumctl"),
    "index": (ctl_index, "plenumctl"),
    "pack": (ctl_pack, "plenumctl"),
    "verify": (ctl_verify, "plenumctl"),
    "client": (own_loader, "feed"),
    "loader": (own_loader, "plenumd"),
    "service": (unix_service, "plenumd"),
    "client-of-service": (unix_service, "feed"),
    "launcher": (launcher, "plenumrun"),
}


# ---- which calls ----


def cases(stage, name, only):
    """All (kind, error, n) of a scenario: how many calls of each kind an untouched run makes."""
    function, watched = SCENARIOS[name]
    found = []
    for kind in KINDS:
        if only and only[0] != kind:
            continue
        place = Place(stage, watched, kind)
        try:
            function(place)
            place.leave()
            calls, _ = place.counts()
        finally:
            place.remove()
        for error in KINDS[kind][0] + KINDS[kind][1]:
            if not only or len(only) < 2 or only[1] == error:
                found += [(kind, error, n + 1) for n in range(calls) if not only or len(only) < 3 or int(only[2]) == n + 1]
    return found


def attempt(stage, name, kind, error, n):
    """None, or what was wrong."""
    function, watched = SCENARIOS[name]
    place = Place(stage, watched, kind, error, n)
    try:
        function(place)
        place.leave()
    except Wrong as e:
        return str(e)
    except Exception as e:  # an error in the test is one, too
        return f"{type(e).__name__}: {e}"
    finally:
        place.remove()
    return None


def where(text):
    """The addresses of a trace as functions and lines."""
    for path, offset in re.findall(r"^(/\S+)\(\+(0x[0-9a-f]+)\)", text, re.M):
        if "fail.so" not in path:
            yield subprocess.run(["addr2line", "-fspe", path, offset], capture_output=True, text=True).stdout.strip()


def main():
    how = os.environ.get("PLENUM_FAILURES", "60" if not SANITIZED else "25")
    seed = int(os.environ.get("SEED") or time.time_ns() % 1000000)
    only = os.environ.get("ONLY", "").split()
    chosen = only[1].split(":") if len(only) > 1 else []
    names = only[:1] or list(SCENARIOS)
    print(f"# SEED={seed}", flush=True)
    if not shutil.which("mpirun") and "launcher" in names:
        names.remove("launcher")
    stage = Stage()
    dice = random.Random(seed)
    count = 0
    try:
        with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS") or os.cpu_count() or 1)) as pool:
            for name in names:
                every = cases(stage, name, chosen)
                picked = every if how == "all" or chosen else sorted(dice.sample(every, min(len(every), int(how))))
                runs = list(pool.map(lambda c: (c, attempt(stage, name, *c)), picked))
                wrong = [(c, text) for c, text in runs if text]
                count += 1
                print(f"{'not ok' if wrong else 'ok'} {count} - {name}: {len(picked)} of {len(every)} failures of {SCENARIOS[name][1]}")
                for (kind, error, n), text in wrong:
                    print(f"# ONLY='{name} {kind}:{error}:{n}'")
                    for line in [*where(text), *text.splitlines()[-25:]]:
                        print(f"#     {line}")
                sys.stdout.flush()
    finally:
        shutil.rmtree(stage.folder, ignore_errors=True)
    print(f"1..{count}")


main()
