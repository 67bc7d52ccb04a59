#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A hostile client of a loader: every message in every state, complete, malformed and truncated, with descriptors of
all kinds, in floods, from clients that do not read, close at any moment and reconnect; as several users at once when
run as root.

    client.py --socket ADDRESS --seconds 20 --seed 7 --user daemon --user games --open folder:/srv/mine --closed
    folder:/srv/theirs

`--open` may be streamed, `--closed` may not: access to it, or to information about other users' streams, is a breach.
Prints its actions as JSON; exits with 1 on a breach. The same seed draws the same attacks; their outcome depends on the
loader's timing."""

import argparse
import collections
import contextlib
import encodings.idna  # noqa: F401  (as another user, it may not be readable later)
import json
import os
import pwd
import random
import signal
import socket
import struct
import sys
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "loader", "serve"))

from rawclient import (  # noqa: E402
    ERROR, HELLO, OPEN, OPENED, RENDER, STATUS_STREAM, Raw, Refused, close_aside, frame, hello, lingering, make_ring,
    open_frame, text,
)

STATES = ["connected", "greeted", "opening", "open", "closing"]
KINDS = {"HELLO": 1, "OPEN": 2, "OPENED": 3, "RENDER": 4, "DONE": 5, "CANCEL": 6, "CANCELLED": 7, "STATS": 8,
         "ERROR": 9, "BYE": 10, "PROGRESS": 11, "NAME": 12, "STATUS": 13, "STATUS_STREAM": 14, "FIELDS": 15,
         "type 0": 0, "type 16": 16, "type 65535": 65535}
FIELDS = ["f:jpg:bytes", "f:jpg:bytes,g:jpg:bytes", "f:jpg", "o:json:boxes:0.5", "a:txt,b:json.c.d:int64", "m:png:mask",
          "a:/../../../secret:bytes", "a:txt:line:x", ",", "", "x" * 1023]
FORMS = ["right", "strange", "random", "cut", "longer", "length"]
ODD = [0, 1, 2, 3, 7, 63, 64, 255, 256, 4095, 4096, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1]
DESCRIPTORS = ["own", "linger", "pipe", "sparse", "ring", "many", "device", "folder", "nested", "unlinked"]
ENDS = ["close", "reset", "half", "keep", "bye", "silence"]
KEPT = 24        # connections that a user keeps open, with everything attached
LINGER = 2       # seconds that close() of such a connection takes


CASES = [f"{kind} {state}" for kind in KINDS for state in STATES]
PATIENCE = 60    # seconds more for --share


class Breach(Exception):
    pass


def tried(count):
    return [case for case in CASES if count[case] > 0]


def odd(r, bits=32):
    return r.choice(ODD + [2**64 - 1, 2**63, 2**48]) % 2**bits if r.random() < 0.6 else r.getrandbits(bits)


class Attacker:
    """One user's attacks, one after another."""

    def __init__(self, options, seed):
        self.o, self.r = options, random.Random(seed)
        self.count = collections.Counter()
        self.kept, self.ends = collections.deque(), []
        self.position = 0

    # Messages. right() returns a correct payload; opening(), opening_alone() and message() return whole frames.

    def right(self, kind):
        r = self.r
        if kind == HELLO:
            return hello(name=r.choice(["a stranger", "", "x" * 255, "\x1b[2J\x9b\n"]),
                         job=r.choice(["", self.o.job, "j" * 200]), more=r.choice([0, 0, 60000]))[16:]
        if kind == OPEN:
            return self.opening()[16:]
        if kind == KINDS["FIELDS"]:
            return text(r.choice([self.o.open, self.o.open, *self.tricks()])) + text(r.choice(FIELDS))
        if kind == RENDER:
            return struct.pack("<QQIQ", r.choice([0, odd(r, 64)]), 4 * r.randrange(20), r.randrange(2), odd(r, 64))
        if kind == KINDS["NAME"]:
            return struct.pack("<II", odd(r), r.randrange(3))
        if kind in (KINDS["DONE"], ERROR):
            return struct.pack("<i", -5) + bytes(36 if kind == KINDS["DONE"] else 0) + text("x")
        return b""

    def opening(self):
        """Return an OPEN frame of an allowed data set or of one of tricks(), in which one number may be random."""
        r = self.r
        name = r.choice([self.o.open, self.o.open, "generated:100", *self.tricks()])
        if r.random() < 0.3:
            return self.opening_alone(name)
        mix = r.choice([None, None, 0, 1, 1, 2])
        whole = bytearray(open_frame(name, *r.choice([(32, 4, 2), (1, 1, 1), (64, 8, 4)]), mix=mix))
        if r.random() < 0.3:  # change any of the fifteen numbers
            at = len(whole) - (68 if mix is None else 96) + r.choice([0, *range(8, 64, 4)])
            whole[at:at + 4] = struct.pack("<I", odd(r))
        return bytes(whole)

    def opening_alone(self, name):
        """Return OPEN of a stream without images, as of version 1.11, and perhaps of fields with any shapes."""
        r = self.r
        fields = r.choice(["", *FIELDS])
        shapes = [struct.pack("<8I", *(r.choice([0, 0, 1, 14, 8, odd(r)]) for _ in range(8)))
                  for _ in range(r.choice([1, 1, 2, 17]) if fields else 0)]
        whole = bytearray(open_frame(name, r.choice([0, 0, 0, 16]), pipeline="v1 none", mix=0))
        whole += struct.pack("<3I", r.choice([0, 0, 0, 16]), r.choice([0, 0, 0, 1]), r.randrange(2))  # height, views
        whole += text(fields) + struct.pack("<I", len(shapes)) + b"".join(shapes)
        whole[:4] = struct.pack("<I", len(whole) - 16)
        return bytes(whole)

    def tricks(self):
        """Return names that might lead to the closed data set, and names that do not exist or are not a data set."""
        if not self.o.closed:
            return ["folder:/nowhere", "list:/dev/zero", "generated:4294967294"]
        kind, _, path = self.o.closed.partition(":")
        mine = self.o.open.partition(":")[2]
        up = "/".join([".."] * (mine.count("/")))
        return [self.o.closed, f"{kind}:{mine}/{up}{path}", f"{kind}:{path}/.", f"{kind}:/proc/self/root{path}",
                f"tar:{path}/*", f"list:{path}/classes.txt,base={path}", f"tar:{mine}/*/../..{path}/*",
                "list:/dev/zero", "folder:/proc/self/fd", f"generated:{kind}:{path}", "generated:4294967294"]

    def message(self, kind, form):
        r = self.r
        payload = bytearray(self.right(kind))
        if form == "strange" and payload:
            for _ in range(r.randrange(1, 4)):
                payload[r.randrange(len(payload))] = r.choice([0, 1, 0x7f, 0x80, 0xff, r.randrange(256)])
        elif form == "random":
            payload = r.randbytes(r.choice([0, 1, 4, 40, 4000, 65536]))
        elif form == "cut":
            payload = payload[:r.randrange(len(payload) + 1)]
        elif form == "longer":
            payload += bytes(r.choice([1, 8, 3000]))
        said = bytearray(frame(kind, bytes(payload), r.choice([0, 1, 10, odd(r, 64)])))
        if form == "length":
            said[:4] = struct.pack("<I", r.choice([0, len(payload) + 1, 65537, 2**31, 2**32 - 1]))
        return bytes(said)

    # Descriptors to send along.

    @contextlib.contextmanager
    def descriptors(self, c):
        """Yield descriptors of one kind, open while they are being sent."""
        kind = self.r.choice(DESCRIPTORS)
        self.count[f"with {kind}"] += 1
        mine, slow = [], []
        if kind == "own":
            fds = [c.socket.fileno()]
        elif kind in ("linger", "nested"):
            sock, end = lingering(LINGER)
            self.ends.append((time.monotonic() + LINGER, end))
            slow.append(sock)
            if kind == "nested":
                a, b = socket.socketpair()
                socket.send_fds(a, [b"x"], [sock.fileno()])
                slow += [a, b]
                fds = [b.fileno()]
            else:
                fds = [sock.fileno()]
        else:
            if kind == "pipe":
                mine = list(os.pipe())
            elif kind in ("sparse", "ring"):
                mine = [make_ring(self.r.choice([8192, 4096, 1 << 20]), holes=kind == "sparse")]
            elif kind == "unlinked":
                mine = [os.memfd_create("x", os.MFD_CLOEXEC)]
            else:
                mine = [os.open("/" if kind == "folder" else "/dev/zero", os.O_RDONLY | os.O_CLOEXEC)]
            fds = mine * (250 if kind == "many" else 1)
        try:
            yield fds
        finally:
            for fd in mine:
                os.close(fd)
            for s in slow:  # not here: that would block
                close_aside(s)

    # How a message is sent.

    def send(self, c, said):
        r = self.r
        way = r.choices(["whole", "pieces", "half", "flood", "descriptors"], [10, 2, 2, 3, 0 if c.remote else 5])[0]
        self.count[way] += 1
        if way == "pieces":
            for i in range(0, min(len(said), 64)):
                c.send(said[i:i + 1])
            c.send(said[64:])
        elif way == "half":
            c.send(said[:r.randrange(len(said) + 1)])
        elif way == "flood":
            flood = said * max(1, min(4000, (1 << 20) // len(said)))
            sent = 0
            while sent < len(flood):
                sent += c.socket.send(flood[sent:])
        elif way == "descriptors":
            with self.descriptors(c) as fds:
                c.send(said, *fds)
        else:
            c.send(said)

    def listen(self, c, seconds):
        """Read for this long, and check for forbidden answers."""
        c.socket.settimeout(seconds)
        while True:
            kind, payload = c.next()
            self.count["answers"] += 1
            if kind == STATUS_STREAM and self.o.closed and os.getuid() != 0:
                uid = struct.unpack_from("<QII", payload)[2]
                if uid != (2**32 - 1 if c.remote else os.getuid()):  # over TCP, users see only their own streams
                    raise Breach(f"user {os.getuid()} learned of a stream of user {uid}")

    # States.

    def reach(self, state):
        r = self.r
        c = Raw(self.o.socket, limit=5, greeting=b"")
        if state == "connected":
            return c
        c.send(hello(job=r.choice(["", self.o.job])))
        c.wait_for(HELLO)
        if state == "greeted":
            return c
        if state == "closing":
            c.send(frame(r.choice([4711, KINDS["DONE"]])))
            return c
        name = r.choice([self.o.open, "generated:100"])
        opening = open_frame(name, side=32, count=4)
        if c.remote:
            c.send(opening)
        else:
            c.ring = make_ring(2 * struct.unpack_from("<Q", opening, len(opening) - 8)[0])
            c.send(opening, c.ring)
        if state == "open":
            c.wait_for(OPENED)
            for slot in range(r.randrange(3)):
                c.ask(position=4 * r.randrange(8), slot=slot, request=10 + slot)
        return c

    def closed_door(self):
        """Check that the closed data set stays closed, by each of its names, and nothing reveals that it exists."""
        for name in self.tricks():
            with Raw(self.o.socket, limit=30) as c:
                try:
                    c.open(name)
                except (Refused, OSError):
                    continue
                if self.o.closed and self.o.closed.partition(":")[2] in name:
                    raise Breach(f"{name} was opened")

    def end(self, c):
        how = self.r.choice(ENDS)
        self.count[how] += 1
        if how == "half":
            c.socket.shutdown(socket.SHUT_WR)
        elif how == "bye":
            c.send(frame(KINDS["BYE"]) + frame(KINDS["STATS"]))
        if how in ("keep", "half", "silence"):
            self.kept.append(c)
            if len(self.kept) > KEPT:
                self.kept.popleft().close()
        else:
            c.close()

    def one(self):
        r = self.r
        state = r.choice(STATES)
        c = None
        try:
            c = self.reach(state)
            c.socket.settimeout(0.3)
            for _ in range(r.choice([1, 1, 2, 5])):
                name = r.choice(list(KINDS))
                self.count[f"{name} {state}"] += 1
                self.send(c, self.message(KINDS[name], r.choice(FORMS)))
            if r.random() < 0.5:
                with contextlib.suppress(TimeoutError):
                    self.listen(c, r.choice([0.01, 0.1]))
            self.end(c)
        except (OSError, Refused):  # the loader closes, rejects, or stops reading, as it should
            self.count["ended by the loader"] += 1
            if c:
                c.close()

    def run(self):
        until = time.monotonic() + self.o.seconds
        self.closed_door()
        while time.monotonic() < until or (len(tried(self.count)) < self.o.share * len(CASES) and
                                           time.monotonic() < until + PATIENCE):
            self.one()
            while self.ends and self.ends[0][0] < time.monotonic():
                self.ends.pop(0)[1].close()
            if self.o.pause:
                time.sleep(self.o.pause)
        return self.count


def as_user(options, name, seed, say):
    """Switch to that user in a separate process, attack, and report."""
    result = {"count": {}, "breach": None}
    try:
        if name:
            who = pwd.getpwnam(name)
            os.setgroups([])
            os.setresgid(who.pw_gid, who.pw_gid, who.pw_gid)
            os.setresuid(who.pw_uid, who.pw_uid, who.pw_uid)
        result["count"] = Attacker(options, seed).run()
    except Breach as e:
        result["breach"] = str(e)
    except BaseException:
        result["breach"] = "the attack itself: " + traceback.format_exc()
    os.write(say, json.dumps(result).encode())
    os._exit(0)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--socket", required=True, help="unix:PATH or tcp:HOST:PORT")
    p.add_argument("--seconds", type=float, default=20)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--user", action="append", help="attack as this user, too (needs root)")
    p.add_argument("--job", default="another user's job", help="the name of another's job")
    p.add_argument("--open", default="generated:100", help="a data set that may be streamed")
    p.add_argument("--closed", help="a data set that may not be streamed")
    p.add_argument("--share", type=float, default=0,
                   help="continue until each user tried this share of all messages in all states; at most a minute")
    p.add_argument("--pause", type=float, default=0, help="seconds between two attacks")
    o = p.parse_args()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    pipes = []
    for i, name in enumerate(o.user or [None]):
        hear, say = os.pipe()
        if os.fork() == 0:
            as_user(o, name, f"{o.seed} {i}", say)
        os.close(say)
        pipes.append(hear)
    total, breaches = collections.Counter(), []
    for hear in pipes:
        with os.fdopen(hear) as f:
            said = f.read()
        result = json.loads(said) if said else {"count": {}, "breach": "the attack itself was ended"}
        total.update(result["count"])
        if result["breach"]:
            breaches.append(result["breach"])
        os.wait()
    print(json.dumps({"seed": o.seed, "tried": len(tried(total)), "of": len(CASES), "breaches": breaches,
                      "count": total}))
    sys.exit(bool(breaches))


if __name__ == "__main__":
    main()
