# SPDX-License-Identifier: MIT
"""Tests plenumd under a simulated service manager: inherited sockets, readiness, the watchdog, draining."""

import os
import select
import shutil
import signal
import socket
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from service import LIMIT, PLENUMD, Manager, ServiceCase, stop, wait_for  # noqa: E402
import tap  # noqa: E402


class ServiceTest(ServiceCase):
    def test_ready(self):
        """the loader reports READY once it listens, and STOPPING when it ends"""
        manager = Manager(self.folder)
        p = self.plenumd("--socket", f"unix:{self.socket}", manager=manager)
        manager.wait("READY=1")
        self.assertTrue(self.listening(), "ready, but not listening")
        p.send_signal(signal.SIGTERM)
        manager.wait("STOPPING=1")
        self.assertEqual(p.wait(LIMIT), 0)
        self.assertFalse(os.path.exists(self.socket))

    def test_not_ready(self):
        """a loader that cannot serve never reports readiness"""
        manager = Manager(self.folder)
        p = self.plenumd("--root", "/nowhere", "--socket", f"unix:{self.socket}", manager=manager)
        self.assertEqual(p.wait(LIMIT), 1)
        manager.hear(0)
        self.assertNotIn("READY=1", manager.lines)

    def test_watchdog(self):
        """the loader sends watchdog messages as often as the manager requests, and none while it is stopped"""
        manager = Manager(self.folder)
        p = self.plenumd("--socket", f"unix:{self.socket}", manager=manager, watchdog_us=100000)
        for _ in range(5):
            manager.wait("WATCHDOG=1")
        stop(p)
        manager.hear(0)
        manager.lines.clear()
        manager.hear(0.5)
        self.assertNotIn("WATCHDOG=1", manager.lines)
        p.send_signal(signal.SIGCONT)
        manager.wait("WATCHDOG=1")

    def test_no_watchdog(self):
        """a watchdog set for another process is ignored"""
        manager = Manager(self.folder)
        self.plenumd("--socket", f"unix:{self.socket}", manager=manager, watchdog_us=100000, WATCHDOG_PID="1")
        manager.wait("READY=1")
        manager.hear(0.5)
        self.assertNotIn("WATCHDOG=1", manager.lines)

    def test_job_is_no_service(self):
        """a job's own loader does not report to the service that started the job"""
        manager = Manager(self.folder)
        self.plenumd("--job", "--socket", f"unix:{self.socket}", manager=manager)
        wait_for("the loader", self.listening)
        manager.hear(0.3)
        self.assertEqual(manager.lines, [])

    def leashed(self, *arguments):
        """Start a job's own loader; return it and the keeper's end of its leash."""
        ours, theirs = socket.socketpair()
        self.addCleanup(ours.close)
        ours.settimeout(LIMIT)
        with theirs, open(self.log, "a") as log:
            p = subprocess.Popen([PLENUMD, "--job", "--threads", "2", "--socket", f"unix:{self.socket}",
                                  "--leash-fd", str(theirs.fileno()), *arguments],
                                 env=self.environment, stdin=subprocess.DEVNULL, stderr=log, pass_fds=[theirs.fileno()])
        self.addCleanup(self.end, p)
        wait_for("the loader", self.listening)
        return p, ours

    def test_beats(self):
        """a keeper receives beats while the loader's loop turns, but only if it has requested them"""
        p, leash = self.leashed()
        self.assertEqual(select.select([leash], [], [], 2)[0], [], "beats that were not requested")
        leash.send(b"\0")
        for _ in range(3):
            self.assertEqual(leash.recv(1), b"\0")
        stop(p)
        while select.select([leash], [], [], 0)[0]:
            leash.recv(64)
        self.assertEqual(select.select([leash], [], [], 2)[0], [], "a loader that is stopped beats")
        p.send_signal(signal.SIGCONT)
        self.assertEqual(leash.recv(1), b"\0")
        leash.close()
        self.assertEqual(p.wait(LIMIT), 0, self.said())

    def test_socket(self):
        """restarts on an inherited socket lose no client: the hash is the same"""
        self.make_data()
        manager, listener = Manager(self.folder), self.listener()
        p = self.plenumd(handed=[listener], manager=manager, watchdog_us=100000)
        manager.wait("READY=1")
        feed = self.feed("--epochs", "20", "--pause", "20")
        for n in range(3):
            wait_for("samples that are rendered", lambda: self.rendered(manager))
            p.send_signal(signal.SIGTERM)
            self.assertEqual(p.wait(LIMIT), 0, self.said())
            self.assertTrue(os.path.exists(self.socket), "the socket is the manager's")
            p = self.plenumd(handed=[listener], manager=manager, watchdog_us=100000)
            manager.wait("READY=1")
        result, said = self.fed(feed)
        self.assertEqual(result["hash"], self.alone(20))
        self.assertIn("is being stopped or restarted; after", said)
        self.assertEqual(result["incidents"], 3)

    def rendered(self, manager):
        """Return whether any sample has been rendered since the manager's last check."""
        manager.hear(0.1)
        found = [line for line in manager.lines
                 if line.startswith("STATUS=") and "clients: 1," in line and "rendered: 0" not in line]
        manager.lines = [line for line in manager.lines if not line.startswith("STATUS=")]
        return bool(found)

    def refused(self, sentence, *handed):
        p = self.plenumd(handed=handed)
        self.assertEqual(p.wait(LIMIT), 1)
        self.assertIn(sentence, self.said())

    def test_two_sockets(self):
        """two sockets are rejected with a message"""
        self.refused("handed over 2 sockets", self.listener(), self.listener(path=self.socket + "2"))

    def test_datagram_socket(self):
        """a socket of a different type is rejected with a message"""
        self.refused("not a listening unix stream socket", self.listener(kind=socket.SOCK_DGRAM))

    def test_drain_timeout(self):
        """a client that reads no answers cannot delay the end beyond --drain-timeout"""
        self.make_data()
        p = self.serve("--drain-timeout", "1s")
        feed = self.feed("--epochs", "1000", "--silence", "60000")
        wait_for("a client", lambda: "client " in self.said())
        stop(feed)
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(LIMIT), 0)


class ListenTest(ServiceCase):
    def refused(self, *arguments):
        done = subprocess.run([PLENUMD, "--socket", f"unix:{self.socket}", *arguments], env=self.environment,
                              capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 1, done.stderr)
        return done.stderr

    def test_what_tcp_must_not_serve(self):
        """settings that would open the loader to everyone are rejected, with the reason"""
        os.mkdir(self.data)
        self.assertIn("use --root to name the folders that may be read", self.refused("--listen", "0"))
        root = ("--root", self.data)
        for host in ("0.0.0.0", "[::]", "192.0.2.1"):
            self.assertIn("other hosts could connect without authentication",
                          self.refused(*root, "--listen", f"{host}:0"))
        self.assertIn("'x' is not a port", self.refused(*root, "--listen", "127.0.0.1:x"))
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.assertIn("Address already in use", self.refused(*root, "--listen", str(taken.getsockname()[1])))

    def test_tcp_is_one_of_the_settings(self):
        """listen = in the file works only with roots"""
        self.make_data()
        config = os.path.join(self.folder, "conf")
        with open(config, "w") as f:
            f.write(f"listen = 127.0.0.1:0\nroot = {self.data}\n")
        p = self.plenumd("--config", config, "--socket", f"unix:{self.socket}")
        wait_for("a loader that listens", lambda: "listening on tcp:" in self.said() or p.poll() is not None)
        address = self.said().split("listening on ")[1].split()[0]
        result, _ = self.fed(self.feed("--epochs", "2", "--loader", address))
        self.assertEqual(result["hash"], self.alone(2))
        other = os.path.join(self.folder, "other")
        shutil.copytree(self.data, other)
        feed = self.feed("--epochs", "1", "--loader", address, data=other)
        _, err = feed.communicate(timeout=LIMIT)
        self.assertNotEqual(feed.returncode, 0)
        self.assertIn("is not below a --root of this loader", err)


if __name__ == "__main__":
    tap.main()
