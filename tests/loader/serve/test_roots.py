# SPDX-License-Identifier: MIT
"""Tests two users of a loader run by root, each with a root folder. Whatever one of them puts there (links, lists,
patterns, swapped files) must reveal no data of the other, nor even whether it exists."""

import fcntl
import mmap
import os
import shutil
import signal
import socket
import struct
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from service import CTL, ERROR, HELLO, ServiceCase, frame, text  # noqa: E402
import tap  # noqa: E402

ALICE, BOB = 2001, 2002
OUTSIDE = "is not below a --root of this loader"
OPENED, RENDER, DONE, NAME, SIDE = 3, 4, 5, 12, 32


class Stream:
    """A stream with one sample per batch, in the order of the data set, in which a bad sample is an error."""

    def __init__(self, case, uid, data):
        self.socket = case.connect_as(uid)
        self.socket.sendall(HELLO)
        self.receive(1)
        self.labels_at = SIDE * SIDE * 3
        slot = -(-(self.labels_at + 12) // 4096) * 4096
        ring = os.memfd_create("ring", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.posix_fallocate(ring, 0, 2 * slot)
        fcntl.fcntl(ring, 1033, 0x7)
        self.slot = mmap.mmap(ring, 2 * slot)
        opening = frame(2, text(data) + text(f"v1 resize({SIDE}) center_crop({SIDE})") + struct.pack(
            "<QIIIIIIIIIIIIIQ", 7, 1, 0, 0, 1, 1, 0, 1, 1, 1, 0, 3, SIDE, 2, slot), 1)
        socket.send_fds(self.socket, [opening], [ring])
        os.close(ring)
        kind, payload = self.receive(OPENED)
        self.refused = payload[8:].decode() if kind == ERROR else None
        self.samples, self.classes = struct.unpack("<II", payload[:8]) if kind == OPENED else (0, 0)

    def receive(self, wanted):
        while True:
            length, kind, _, _ = struct.unpack("<IHHQ", self.socket.recv(16, socket.MSG_WAITALL))
            payload = self.socket.recv(length, socket.MSG_WAITALL) if length else b""
            if kind in (wanted, ERROR):
                return kind, payload

    def show(self, position):
        """Return the status of a sample, with a message or its pixels."""
        self.socket.sendall(frame(RENDER, struct.pack("<QQIQ", 0, position, 0, 0), 2))
        _, payload = self.receive(DONE)
        status, = struct.unpack("<i", payload[:4])
        return status, payload[44:].decode() if status else self.slot[:self.labels_at]

    def close(self):
        self.socket.close()
        self.slot.close()


@unittest.skipIf(os.geteuid() != 0, "only root can be other users")
class RootsTest(ServiceCase):
    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o755)
        self.a, self.b = (os.path.join(self.folder, name) for name in ("alice", "bob"))
        os.makedirs(f"{self.a}/private")
        os.mkdir(self.b)
        self.make(f"{self.a}/private/set", 96)
        self.make(f"{self.b}/mine", 64)
        shutil.copytree(f"{self.b}/mine/bricks", f"{self.b}/set/cat")
        self.run_ok("tar", "-C", self.a, "-cf", f"{self.a}/private/x.tar", "private/set")
        with open(f"{self.a}/private/names.txt", "w") as f:
            f.write("x\n" * 137)
        self.serve("--root", f"{self.a} readers={ALICE}", "--root", f"{self.b} readers={BOB}", "--socket-mode", "0666")

    def make(self, folder, size):
        self.run_ok(CTL, "make-sample", folder, "--classes", "2", "--images", "2", "--size", str(size))

    def connect_as(self, uid):
        os.setegid(uid)
        os.seteuid(uid)
        try:
            return self.connect(f"unix:{self.socket}")
        finally:
            os.seteuid(0)
            os.setegid(0)

    def stream(self, data, uid=BOB):
        s = Stream(self, uid, data)
        self.addCleanup(s.close)
        return s

    def served(self, data, uid=BOB):
        s = self.stream(data, uid)
        self.assertIsNone(s.refused, data)
        return s

    def refused(self, data):
        s = self.stream(data)
        self.assertIsNotNone(s.refused, f"{data} is served")
        return s.refused

    def alike(self, path, target):
        """Give Bob's file or folder the size and time of another user's."""
        st = os.stat(target)
        if os.path.isfile(path):
            with open(path, "r+b") as f:
                f.truncate(st.st_size)
        os.utime(path, ns=(st.st_mtime_ns,) * 2)

    def test_each_reads_its_own(self):
        """each user can read their own root, but not the other's"""
        self.served(f"folder:{self.a}/private/set", ALICE)
        self.served(f"folder:{self.b}/mine")
        self.assertIn(OUTSIDE, self.refused(f"folder:{self.a}/private/set"))

    def test_links(self):
        """links to another user's folder, class, image, archive, list and names are rejected; links to own ones work"""
        os.symlink(f"{self.a}/private/set", f"{self.b}/all")
        os.makedirs(f"{self.b}/class")
        os.symlink("../../alice/private/set/bricks", f"{self.b}/class/bricks")
        os.makedirs(f"{self.b}/image/cat")
        os.symlink(f"{self.a}/private/set/bricks/bricks-00000.jpg", f"{self.b}/image/cat/a.jpg")
        os.symlink(f"{self.a}/private/x.tar", f"{self.b}/x.tar")
        os.makedirs(f"{self.b}/tar")
        shutil.copy(f"{self.b}/mine/bricks/bricks-00000.jpg", f"{self.b}/tar/a.jpg")
        with open(f"{self.b}/tar/a.cls", "w") as f:
            f.write("0")
        self.run_ok("tar", "-C", f"{self.b}/tar", "-cf", f"{self.b}/tar/a.tar", "a.jpg", "a.cls")
        self.served(f"tar:{self.b}/tar/a.tar")
        os.symlink(f"{self.a}/private/names.txt", f"{self.b}/tar/classes.txt")
        for data in ("folder:{}/all", "{}/all", "folder:{}/class", "folder:{}/image", "tar:{}/x.tar", "{}/x.tar",
                     "tar:{}/tar/a.tar", "generated:folder:{}/class", "tar,label=none:{}/all/*.tar",
                     "tar,label=none:{}/*/x.tar", "list:{}/all/x"):
            self.assertIn(OUTSIDE, self.refused(data.format(self.b)), data)
        os.makedirs(f"{self.b}/own")
        os.symlink("../mine/bricks", f"{self.b}/own/a")
        os.symlink(f"{self.b}/mine/clouds", f"{self.b}/own/b")
        self.assertEqual(self.served(f"folder:{self.b}/own").samples, 4)

    def test_nothing_is_told(self):
        """the message is the same for existing and missing paths, files or folders"""
        def sentence(data, path):
            return self.refused(data).replace(path, "PATH")

        names = [f"{self.a}/private/{name}"
                 for name in ("names.txt", "set", "set/none", "none", "names.txt/none", "none/none")]
        for form in ("folder:{}", "{}", "tar:{}", "list:{}", "tfrecord:{}/*", "tar:{}/{{a,b}}*", "generated:{}"):
            told = {sentence(form.format(path), path) for path in names}
            self.assertEqual(len(told), 1, told)
        for make in (self.make_list, self.make_link, self.make_class):
            told = {sentence(make(path), path) for path in names}
            self.assertEqual(len(told), 1, told)
        told = {sentence(f"list,base={path}:{self.b}/list", path) for path in names}
        self.assertEqual(len(told), 1, told)
        # ".." does not reveal, either, whether the folder before it exists.
        back = "../../../bob/mine"
        told = {sentence(self.make_link(f"{path}/{back}"), path) for path in names}
        self.assertEqual(len(told), 1, told)
        told = {sentence(f"folder:{path}/{back}", path) for path in names}
        self.assertEqual(len(told), 1, told)
        for pattern in (f"{self.b}/*/../../alice/*", f"{self.b}/{{mine,..}}/alice/*",
                        f"{self.b}/mine/*/../../../alice/p*"):
            self.assertNotIn("private", self.refused(f"tar:{pattern}"))

    def make_list(self, path):
        with open(f"{self.b}/list", "w") as f:
            f.write(f"{path} 0\n")
        return f"list:{self.b}/list"

    def make_link(self, path):
        if os.path.islink(f"{self.b}/link"):
            os.unlink(f"{self.b}/link")
        os.symlink(path, f"{self.b}/link")
        return f"folder:{self.b}/link"

    def make_class(self, path):
        shutil.rmtree(f"{self.b}/one", ignore_errors=True)
        os.mkdir(f"{self.b}/one")
        os.symlink(path, f"{self.b}/one/class")
        return f"folder:{self.b}/one"

    def test_exchanged(self):
        """files and archives that were replaced by links after the check are not read, with an old or a new index"""
        theirs, mine = f"{self.a}/private/set/bricks/bricks-00000.jpg", f"{self.b}/set/cat/bricks-00000.jpg"
        self.alike(mine, theirs)
        s = self.served(f"folder:{self.b}/set")
        os.unlink(mine)
        os.symlink(theirs, mine)
        status, told = s.show(0)
        self.assertLess(status, 0)
        self.assertIn(OUTSIDE, told)

        shutil.copytree(f"{self.b}/mine", f"{self.b}/linked")
        for name in ("bricks", "clouds"):
            for image in ("00000", "00001"):
                self.alike(f"{self.b}/linked/{name}/{name}-{image}.jpg",
                           f"{self.a}/private/set/{name}/{name}-{image}.jpg")
            os.rename(f"{self.b}/linked/{name}", f"{self.b}/kept-{name}")
            os.symlink(f"../kept-{name}", f"{self.b}/linked/{name}")
        s = self.served(f"folder:{self.b}/linked")
        os.unlink(f"{self.b}/linked/bricks")
        os.symlink(f"{self.a}/private/set/bricks", f"{self.b}/linked/bricks")
        status, told = s.show(0)
        self.assertLess(status, 0)
        self.assertIn(OUTSIDE, told)

        self.run_ok("tar", "-C", f"{self.b}/mine", "-cf", f"{self.b}/a.tar", "bricks")
        self.run_ok("tar", "-C", f"{self.a}/private/set", "-cf", f"{self.a}/private/a.tar", "bricks")
        os.utime(f"{self.b}/a.tar", (1e9, 1e9))
        self.served(f"tar,label=none:{self.b}/a.tar").close()
        s = self.served(f"tar,label=none:{self.b}/a.tar")  # from its index: the archive has not been opened yet
        os.rename(f"{self.b}/a.tar", f"{self.b}/own.tar")
        os.symlink("own.tar", f"{self.b}/a.tar")
        self.assertEqual(s.show(0)[0], 0)
        self.served(f"tar,label=none:{self.b}/a.tar").close()  # indexes it again, because its ctime differs
        s = self.served(f"tar,label=none:{self.b}/a.tar")
        with open(f"{self.a}/private/a.tar", "r+b") as f:
            f.truncate(os.stat(f"{self.b}/own.tar").st_size)
        os.utime(f"{self.a}/private/a.tar", (1e9, 1e9))
        os.unlink(f"{self.b}/a.tar")
        os.symlink(f"{self.a}/private/a.tar", f"{self.b}/a.tar")
        status, told = s.show(0)
        self.assertLess(status, 0)
        self.assertIn(OUTSIDE, told)

    def test_exchanged_in_a_loop(self):
        """a file that is swapped with a link in a loop, while it is indexed and read, never shows the other's pixels"""
        theirs, mine = f"{self.a}/private/set/bricks/bricks-00000.jpg", f"{self.b}/set/cat/bricks-00000.jpg"
        self.alike(mine, theirs)
        own = self.served(f"folder:{self.b}/set").show(0)
        self.assertEqual(own[0], 0)
        os.rename(mine, f"{self.b}/own.jpg")
        os.symlink(theirs, f"{self.b}/link.jpg")
        os.symlink(theirs, mine)
        os.symlink("mine", f"{self.b}/by-turns")
        child = os.fork()
        if child == 0:
            try:
                self.exchange(mine)
            finally:
                os._exit(1)
        try:
            want = self.served(f"folder:{self.b}/mine").show(0)
            shown = 0
            for _ in range(60):
                for data, pixels in (("set", own[1]), ("by-turns", want[1])):
                    s = self.stream(f"folder:{self.b}/{data}")
                    for _ in range(0 if s.refused else 10):
                        status, got = s.show(0)
                        if status == 0:
                            shown += 1
                            self.assertEqual(got, pixels)
                    s.close()
            self.assertGreater(shown, 0)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    def exchange(self, mine):
        while True:
            for image, folder in (("own.jpg", "mine"), ("link.jpg", f"{self.a}/private/set")):
                os.link(f"{self.b}/{image}", f"{self.b}/new", follow_symlinks=False)
                os.rename(f"{self.b}/new", mine)
                os.symlink(folder, f"{self.b}/new")
                os.rename(f"{self.b}/new", f"{self.b}/by-turns")


if __name__ == "__main__":
    tap.main()
