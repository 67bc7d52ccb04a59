# SPDX-License-Identifier: MIT
"""Tests unauthorised clients: the connection is closed or gets one message, the log has one line however often they
reconnect, and other clients notice nothing."""

import contextlib
import os
import pwd
import resource
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from rawclient import Raw  # noqa: E402
from service import CTL, ERROR, FEED, HELLO, LIMIT, STREAM, ServiceCase, wait_for  # noqa: E402
import tap  # noqa: E402
from ports import free_port  # noqa: E402

ENDING = "no stream was opened within ten seconds"


def client_hello():
    """Return the first bytes that a program sends with TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    out = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out).do_handshake()
    return out.read()


class UnauthenticatedTest(ServiceCase):
    def key(self, name):
        path = os.path.join(self.folder, name)
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as f:
            f.write(os.urandom(32))
        return path

    def client(self, key, name="tester"):
        path = f"{key}-{name}"
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w") as f:
            f.write(self.run_ok(CTL, "key", key, name))
        return path

    def fed_by(self, address, *arguments, key=None, data=None, **more):
        environment = dict(self.environment, **({"PLENUM_LOADER_KEY": key} if key else {}))
        return subprocess.run([FEED, data or self.data, *STREAM, "--loader", address, "--epochs", "1",
                               "--loader-timeout", "5", *arguments], env=environment, capture_output=True, text=True,
                              timeout=2 * LIMIT, **more)

    def served(self, address, **more):
        done = self.fed_by(address, **more)
        self.assertEqual(done.returncode, 0, done.stderr)

    def refused(self, address, sentence, times=3, **more):
        """Check that each of `times` attempts fails with this message."""
        for _ in range(times):
            done = self.fed_by(address, **more)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(sentence, done.stderr)

    def said_by(self, s):
        """Return everything that a loader sends until it closes the connection."""
        got = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := s.recv(65536):
                got += piece
        return got

    def setUp(self):
        super().setUp()
        self.began = time.monotonic()

    def once(self, sentence, loaders=1):
        """Check that each loader has logged this, at most once a minute (a test may take minutes on a slow host)."""
        minutes = int((time.monotonic() - self.began) // 60)
        lines = [line for line in self.said().splitlines() if sentence in line]
        self.assertIn(len(lines), range(loaders, loaders * (1 + minutes) + 1), f"{sentence!r}: {lines}")

    def descriptors(self, p):
        return len(os.listdir(f"/proc/{p.pid}/fd"))

    def test_keys(self):
        """clients with a wrong key, without TLS or with other TLS are rejected, and clients with the key are served"""
        self.make_data()
        key, other = self.key("key"), self.key("other")
        address = self.serve_tcp("--tls-key", key)
        self.served(address, key=self.client(key))
        count = self.descriptors(self.p)
        self.refused(address, "does not have the key of PLENUM_LOADER_KEY, or does not use TLS", key=self.client(other))
        self.refused(address, "it serves only clients that have its key")
        for hello in (client_hello(), b"GET / HTTP/1.1\r\n\r\n"):
            s = self.connect(address)
            s.sendall(hello)
            self.assertTrue(self.said_by(s))
        self.once("refused: it does not have the key of --tls-key, or does not use TLS")
        self.served(address, key=self.client(key))
        wait_for("the descriptors of closed connections", lambda: self.descriptors(self.p) <= count)

    def impostor(self, *arguments):
        """Start OpenSSL's server without the key; return its address, and a file of what it receives."""
        port = free_port()
        told = os.path.join(self.folder, f"told-{port}")
        with open(told, "wb") as f:
            p = subprocess.Popen(["openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-quiet", *arguments],
                                 stdin=subprocess.PIPE, stdout=f, stderr=subprocess.PIPE)
        self.addCleanup(p.stderr.close)
        self.addCleanup(p.stdin.close)
        self.addCleanup(self.end, p)

        def listening():
            if p.poll() is not None:
                raise AssertionError(p.stderr.read())
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", port)) == 0

        wait_for("an impostor that listens", listening)
        return f"tcp:127.0.0.1:{port}", told

    def test_loaders_without_the_key(self):
        """a server at the loader's address without the key is rejected, and receives nothing"""
        if not shutil.which("openssl"):
            self.skipTest("there is no openssl")
        key, pem = self.key("key"), os.path.join(self.folder, "pem")
        self.run_ok("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", pem, "-out", f"{pem}.crt",
                    "-days", "2", "-subj", "/CN=loader")
        mine = ["-cert", f"{pem}.crt", "-key", pem]
        for arguments in (["-tls1_3", *mine], ["-tls1_2", *mine], ["-nocert", "-cipher", "ALL:aNULL:@SECLEVEL=0"],
                          [*mine, "-psk_identity", "plenum", "-psk", "00" * 32]):
            address, told = self.impostor(*arguments)
            done = self.fed_by(address, key=self.client(key), data="/data")
            self.assertEqual(done.returncode, 1, done.stderr)
            # Its last message is lost if it closes the connection with unread data.
            self.assertRegex(done.stderr, "does not have the key of PLENUM_LOADER_KEY, or does not use TLS|closed the "
                                          "connection at once")
            with open(told, "rb") as f:
                self.assertEqual(f.read(), b"", arguments)

    def test_tls_where_none_is(self):
        """a TLS client of a loader without a key is rejected"""
        self.make_data()
        address = self.serve_tcp()
        for _ in range(3):
            s = self.connect(address)
            s.sendall(client_hello())
            self.assertIn(b"a malformed frame arrived", self.said_by(s))
        self.refused(address, "does not have the key of PLENUM_LOADER_KEY, or does not use TLS",
                     key=self.client(self.key("key")))
        self.once("refused: a malformed frame arrived")
        self.served(address)

    def test_silence(self):
        """silent or incomplete clients are dropped after ten seconds; others are served meanwhile"""
        self.make_data()
        key = self.key("key")
        secret = self.serve_tcp("--tls-key", key)
        loader = self.p
        plain = self.serve_tcp()
        hello = client_hello()
        silent = [(self.connect(address), said) for address in (secret, plain)
                  for said in (b"", hello[:100], HELLO[:20], HELLO)]
        for s, said in silent:
            s.sendall(said)
        self.served(secret, key=self.client(key))
        self.served(plain)
        count = self.descriptors(loader)
        for s, said in silent:
            got = self.said_by(s)
            self.assertTrue(got == b"" or struct.unpack_from("<H", got, 4)[0] in (1, ERROR) or got[0] == 21, got)
        self.assertIn(ENDING.encode(), got)  # to the last client, which had greeted
        # Each loader logs one line for all of these clients, because they are on one host. The line of the loader
        # without TLS includes the client that has given its name.
        self.once(ENDING, loaders=2)
        wait_for("their descriptors", lambda: self.descriptors(loader) < count)

    def test_scanner(self):
        """thousands of short connections cause one line in the log, and leak no descriptor or memory"""
        self.make_data()
        key = self.key("key")
        for address, more in ((self.serve_tcp(), {}), (self.serve_tcp("--tls-key", key), {"key": self.client(key)})):
            self.served(address, **more)
            count = self.descriptors(self.p)
            resident = []
            for _ in range(2):  # in the first round many may be connected at once, and their memory is kept for reuse
                for _ in range(3000):
                    self.connect(address).close()
                wait_for("their descriptors", lambda: self.descriptors(self.p) <= count)
                resident.append(self.resident(self.p, "VmRSS"))
            if not os.environ.get("PLENUM_SANITIZED"):  # a sanitizer keeps freed memory
                self.assertLess(resident[1], resident[0] + 65536)  # some tens of KiB each would be more
            self.served(address, **more)
        self.once("gone: it has not identified itself", loaders=2)

    def test_places(self):
        """paths outside the roots, by name, .. or links, get the same message whether they exist or not"""
        self.make_data()
        elsewhere = os.path.join(self.folder, "elsewhere")
        self.run_ok(CTL, "make-sample", elsewhere, "--images", "2", "--size", "32")
        os.symlink(elsewhere, os.path.join(self.data, "zz"))
        with open(os.path.join(self.data, "x.txt"), "w") as f:
            f.write(f"{elsewhere}/a.jpg 0\n")
        self.serve("--root", self.data)
        address = f"unix:{self.socket}"
        for place in (elsewhere, f"{self.data}/../elsewhere", f"{self.data}/zz", f"tar:{elsewhere}/x.tar",
                      "/etc/passwd", f"{self.folder}/no-such-thing", f"{self.data}/../no-such-thing",
                      f"folder:{self.data}/zz/no-such-thing", f"tar:{self.folder}/no-such-{{0..9}}.tar",
                      f"list:{self.folder}/no-such.txt", f"generated:folder:{elsewhere}"):
            path = place[place.index("/"):]
            self.refused(address, f"{path} is not below a --root of this loader", times=2, data=place)
            self.once(f"refused: {path} is not below a --root of this loader")
        self.refused(address, "is not below a --root of this loader", times=1,
                     data=f"list,base={elsewhere}:{self.data}/x.txt")
        self.refused(address, "No such file or directory", times=1, data=f"{self.data}/no-such-thing")
        os.unlink(os.path.join(self.data, "zz"))
        os.unlink(os.path.join(self.data, "x.txt"))
        self.served(address)

    def test_other_users(self):
        """a loader for one user rejects other users with the reason, and logs it once"""
        self.need_other_users()
        self.make_data()
        os.chmod(self.folder, 0o755)
        self.serve("--socket-mode", "0666")
        nobody = pwd.getpwnam("nobody")
        self.refused(f"unix:{self.socket}", "it serves only user 0", user=nobody.pw_uid, group=nobody.pw_gid,
                     extra_groups=())
        self.once(f"refused: it belongs to user {nobody.pw_uid}, and this loader serves only user 0")
        self.served(f"unix:{self.socket}")

    def enter(self, address, said):
        """Connect a client; retry until the loader has noticed that others have left."""
        while True:
            s = self.connect(address, 0.5)
            with contextlib.suppress(ConnectionError):
                s.sendall(said)
                try:
                    kind = struct.unpack_from("<H", s.recv(65536), 4)[0]
                except TimeoutError:
                    kind = 0
                if kind != ERROR:
                    s.settimeout(LIMIT)
                    return s

    def test_too_many(self):
        """too many clients get an error; silent ones, or those that only greet, make room for active ones"""
        self.make_data()
        self.serve("--max-clients", "3")
        address = f"unix:{self.socket}"
        streams = [Raw(address) for _ in range(3)]
        for s in streams:
            s.open(f"folder:{self.data}")
        self.refused(address, "it has 3 clients, and accepts no more (--max-clients)")
        self.once("refused: there are already as many clients as --max-clients allows")
        streams.pop().close()
        for said in (b"", HELLO):
            silent = self.enter(address, said)
            time.sleep(1.5)  # one second of silence is enough
            self.served(address)
            self.assertIn(b"it opened no stream, and others are waiting", self.said_by(silent))
        for s in streams:
            s.close()

    def test_silent_beside_quiet(self):
        """silent clients also make room while a quiet stream of a different host is open"""
        self.make_data()
        address = self.serve_tcp("--socket", f"unix:{self.socket}", "--socket-mode", "0666", "--max-clients", "2")
        wait_for("a loader that listens", self.listening)
        quiet = Raw(address)
        self.addCleanup(quiet.close)
        quiet.open(f"folder:{self.data}")
        silent = self.enter(f"unix:{self.socket}", HELLO)
        time.sleep(2)  # longer than the silence that is needed
        self.served(f"unix:{self.socket}")
        self.assertIn(b"it opened no stream, and others are waiting", self.said_by(silent))
        quiet.ask()
        self.assertEqual(quiet.done(), 0)

    def is_closed(self, s):
        """Return whether the loader has closed the connection without a message."""
        try:
            return s.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True

    def test_descriptors(self):
        """without free descriptors, new clients are closed, one line reports it, and existing ones are served"""
        self.make_data()
        p = self.plenumd("--socket", f"unix:{self.socket}", "--threads", "1")
        wait_for("a loader that listens", self.listening)
        feed = self.feed("--epochs", "1000000", "--pause", "20")
        wait_for("a client", lambda: "client " in self.said())
        count = self.descriptors(p)
        _, most = resource.prlimit(p.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(p.pid, resource.RLIMIT_NOFILE, (count + 3, most))
        many = [self.connect(f"unix:{self.socket}") for _ in range(20)]
        wait_for("all of them to be closed, because the last descriptors are kept for data sets' files",
                 lambda: all(map(self.is_closed, many)))
        self.once("no file descriptor is left for a new client")
        for s in many:
            s.close()
        self.assertIsNone(feed.poll())
        resource.prlimit(p.pid, resource.RLIMIT_NOFILE, (count + 50, most))
        self.served(f"unix:{self.socket}")
        self.assertIsNone(feed.poll())
        self.end(feed)


if __name__ == "__main__":
    tap.main()
