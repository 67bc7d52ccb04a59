# SPDX-License-Identifier: MIT
"""Checks that storage that hangs stops only the streams that read it, and does not keep a loader from ending. Needs
root to mount such storage."""

import concurrent.futures
import ctypes
import http.client
import json
import os
import signal
import socket
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from service import CTL, FEED, LIMIT, PLENUMD, STREAM, ServiceCase, wait_for  # noqa: E402
import tap  # noqa: E402
from ports import free_port  # noqa: E402

LIBC = ctypes.CDLL(None, use_errno=True)
NOBODY = 65534


def mount_hung(path):
    """Mount a file system whose server never answers, so that any access hangs. Return the server's end, or None if
    mounting is impossible."""
    try:
        fd = open("/dev/fuse", "r+b", buffering=0)
    except OSError:
        return None
    options = f"fd={fd.fileno()},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if LIBC.mount(b"hung", path.encode(), b"fuse", 6, options) < 0:
        fd.close()
        return None
    return fd


class HangsTest(ServiceCase):
    def hang(self, path):
        fd = mount_hung(path)
        if fd is None:
            self.skipTest("a file system of our own cannot be mounted here")
        self.addCleanup(LIBC.umount2, path.encode(), 2)
        self.addCleanup(fd.close)  # hanging calls return with an error
        return fd

    def hung_folder(self, name):
        path = os.path.join(self.folder, name)
        os.mkdir(path)
        self.hang(path)
        return path

    def ask(self, data, **more):
        p = subprocess.Popen([FEED, data, *STREAM, "--loader", f"unix:{self.socket}", "--epochs", "1", "--json"],
                             env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, **more)
        self.addCleanup(self.end_feed, p)
        return p

    def hangs(self, p, what="fuse"):
        """Return whether a thread of the loader is waiting in a kernel function with `what` in its name."""
        for task in os.listdir(f"/proc/{p.pid}/task"):
            try:
                with open(f"/proc/{p.pid}/task/{task}/wchan") as f:
                    if what in f.read():
                        return True
            except OSError:
                pass
        return False

    def test_opening(self):
        """opening many data sets on storage that hangs does not delay other users"""
        self.need_other_users()
        os.chmod(self.folder, 0o755)
        self.make_data()
        p = self.serve("--root", self.folder, "--socket-mode", "666")
        for i in range(8):
            self.ask(self.hung_folder(f"hung{i}"), user=NOBODY, group=NOBODY, extra_groups=[])
        wait_for("openings that hang", lambda: self.hangs(p))
        self.fed(self.feed("--epochs", "1"))

    def test_end_while_opening(self):
        """the loader ends on SIGTERM, SIGINT and its keeper's end without waiting for storage that hangs"""
        for how in (signal.SIGTERM, signal.SIGINT, None):
            ours, theirs = socket.socketpair()
            self.addCleanup(ours.close)
            with theirs, open(self.log, "a") as log:
                p = subprocess.Popen([PLENUMD, "--job", "--threads", "2", "--socket", f"unix:{self.socket}",
                                      "--drain-timeout", "1s", "--leash-fd", str(theirs.fileno())],
                                     env=self.environment, stdin=subprocess.DEVNULL, stderr=log,
                                     pass_fds=[theirs.fileno()])
            self.addCleanup(self.end, p)
            wait_for("the loader", self.listening)
            self.ask(self.hung_folder(f"hung-{how}"))
            wait_for("an opening that hangs", lambda: self.hangs(p))
            if how:
                p.send_signal(how)
            else:
                ours.close()
            self.assertEqual(p.wait(LIMIT), 0, self.said())
            self.assertIn("ended without waiting for it", self.said())

    def test_reading(self):
        """a stream whose data set begins to hang delays neither other streams nor the loader's end"""
        self.make_data()
        other = os.path.join(self.folder, "other")
        self.run_ok(CTL, "make-sample", other, "--classes", "1", "--images", "40", "--size", "96")
        p = self.serve("--io-threads", "2", "--drain-timeout", "1s")
        stuck = self.feed("--epochs", "1000000", data=other)
        wait_for("a stream", lambda: "client" in self.said())
        self.hang(os.path.join(other, os.listdir(other)[0]))
        wait_for("reads that hang", lambda: self.hangs(p))
        self.fed(self.feed("--epochs", "3"))
        self.assertIsNone(stuck.poll())
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(LIMIT), 0, self.said())

    def test_reload(self):
        """a root that hangs delays SIGHUP, but not clients or the loader's end; a second SIGHUP is not lost"""
        self.make_data()
        conf = os.path.join(self.folder, "plenumd.conf")

        def write(*lines):
            with open(conf, "w") as f:
                f.write("".join(line + "\n" for line in lines))

        write(f"root = {self.data}")
        p = self.serve("--config", conf, "--drain-timeout", "1s")
        hung = os.path.join(self.folder, "hung")
        os.mkdir(hung)
        first = self.hang(hung)
        write(f"root = {self.data}", f"root = {hung}", "verbose = yes")
        p.send_signal(signal.SIGHUP)
        wait_for("a reload that hangs", lambda: self.hangs(p))
        self.fed(self.feed("--epochs", "1"))
        write(f"root = {self.folder}/cache")
        p.send_signal(signal.SIGHUP)
        wait_for("the message about it", lambda: "still being read for the previous SIGHUP" in self.said())
        self.fed(self.feed("--epochs", "1"))
        self.assertNotIn("the settings were read again", self.said())
        first.close()  # the first reload fails, and the second one reads the file as it is now
        wait_for("the second reload", lambda: "the settings were read again" in self.said())
        self.assertIn("the settings are unchanged", self.said())
        _, err = self.feed("--epochs", "1").communicate(timeout=LIMIT)
        self.assertIn("is not below a --root", err)
        write(f"root = {self.hung_folder('other')}")
        p.send_signal(signal.SIGHUP)
        wait_for("a reload that hangs", lambda: self.hangs(p))
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(LIMIT), 0, self.said())
        self.assertIn("ended without waiting for it", self.said())

    def test_thumbnails(self):
        """thumbnails of storage that hangs are abandoned, and the rest of the page works"""
        self.make_data()
        other = os.path.join(self.folder, "other")
        self.run_ok(CTL, "make-sample", other, "--classes", "1", "--images", "40", "--size", "96")
        port = free_port()
        p = self.serve("--http-port", str(port), "--drain-timeout", "1s")

        def get(path):
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
            c.request("GET", path)
            answer = c.getresponse()
            body = answer.read()
            c.close()
            return answer.status, body

        def ready():  # the page answers some time after the socket
            try:
                return get("/readyz")[0] == 200
            except OSError:
                return False

        wait_for("the page", ready)
        self.feed("--epochs", "1000000", "--pause", "100", data=other)
        wait_for("a stream", lambda: json.loads(get("/status.json")[1])["streams"])
        path = f"/thumbnail/{json.loads(get('/status.json')[1])['streams'][0]['id']}/0.png"
        wait_for("a thumbnail", lambda: get(path)[0] == 200)
        self.hang(os.path.join(other, os.listdir(other)[0]))
        wait_for("reads that hang", lambda: self.hangs(p))
        with concurrent.futures.ThreadPoolExecutor(40) as threads:
            asked = [threads.submit(get, path) for _ in range(40)]
            for _ in range(3):
                self.assertEqual(get("/healthz")[0], 200)
                self.assertIn(b"plenum_", get("/metrics")[1])
            for a in asked:
                status, body = a.result()
                self.assertEqual(status, 503)
                self.assertRegex(body, b"storage is not responding|too many thumbnails")
        waiting = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)  # waits until the loader ends
        self.addCleanup(waiting.close)
        waiting.request("GET", path)
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(LIMIT), 0, self.said())


if __name__ == "__main__":
    tap.main()
