# SPDX-License-Identifier: MIT
"""Tests a loader's limits: budgets of CPU time and memory, the number of clients, the size of its log and of its cache
folder, which users may read which folder, and which user the loader becomes."""

import contextlib
import errno
import fcntl
import grp
import io
import json
import os
import pwd
import re
import resource
import shutil
import socket
import struct
import subprocess
import sys
import tarfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../e2e"))

from service import (  # noqa: E402
    CTL, ERROR, FEED, HELLO, LIMIT, PLENUMD, SOURCE, STREAM, ServiceCase, frame, text, wait_for, why_no_other_users,
)
from rawclient import Raw, Refused  # noqa: E402
from records import record  # noqa: E402
import tap  # noqa: E402


def cpu_seconds(pid):
    """Return the CPU time that a process has used."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class LimitsTest(ServiceCase):
    def test_cpu_budget(self):
        """--cpu-budget limits the CPU time, and pixels are the same"""
        self.make_data(size=256)
        p = self.serve("--cpu-budget", "0.25")
        feed = self.feed("--epochs", "1000000", "--pipeline", "rrc(224)")
        wait_for("the first images", lambda: cpu_seconds(p.pid) > 0.3)
        begin, used = time.monotonic(), cpu_seconds(p.pid)
        time.sleep(4)  # CPU time is measured over this interval
        used = cpu_seconds(p.pid) - used
        # The reserve is a tenth of a second; 0.05 s allow for the CPU clock's ticks and unfinished work of threads.
        self.assertLessEqual(used, 0.25 * (time.monotonic() - begin + 0.1) + 0.05)
        self.end(feed)
        self.assertEqual(self.fed(self.feed("--epochs", "3"))[0]["hash"], self.alone(3))

    def test_memory_budget(self):
        """rings and the loader's own memory stay within the budget; a smaller stream is served"""
        self.make_data()
        self.serve("--memory-budget", "96M")
        p = self.feed("--epochs", "1", "--micro-batch", "256", "--pipeline", "rrc(224)")
        err = p.communicate(timeout=LIMIT)[1]
        self.assertNotEqual(p.returncode, 0)
        self.assertRegex(
            err, r"a ring of 18\d MiB(, and \S+ KiB to render its samples,)? would exceed the 96 MiB that this loader "
            r"may use, of which .*--memory-budget")
        self.fed(self.feed("--epochs", "1"))

    def all_memory(self, err):
        """Return the MiB that rendering a refused stream's samples takes, plus those that the loader uses. Only the sum
        is fixed: a sanitizer uses some of it."""
        found = re.search(r"and (\d+) MiB to render its samples, would exceed the 96 MiB that this loader may use, "
                          r"of which (\d+) MiB is taken", err)
        self.assertIsNotNone(found, err)
        return int(found[1]) + int(found[2])

    def test_memory_of_operations(self):
        """a thread's memory for the operations on a sample is counted before it is allocated, and only once"""
        self.make_data()
        self.serve("--memory-budget", "96M", "--threads", "4", "--io-threads", "2")
        shape = ("--epochs", "1", "--micro-batch", "1", "--replicas", "1", "--prefetch-depth", "1")
        p = self.feed(*shape, "--pipeline", "rrc(1024) augmix(width=5, depth=3)")
        err = p.communicate(timeout=LIMIT)[1]
        self.assertNotEqual(p.returncode, 0)
        self.assertRegex(err, r"a ring of 9\.\d MiB, and ")
        # 6 threads of 2 MiB; and two windows, the original and five chains: 8 times 3 MiB in each of 4 threads, and a
        # quarter more
        self.assertAlmostEqual(self.all_memory(err), 132, delta=1)
        for many in ("rrc(320) blur(9, 0.1:2)", "--repeat", "32"), ("view(a, 32, rrc(320) blur(9, 0.1:2))",):
            p = self.feed(*shape, "--pipeline", *many)  # also 32 times two windows of 300 KiB
            err = p.communicate(timeout=LIMIT)[1]
            self.assertNotEqual(p.returncode, 0)
            self.assertAlmostEqual(self.all_memory(err), 106, delta=1)
        if os.environ.get("PLENUM_SANITIZED"):
            return  # a sanitizer needs memory itself, which streams would then lack
        for operations in "", "flip(0.5) blur(9, 0.1:2)", "mixup(0.2)", "blur(9, 0.1:2) mixup(0.2)":
            self.fed(self.feed(*shape, "--pipeline", "rrc(1024) " + operations))
        opened = self.said().count("samples, 'v1")
        several = [self.feed("--epochs", "1000000", *shape[2:], "--pipeline", "rrc(1024) blur(9, 0.1:2)")
                   for _ in range(3)]
        wait_for("three streams", lambda: self.said().count("samples, 'v1") >= opened + 3)
        for feed in several:
            self.assertIsNone(feed.poll())
            self.end(feed)

    def test_lines_of_clients(self):
        """a user's clients get 60 lines of the log in a minute, whatever they do; all others are counted"""
        self.make_data(images=1)
        opened = refused = 100
        start = time.monotonic()
        p = self.serve()
        for i in range(opened):
            with Raw(f"unix:{self.socket}", name=f"opens and leaves {i}") as client:
                client.open(self.data)
        for i in range(refused):
            with Raw(f"unix:{self.socket}") as client, self.assertRaises(Refused):
                client.open(f"{self.data}/not-there-{i}")
        p.terminate()
        self.assertEqual(p.wait(LIMIT), 0)
        minutes = int((time.monotonic() - start) // 60)
        written = sum(": client " in line for line in self.said().splitlines())
        left_out = re.findall(fr"clients of user {os.getuid()}: (\d+) more messages about them were left out, beyond "
                              "60 a minute", self.said())
        self.assertEqual(written + sum(map(int, left_out)), opened + refused)
        self.assertGreaterEqual(written, 60)
        self.assertLessEqual(written, 60 * (1 + minutes))

    def test_all_lines_of_clients(self):
        """with --verbose twice, all lines about clients are logged"""
        self.make_data(images=1)
        p = self.serve("--verbose", "--verbose")
        for i in range(70):
            with Raw(f"unix:{self.socket}", name=f"opens and leaves {i}") as client:
                client.open(self.data)
        p.terminate()
        self.assertEqual(p.wait(LIMIT), 0)
        for i in range(70):
            self.assertRegex(self.said(), rf"client opens and leaves {i} .*samples, 'v1")
        self.assertNotIn("left out", self.said())

    def stream_with(self, data, field):
        """Open a stream with a field, and return the messages on standard error; "" if it was served."""
        program = ("import sys, pyplenum\n"
                   "with pyplenum.Stream(sys.argv[1], 'resize(8x8)', epochs=1, micro_batch=1, fields=[sys.argv[2]],\n"
                   "                     loader=sys.argv[3]) as stream:\n"
                   "    sum(batch.num_substituted for batch in stream)\n")
        done = subprocess.run([sys.executable, "-c", program, data, field, f"unix:{self.socket}"],
                              env={**self.environment, "PYTHONPATH": os.path.join(SOURCE, "python")},
                              capture_output=True, text=True, timeout=2 * LIMIT)
        return done.stderr if done.returncode else ""

    def test_memory_of_fields(self):
        """the memory that reading threads need for fields is counted: parsed Examples and buffers"""
        if os.environ.get("PLENUM_SANITIZED"):
            self.skipTest("a sanitizer needs memory of its own")
        self.make_data(images=1)
        images = [os.path.join(folder, name) for folder, _, names in os.walk(self.data) for name in names
                  if name.endswith((".jpg", ".png"))]
        with open(images[0], "rb") as f:
            image = f.read()
        data = os.path.join(self.folder, "fields")
        os.makedirs(data + "/a")
        with open(data + "/record", "wb") as f:
            f.write(record({"image/encoded": image, "image/class/label": 1, "x": b"x",
                            **{str(i): b"" for i in range(100000)}}))
        shutil.copy(images[0], data + "/a/0" + os.path.splitext(images[0])[1])
        with open(data + "/a/0.txt", "w") as f:
            f.write("1" + " " * 4000000)
        several = f"tfrecord:{data}/record", "x:x:text"
        numbers = f"folder:{data}", "n:txt:int64"
        p = self.serve("--memory-budget", "200M", "--threads", "1", "--io-threads", "64")
        for name, field in (several, numbers):
            self.assertRegex(self.stream_with(name, field),
                             r"reading its samples takes up to \S+ MiB of memory in 64 threads, "
                             r".*\(--memory-budget\)")
        self.end(p)
        self.serve("--memory-budget", "1G", "--threads", "1", "--io-threads", "64")
        for name, field in (several, numbers):
            self.assertEqual(self.stream_with(name, field), "")

    def test_memory_of_many(self):
        """when streams take all memory, the loader and its rings stay within the budget, over sockets and TCP"""
        if os.environ.get("PLENUM_SANITIZED"):
            self.skipTest("a sanitizer needs memory of its own")
        self.make_data(images=20, size=400)
        for tcp in (False, True):
            budget = 128 << 10
            arguments = ("--memory-budget", "128M", "--io-threads", "2")
            address = self.serve_tcp(*arguments) if tcp else None
            p = self.p if tcp else self.serve(*arguments)
            most, feeds, turned_away = 0, [], 0
            for batch, side, depth in 2 * ((16, 64, 3), (64, 96, 3), (32, 224, 2), (64, 224, 3), (128, 224, 3),
                                           (8, 512, 2), (64, 160, 3)):
                feed = self.feed("--epochs", "1000000", "--micro-batch", str(batch), "--pipeline", f"rrc({side})",
                                 "--prefetch-depth", str(depth), *(["--loader", address] if tcp else []))
                opened = self.said().count("samples, 'v1")
                wait_for("a stream, or none",
                         lambda: self.said().count("samples, 'v1") > opened or feed.poll() is not None)
                if feed.poll() is None:
                    feeds.append(feed)
                else:
                    self.assertIn("(--memory-budget)", feed.communicate()[1])
                    turned_away += 1
                for _ in range(5):
                    time.sleep(0.1)
                    most = max(most, self.resident(p, "RssAnon", "RssShmem"))
            self.assertGreater(len(feeds), 3)
            self.assertGreater(turned_away, 1)
            self.assertLess(most, budget)
            self.assertGreater(most, budget // 4)
            for feed in feeds:
                self.assertIsNone(feed.poll())
                self.end(feed)
            self.end(p)

    def open_raw(self, address, side=224, count=64, slots=8):
        """Open a stream without libplenum. Return the connection, and the bytes of its ring."""
        labels = -(-count * side * side * 3 // 64) * 64
        slot = -(-(labels + count * 12) // 4096) * 4096
        ring = os.memfd_create("ring", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.posix_fallocate(ring, 0, slots * slot)
        fcntl.fcntl(ring, 1033, 0x7)
        s = self.connect(address)
        s.sendall(HELLO)
        s.recv(65536)
        pipeline = f"v1 rrc({side},scale=2/25:1,ratio=3/4:4/3)"
        opening = frame(2, text(f"folder:{self.data}") + text(pipeline) + struct.pack(
            "<QIIIIIIIIIIIIIQ", 7, 0, 0, 0, 0, count, 0, count, 1, 1, 0, 3, side, slots, slot), 1)
        if address.startswith("unix"):
            socket.send_fds(s, [opening], [ring])
        else:
            s.sendall(opening)
        os.close(ring)
        while True:
            length, kind, _, _ = struct.unpack("<IHHQ", s.recv(16, socket.MSG_WAITALL))
            payload = s.recv(length, socket.MSG_WAITALL) if length else b""
            self.assertNotEqual(kind, ERROR, payload)
            if kind == 3:
                return s, slots * slot

    def test_who_does_not_read(self):
        """a client that does not read costs little memory, delays no other, and gets all answers when it reads"""
        self.make_data(images=20, size=256)
        tcp = self.serve_tcp()
        by_tcp = self.p
        for address, p in ((tcp, by_tcp), (f"unix:{self.socket}", self.serve())):
            place = ["--loader", address]
            self.fed(self.feed("--epochs", "1", *place))
            before = self.resident(p, "RssAnon")
            s, ring = self.open_raw(address)
            for slot in range(8):
                s.sendall(frame(4, struct.pack("<QQIQ", 0, slot, slot, 0), 10 + slot))
            for _ in range(3):
                self.assertEqual(self.fed(self.feed("--epochs", "3", *place))[0]["hash"], self.alone(3))
            most = before + 16384 + (ring >> 10 if address == tcp else 0)
            if not os.environ.get("PLENUM_SANITIZED"):
                self.assertLess(self.resident(p, "RssAnon"), most)
            self.assertNotIn("refused", self.said())
            asked = frame(8, b"", 5) * 1000
            s.settimeout(2)  # the loader takes no more
            sent = 0
            with contextlib.suppress(TimeoutError):
                while True:
                    sent += s.send(asked[sent % 16:])
            if not os.environ.get("PLENUM_SANITIZED"):
                self.assertLess(self.resident(p, "RssAnon"), most)
            self.fed(self.feed("--epochs", "1", *place))
            s.settimeout(LIMIT)
            stream = s.makefile("rb")
            batches = answers = 0
            while answers < sent // 16 or batches < 8:
                length, kind, _, _ = struct.unpack("<IHHQ", stream.read(16))
                stream.read(length)
                batches += kind == 5
                answers += kind == 8
                if kind == 5 and address == tcp:  # its pixels, labels and numbers
                    stream.read(64 * 224 * 224 * 3 + 64 * 12)
            self.assertEqual((batches, answers), (8, sent // 16))
            stream.close()
            s.close()

    def test_jobs_share(self):
        """two jobs, with one stream and with five, each get half of the loader's time"""
        self.make_data(size=256)
        self.serve("--threads", "1", "--cpu-budget", "0.2")
        alone = {"PLENUM_NUM_INSTANCES": "1", "PLENUM_INSTANCE_INDEX": "0", "PLENUM_NUM_LOCAL_INSTANCES": "1",
                 "PLENUM_LOCAL_INSTANCE_INDEX": "0", "PLENUM_NUM_REPLICAS": "1", "PLENUM_NUM_LOCAL_REPLICAS": "1",
                 "PLENUM_REPLICA_OFFSET": "0"}
        outside = self.environment
        for job in ("few",) + 5 * ("many",):
            self.environment = dict(outside, **alone, PLENUM_JOB_ID=job)
            self.feed("--epochs", "1000000", "--prefetch-depth", "8", "--micro-batch", "8", "--pipeline", "rrc(224)")
        self.environment = outside

        def samples():
            streams = json.loads(self.run_ok(CTL, "status", f"unix:{self.socket}", "--json"))["streams"]
            each = [[s["samples"] for s in streams if f" of job {job} " in s["client"]] for job in ("few", "many")]
            return [sum(e) for e in each] if [len(e) for e in each] == [1, 5] else None

        wait_for("six streams", samples)
        wait_for("slots that were all used once, which costs more than later", lambda: sum(samples()) > 1000)
        before = samples()
        wait_for("a few hundred samples", lambda: sum(samples()) > sum(before) + 400)
        few, many = (now - then for now, then in zip(samples(), before))
        self.assertTrue(0.7 < few / many < 1.4, f"{few} and {many}")

    def test_clients(self):
        """one client too many gets an error, and is served when another has gone"""
        self.make_data()
        self.serve("--max-clients", "1")
        first = self.feed("--epochs", "1000000")
        wait_for("the first client", lambda: " instance 0 of job " in self.said())
        late = self.feed("--epochs", "1", "--loader-timeout", "5")
        err = late.communicate(timeout=LIMIT)[1]
        self.assertNotEqual(late.returncode, 0)
        self.assertIn("it has 1 clients, and accepts no more (--max-clients)", err)
        self.end(first)

        def is_served():
            p = self.feed("--epochs", "1")
            p.communicate(timeout=LIMIT)
            return p.returncode == 0

        wait_for("the loader to have seen it go", is_served)

    def test_descriptors(self):
        """if the loader has no descriptor for a ring, the client gets an error code after which it retries"""
        self.make_data()
        p = self.serve("--threads", "1")
        with Raw(f"unix:{self.socket}") as client:
            _, most = resource.prlimit(p.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(p.pid, resource.RLIMIT_NOFILE, (3, most))
            with self.assertRaises(Refused) as refused:
                client.open(self.data)
            self.assertEqual(refused.exception.args[0], -errno.EMFILE)
            self.assertIn("no file descriptor is left in the loader", refused.exception.args[1])
            resource.prlimit(p.pid, resource.RLIMIT_NOFILE, (most, most))
        with Raw(f"unix:{self.socket}") as client:
            client.open(self.data)

    def test_cache(self):
        """indices of many names of one data set stay within the cache folder's limit, and streams continue"""
        archive = os.path.join(self.folder, "images.tar")
        images = sorted(os.path.join(top, name) for top, _, names in os.walk(self.data_made()) for name in names)
        with tarfile.open(archive, "w") as t:
            for i in range(300):
                t.add(images[i % len(images)], f"{i:03d}.jpg")
                label = tarfile.TarInfo(f"{i:03d}.cls")
                label.size = 1
                t.addfile(label, io.BytesIO(b"1"))
        cache, most = os.path.join(self.folder, "limited"), 256 << 10
        self.serve("--threads", "1", "--cache-dir", cache, "--cache-limit", str(most))

        def kept(*more):
            return sum(os.stat(os.path.join(cache, name)).st_blocks * 512 for name in os.listdir(cache)
                       if name.endswith((".index", *more)))

        with Raw(f"unix:{self.socket}") as first:
            first.open(f"tar,label-offset=1000:{archive}")
            one = kept()
            self.assertGreater(one, 0)
            for k in range(3 * most // one + 2):
                with Raw(f"unix:{self.socket}") as client:
                    client.open(f"tar,label-offset={k}:{archive}")
                self.assertLessEqual(kept(), most)
            self.assertGreater(kept(".sums", ".notes"), most - 2 * one, "no more is removed than must be")
            first.ask()
            self.assertEqual(first.done(), 0)

    def data_made(self):
        self.make_data()
        return self.data

    def test_what_is_no_setting(self):
        """invalid settings are rejected with a message"""
        for arguments, sentence in (
            (("--cpu-budget", "none"), "--cpu-budget needs a number of cores such as 2 or 0.5, not 'none'"),
            (("--cpu-budget", "0"), "--cpu-budget needs a number of cores"),
            (("--max-clients", "0"), "--max-clients"),
            (("--root", "/nowhere readers=root"), "root /nowhere: No such file or directory"),
            (("--root", "/tmp readers=nobody-of-that-name"),
             "root /tmp: readers: there is no user 'nobody-of-that-name'"),
            (("--root", "/tmp readers=@no-such-group"), "there is no group 'no-such-group'"),
            (("--root", "/tmp readers=root,,root"), "a name is missing"),
            (("--root", "/tmp readers=99999999999"), "99999999999 is not the number"),
            (("--root", "/dev/null"), "root /dev/null is not a folder"),
        ):
            done = subprocess.run([PLENUMD, "--socket", f"unix:{self.socket}", *arguments], env=self.environment,
                                  capture_output=True, text=True, timeout=LIMIT)
            self.assertIn(done.returncode, (1, 2), arguments)
            self.assertIn(sentence, done.stderr)

    def test_readers(self):
        """only a restricted root's users and groups can read it, also through links; other roots stay open"""
        self.need_other_users()
        user = pwd.getpwnam("nobody")
        os.chmod(self.folder, 0o755)
        data = self.data
        folders = {}
        for name in ("open", "mine", "theirs"):
            self.data = folders[name] = os.path.join(self.folder, name)
            self.make_data()
        self.data = data
        os.symlink(folders["theirs"], os.path.join(folders["open"], "zz"))
        self.serve("--root", folders["open"], "--root", f"{folders['mine']} readers=daemon,{user.pw_uid}",
                   "--root", f"{folders['theirs']} readers=@daemon", "--socket-mode", "0666")

        def fed_as(folder, *groups, gid=user.pw_gid):
            return subprocess.run([FEED, folder, *STREAM, "--loader", f"unix:{self.socket}", "--epochs", "1"],
                                  env=self.environment, capture_output=True, text=True, timeout=LIMIT,
                                  user=user.pw_uid, group=gid, extra_groups=groups)

        for path in (folders["theirs"], os.path.join(folders["open"], "zz"), folders["open"]):
            done = fed_as(path)
            self.assertNotEqual(done.returncode, 0, path)
            self.assertIn(f"some roots are restricted to certain readers, and user {user.pw_uid} is not one of them",
                          done.stderr)
        daemon = pwd.getpwnam("daemon").pw_gid
        for done in (fed_as(folders["theirs"], daemon), fed_as(folders["theirs"], gid=daemon)):
            self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("theirs", "open"):
            self.fed(self.feed("--epochs", "1", data=folders[name]))  # root may
        os.unlink(os.path.join(folders["open"], "zz"))
        for name in ("open", "mine"):
            done = fed_as(folders[name])
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_user(self):
        """root's loader becomes another user, without root's privileges, in all threads; so does its socket's owner"""
        self.need_other_users()
        user, group = pwd.getpwnam("daemon"), grp.getgrnam("games")
        self.make_data()
        os.chmod(self.folder, 0o755)
        key = os.path.join(self.folder, "key")
        with open(os.open(key, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as f:
            f.write(os.urandom(32))  # only root can read it
        p = self.serve("--user", "daemon", "--socket-group", "games", "--root", self.data, "--listen", "0",
                       "--tls-key", key, PLENUM_CACHE_DIR="")
        wait_for("a loader that serves", lambda: "threads decode for" in self.said())
        for task in os.listdir(f"/proc/{p.pid}/task"):
            with open(f"/proc/{p.pid}/task/{task}/status") as f:
                status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
            self.assertEqual(status["Uid"].split(), [str(user.pw_uid)] * 4)
            self.assertEqual(status["Gid"].split(), [str(user.pw_gid)] * 4)
            self.assertEqual(sorted(map(int, status["Groups"].split())), sorted(os.getgrouplist("daemon", user.pw_gid)))
            self.assertEqual({int(status[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")}, {0})
            self.assertEqual(status["NoNewPrivs"], "1")
        at = os.stat(self.socket)
        self.assertEqual((at.st_uid, at.st_gid, at.st_mode & 0o777), (user.pw_uid, group.gr_gid, 0o660))
        arguments = dict(env=self.environment, capture_output=True, text=True, timeout=LIMIT)
        command = [FEED, self.data, *STREAM, "--loader", f"unix:{self.socket}", "--epochs", "1"]
        nobody = pwd.getpwnam("nobody")
        done = subprocess.run(command, user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[group.gr_gid],
                              **arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = subprocess.run([*command, "--loader-timeout", "1"], user=nobody.pw_uid, group=nobody.pw_gid,
                              extra_groups=[], **arguments)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Permission denied", done.stderr)

    def test_user_without_account(self):
        """root's loader switches to an unknown user id, reports the consequences, and serves"""
        self.need_other_users()
        taken = {user.pw_uid for user in pwd.getpwall()} | {group.gr_gid for group in grp.getgrall()}
        number = next(n for n in range(40000, 50000) if n not in taken)
        self.make_data()
        os.chmod(self.folder, 0o777)
        p = self.serve("--user", str(number), "--root", self.data, PLENUM_CACHE_DIR="")
        wait_for("a loader that serves", lambda: "threads decode for" in self.said())
        with open(f"/proc/{p.pid}/status") as f:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
        for who in ("Uid", "Gid"):
            self.assertEqual(status[who].split(), [str(number)] * 4)
        self.assertEqual(status["Groups"].split(), [str(number)])
        self.assertIn(f"user {number} has no account on this host: its group is {number}, and it has no other groups "
                      "and no home", self.said())
        self.assertEqual(self.fed(self.feed("--epochs", "1"))[0]["hash"], self.alone(1))
        done = subprocess.run([PLENUMD, "--socket", f"unix:{self.folder}/x", "--user", str(number)],
                              env=self.environment, capture_output=True, text=True, timeout=LIMIT, user="daemon")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"only root can become user {number}", done.stderr)

    def test_no_such_people(self):
        """a user or group that cannot be resolved is reported"""
        taken = os.path.join(self.folder, "x")
        cases = [(["--user", "nobody-of-that-name"], "--user: there is no user 'nobody-of-that-name' on this host"),
                 (["--user", "4294967295"], "--user: 4294967295 is not the number of a user or group"),
                 (["--socket-group", "no-such-group"],
                  "--socket-group: there is no group 'no-such-group' on this host"),
                 (["--socket", "unix:@plenum-test-x", "--socket-group", "root"],
                  "--socket-group root: unix:@plenum-test-x has no file whose group could be set")]
        for arguments, sentence in cases:
            done = subprocess.run([PLENUMD, "--socket", f"unix:{taken}", *arguments], env=self.environment,
                                  capture_output=True, text=True, timeout=LIMIT)
            self.assertEqual(done.returncode, 1, arguments)
            self.assertIn(sentence, done.stderr)
            self.assertFalse(os.path.exists(taken))
        if not why_no_other_users():
            os.chmod(self.folder, 0o777)
            user = {"user": pwd.getpwnam("daemon").pw_uid, "group": pwd.getpwnam("daemon").pw_gid, "extra_groups": []}
            for arguments, sentence in ((["--user", "root"], "only root can become user root"),
                                        (["--socket-group", "games"],
                                         "only root can give it to a group that the user is not in")):
                done = subprocess.run([PLENUMD, "--socket", f"unix:{taken}", *arguments], env=self.environment,
                                      capture_output=True, text=True, timeout=LIMIT, **user)
                self.assertEqual(done.returncode, 1, arguments)
                self.assertIn(sentence, done.stderr)
                self.assertFalse(os.path.exists(taken))

    def test_readers_alone(self):
        """if all roots are restricted, other users get an error"""
        self.need_other_users()
        self.make_data()
        os.chmod(self.folder, 0o755)
        self.serve("--root", f"{self.data} readers=daemon", "--socket-mode", "0666")
        nobody = pwd.getpwnam("nobody")
        done = subprocess.run([FEED, self.data, *STREAM, "--loader", f"unix:{self.socket}", "--epochs", "1"],
                              env=self.environment, capture_output=True, text=True, timeout=LIMIT, user=nobody.pw_uid,
                              group=nobody.pw_gid, extra_groups=())
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("all roots of this loader are restricted to certain readers, and user "
                      f"{nobody.pw_uid} is not one of them", done.stderr)


if __name__ == "__main__":
    tap.main()
