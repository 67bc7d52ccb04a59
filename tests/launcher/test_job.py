# SPDX-License-Identifier: MIT
"""plenumctl job: shows and stops the user's running jobs."""

import contextlib
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))

import tap  # noqa: E402

PLENUMRUN, PLENUMCTL = os.path.join(BUILD, "plenumrun"), os.path.join(BUILD, "plenumctl")
STOPPER = os.path.join(BUILD, "tests", "launcher", "stopper")
FOREVER = "1000000000"
LIMIT_S = 300  # when something hangs


def ctl(*words, **options):
    run = subprocess.run([PLENUMCTL, "job", *words], capture_output=True, text=True, timeout=LIMIT_S, **options)
    return run.returncode, run.stdout, run.stderr


class Running:
    """A job that has begun its steps."""

    def __init__(self, *words, instances=2):
        self.errors = tempfile.TemporaryFile("a+")
        self.process = subprocess.Popen(
            [PLENUMRUN, "--starter", "own", "--allow-run-as-root", "-n", str(instances), "--loader", "none", STOPPER,
             FOREVER, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        begun = set()
        while len(begun) < instances:
            match = re.match(r"instance (\d+) is in step 0", self.process.stdout.readline())
            if match:
                begun.add(match[1])
        self.job = next(job for job in json.loads(ctl("list", "--json")[1]) if job["pid"] == self.process.pid)
        self.id = self.job["id"]
        # A full pipe would hold up plenumrun's output, and its messages with it.
        self.reader = threading.Thread(target=self.process.stdout.readlines, daemon=True)
        self.reader.start()

    def end(self):
        self.process.stdin.close()
        status = self.process.wait(LIMIT_S)
        self.reader.join()
        self.process.stdout.close()
        return status

    def said(self):
        self.errors.seek(0)
        return self.errors.read()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.errors.close()


class Jobs(unittest.TestCase):
    def start(self, *words, **options):
        job = Running(*words, **options)
        self.addCleanup(job.close)
        return job

    def test_list(self):
        """list shows every running job, and none that has ended"""
        one, two = self.start(), self.start(instances=1)
        status, text, _ = ctl("list")
        self.assertEqual(status, 0)
        for job, instances in ((one, 2), (two, 1)):
            self.assertEqual((job.job["num_instances"], job.job["state"], job.job["program"]),
                             (instances, "running", STOPPER))
            self.assertRegex(text, rf"(?m)^{job.id} +running +{instances} ")
        self.assertNotEqual(one.id, two.id)
        for job in (one, two):
            self.assertEqual(ctl("stop", job.id)[0], 0)
            self.assertEqual(job.end(), 75)
        left = [job["id"] for job in json.loads(ctl("list", "--json")[1])]
        self.assertNotIn(one.id, left)
        self.assertNotIn(two.id, left)

    def test_status(self):
        """status shows each instance, with its step"""
        job = self.start("wait=0:2", "hang=1:3")
        while True:
            status, text, _ = ctl("status", job.id, "--json")
            shown = json.loads(text)
            if [instance["step"] for instance in shown["instances"]] == [2, 3]:
                break
        self.assertEqual(status, 0)
        self.assertEqual((shown["id"], shown["state"], shown["step"], shown["stopped_at_step"]),
                         (job.id, "running", 3, None))
        for index, instance in enumerate(shown["instances"]):
            self.assertEqual((instance["index"], instance["state"]), (index, "running"))
            with open(f"/proc/{instance['pid']}/comm", encoding="ascii") as file:
                self.assertEqual(file.read().strip(), "stopper")
        text = ctl("status", job.id[:12])[1]  # the beginning of an id is enough
        self.assertRegex(text, rf"(?m)^ +1  \S+ +{shown['instances'][1]['pid']}  running +3 ")

    def test_stop(self):
        """stop makes the programs stop at the same step, once"""
        job = self.start("linger")
        status, text, _ = ctl("stop", job.id)
        self.assertEqual((status, text), (0, "the programs stop at the same step\n"))
        while "plenumctl job stop: stopping the programs" not in job.said():  # the answer may be sent first
            self.assertIsNone(job.process.poll())
        self.assertEqual(ctl("stop", job.id)[1], "the job is stopping already\n")
        while json.loads(ctl("status", job.id, "--json")[1])["stopped_at_step"] is None:
            pass
        self.assertEqual(json.loads(ctl("status", job.id, "--json")[1])["state"], "stopping")
        for _ in range(2):  # the first repeats the request of "job stop"; the second kills
            job.process.send_signal(signal.SIGTERM)
            while "SIGTERM" not in job.said():
                pass
        self.assertEqual(job.end(), 128 + signal.SIGTERM)

    def test_stop_without_questions(self):
        """stop sends SIGTERM to programs that never call plenum_job_should_stop()"""
        job = self.start("never", "hang=0:1", "hang=1:1")
        self.assertEqual(ctl("stop", job.id)[:2], (0, "the programs were sent SIGTERM\n"))
        self.assertEqual(job.end(), 128 + signal.SIGTERM)

    def wait_until(self, process, errors, holds):
        while not holds(errors.seek(0) or errors.read()):
            self.assertIsNone(process.poll())
            time.sleep(0.02)

    def start_waiting(self, *options):
        """A job whose program ends at once each time, when it has said that it waits for four seconds."""
        errors = tempfile.TemporaryFile("w+")
        self.addCleanup(errors.close)
        process = subprocess.Popen(
            [PLENUMRUN, "--starter", "own", "--allow-run-as-root", "-n", "1", "--loader", "none", "--max-restarts",
             "99", *options, STOPPER, FOREVER, "die=0:0"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=errors)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.wait_until(process, errors, lambda said: "trying again in 4 s" in said)
        return process, errors

    def test_waiting(self):
        """a job that waits before it starts again is shown, and can be stopped"""
        process, errors = self.start_waiting()
        while True:
            job = next(job for job in json.loads(ctl("list", "--json")[1]) if job["pid"] == process.pid)
            if job["state"] == "waiting":
                break
        status, text, _ = ctl("status", job["id"], "--json")
        shown = json.loads(text)
        self.assertEqual((status, shown["num_instances"]), (0, 1))
        self.assertIn(shown["instances"][0]["state"], ("not started", "starting", "running", "exited"))
        self.assertRegex(ctl("grow", job["id"])[2], "nothing was stopped: ")
        while ctl("stop", job["id"])[1] != "no programs are running: the job ends without starting them\n":
            self.assertIsNone(process.poll())
        self.assertEqual(process.wait(LIMIT_S), 128 + signal.SIGTERM)
        errors.seek(0)
        self.assertIn("the job was ended by plenumctl job stop before it started again", errors.read())

    def test_stop_command_while_waiting(self):
        """--stop-command ends a job that waits before it starts again"""
        with tempfile.TemporaryDirectory(prefix="plenum-test-") as folder:
            flag = os.path.join(folder, "flag")
            process, errors = self.start_waiting("--stop-command", f"test -e {flag}", "--stop-poll", "100ms")
            self.wait_until(process, errors, lambda said: "trying again in 8 s" in said)
            with open(flag, "w", encoding="ascii"):
                pass
            self.assertEqual(process.wait(LIMIT_S), 128 + signal.SIGTERM)
            errors.seek(0)
            self.assertIn("the job was ended by --stop-command before it started again", errors.read())

    def test_slow_stop_command(self):
        """a --stop-command that takes longer than a start is not begun again with the next one"""
        with tempfile.TemporaryDirectory(prefix="plenum-test-") as folder:
            program = ('if [ -e again ]; then exec "$0" ' + FOREVER + '; fi; : >again; '
                       "until [ -s begun ]; do sleep 0.02; done; exit 3")
            process = subprocess.Popen(
                [os.path.abspath(PLENUMRUN), "--starter", "own", "--allow-run-as-root", "-n", "1", "--loader", "none",
                 "--max-restarts", "1", "--stop-poll", "100ms", "--stop-command",
                 "echo begun >>begun; until [ -e go ]; do sleep 0.02; done", "sh", "-c", program,
                 os.path.abspath(STOPPER)], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True)
            for cleanup in (process.stderr.close, process.stdout.close, process.wait, process.kill):
                self.addCleanup(cleanup)
            while not process.stdout.readline().startswith("instance 0 is in step 0"):
                self.assertIsNone(process.poll())
            with open(os.path.join(folder, "begun"), encoding="ascii") as file:
                self.assertEqual(file.read(), "begun\n")
            with open(os.path.join(folder, "go"), "w", encoding="ascii"):
                pass
            _, said = process.communicate(timeout=LIMIT_S)
            self.assertEqual(process.returncode, 75, said)
            self.assertIn("--stop-command has ended with status 0: stopping the programs", said)

    def test_top(self):
        """top refreshes a table until q is pressed"""
        job = self.start()
        parent, child = pty.openpty()
        top = subprocess.Popen([PLENUMCTL, "job", "top", job.id, "--interval", "100ms"], stdin=child, stdout=child)
        os.close(child)
        seen = b""
        while len(re.findall(rb"\x1b\[H", seen)) < 3:
            self.assertTrue(select.select([parent], [], [], LIMIT_S)[0])
            seen += os.read(parent, 65536)
        os.write(parent, b"q")
        self.assertEqual(top.wait(LIMIT_S), 0)
        os.close(parent)
        self.assertIn(job.id.encode(), seen)
        self.assertRegex(seen, rb"Instance +Host +Process")

    def test_wrong(self):
        """the exit status is 2 for a wrong command, and 1 if no such job is running"""
        for words, status, why in ((("list", "x"), 2, "only one job"), ((), 2, "list, status, stop, top or grow"),
                                   (("halt",), 2, "list, status, stop, top or grow"),
                                   (("stop", "-j"), 2, "--json is for"),
                                   (("status", "nothing"), 1, "no running job 'nothing'"),
                                   (("stop", "nothing"), 1, "no running job 'nothing'"), (("top",), 1, "")):
            with self.subTest(words=words):
                got, _, said = ctl(*words)
                self.assertEqual(got, status)
                self.assertIn(why, said)
        job = self.start()
        self.assertIn("top needs a terminal", ctl("top", job.id)[2])

    def test_strangers(self):
        """clients that send nonsense, nothing or too much do not disturb the job"""
        job = self.start()
        address = f"\0plenumrun-job-{os.geteuid()}-{job.id}"
        silent = []
        for data in [b"", b"\xff" * 64, b"\0" * 7, b"\0" * 16] + [b""] * 12:
            client = socket.socket(socket.AF_UNIX)
            client.connect(address)
            with contextlib.suppress(BrokenPipeError):  # plenumrun may have too many clients already
                client.sendall(data)
            silent.append(client)
        job.process.send_signal(signal.SIGUSR1)  # the job does not wait for them
        self.assertEqual(job.end(), 75)
        for client in silent:
            client.close()

    def test_silent_clients(self):
        """clients that send nothing do not keep others out: the first of them is dropped"""
        job = self.start()
        silent = []
        for _ in range(8):  # JOB_CLIENTS_MAX
            silent.append(socket.socket(socket.AF_UNIX))
            self.addCleanup(silent[-1].close)
            silent[-1].connect(f"\0plenumrun-job-{os.geteuid()}-{job.id}")
        status, text, said = ctl("status", job.id, "--json")
        self.assertEqual((status, said), (0, ""))
        self.assertEqual(json.loads(text)["state"], "running")
        self.assertEqual(silent[0].recv(1), b"")
        self.assertEqual(ctl("stop", job.id)[0], 0)
        self.assertEqual(job.end(), 75)

    def wait_until_ending(self, process):
        """Returns the job's id."""
        job = None
        while job is None or job["state"] != "ending":
            self.assertIsNone(process.poll())
            job = next((j for j in json.loads(ctl("list", "--json")[1]) if j["pid"] == process.pid), None)
        return job["id"]

    def start_ending(self, restarts):
        """A job that is ending, because instance 0 has failed. Instance 1 ignores SIGTERM, and ends when the file
        "leave" exists; then it creates the file "left". Returns its process, id, standard error and folder."""
        folder, errors = tempfile.TemporaryDirectory(prefix="plenum-test-"), tempfile.TemporaryFile("w+")
        self.addCleanup(folder.cleanup)
        self.addCleanup(errors.close)
        program = ("echo start; if [ $RANK = 0 ]; then until [ -e ready ]; do sleep 0.1; done; exit 3; fi; "
                   "trap : TERM; : >ready; until [ -e leave ]; do sleep 0.1; done; : >left")
        process = subprocess.Popen(
            [os.path.abspath(PLENUMRUN), "--starter", "own", "--allow-run-as-root", "-n", "2", "--loader", "none",
             "--max-restarts", str(restarts), "--grace", "1000", "sh", "-c", program], cwd=folder.name,
            stdout=subprocess.PIPE, stderr=errors, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, self.wait_until_ending(process), errors, folder.name

    def leave(self, process, errors, folder):
        """Let instance 1 end. Returns the exit status and what plenumrun has said."""
        with open(os.path.join(folder, "leave"), "w", encoding="ascii"):
            pass
        out, _ = process.communicate(timeout=LIMIT_S)
        self.assertEqual(out, 2 * "start\n")
        self.assertTrue(os.path.exists(os.path.join(folder, "left")), "the program was killed")
        errors.seek(0)
        return process.returncode, errors.read()

    def test_stop_while_ending(self):
        """a job that is stopped while the programs of a failed start end does not start again"""
        process, job, errors, folder = self.start_ending(1)
        self.assertEqual(ctl("stop", job)[:2], (0, "the job is stopping already\n"))
        status, said = self.leave(process, errors, folder)
        self.assertEqual(status, 128 + signal.SIGTERM)
        self.assertIn("the job was ended by plenumctl job stop before it started again", said)

    def test_signal_while_ending(self):
        """the first signal while the programs of a failed start end does not kill them; the job does not start again"""
        for signum in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signum=signum):
                process, _, errors, folder = self.start_ending(1)
                process.send_signal(signum)
                self.wait_until(process, errors, lambda said: ": ending the job; send the signal again" in said)
                status, said = self.leave(process, errors, folder)
                self.assertEqual(status, 128 + signum)
                self.assertIn(f"the job was ended by {signum.name} before it started again", said)
                self.assertIn("exited with code 3", said)

    def test_sigusr1_while_ending(self):
        """SIGUSR1 while the programs of a failed start end is not lost: the job does not start again"""
        errors = tempfile.TemporaryFile("w+")
        self.addCleanup(errors.close)
        process = subprocess.Popen(
            [PLENUMRUN, "--starter", "own", "--allow-run-as-root", "-n", "2", "--loader", "none", "--max-restarts", "1",
             "--grace", "1000", STOPPER, FOREVER, "own", "together", "hang=1:1", "die=0:1"], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=errors)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.wait_until_ending(process)
        process.send_signal(signal.SIGUSR1)
        for _ in range(2):  # it is read after SIGUSR1; the second kills
            process.send_signal(signal.SIGTERM)
            self.wait_until(process, errors, lambda said: "ending the job; send" in said)
        self.assertEqual(process.wait(LIMIT_S), 128 + signal.SIGUSR1)
        errors.seek(0)
        self.assertIn("the job was ended by SIGUSR1 before it started again", errors.read())

    def test_signal_without_restart(self):
        """a signal while the programs of the last start end does not change the exit status"""
        process, _, errors, folder = self.start_ending(0)
        process.send_signal(signal.SIGTERM)
        self.wait_until(process, errors, lambda said: ": ending the job; send the signal again" in said)
        status, said = self.leave(process, errors, folder)
        self.assertEqual(status, 3)
        self.assertNotIn("started again", said)

    def test_imposters(self):
        """a socket that answers nonsense, another question or nothing is an error, and not a job"""
        name = f"imposter-{os.getpid()}"
        address = f"\0plenumrun-job-{os.geteuid()}-{name}"
        text = struct.pack("<I", 1) + b"x"
        job = struct.pack("<IHHQ", 55, 3, 0, 0) + 3 * text + struct.pack("<4I3Q", 1, 1, 0, 0, 0, 0, 0)
        stopped = struct.pack("<IHHQQ", 4, 5, 0, 0, 0)[:20]
        for word, answer in (("status", b"\xff" * 64), ("status", stopped), ("stop", job)):
            with self.subTest(word=word), socket.socket(socket.AF_UNIX) as imposter:
                imposter.bind(address)
                imposter.listen()
                asked = subprocess.Popen([PLENUMCTL, "job", word, name], stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, text=True)
                client, _ = imposter.accept()
                client.sendall(answer)
                out, said = asked.communicate(timeout=LIMIT_S)
                client.close()
                self.assertEqual((asked.returncode, out), (1, ""))
                self.assertIn("plenumrun has closed the connection", said)
        with socket.socket(socket.AF_UNIX) as imposter:
            imposter.bind(address)
            imposter.listen(0)
            with socket.socket(socket.AF_UNIX) as waiting:
                waiting.connect(address)
                self.assertIn("plenumrun has not answered for 5 s: is it stopped?", ctl("status", name)[2])

    @unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
    def test_other_users(self):
        """other users neither see nor stop a job"""
        job = self.start()
        self.assertEqual(ctl("status", job.id, user=65534)[0], 1)
        self.assertEqual(json.loads(ctl("list", "--json", user=65534)[1]), [])
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.setuid(65534)
            client = socket.socket(socket.AF_UNIX)
            client.connect(f"\0plenumrun-job-0-{job.id}")
            try:
                client.sendall(b"\0\0\0\0\2\0\0\0" + b"\0" * 8)  # STOP
                answer = client.recv(100)
            except OSError:
                answer = b""
            os.write(write, b"%d" % len(answer))
            os._exit(0)
        os.waitpid(child, 0)
        self.assertEqual(os.read(read, 10), b"0")
        os.close(read)
        os.close(write)
        self.assertEqual(json.loads(ctl("status", job.id, "--json")[1])["state"], "running")
        self.assertNotIn("stopping", job.said())


if __name__ == "__main__":
    tap.main()
