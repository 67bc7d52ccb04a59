"""What one client can do to the loader and to others: nothing. An honest client of another user is beside each attack; it gets
every batch, with the right hash, and so does one that comes when the attack is over."""

import encodings.idna  # noqa: F401  (who is another user later may not be able to read it)
import contextlib
import os
import pwd
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from rawclient import HELLO, STATS, STATUS, Raw, Refused, frame, hello, make_ring, open_frame  # noqa: E402
from service import FEED, LIMIT, STREAM, ServiceCase, wait_for  # noqa: E402
import tap  # noqa: E402

LINGER = 20 * LIMIT  # seconds that nothing here may wait for


def lingering():
    """A TCP socket with bytes that nobody takes, whose close() waits for long; and the other end, to be kept."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    ours.setblocking(False)
    try:
        while True:
            ours.send(bytes(65536))
    except BlockingIOError:
        pass
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGER))
    return ours, theirs


def close_aside(sock):
    """Close it in a thread that may wait for as long as that takes."""
    threading.Thread(target=sock.close, daemon=True).start()


class HostileTest(ServiceCase):
    def setUp(self):
        super().setUp()
        self.people = [pwd.getpwnam(name) for name in ("nobody", "daemon")] if os.geteuid() == 0 else [None, None]
        self.make_data()
        self.set_name = f"folder:{self.data}"
        os.chmod(self.folder, 0o755)
        self.address = f"unix:{self.socket}"

    def start(self, *arguments):
        return self.serve("--root", self.folder, "--socket-mode", "0666", *arguments)

    def honest(self, *arguments):
        """A feed of a user of its own."""
        who = self.people[0]
        p = subprocess.Popen([FEED, self.data, *STREAM, "--loader", self.address, "--json", *arguments], env=self.environment,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             **({"user": who.pw_uid, "group": who.pw_gid, "extra_groups": ()} if who else {}))
        self.addCleanup(self.end_feed, p)
        return p

    def attack(self, attack):
        """Run `attack(ready)` in a process of the other user: it has done its worst when it calls ready(), and then waits to be
        ended; the function that ends it is returned."""
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
        """An honest client before, during and after it."""
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
        """Sessions besides the one that asks, and bytes of all rings."""
        with Raw(self.address) as c:
            c.send(frame(STATS, request=1))
            numbers = struct.unpack("<7Q", c.wait_for(STATS))
        return numbers[1] - 1, numbers[5]

    def test_its_own_end(self):
        """who sends the loader its own end of the connection does not live on there"""
        self.loader = self.start()
        at_rest = self.descriptors()

        def attack(ready):
            # With the first message, with the one that opens, behind that, and where no descriptor ever comes.
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
        wait_for("the end of all", lambda: self.stats() == (0, 0))
        wait_for("their descriptors", lambda: self.descriptors() <= at_rest)

    def test_slow_to_close(self):
        """descriptors whose close() takes long, sent bare and in the queue of another, and in the queue of the client itself"""
        self.loader = self.start()
        at_rest = self.descriptors()

        def attack(ready):
            slow, other_end = lingering()
            a, b = socket.socketpair()
            inner, inner_end = lingering()
            socket.send_fds(a, [b"x"], [inner.fileno()])
            close_aside(inner)
            for sent in (slow, b):
                c = Raw(self.address, greeting=b"")
                c.send(hello(), sent.fileno())
                close_aside(sent)
                c.wait_for(HELLO)
                c.close()
            queued, queued_end = lingering()
            c = Raw(self.address)
            c.send(frame(4711) + bytes(60000))  # refused, and not read any further
            with contextlib.suppress(ConnectionError):
                c.send(b"x" * 100, queued.fileno())
            close_aside(queued)
            c.close()
            ready()
            other_end.close(), inner_end.close(), queued_end.close()

        self.beside(attack)
        wait_for("their descriptors", lambda: self.descriptors() <= at_rest)

    def test_many_descriptors(self):
        """hundreds of descriptors in each message"""
        self.loader = self.start()
        at_rest = self.descriptors()

        def attack(ready):
            null = os.open("/dev/null", os.O_RDONLY)
            for _ in range(50):
                c = Raw(self.address, limit=5, greeting=b"")
                with contextlib.suppress(ConnectionError, Refused):
                    c.send(hello())
                    for _ in range(4):
                        c.send(frame(STATS), *([null] * 250))
                    c.wait_for(STATUS)  # which never comes
                c.close()
            ready()

        self.beside(attack)
        wait_for("their descriptors", lambda: self.descriptors() <= at_rest)

    def test_status_flood(self):
        """thousands of STATUS in one piece: an answer at a time, and no memory for those that wait"""
        self.loader = self.start()

        def attack(ready):
            streams = []
            for _ in range(24):
                c = Raw(self.address, name="n" * 255)
                c.open("generated:" * 300 + "9", side=1, count=1, slots=1, pipeline="v1 resize(1) center_crop(1)")
                streams.append(c)
            c = Raw(self.address, greeting=b"")
            c.send(hello(more=65000))  # it has the loader make room for much
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
        if not os.environ.get("PLENUM_SANITIZED"):  # which keep what was freed
            self.assertLess(self.resident(self.loader, "VmHWM") - before, 128 << 10)


if __name__ == "__main__":
    tap.main()
