# SPDX-License-Identifier: MIT
"""Runs programs whose ranks are killed and restarted during a test. Each rank waits for permission before each step.

Ranks are forks of the test, which has already imported the framework, so a rank restarts quickly. Each rank writes
lines of JSON to the test: "ready" before a step, then it waits for an order; "take" with its samples; and "commit"
after the step.
"""

import collections
import contextlib
import faulthandler
import json
import os
import selectors
import signal
import subprocess
import time
import traceback

import pyplenum
from frameworks import BUILD, LIMIT_S

MICRO_BATCH, SEED, PIPELINE = 2, 7, "rrc(32)"


class Rank:
    """A forked process that runs body(tell, may_go)."""

    def __init__(self, name, body, log, others):
        self.name, self.rest, self.key = name, b"", None
        self.waits = False  # is the rank waiting for permission to begin a step?
        told, tell = os.pipe()
        wait, gate = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self._be(body, log, tell, wait, (told, gate, *(fd for each in others for fd in (each.told, each.gate))))
        os.close(tell)
        os.close(wait)
        self.told, self.gate = told, gate

    @staticmethod
    def _be(body, log, tell, wait, foreign):
        code = 1
        try:
            for fd in foreign:
                with contextlib.suppress(OSError):
                    os.close(fd)
            out = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
            os.dup2(out, 1)
            os.dup2(out, 2)
            faulthandler.enable()

            def say(kind, **values):
                os.write(tell, json.dumps({"kind": kind, **values}).encode() + b"\n")

            asked = 0

            def may_go(**values):
                """Wait for the test's order to begin a step. Return its letter, or None at the end of the run."""
                nonlocal asked
                asked += 1
                say("ready", number=asked, **values)
                while True:
                    order = os.read(wait, 8)
                    if not order:
                        return None
                    if int(order[:7]) == asked:  # after an exception, an earlier order may be unread
                        return order[7:].decode()

            body(say, may_go)
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
            if code:
                os.write(2, f"{end}\n".encode())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def end(self):
        """Wait until the process has ended, and return its exit status."""
        status = os.waitpid(self.pid, 0)[1]
        os.close(self.told)
        if self.gate is not None:
            os.close(self.gate)
        return os.waitstatus_to_exitcode(status)


def serve(make, log):
    """Run make(), which starts a server, in another process, because this process must have no other threads when it
    forks. make() returns (address, server). Return the address, and a function that ends the server."""
    def body(tell, may_go):
        address, server = make()
        tell("address", address=address)
        may_go()  # waits until the process is killed
        del server

    rank = Rank("server", body, log, ())

    def end():
        os.kill(rank.pid, signal.SIGKILL)
        rank.end()

    line = os.read(rank.told, 4096).split(b"\n")[0]
    if not line:
        end()
        raise AssertionError(f"the server did not start: see {log}")
    return json.loads(line)["address"], end


class Run:
    """All ranks of a run, and what they have reported."""

    def __init__(self, log):
        self.log, self.ranks, self.held, self.orders = log, {}, set(), {}  # orders: {rank: letter for its next step}
        self.takes = collections.defaultdict(dict)  # {(epoch, position, size of the step): {rank: its "take" line}}
        self.steps, self.generation = {}, 0  # steps: committed ones, {(epoch, position): (key of takes, tag)}
        self.last_epoch = None  # the run ends before this epoch begins

    def start(self, name, body):
        """Start a rank that runs body(tell, may_go)."""
        self.ranks[name] = Rank(name, body, self.log, self.ranks.values())

    def kill(self, *names):
        for name in names:
            os.kill(self.ranks[name].pid, signal.SIGKILL)
        for name in names:
            self.ranks.pop(name).end()

    def fail(self, why):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            raise AssertionError(f"{why}; the ranks wrote:\n{file.read()[-6000:]}")

    def _let(self, rank):
        """Let a rank begin its next step, unless it is held or the run ends here."""
        if rank.gate is None or not rank.waits or rank.name in self.held:
            return
        rank.waits = False
        if self.last_epoch is not None and rank.line["epoch"] >= self.last_epoch:
            os.close(rank.gate)
            rank.gate = None
        else:
            with contextlib.suppress(BrokenPipeError):
                os.write(rank.gate, f"{rank.line['number']:07}{self.orders.pop(rank.name, ' ')}".encode())

    def hold(self, *names):
        self.held = set(names)
        for rank in self.ranks.values():
            self._let(rank)

    def _note(self, rank, line):
        generation = line.get("generation", 0)
        if line["kind"] == "ready":
            rank.waits, rank.line = True, line
            self._let(rank)
        elif line["kind"] == "take":
            rank.key = (line["epoch"], line["position"], line["size"])
            same = self.takes[rank.key].setdefault(line["rank"], line)
            if (same["shown"], same["hash"]) != (line["shown"], line["hash"]):
                self.fail(f"rank {line['rank']} of step {rank.key} was given other samples the second time")
        elif line["kind"] == "restart" and generation > self.generation:
            self.generation = generation
            self.steps = {at: step for at, step in self.steps.items() if at < (line["epoch"], line["position"])}
        elif line["kind"] == "commit" and generation == self.generation:
            step = (rank.key, line["tag"])
            if self.steps.setdefault(rank.key[:2], step) != step:
                self.fail(f"rank {rank.name} committed {step}, but another rank {self.steps[rank.key[:2]]}")

    def until(self, wanted):
        """Read the ranks' lines until wanted(rank, line) is true, and return that rank and line. If `wanted` is None,
        read until all ranks have ended, and return None."""
        deadline = time.monotonic() + LIMIT_S
        while self.ranks:
            with selectors.DefaultSelector() as ready:
                for rank in self.ranks.values():
                    ready.register(rank.told, selectors.EVENT_READ, rank)
                for key, _ in ready.select(1):
                    deadline = time.monotonic() + LIMIT_S
                    found = self._read(key.data, wanted)
                    if found:
                        return found
            if time.monotonic() > deadline:
                self.fail("nothing happened for too long")
        if wanted:
            self.fail("all ranks have ended")
        return None

    def _read(self, rank, wanted):
        data = os.read(rank.told, 65536)
        *lines, rank.rest = (rank.rest + data).split(b"\n")
        found = None
        for line in map(json.loads, lines):
            self._note(rank, line)
            found = found or (wanted and wanted(rank, line) and (rank, line))
        if not data:
            del self.ranks[rank.name]
            code = rank.end()
            line = {"kind": "end", "code": code}
            if wanted and wanted(rank, line):
                return rank, line
            if code:
                self.fail(f"rank {rank.name} ended with {code}")
        return found

    def until_size(self, size):
        """Read the ranks' lines until a step of this number of ranks has been committed."""
        return self.until(lambda rank, line: line["kind"] == "commit" and rank.key[2] == size)

    def finish(self):
        """End the run before the next epoch that no rank has begun."""
        self.last_epoch = 1 + max(key[0] for key in self.takes)
        self.hold()
        self.until(None)

    def lineage(self):
        """Return the samples of all committed steps in order, the sum of their hashes, and the steps' rank counts."""
        shown, total, sizes = [], 0, []
        for _, (key, _) in sorted(self.steps.items()):
            takes = self.takes[key]
            if sorted(takes) != list(range(key[2])):
                self.fail(f"step {key} was committed, but has only ranks {sorted(takes)}")
            for rank in sorted(takes):
                shown += takes[rank]["shown"]
                total += takes[rank]["hash"]
            sizes.append(key[2])
        return shown, f"{total % 2**64:016x}", sizes


def report(batch):
    """Return the values of a "take" line that describe a batch."""
    valid = batch.valid.reshape(-1).tolist()
    where = zip(batch.positions.reshape(-1).tolist(), batch.samples.reshape(-1).tolist(), valid)
    return {"epoch": int(batch.epochs[0]), "shown": [[position, sample] for position, sample, good in where if good],
            "hash": batch.hash()}


def expected(folder, epochs):
    """Return the samples in the order of a single process, and the result of `plenumctl hash`."""
    order = []
    with pyplenum.Stream(folder, PIPELINE, seed=SEED, epochs=epochs, rank=0, world_size=1) as stream:
        for batch in stream:
            order.append([int(batch.positions[0, 0, 0]), int(batch.samples[0, 0, 0])])
    words = [os.path.join(BUILD, "plenumctl"), "hash", folder, "--pipeline", PIPELINE, "--seed", str(SEED), "--epochs",
             str(epochs), "--json"]
    return order, json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
