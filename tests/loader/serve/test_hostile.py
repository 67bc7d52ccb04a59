# SPDX-License-Identifier: MIT
"""Checks that a client cannot harm the loader or other clients. In most tests, an honest client runs during the attack,
as another user if the test is run by root. It must get every batch, with the right hash, and so must clients that
connect during and after the attack."""

import encodings.idna  # noqa: F401  (as another user, it may not be readable later)
import contextlib
import ctypes
import fcntl
import os
import pwd
import select
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from rawclient import (  # noqa: E402
    HELLO, STATS, STATUS, Raw, Refused, close_aside, frame, hello, lingering, make_ring, open_frame, slot_bytes,
)
from test_hangs import LIBC, mount_hung  # noqa: E402
from service import FEED, LIMIT, STREAM, ServiceCase, wait_for, why_no_other_users  # noqa: E402
import tap  # noqa: E402

LINGER = 20 * LIMIT  # seconds: nothing here may take that long
FEEDS = 4  # descriptors that the loader may hold for honest clients


def answer_but_closing(fuse):
    """Serve a file system with a file "x" that any user may open, and whose close() never ends."""
    def attributes(node):
        return struct.pack("<6Q10I", node, 0, 0, 0, 0, 0, 0, 0, 0, 0o100666 if node > 1 else 0o40777, 1, 0, 0, 0, 4096,
                           0)

    forever = struct.pack("<QII", 1 << 30, 0, 0)
    while True:
        request = os.read(fuse, 1 << 17)
        _, kind, number, node = struct.unpack("<IIQQ", request[:24])
        answers = {26: struct.pack("<4I2H2I2H8I", 7, 31, 65536, 0, 0, 0, 65536, 1, 0, 0, *[0] * 8),  # INIT
                   1: struct.pack("<4Q2I", 2, 0, 1 << 30, 1 << 30, 0, 0) + attributes(2),           # LOOKUP
                   3: forever + attributes(node),                                                   # GETATTR
                   14: struct.pack("<QII", 1, 0, 0)}                                                # OPEN
        if kind in answers:
            os.write(fuse, struct.pack("<IiQ", 16 + len(answers[kind]), 0, number) + answers[kind])
        elif kind not in (2, 18, 25, 36):  # FORGET, RELEASE, FLUSH
            os.write(fuse, struct.pack("<IiQ", 16, -38, number))


class HostileTest(ServiceCase):
    def setUp(self):
        super().setUp()
        self.people = [pwd.getpwnam(name)
                       for name in ("nobody", "daemon")] if not why_no_other_users() else [None, None]
        self.make_data()
        self.set_name = f"folder:{self.data}"
        os.chmod(self.folder, 0o755)
        self.address = f"unix:{self.socket}"

    def start(self, *arguments):
        return self.serve("--root", self.folder, "--socket-mode", "0666", *arguments)

    def honest(self, *arguments):
        """Run a feed; as root, as another user."""
        who = self.people[0]
        p = subprocess.Popen([FEED, self.data, *STREAM, "--loader", self.address, "--json", *arguments],
                             env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True,
                             **({"user": who.pw_uid, "group": who.pw_gid, "extra_groups": ()} if who else {}))
        self.addCleanup(self.end_feed, p)
        return p

    def attack(self, attack):
        """Run `attack(ready)` in a separate process (as root, of a third user), and wait until it calls ready(), which
        blocks until the attack is over. Return the function that ends the attack."""
        said, say = os.pipe()
        end, ended = os.pipe()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.close(said)
                os.close(ended)
                if self.people[1]:
                    os.setgroups([])
                    os.setgid(self.people[1].pw_gid)
                    os.setuid(self.people[1].pw_uid)

                def ready():
                    os.write(say, b"x")
                    os.read(end, 1)
                attack(ready)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(say)
        os.close(end)
        over = []

        def finish():
            if not over:
                over.append(True)
                os.close(ended)
                os.close(said)
                self.assertIn(os.waitpid(pid, 0)[1], (0, signal.SIGKILL), "the attack itself")

        def end():
            if not over:
                os.kill(pid, signal.SIGKILL)
            finish()
        self.addCleanup(end)
        self.assertTrue(select.select([said], [], [], 2 * LIMIT)[0], "the attack itself")
        self.assertEqual(os.read(said, 1), b"x", "the attack itself")
        return finish

    def beside(self, attack, epochs=12, meanwhile=None):
        """Run an honest client before, during and after the attack."""
        feed = self.honest("--epochs", str(epochs), "--pause", "20")
        wait_for("an honest client", lambda: "samples, 'v1" in self.said())
        finish = self.attack(attack)
        self.assertEqual(self.fed(self.honest("--epochs", "1"))[0]["hash"], self.alone(1))
        if meanwhile:
            meanwhile()
        finish()
        result, err = self.fed(feed)
        self.assertEqual((result["hash"], result["incidents"]), (self.alone(epochs), 0), err)
        self.assertEqual(self.fed(self.honest("--epochs", "1"))[0]["hash"], self.alone(1))

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.loader.pid}/fd"))

    def stats(self):
        """Return the number of sessions besides the one that queries, and the bytes of all rings."""
        with Raw(self.address) as c:
            c.send(frame(STATS, request=1))
            numbers = struct.unpack("<7Q", c.wait_for(STATS))
        return numbers[1] - 1, numbers[5]

    def test_its_own_end(self):
        """a client that sends the loader its own end of the connection does not keep its session alive"""
        self.loader = self.start()
        at_rest = self.descriptors()

        def attack(ready):
            # The descriptor comes with HELLO, with OPEN, after OPEN, and with a message that may never have one.
            clients = [Raw(self.address, greeting=b"") for _ in range(4)]
            for c in clients:
                c.socket.settimeout(5)
            clients[0].send(hello(), clients[0].socket.fileno())
            for c in clients[1:]:
                c.send(hello())
                c.wait_for(HELLO)
            ring = make_ring(1 << 20)
            clients[1].send(open_frame(self.set_name), clients[1].socket.fileno())
            clients[2].send(open_frame(self.set_name), ring, clients[2].socket.fileno())
            clients[3].open(self.set_name)
            clients[3].send(frame(STATS), clients[3].socket.fileno())
            ready()

        self.beside(attack)
        wait_for("the end of all sessions", lambda: self.stats() == (0, 0))
        wait_for("their descriptors", lambda: self.descriptors() <= at_rest)

    def test_slow_to_close(self):
        """descriptors with a slow close() do no harm, whether sent directly, in a socket's queue, or in the client's"""
        self.loader = self.start()
        at_rest = self.descriptors()

        def attack(ready):
            slow, other_end = lingering(LINGER)
            a, b = socket.socketpair()
            inner, inner_end = lingering(LINGER)
            socket.send_fds(a, [b"x"], [inner.fileno()])
            close_aside(inner)
            for sent in (slow, b):
                c = Raw(self.address, greeting=b"")
                c.send(hello(), sent.fileno())
                close_aside(sent)
                c.wait_for(HELLO)
                c.close()
            queued, queued_end = lingering(LINGER)
            c = Raw(self.address)
            c.send(frame(4711) + bytes(60000))  # rejected, and not read any further
            with contextlib.suppress(ConnectionError):
                c.send(b"x" * 100, queued.fileno())
            close_aside(queued)
            c.close()
            ready()
            other_end.close(), inner_end.close(), queued_end.close()

        # Those bytes stay unread, and the sockets open, until the attack is over.
        self.beside(attack,
                    meanwhile=lambda: wait_for("their descriptors", lambda: self.descriptors() <= at_rest + FEEDS))
        wait_for("their descriptors", lambda: self.descriptors() <= at_rest)

    def test_never_closed(self):
        """a client whose files' close() never ends does no harm, even if it reconnects often"""
        self.need_other_users()
        path = os.path.join(self.folder, "theirs")
        os.mkdir(path)
        fuse = mount_hung(path)
        if fuse is None:
            self.skipTest("a file system of our own cannot be mounted here")
        self.addCleanup(LIBC.umount2, path.encode(), 2)
        server = os.fork()
        if server == 0:
            try:
                # If this test fails, a process that waits in close() cannot even be killed earlier.
                signal.alarm(4 * LIMIT)
                answer_but_closing(fuse.fileno())
            finally:
                os._exit(1)
        fuse.close()
        stopped = []

        def stop():  # from then on it can be closed
            if not stopped:
                stopped.append(True)
                os.kill(server, signal.SIGKILL)
                os.waitpid(server, 0)
        self.addCleanup(stop)
        self.loader = self.start()
        at_rest, first, more = self.descriptors(), 80, 500

        def attack(ready):
            theirs = os.open(os.path.join(path, "x"), os.O_RDONLY)
            for i in range(first + more):
                if i == first:
                    time.sleep(2)  # what takes longer hangs
                c = Raw(self.address, greeting=b"")
                with contextlib.suppress(OSError, Refused):
                    c.send(hello(), theirs)
                    if i < first:
                        c.wait_for(HELLO)
                c.close()
            ready()

        def meanwhile():
            wait_for("their descriptors", lambda: self.descriptors() <= at_rest + FEEDS + first)
            self.assertGreater(self.descriptors(), at_rest + first // 2, "nothing hung")
            stop()
        self.beside(attack, meanwhile=meanwhile)
        wait_for("their descriptors", lambda: self.descriptors() <= at_rest)

    def test_nested(self):
        """nested sockets do no harm: in many messages, as connections that were not accepted, and in cycles"""
        self.loader = self.start()
        at_rest = self.descriptors()

        def attack(ready):
            ends = []
            for i, kind in enumerate(4 * (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM)):
                a, b = socket.socketpair(socket.AF_UNIX, kind)
                if kind != socket.SOCK_STREAM:
                    a.send(b"")
                for _ in range(3):
                    slow, end = lingering(LINGER)
                    ends.append(end)
                    socket.send_fds(a, [b"x" * 5000], [slow.fileno()] * 3 + [b.fileno()] * (i % 4 == 0))
                    close_aside(slow)
                c = Raw(self.address, greeting=b"")
                c.send(hello(), b.fileno())
                close_aside(a), close_aside(b)
                c.close()
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(b"\0plenum-test-nested-%d" % os.getpid())
            listener.listen(5)
            queued = socket.socket(socket.AF_UNIX)
            queued.connect(listener.getsockname())
            slow, end = lingering(LINGER)
            socket.send_fds(queued, [b"x"], [slow.fileno()])
            close_aside(slow), close_aside(queued)
            c = Raw(self.address, greeting=b"")
            c.send(hello(), listener.fileno())
            close_aside(listener)
            c.close()
            ready()
            del ends, end

        self.beside(attack,
                    meanwhile=lambda: wait_for("their descriptors", lambda: self.descriptors() <= at_rest + FEEDS))
        wait_for("their descriptors", lambda: self.descriptors() <= at_rest)

    def test_many_descriptors(self):
        """hundreds of descriptors in each message do no harm"""
        # A user's descriptors are closed one after the other: an honest client of the same user could be refused.
        self.need_other_users()
        self.loader = self.start()
        at_rest = self.descriptors()

        def attack(ready):
            null = os.open("/dev/null", os.O_RDONLY)
            for _ in range(50):
                c = Raw(self.address, limit=5, greeting=b"")
                with contextlib.suppress(OSError, Refused):  # the end, or the kernel's own limit of files in flight
                    c.send(hello())
                    for _ in range(4):
                        c.send(frame(STATS), *([null] * 250))
                    c.wait_for(STATUS)  # it never comes
                c.close()
            ready()

        self.beside(attack)
        wait_for("their descriptors", lambda: self.descriptors() <= at_rest)

    def test_status_flood(self):
        """thousands of STATUS at once are answered one at a time, and take little memory"""
        self.loader = self.start()

        def attack(ready):
            streams = []
            for _ in range(100):
                c = Raw(self.address, name="n" * 255)
                c.open("generated:9", side=1, count=1, slots=1, pipeline="v1 resize(1) center_crop(1)")
                streams.append(c)
            c = Raw(self.address, greeting=b"")
            c.send(hello(more=65000))  # it makes the loader reserve much memory
            c.wait_for(HELLO)
            c.socket.settimeout(1)
            flood = frame(STATUS) * 12000
            try:
                while flood:
                    flood = flood[c.socket.send(flood):]
            except (TimeoutError, ConnectionError):
                pass
            ready()

        before = self.resident(self.loader, "VmHWM")
        self.beside(attack)
        if not os.environ.get("PLENUM_SANITIZED"):  # a sanitizer keeps freed memory
            self.assertLess(self.resident(self.loader, "VmHWM") - before, 128 << 10)

    def test_holes(self):
        """rings with holes, even if disguised or punched later, take no memory from the loader's budget"""
        self.loader = self.start("--threads", "1")

        def attack(ready):
            with self.assertRaisesRegex(Refused, "has holes"):
                Raw(self.address).open(self.set_name, holes=True)
            size, bytes_of = 2 * slot_bytes(256, 16), slot_bytes(256, 16)
            punch = 0x2 | 0x1  # FALLOC_FL_PUNCH_HOLE, FALLOC_FL_KEEP_SIZE
            libc = ctypes.CDLL(None, use_errno=True)
            libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
            hidden = os.memfd_create("ring", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.ftruncate(hidden, size)
            self.assertEqual(libc.fallocate(hidden, 1, size, 2 * size), 0)
            fcntl.fcntl(hidden, 1033, 0x7)
            with self.assertRaisesRegex(Refused, "has holes|beyond its end"):
                Raw(self.address).open(self.set_name, side=256, count=16, fds=[hidden])
            c = Raw(self.address)
            c.open(self.set_name, side=256, count=16)
            c.ask(slot=0)
            self.assertEqual(c.done(), 0)
            self.assertEqual(libc.fallocate(c.ring, punch, bytes_of, bytes_of), 0)
            c.ask(slot=1)
            with self.assertRaisesRegex(Refused, "has holes"):
                c.done()
            # Requested while the ring was whole: when it is rendered, a ring without memory gets none of the loader's.
            c = Raw(self.address)
            c.open(self.set_name, side=256, count=16, slots=64)
            for slot in range(63):
                c.ask(slot=slot, position=slot % 8, request=100 + slot)
            self.assertEqual(libc.fallocate(c.ring, punch, 63 * bytes_of, bytes_of), 0)
            with self.assertRaises((AssertionError, Refused, ConnectionError)):
                for _ in range(63):
                    self.assertEqual(c.done(), 0)
            ready()

        self.beside(attack)

    def test_no_room_for_others(self):
        """a user who opens all possible connections, streams and rings leaves room for others"""
        self.need_other_users()
        self.loader = self.start("--max-clients", "24", "--ring-limit", "64M")

        def attack(ready):
            held = []
            for side, count, fill in ((None, 1, 200), (8, 1, 200), (256, 8, 200)):
                for _ in range(fill):
                    try:
                        c = Raw(self.address, limit=5)
                        held.append(c)
                        if side:
                            c.open(self.set_name, side=side, count=count, slots=2)
                    except (Refused, ConnectionError):
                        break
            ready()

        self.beside(attack)
        self.assertIn("there are already as many clients as --max-clients allows", self.said())

    def test_one_users_rings(self):
        """a ring that leaves others less memory than its user has is rejected, unless there is only one user"""
        for arguments, alone in ((("--root", self.folder), False), ((), True)):
            p = self.serve("--ring-limit", "64M", *arguments)
            with Raw(self.address) as a, Raw(self.address) as b:
                a.open(self.set_name, side=1024, count=4)  # 24 MiB
                if alone:
                    b.open(self.set_name, side=1024, count=4)
                else:
                    with self.assertRaisesRegex(Refused, "would leave other users less of the 64 MiB"):
                        b.open(self.set_name, side=1024, count=2)
                    Raw(self.address).open(self.set_name, side=512, count=4)
            self.end(p)

    def test_own_addresses(self):
        """all 2^24 loopback addresses of this host count as one user"""
        address = self.serve_tcp("--max-clients", "8")
        held = []
        with self.assertRaisesRegex(Refused, "must leave as many free for others"):
            for i in range(2, 10):
                held.append(Raw(address, source=f"127.0.0.{i}"))
        self.assertEqual(len(held), 4)
        for c in held:
            c.close()

    def test_comes_again(self):
        """a client that reconnects at once finds room, although the work of its last session is unfinished"""
        self.loader = self.start("--ring-limit", "64M", "--threads", "1", "--max-clients", "4")

        def attack(ready):
            for _ in range(10):
                c = Raw(self.address)
                c.open(self.set_name, side=1024, count=5)  # 30 MiB: half of what there is
                for slot in range(2):
                    c.ask(slot=slot, position=slot, request=10 + slot)
                c.close()
            ready()

        self.beside(attack, epochs=4)

    def test_gone_without_a_word(self):
        """if a TCP client vanishes and reconnects, its old connection is probed, and its old stream makes room"""
        if os.geteuid() != 0:
            self.skipTest("only root can close a TCP connection without notifying the peer (TCP_REPAIR)")
        address = self.serve_tcp("--ring-limit", "64M")
        c = Raw(address)
        c.open(self.set_name, side=1024, count=4)  # 24 MiB
        c.socket.setsockopt(socket.IPPROTO_TCP, 19, 1)  # TCP_REPAIR: closing then sends nothing
        c.close()
        time.sleep(2)  # a peer heard from recently counts as alive
        with Raw(address) as c:
            c.open(self.set_name, side=1024, count=4)
            c.ask()
            self.assertEqual(c.done(), 0)


if __name__ == "__main__":
    tap.main()
