# SPDX-License-Identifier: MIT
"""Compares a loader's status reports (plenumctl status, /status.json, /metrics, health) with what clients received."""

import http.client
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from rawclient import STATS, STATUS, STATUS_STREAM, Raw, frame  # noqa: E402
from service import CTL, FEED, LIMIT, PLENUMD, STREAM, ServiceCase, stop, wait_for  # noqa: E402
import tap  # noqa: E402
from ports import free_port  # noqa: E402


class StatusTest(ServiceCase):
    def setUp(self):
        super().setUp()
        self.make_data()
        self.port = None

    def start(self, *arguments):
        self.port = free_port()
        p = self.serve("--http-port", str(self.port), *arguments)
        wait_for("the page", self.has_page)
        return p

    def has_page(self):
        """Return whether the page is served and has data, that is, the loader's loop has run once."""
        try:
            return self.get("/readyz")[0].status == 200
        except OSError:
            return False

    def get(self, path, method="GET", host=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        c.request(method, path, headers={"Host": host} if host else {})
        answer = c.getresponse()
        body = answer.read()
        c.close()
        return answer, body

    def json(self, path="/status.json"):
        answer, body = self.get(path)
        self.assertEqual(answer.status, 200)
        return json.loads(body)

    def ctl(self, *arguments):
        return self.run_ok(CTL, "status", f"unix:{self.socket}", *arguments)

    def metrics(self):
        answer, body = self.get("/metrics")
        self.assertTrue(answer.getheader("Content-Type").startswith("text/plain; version=0.0.4"))
        values = {}
        for line in body.decode().splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                self.assertNotIn(name, values, "one line per metric")
                values[name] = float(value)
        return values

    def test_counts(self):
        """counters equal the rendered samples, in plenumctl, /status.json and /metrics alike"""
        self.start()
        # The client receives everything that it requests, because no batch beyond the three epochs is requested.
        result, _ = self.fed(self.feed("--epochs", "3"))
        self.assertEqual(result["images"], 120)
        status = json.loads(self.ctl("--json"))["loader"]
        self.assertEqual((status["samples"], status["batches"], status["failed_batches"]), (120, 30, 0))
        wait_for("the page's numbers", lambda: self.json()["loader"]["samples"] == 120)
        page, m = self.json()["loader"], self.metrics()
        same = ("version", "host", "pid", "threads", "io_threads", "samples", "batches", "substituted_samples",
                "nodes", "ring_bytes")
        self.assertEqual({k: status[k] for k in same}, {k: page[k] for k in same})
        self.assertEqual(set(status), set(page), "plenumctl status --json and /status.json have the same fields")
        self.assertEqual((m["plenum_samples_total"], m["plenum_batches_total"]), (120, 30))
        for name, count in (("read", 120), ("render", 120), ("queue", 30)):
            buckets = [v for k, v in m.items() if k.startswith(f"plenum_{name}_seconds_bucket")]
            self.assertEqual(buckets, sorted(buckets), "buckets are sums")
            self.assertEqual((buckets[-1], m[f"plenum_{name}_seconds_count"]), (count, count))

    def stream(self):
        streams = json.loads(self.ctl("--json"))["streams"]
        return streams[0] if streams else None

    def test_bad_samples(self):
        """bad samples that were replaced are counted, and so are batches that failed"""
        victim = sorted(os.listdir(os.path.join(self.data, sorted(os.listdir(self.data))[0])))[0]
        with open(os.path.join(self.data, sorted(os.listdir(self.data))[0], victim), "wb") as f:
            f.write(b"no image")
        self.start()
        result, _ = self.fed(self.feed("--epochs", "2"))
        self.assertEqual(result["substituted"], 2)
        self.assertEqual(json.loads(self.ctl("--json"))["loader"]["substituted_samples"], 2)
        self.feed("--epochs", "1", "--bad", "fail").communicate(timeout=LIMIT)
        self.assertGreater(json.loads(self.ctl("--json"))["loader"]["failed_batches"], 0)

    def test_trainer(self):
        """a program that is slower than the loader hardly waits: bound_by is 'trainer'"""
        self.start()
        self.feed("--epochs", "10000", "--pause", "100")
        seen = []

        def verdict():  # on a busy machine, the program waits now and then
            seen.append(self.stream())
            return seen[-1] and seen[-1]["age_seconds"] > 4 and seen[-1]["bound_by"] == "trainer"

        wait_for("the verdict that the program bounds the rate", verdict)
        s = seen[-1]
        self.assertLess(s["trainer_waited"], 0.02)
        # At most 4 samples every 100 ms, plus the batches requested in advance, plus one or two at the interval's ends.
        self.assertLess(s["samples_per_second"], 40 + 6 * 4 / 4)
        self.assertGreater(s["cores_enough"], 0)

    def test_waiting(self):
        """a program that only takes batches waits, and the number of cores it needs is unknown"""
        self.start()
        self.feed("--epochs", "1000000", "--micro-batch", "256")
        wait_for("a verdict",
                 lambda: self.stream() and self.stream()["age_seconds"] > 4 and self.stream()["samples_per_second"] > 0)
        s = self.stream()
        self.assertIn(s["bound_by"], ("decode", "cpu", "transport"))
        self.assertGreater(s["trainer_waited"], 0.5)

    def test_rate(self):
        """the rate is the number of samples rendered in that time"""
        self.start()
        feed = self.feed("--epochs", "1000", "--pause", "50", "--micro-batch", "8")
        seen = []

        def agrees():
            # The machine may be slow in seconds that only one of the two measures: then compare later ones. One or two
            # batches may be on either side of an interval's ends.
            s = self.stream()
            seen.append((time.monotonic(), s["samples"] if s else 0))
            earlier = [one for one in seen if one[0] < seen[-1][0] - 8]
            if not s or s["age_seconds"] < 12 or not earlier:
                return False
            rate = (seen[-1][1] - earlier[-1][1]) / (seen[-1][0] - earlier[-1][0])
            return abs(s["samples_per_second"] - rate) < 0.05 * rate + 24 / 8

        wait_for("a rate of what was rendered in the last seconds", agrees)
        feed.kill()

    def test_health(self):
        """/healthz and /readyz answer 200; while the loader drains, /readyz answers 503"""
        p = self.start("--drain-timeout", "30s")
        self.assertEqual(self.get("/healthz")[0].status, 200)
        wait_for("readiness", lambda: self.get("/readyz")[0].status == 200)
        feed = self.feed("--epochs", "100000", "--micro-batch", "4096", "--silence", "60000")
        wait_for("a stream", lambda: self.stream())
        stop(feed)
        p.send_signal(signal.SIGTERM)
        wait_for("the end of readiness", lambda: p.poll() is not None or self.get("/readyz")[0].status == 503)
        if p.poll() is None:
            self.assertEqual(self.get("/healthz")[0].status, 200)

    def test_other_hosts_and_methods(self):
        """invalid requests are rejected with a message"""
        self.start()
        cases = (("/", "POST", None, 405), ("/nothing", "GET", None, 404), ("/", "GET", "evil.example", 421),
                 ("/", "GET", "localhost.evil.example", 421), ("/", "GET", "localhost:1", 200),
                 ("/", "HEAD", None, 200), ("/thumbnail/1/0.png", "GET", None, 404), ("/thumbnail/x", "GET", None, 404),
                 ("/thumbnail/99999999999999999999999/0.png", "GET", None, 404), ("/../etc/passwd", "GET", None, 404))
        for path, method, host, code in cases:
            answer, body = self.get(path, method, host)
            self.assertEqual(answer.status, code, (path, method, host))
            if code != 200:
                self.assertRegex(body.decode(), r"\w+ \w+")
        with socket.create_connection(("127.0.0.1", self.port)) as s:
            s.sendall(b"\x00\xff garbage\r\n\r\n")
            s.settimeout(20)
            s.recv(4096)
        self.assertEqual(self.get("/healthz")[0].status, 200)

    def test_slow_requests(self):
        """while endless requests take all connections, /healthz is answered, and the slow connections are closed"""
        self.start()
        slow = []
        for i in range(300):
            s = socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT)
            self.addCleanup(s.close)
            s.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
            slow.append(s)
            if i % 10 == 9:
                self.assertEqual(self.get("/healthz")[0].status, 200, f"with {i} connections")

        def is_closed(s):
            """Send a byte, so that the connection is never idle, and return whether the loader has closed it."""
            try:
                s.send(b"a", socket.MSG_DONTWAIT)
                return s.recv(1, socket.MSG_DONTWAIT) == b""
            except BlockingIOError:
                return False
            except OSError:
                return True

        wait_for("the end of their time", lambda: all([is_closed(s) for s in slow]))

    def test_loopback_address(self):
        """the loopback address on which the loader listens is accepted as Host, and other hosts are rejected"""
        self.port = free_port("127.0.0.5")
        self.serve("--http-port", str(self.port), "--http-address", "127.0.0.5")

        def ask(host):
            c = http.client.HTTPConnection("127.0.0.5", self.port, timeout=300)
            c.request("GET", "/healthz", headers={"Host": host})
            self.addCleanup(c.close)
            return c.getresponse().status

        wait_for("the page", lambda: not socket.socket().connect_ex(("127.0.0.5", self.port)))
        for host, status in ((f"127.0.0.5:{self.port}", 200), ("127.0.0.5", 200), ("localhost", 200),
                             ("127.0.0.6", 421), ("127.0.0.50", 421), ("evil.example", 421)):
            self.assertEqual(ask(host), status, host)

    def test_thumbnail(self):
        """a thumbnail is a PNG of the stream's size"""
        self.start()
        self.feed("--epochs", "100000", "--pause", "100")
        wait_for("a thumbnail",
                 lambda: self.get("/thumbnail/%d/0.png" % (self.stream() or {"id": 0})["id"])[0].status == 200)
        answer, png = self.get("/thumbnail/%d/1.png" % self.stream()["id"])
        self.assertEqual(answer.getheader("Content-Type"), "image/png")
        self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual((int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")), (48, 48))

    def test_large_thumbnail(self):
        """thumbnails of images larger than 1024 pixels a side are not rendered"""
        self.start()
        self.feed("--epochs", "100000", "--pause", "100", "--pipeline", "rrc(1025)", "--micro-batch", "1")
        wait_for("a stream", lambda: self.json()["streams"])
        stream = self.json()["streams"][0]["id"]

        def told():
            answer, body = self.get(f"/thumbnail/{stream}/0.png")
            return answer.status == 404 and b"1024 pixels a side" in body
        wait_for("a sentence", told)

    def test_readers_page(self):
        """if a root is restricted, the page names no stream and shows no image"""
        self.start("--root", f"{self.data} readers=root")
        self.feed("--epochs", "100000", "--pause", "100")
        wait_for("a stream", lambda: self.json()["loader"]["other_streams"] == 1)
        stream = self.stream()["id"]  # root sees it through the socket
        self.assertEqual(self.json()["streams"], [])
        self.assertNotIn(self.data, self.get("/metrics")[1].decode())
        self.assertEqual(self.get(f"/thumbnail/{stream}/0.png")[0].status, 404)

    def test_no_thumbnails(self):
        """--no-thumbnails disables thumbnails"""
        self.start("--no-thumbnails")
        self.feed("--epochs", "100000", "--pause", "100")
        wait_for("a stream", lambda: self.json()["streams"])
        self.assertEqual(self.get("/thumbnail/%d/0.png" % self.json()["streams"][0]["id"])[0].status, 404)
        self.assertFalse(self.json("/history.json")["thumbnails"])

    def test_port_in_use(self):
        """a port in use or an invalid address is reported"""
        self.start()
        for arguments, sentence in ((("--http-port", str(self.port)),
                                     f"port {self.port}: Address already in use; choose another"),
                                    (("--http-port", "1", "--http-address", "localhost"), "needs an IP address")):
            p = self.plenumd("--socket", "unix:@plenum-test-%d" % os.getpid(), *arguments)
            self.assertEqual(p.wait(LIMIT), 1)
            self.assertIn(sentence, self.said())

    def test_no_loader(self):
        """plenumctl status reports that there is no loader"""
        p = subprocess.run([CTL, "status", f"unix:{self.socket}"], capture_output=True, text=True)
        self.assertEqual(p.returncode, 1)
        self.assertIn("No such file or directory; is plenumd running?", p.stderr)

    def test_own_loaders(self):
        """status without an address queries this user's abstract sockets, but not other users' imitations"""
        self.need_other_users()
        os.chmod(self.folder, 0o755)
        nobody, daemon = pwd.getpwnam("nobody"), pwd.getpwnam("daemon")
        place = f"@plenum-{nobody.pw_uid}-test-{os.getpid()}"
        environment = {k: v for k, v in self.environment.items() if k not in ("PLENUM_LOADER", "XDG_RUNTIME_DIR")}

        def start(user, place):
            p = subprocess.Popen([PLENUMD, "--socket", f"unix:{place}", "--threads", "1", "-q"], env=environment,
                                 stdin=subprocess.DEVNULL, user=user.pw_uid, group=user.pw_gid, extra_groups=())
            self.addCleanup(self.end, p)
            with open("/proc/net/unix") as f:
                wait_for("a loader that listens", lambda: f.seek(0) or f" {place}\n" in f.read())
            return p

        def told(*arguments):
            return subprocess.run([CTL, "status", *arguments], env=environment, capture_output=True, text=True,
                                  timeout=LIMIT, user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=())

        mine = [start(nobody, f"{place}-{i}") for i in range(2)]
        theirs = start(daemon, f"{place}-daemon")
        out = told().stdout
        for p in mine:
            self.assertIn(f"pid {p.pid},", out)
        self.assertNotIn(f"pid {theirs.pid},", out)
        self.assertIn(f"unix:{place}-0", out)
        self.assertEqual(out.count("plenumd "), out.count("unix:@plenum"))
        done = told(f"unix:{place}-daemon")
        self.assertEqual(done.returncode, 1)
        self.assertIn("another user's process listens there", done.stderr)
        json.loads(told(f"unix:{place}-1", "--json").stdout)
        stop(mine[0])
        done = told()
        mine[0].send_signal(signal.SIGCONT)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"pid {mine[1].pid},", done.stdout)
        self.assertRegex(done.stderr, f"unix:{place}-0: no answer for 5 s")
        self.assertNotIn(f"{place}-daemon", done.stderr)

    def told_of_own(self):
        environment = {k: v for k, v in self.environment.items() if k not in ("PLENUM_LOADER", "XDG_RUNTIME_DIR")}
        done = subprocess.run([CTL, "status"], env=environment, capture_output=True, text=True, timeout=LIMIT)
        return done.stdout

    def test_job_of_plenumrun(self):
        """status without an address finds the loader that plenumrun started for a job"""
        job = self.run_job("-n", "1", FEED, self.data, *STREAM, "--epochs", "100000", "--pause", "100")
        loader, = self.loaders_of_jobs()
        wait_for("the job's loader", lambda: f"pid {loader}," in self.told_of_own() or job.poll() is not None)
        self.assertIsNone(job.poll(), self.said())

    def test_seventeen(self):
        """status without an address lists seventeen loaders"""
        places = [f"@plenum-{os.geteuid()}-test-{os.getpid()}-{i}" for i in range(17)]
        for place in places:
            self.plenumd("--socket", f"unix:{place}", "--threads", "1", "-q")
        with open("/proc/net/unix") as f:
            wait_for("all loaders", lambda: f.seek(0) == 0 and set(places) <= set(f.read().split()))
        wait_for("all to be reported",
                 lambda: all(f"unix:{place}\n" in told for told in [self.told_of_own()] for place in places))

    def test_table(self):
        """the table fits, whatever the names of clients"""
        self.start()
        self.environment["PLENUM_JOB_ID"] = "käse\x1b[2J\n" + "x" * 100
        for _ in range(3):
            self.feed("--epochs", "100000", "--pause", "100")
        wait_for("streams", lambda: len(json.loads(self.ctl("--json"))["streams"]) == 3)
        out = self.ctl()
        self.assertEqual(len(out.splitlines()), 6 + 2 * 3)
        self.assertNotIn("\x1b", out)
        for line in out.splitlines():
            self.assertLessEqual(len(line), 120)

    def test_sets(self):
        """/status.json, plenumctl and /metrics show the shares of a plan's sets, in total and in the last epoch"""
        plan = f"set a 3 {self.data}\nset b 1 generated:50\nblock 8\nepoch 80\nlabels numbers\nat 160 b 1\n"
        self.start()
        self.feed("--epochs", "100000", "--pause", "1", data=plan)
        wait_for("the fifth epoch", lambda: (self.stream() or {"epoch": 0})["epoch"] >= 4)
        stream = self.stream()
        self.assertEqual([(s["name"], s["last_epoch_shown"], s["last_epoch_share"]) for s in stream["sets"]],
                         [("a", 0, 0.0), ("b", 80, 1.0)])
        self.assertEqual(stream["sets"][0]["shown"], 120)
        self.assertIn("last epoch a 0.0%, b 100.0%", self.ctl())
        # The pages are made once a second.
        wait_for("the pages", lambda: any(s["epoch"] >= 4 for s in self.json()["streams"]))
        metrics, (stream,) = self.metrics(), self.json()["streams"]
        self.assertEqual(metrics[f'plenum_stream_set_samples{{stream="{stream["id"]}",set="a"}}'], 120)
        self.assertEqual(metrics[f'plenum_stream_set_last_epoch_samples{{stream="{stream["id"]}",set="b"}}'], 80)
        self.assertEqual([s["name"] for s in stream["sets"]], ["a", "b"])

    def test_names(self):
        """clients are shown by program name, pipelines as users wrote them, and paths unchanged"""
        os.symlink(self.data, os.path.join(self.folder, "link"))
        self.start()
        feed = self.feed("--epochs", "100000", "--pause", "100", "--pipeline",
                         "rrc(16, scale=0.25:1) color_jitter(0.4, 0.4, 0.1) flip(1/3)",
                         data=f"{self.folder}/../{os.path.basename(self.folder)}/link")
        wait_for("a stream", lambda: json.loads(self.ctl("--json"))["streams"] or feed.poll() is not None)
        stream = self.stream()
        self.assertEqual(stream["client"], f"feed instance 0 of job pid-{feed.pid} (pid {feed.pid})")
        self.assertEqual(stream["pipeline"], "v1 rrc(16,scale=0.25:1,ratio=0.75:4/3) "
                                             "color_jitter(0.6:1.4,0.6:1.4,0.9:1.1) flip(1/3)")
        self.assertEqual(stream["dataset"], "folder:" + os.path.realpath(self.data))
        self.assertEqual(self.said().count(f"(pid {feed.pid})"), self.said().count("feed instance 0"), self.said())

    def test_whose_streams(self):
        """users see their own streams and the number of others, root sees all, and a TCP client sees its own"""
        os.chmod(self.folder, 0o755)
        address = self.serve_tcp("--socket-mode", "0666")
        ours = f"unix:{self.folder}/tcp-0"
        self.feed("--epochs", "100000", "--pause", "100", "--loader", ours)
        wait_for("a stream", lambda: json.loads(self.run_ok(CTL, "status", ours, "--json"))["streams"])
        with Raw(address) as c:
            c.open(f"folder:{self.data}")
            c.send(frame(STATUS))
            c.wait_for(STATUS)
            told = c.wait_for(STATUS_STREAM)
            c.send(frame(STATS))
            c.wait_for(STATS)  # and no other stream before it
            self.assertIn(b"a raw client", told)
        with Raw(address) as c:
            c.send(frame(STATUS) + frame(STATS))
            c.wait_for(STATUS)
            self.assertEqual(c.next()[0], STATS)
        self.need_other_users()
        nobody = pwd.getpwnam("nobody")
        who = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": ()}

        def seen(*arguments, **who):
            return subprocess.run([CTL, "status", ours, *arguments], env=self.environment, capture_output=True,
                                  text=True, timeout=LIMIT, check=True, **who).stdout

        self.assertIn(self.data, seen())
        self.assertNotIn("of other users", seen())
        self.assertNotIn(self.data, seen(**who))
        self.assertIn("and 1 of other users", seen(**who))
        status = json.loads(seen("--json", **who))
        self.assertEqual((status["streams"], status["loader"]["streams"], status["loader"]["other_streams"]),
                         ([], 0, 1))

    def test_promtool(self):
        """promtool finds no fault in /metrics"""
        if not shutil.which("promtool"):
            self.skipTest("promtool is not installed")
        self.start()
        self.environment["PLENUM_JOB_ID"] = 'a"b\\c'
        self.feed("--epochs", "100000", "--pause", "100")
        wait_for("a stream", lambda: self.json()["streams"])
        p = subprocess.run(["promtool", "check", "metrics"], input=self.get("/metrics")[1], capture_output=True)
        self.assertEqual((p.returncode, p.stdout, p.stderr), (0, b"", b""))

    def terminal(self, *words):
        return subprocess.run(["tmux", "-f", "/dev/null", "-S", os.path.join(self.folder, "tmux"), *words],
                              capture_output=True, text=True, env=dict(self.environment, LC_ALL="C.UTF-8"),
                              stdin=subprocess.DEVNULL)

    def test_watch(self):
        """status --watch fits a terminal of 80 x 24, updates, and restores the screen on q"""
        if not shutil.which("tmux"):
            self.skipTest("tmux is not installed")
        self.serve()
        for _ in range(12):  # more than there is room for
            self.feed("--epochs", "1000000", "--pause", "50")
        self.addCleanup(self.terminal, "kill-server")
        self.assertEqual(self.terminal("new-session", "-d", "-x", "80", "-y", "24", "/bin/sh").returncode, 0)

        def screen(what, condition):
            """Return the screen when the condition first holds."""
            seen = []

            def look():
                seen[:] = self.terminal("capture-pane", "-p").stdout.splitlines()
                return condition(seen, "\n".join(seen))

            try:
                wait_for(what, look)
            except AssertionError as e:
                raise AssertionError(f"{e}; the screen:\n" + "\n".join(seen)) from None
            return seen

        self.terminal("send-keys", f"echo before; {CTL} status --watch --interval 200ms unix:{self.socket}", "Enter")
        seen = screen("streams on the screen", lambda lines,
                      text: "streams 12," in text and re.search(r"and \d+ more", text))
        self.assertEqual(len(seen), 24)
        self.assertTrue(seen[0].startswith("plenumd "), seen)
        self.assertTrue(all(len(line) <= 80 for line in seen), seen)
        self.assertFalse(any("before" in line for line in seen), seen)
        counts = set()

        def lives(lines, text):
            counts.update(re.findall(r"since the start: (\d+) samples", text))
            return len(counts) > 2

        screen("other numbers", lives)
        self.terminal("resize-window", "-x", "50", "-y", "10")
        screen("a smaller picture", lambda lines, text: len(lines) == 10 and lines[0].startswith("plenumd ") and
               lines[1].startswith("streams 12,") and "more" in text)
        self.terminal("resize-window", "-x", "80", "-y", "24")
        self.terminal("send-keys", "q")
        screen("its end", lambda lines, text: "since the start" not in text)
        self.terminal("send-keys", "printf '%0100d\\n' 7", "Enter")  # lines are wrapped again
        # The command may have been typed before there was a prompt, which then precedes the first line.
        screen("the shell again", lambda lines, text: re.search(r"0{60,80}\n0+7\n", text))


if __name__ == "__main__":
    from service import PLENUMD
    built = subprocess.run([PLENUMD, "--http-port", "1", "--socket", "unix:@plenum-test-none-%d" % os.getpid(),
                            "--http-address", "x"],
                           capture_output=True, text=True).stderr
    if "libmicrohttpd" in built:
        tap.skip_all("plenumd was built without libmicrohttpd")
    tap.main()
