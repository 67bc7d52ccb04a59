#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A hostile loader: it plays plenumd to real streams, and misbehaves in every state. It sends the wrong message, the
right one with odd numbers or a wrong length, half of one, floods, or descriptors; it writes anything into rings at any
time, is slow, stays silent, or closes.

    loader.py --socket ADDRESS --seconds 20 --seed 7 --model unix:/run/plenum.sock --never-done

It copies the answers of `--model`, a real loader, to a similar request, so that streams get as far as batches. A
trusted loader may feed a program anything, and the first one that opens a stream defines the data set. With
`--never-done` it never reports a finished batch, and describes the data set exactly like the real loader, so that a
program gets only the real loader's data. Prints its actions as JSON."""

import argparse
import array
import collections
import fcntl
import json
import mmap
import os
import random
import select
import signal
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "loader", "serve"))

from client import KINDS, LINGER, odd  # noqa: E402
from rawclient import (  # noqa: E402
    DONE, ERROR, HELLO, OPEN, OPENED, RENDER, STATS, Raw, Refused, close_aside, frame, lingering, make_ring, text,
)

STATES = ["connected", "greeted", "asked to open", "open", "asked for a batch"]
LIFE = 2          # seconds of a connection: a silent peer is dropped, too
VERSIONS = "v1 pack-v1"


class Player:
    """One connection of a stream."""

    def __init__(self, options, s, seed, count, model):
        self.o, self.s, self.r, self.count, self.model = options, s, random.Random(seed), count, model
        self.state, self.ring, self.asked, self.got = "connected", -1, [], b""
        self.until, self.remote = time.monotonic() + LIFE, s.family != socket.AF_UNIX
        self.kept = []  # other ends of the sockets sent
        self.well = self.r.choice([0, 1, 2, 2, 3, 4, 6, 12, 40])  # correct answers, at first

    def receive(self):
        """Return the next complete frames from the stream."""
        try:
            data, fds, _, _ = socket.recv_fds(self.s, 65536, 4)
        except (BlockingIOError, InterruptedError):
            return []
        if not data:
            raise ConnectionResetError
        for fd in fds:
            if self.ring >= 0:
                os.close(self.ring)
            self.ring = fd
        self.got += data
        frames = []
        while len(self.got) >= 16:
            length, kind, _, request = struct.unpack_from("<IHHQ", self.got)
            if len(self.got) < 16 + length:
                break
            frames.append((kind, request, self.got[16:16 + length]))
            self.got = self.got[16 + length:]
        return frames

    def right(self, kind, request=0, payload=b""):
        """Return some messages of a loader, or none: in reply to a message of the stream, or unprompted."""
        r = self.r
        if kind == HELLO:
            return frame(HELLO, b"plenum\0\0" + struct.pack("<HH", r.choices([1, 0, 2, 65535], [20, 1, 1, 1])[0],
                                                            r.choice([6, 6, 4, 0, 65535]))
                         + text(r.choices([VERSIONS, "", "v9", "v1 " * 80], [20, 1, 1, 1])[0]) + text("a loader")
                         + text(""))
        if kind == OPEN:
            opened = self.model(payload)
            if opened is None:
                if self.o.never_done:
                    return frame(ERROR, struct.pack("<i", -5) + text("it will not have it"), request)
                opened = struct.pack("<4I", 40, 4, 2, 2) + bytes(16)
            return frame(OPENED, opened, request)
        if kind == RENDER:
            if self.o.never_done:
                return frame(DONE, struct.pack("<iI4Q", r.choice([-5, -2, -12, -116]), 0, 0, 0, 0, 0)
                             + text("its disk is broken"), request)
            return frame(DONE, struct.pack("<iI4Q", 0, odd(r), 1, 1, 1, 1) + text(""), request)
        if kind == STATS:
            return frame(STATS, struct.pack("<7Q", *(odd(r, 64) for _ in range(7))), request)
        if kind == KINDS["FIELDS"]:
            n = r.choice([0, 1, 2, 16, 17])
            shapes = [struct.pack("<8I", r.choice([0, 1, 8, 14]), r.choice([0, 1]), r.choice([0, 1, odd(r)]), 0, 0, 0,
                                  r.choice([1, 8, 40, odd(r)]), r.choice([0, 0, 1])) for _ in range(n)]
            return frame(KINDS["FIELDS"], struct.pack("<I", n) + b"".join(shapes) + r.randbytes(16), request)
        if kind == KINDS["CANCEL"]:
            return frame(KINDS["CANCELLED"], b"", request)
        if kind == KINDS["NAME"]:
            return frame(KINDS["NAME"], text("../../x\x1b[2J"), request)
        return b""

    def wrong(self):
        """Return any message, in any form, to any request."""
        r = self.r
        name = r.choice(list(KINDS))
        kind = KINDS[name]
        self.count[f"{name} {self.state}"] += 1
        request = r.choice([0, 1, 2, odd(r, 64)] + self.asked[-4:])
        if kind == OPENED:
            payload = bytearray(struct.pack("<4I", *(odd(r) for _ in range(4))) + r.randbytes(16 + 198 * 8)
                                + struct.pack("<I", odd(r)) + text("x" * 400))
        elif kind == DONE:
            # -74, a bad sample, is the same from every loader: it ends a stream, even with honest ones (protocol.md)
            status = r.choice([-5, -2**31, 1, 2**31 - 1, -11] + ([] if self.o.never_done else [0, -74]))
            payload = bytearray(struct.pack("<iI4Q", status, odd(r), *(odd(r, 64) for _ in range(4)))
                                + text("\x9b2Jx is broken"))
        elif kind == ERROR:
            payload = bytearray(struct.pack("<i", r.choice([0, 1, -1, -28, -11, -2**31, -110, -125]))
                                + text("it will not have it"))
        elif kind == KINDS["PROGRESS"]:
            payload = bytearray(struct.pack("<QQ", odd(r, 64), odd(r, 64)) + text("indexing"))
        else:
            payload = bytearray(self.right(kind)[16:])
        form = r.choice(["odd", "odd", "mutated", "cut", "longer", "random", "length"])
        if self.o.never_done and (kind == OPENED or (kind == DONE and form != "odd")):
            form = "cut"
        if form == "mutated" and payload:
            payload[r.randrange(len(payload))] = r.randrange(256)
        elif form == "cut":
            payload = payload[:r.randrange(len(payload) + 1) if kind not in (DONE, OPENED) else r.randrange(1, 32)]
        elif form == "longer":
            payload += bytes(64)
        elif form == "random":
            payload = r.randbytes(r.choice([1, 100, 65536]))
        said = bytearray(frame(kind, bytes(payload), request))
        if form == "length":
            said[:4] = struct.pack("<I", r.choice([len(payload) + 1, 65537, 2**32 - 1]))
        return bytes(said)

    def spoil(self):
        """Write into any slot of the ring; free some of its memory; try to resize it."""
        if self.ring < 0:
            return
        size = os.fstat(self.ring).st_size
        self.count["ring written"] += 1
        with mmap.mmap(self.ring, size) as m:
            for _ in range(8):
                at = self.r.randrange(size)
                m[at:at + 4096] = self.r.randbytes(len(m[at:at + 4096]))
        for change in (0, size * 2):
            try:
                os.ftruncate(self.ring, change)
                self.count["BREACH: a ring changed its size"] += 1
            except OSError:
                pass
        try:
            fcntl.fcntl(self.ring, 1033, 0x8)
        except OSError:
            pass

    def send_fds(self, said):
        """Send descriptors that the stream never accepts: lingering sockets, bare or in another's queue, its own end,
        or files; urgent or not."""
        slow, other_end = lingering(LINGER)
        a, b = socket.socketpair()
        self.kept += [other_end, a]
        socket.send_fds(a, [b"x"], [slow.fileno()])
        fds = self.r.choice([[slow], [b], [self.s], [slow, b] * 100])
        try:
            rights = array.array("i", [s.fileno() for s in fds])
            self.s.sendmsg([said], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)], self.r.choice([0, socket.MSG_OOB]))
        finally:
            close_aside(slow)
            close_aside(b)

    def say(self, said):
        """Send slowly, partly, repeatedly, with descriptors, or normally. A peer that does not read is dropped."""
        r = self.r
        way = r.choices(["whole", "half", "flood", "slow", "descriptors"], [12, 1, 1, 1, 0 if self.remote else 1])[0]
        self.count[way] += 1
        self.s.settimeout(0.5)
        if way == "half":
            self.s.sendall(said[:r.randrange(len(said) + 1)])
            raise ConnectionResetError
        if way == "flood":
            self.s.sendall(said * max(1, min(2000, (1 << 19) // len(said))))
        elif way == "descriptors":
            self.send_fds(said)
        elif way == "slow":
            for i in range(min(40, len(said))):
                self.s.sendall(said[i:i + 1])
                time.sleep(0.002)
            self.s.sendall(said[40:])
        else:
            self.s.sendall(said)
        self.s.setblocking(False)

    def answer(self, kind, request, payload):
        self.state = {OPEN: "asked to open", RENDER: "asked for a batch"}.get(kind, self.state)
        if kind == RENDER:
            self.asked.append(request)
        if self.well > 0:
            self.well -= 1
            said = self.right(kind, request, payload)
            if said:
                self.s.sendall(said)
                self.count["right"] += 1
            self.state = {HELLO: "greeted", OPEN: "open"}.get(kind, self.state)
            return
        what = self.r.random()
        if what < 0.15:
            self.count["silence"] += 1
        elif what < 0.5:
            self.say(self.right(kind, request, payload) or self.wrong())
        else:
            for _ in range(self.r.choice([1, 1, 3, 10])):
                self.say(self.wrong())
        if self.r.random() < 0.3:
            self.spoil()

    def play(self):
        self.s.setblocking(False)
        try:
            if self.well == 0 and self.r.random() < 0.5:
                self.say(self.wrong())  # before the greeting
            while time.monotonic() < self.until:
                if select.select([self.s], [], [], 0.05)[0]:
                    for message in self.receive():
                        self.answer(*message)
                elif self.well == 0 and self.r.random() < 0.3:
                    self.say(self.wrong())
                    self.spoil()
        except (OSError, ValueError):
            self.count["ended by the stream, or half"] += 1
        finally:
            close_aside(self.s)  # a descriptor may be in its own queue
            for s in self.kept:
                s.close()
            if self.ring >= 0:
                os.close(self.ring)


class Model:
    """The real loader's answers to OPEN messages: each is queried once."""

    def __init__(self, address):
        self.address, self.known, self.lock = address, {}, threading.Lock()

    def __call__(self, payload):
        with self.lock:
            if not self.address or not payload:
                return next(iter(self.known.values()), None)
            if payload not in self.known:
                self.known[payload] = self.ask(payload)
            return self.known[payload]

    def ask(self, payload):
        n = struct.unpack_from("<I", payload)[0]
        at = 4 + n
        at += 4 + struct.unpack_from("<I", payload, at)[0]
        slots, slot = struct.unpack_from("<IQ", payload, at + 8 + 12 * 4)
        ring = -1
        try:
            with Raw(self.address, limit=10) as c:
                ring = make_ring(slots * slot)
                c.send(frame(OPEN, payload, 1), *([] if c.remote else [ring]))
                return c.wait_for(OPENED)
        except (OSError, Refused, struct.error):
            return None
        finally:
            if ring >= 0:
                os.close(ring)


def listen(address):
    kind, _, place = address.partition(":")
    if kind == "tcp":
        return socket.create_server(tuple([place.rsplit(":", 1)[0], int(place.rsplit(":", 1)[1])]))
    s = socket.socket(socket.AF_UNIX)
    s.bind("\0" + place[1:] if place.startswith("@") else place)
    s.listen(64)
    return s


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--socket", required=True, help="unix:PATH, unix:@NAME or tcp:HOST:PORT")
    p.add_argument("--seconds", type=float, default=20)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--model", help="the address of a real loader")
    p.add_argument("--never-done", action="store_true")
    o = p.parse_args()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    count, model, until, n, threads = collections.Counter(), Model(o.model), time.monotonic() + o.seconds, 0, []
    with listen(o.socket) as listener:
        while time.monotonic() < until:
            if not select.select([listener], [], [], 0.1)[0]:
                continue
            s, _ = listener.accept()
            n += 1
            threads = [t for t in threads if t.is_alive()]
            threads.append(threading.Thread(target=Player(o, s, f"{o.seed} {n}", count, model).play, daemon=True))
            threads[-1].start()
    for t in threads:
        t.join(2 * LIFE)
    tried = sum(count[f"{kind} {state}"] > 0 for kind in KINDS for state in STATES)
    breaches = [what for what in count if what.startswith("BREACH")]
    print(json.dumps({"seed": o.seed, "connections": n, "tried": tried, "of": len(KINDS) * len(STATES),
                      "breaches": breaches, "count": count}))
    sys.exit(bool(breaches))


if __name__ == "__main__":
    main()
