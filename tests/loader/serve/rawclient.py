# SPDX-License-Identifier: MIT
"""Provides a raw client of a loader, which can send what libplenum never sends."""

import contextlib
import fcntl
import os
import socket
import struct
import threading
import time

HELLO, OPEN, OPENED, RENDER, DONE = 1, 2, 3, 4, 5
STATS, ERROR, STATUS, STATUS_STREAM = 8, 9, 13, 14
SEALS = 0x1 | 0x2 | 0x4  # no more seals, no shrinking, no growing


def text(s):
    return struct.pack("<I", len(s)) + s.encode()


def frame(kind, payload=b"", request=0):
    return struct.pack("<IHHQ", len(payload), kind, 0, request) + payload


def hello(name="a raw client", job="", more=0):
    """Return a HELLO with `more` extra bytes at the end, as from a later version."""
    return frame(HELLO, b"plenum\0\0" + struct.pack("<HH", 1, 4) + text("") + text(name) + text(job) + bytes(more))


def slot_bytes(side, count):
    labels = -(-count * side * side * 3 // 64) * 64
    return -(-(labels + count * 12) // 4096) * 4096


def make_ring(size, holes=False):
    """Return a sealed memory file, as a ring must be. With `holes`, no memory is allocated for it."""
    fd = os.memfd_create("ring", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    if holes:
        os.ftruncate(fd, size)
    else:
        os.posix_fallocate(fd, 0, size)
    fcntl.fcntl(fd, 1033, SEALS)  # F_ADD_SEALS
    return fd


def open_frame(dataset, side=32, count=4, slots=2, pipeline=None, mix=None):
    """Return an OPEN. With `mix`, its pipeline mixes samples, and `mix` is the last field, as of version 1.8."""
    pipeline = pipeline or f"v1 rrc({side},scale=2/25:1,ratio=3/4:4/3)" + (" mixup(1/5)" if mix is not None else "")
    numbers = struct.pack("<QIIIIIIIIIIIIIQ", 7, 0, 0, 0, 0, count, 0, count, 1, 1, 0, 3, side, slots,
                          slot_bytes(side, count))
    later = struct.pack("<IIIQII", 0, 0, 0, 0, 0, mix) if mix is not None else b""
    return frame(OPEN, text(dataset) + text(pipeline) + numbers + later, 1)


def connect(s, place):
    """Call s.connect(place), but also wait while a unix socket's queue is full."""
    until = time.monotonic() + s.gettimeout()
    while True:
        try:
            return s.connect(place)
        except BlockingIOError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


def lingering(seconds):
    """Return a TCP socket with unsent bytes, whose close() waits this long, and its other end, which must stay open
    until then."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    ours.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            ours.send(bytes(65536))
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, seconds))
    return ours, theirs


def close_aside(s):
    """Close a socket in a thread of its own, because close() may wait."""
    threading.Thread(target=s.close, daemon=True).start()


class Refused(Exception):
    """The loader has sent ERROR, with this code and message."""


class Raw:
    def __init__(self, address, limit=60, greeting=None, name="a raw client", job="", source=None):
        """Connect to `address`, unix:PATH or tcp:HOST:PORT, from this host's address `source`, if it is given, and
        greet, unless `greeting` is empty."""
        kind, _, place = address.partition(":")
        host, _, port = place.rpartition(":")
        self.remote = kind == "tcp"
        self.ring = -1
        self.socket = socket.socket(socket.AF_INET if self.remote else socket.AF_UNIX)
        self.socket.settimeout(limit)
        if source:
            self.socket.bind((source, 0))
        connect(self.socket, (host, int(port)) if self.remote else place)
        greeting = hello(name, job) if greeting is None else greeting
        if greeting:
            self.send(greeting)
            self.wait_for(HELLO)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()
        if self.ring >= 0:
            os.close(self.ring)
        self.ring = -1

    def send(self, data, *fds):
        if fds:
            socket.send_fds(self.socket, [data], list(fds))
        else:
            self.socket.sendall(data)

    def exactly(self, n):
        got = b""
        while len(got) < n:
            piece = self.socket.recv(n - len(got))
            if not piece:
                raise ConnectionResetError("the loader has closed")
            got += piece
        return got

    def next(self):
        """Return the type and payload of the next frame."""
        length, kind, _, _ = struct.unpack("<IHHQ", self.exactly(16))
        return kind, self.exactly(length)

    def wait_for(self, wanted):
        while True:
            kind, payload = self.next()
            if kind == ERROR and wanted != ERROR:
                code, n = struct.unpack_from("<iI", payload)
                raise Refused(code, payload[8:8 + n].decode())
            if kind == wanted:
                return payload

    def refusal(self):
        """Wait for an ERROR, and return its message."""
        payload = self.wait_for(ERROR)
        return payload[8:].decode()

    def open(self, dataset, side=32, count=4, slots=2, holes=False, pipeline=None, fds=None):
        """Open a stream; return the size of its ring."""
        size = slots * slot_bytes(side, count)
        opening = open_frame(dataset, side, count, slots, pipeline)
        if self.remote:
            self.send(opening)
        else:
            self.ring = make_ring(size, holes)
            self.send(opening, *(fds or [self.ring]))
        self.wait_for(OPENED)
        return size

    def ask(self, position=0, slot=0, request=10):
        self.send(frame(RENDER, struct.pack("<QQIQ", 0, position, slot, 0), request))

    def done(self):
        """Wait for the next batch, and return its status."""
        return struct.unpack_from("<i", self.wait_for(DONE))[0]
