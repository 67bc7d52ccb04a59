"""plenumd under a service manager: sockets handed over, readiness, the watchdog, draining. The manager is the test."""

import os
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from service import LIMIT, Manager, ServiceCase, wait_for  # noqa: E402
import tap  # noqa: E402


class ServiceTest(ServiceCase):
    def test_ready(self):
        """it says that it is ready when it is, and that it is stopping when it stops"""
        manager = Manager(self.folder)
        p = self.plenumd("--socket", f"unix:{self.socket}", manager=manager)
        manager.wait("READY=1")
        self.assertTrue(self.listening(), "ready, and nobody listens")
        p.send_signal(signal.SIGTERM)
        manager.wait("STOPPING=1")
        self.assertEqual(p.wait(LIMIT), 0)
        self.assertFalse(os.path.exists(self.socket))

    def test_not_ready(self):
        """a loader that cannot serve is never ready"""
        manager = Manager(self.folder)
        p = self.plenumd("--root", "/nowhere", "--socket", f"unix:{self.socket}", manager=manager)
        self.assertEqual(p.wait(LIMIT), 1)
        manager.hear(0)
        self.assertNotIn("READY=1", manager.lines)

    def test_watchdog(self):
        """it says that it lives as often as the manager asks, and not while it is stopped"""
        manager = Manager(self.folder)
        p = self.plenumd("--socket", f"unix:{self.socket}", manager=manager, watchdog_us=100000)
        for _ in range(5):
            manager.wait("WATCHDOG=1")
        p.send_signal(signal.SIGSTOP)
        time.sleep(0.1)
        manager.hear(0)
        manager.lines.clear()
        manager.hear(0.5)
        self.assertNotIn("WATCHDOG=1", manager.lines)
        p.send_signal(signal.SIGCONT)
        manager.wait("WATCHDOG=1")

    def test_no_watchdog(self):
        """a watchdog that is set for another process is none"""
        manager = Manager(self.folder)
        self.plenumd("--socket", f"unix:{self.socket}", manager=manager, watchdog_us=100000, WATCHDOG_PID="1")
        manager.wait("READY=1")
        manager.hear(0.5)
        self.assertNotIn("WATCHDOG=1", manager.lines)

    def test_job_is_no_service(self):
        """a job's own loader does not speak for the service that started the job"""
        manager = Manager(self.folder)
        self.plenumd("--job", "--socket", f"unix:{self.socket}", manager=manager)
        wait_for("the loader", self.listening)
        manager.hear(0.3)
        self.assertEqual(manager.lines, [])

    def test_socket(self):
        """a restart on a socket that was handed over loses no client: same hash"""
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
        self.assertIn("is being stopped or restarted; batches come from", said)
        self.assertEqual(result["incidents"], 3)

    def rendered(self, manager):
        """Has any sample been rendered since the manager was last asked?"""
        manager.hear(0.1)
        found = [line for line in manager.lines if line.startswith("STATUS=") and "clients: 1," in line and "rendered: 0" not in line]
        manager.lines = [line for line in manager.lines if not line.startswith("STATUS=")]
        return bool(found)

    def refused(self, sentence, *handed):
        p = self.plenumd(handed=handed)
        self.assertEqual(p.wait(LIMIT), 1)
        self.assertIn(sentence, self.said())

    def test_two_sockets(self):
        """two sockets are refused with a sentence"""
        self.refused("handed over 2 sockets", self.listener(), self.listener(path=self.socket + "2"))

    def test_datagram_socket(self):
        """so is a socket of another kind"""
        self.refused("no listening unix stream socket", self.listener(kind=socket.SOCK_DGRAM))

    def test_drain_timeout(self):
        """a client that reads no answers cannot hold up the end for longer than --drain-timeout"""
        self.make_data()
        p = self.serve("--drain-timeout", "1s")
        feed = self.feed("--epochs", "1000", "--silence", "60000")
        wait_for("a client", lambda: "client " in self.said())
        feed.send_signal(signal.SIGSTOP)
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(LIMIT), 0)


if __name__ == "__main__":
    tap.main()
