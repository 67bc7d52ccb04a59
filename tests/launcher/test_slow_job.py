# SPDX-License-Identifier: MIT
"""Jobs with a slow instance, which is named with the cause in status, messages, metrics and --result."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))

import tap  # noqa: E402

PLENUMRUN, PLENUMCTL = os.path.join(BUILD, "plenumrun"), os.path.join(BUILD, "plenumctl")
STOPPER = os.path.join(BUILD, "tests", "launcher", "stopper")
LIMIT_S = 300  # when something hangs


class Job:
    def __init__(self, *words):
        self.folder = tempfile.TemporaryDirectory()
        self.result = os.path.join(self.folder.name, "result.json")
        self.process = subprocess.Popen(
            [PLENUMRUN, "--starter", "own", "--allow-run-as-root", "-n", "3", "--loader", "none", "--result",
             self.result, STOPPER, "1000000000", "together", "work", *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.said, self.printed = [], []
        self.readers = [threading.Thread(target=self.read, args=pair, daemon=True)
                        for pair in ((self.process.stderr, self.said), (self.process.stdout, self.printed))]
        for reader in self.readers:
            reader.start()
        self.id = None
        while not self.id:
            jobs = [job for job in json.loads(self.ctl("list", "--json")) if job["pid"] == self.process.pid]
            self.id = jobs[0]["id"] if jobs and jobs[0]["state"] == "running" else None

    @staticmethod
    def read(stream, lines):
        with stream:
            for line in stream:
                lines.append(line)

    @staticmethod
    def ctl(*words):
        return subprocess.run([PLENUMCTL, "job", *words], stdout=subprocess.PIPE, text=True, timeout=LIMIT_S,
                              check=True).stdout

    def status(self):
        return json.loads(self.ctl("status", self.id, "--json"))

    def stop(self):
        """Stop the job, and return its result."""
        self.ctl("stop", self.id)
        if self.process.wait(LIMIT_S) != 75:
            raise AssertionError("".join(self.said))
        for reader in self.readers:
            reader.join()
        with open(self.result, encoding="utf-8") as file:
            return json.load(file)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()


class Slow(unittest.TestCase):
    def start(self, *words):
        job = Job(*words)
        self.addCleanup(job.close)
        return job

    def test_program(self):
        """a slow program is shown in status and metrics, and logged"""
        job = self.start("slow=1")
        while True:
            instance = job.status()["instances"][1]
            if instance["slow"]:
                break
        self.assertEqual(instance["slow_cause"], "program")
        self.assertRegex(instance["slow"], r"^program, \S+ ms per step instead of \S+ ms, since step \d+$")
        self.assertGreater(instance["own_seconds"], 0.1)  # it sleeps for that long
        self.assertEqual(instance["wait_seconds"], 0)
        while f'plenum_job_slow{{job="{job.id}",host="{instance["host"]}",cause="program"}} 1' not in (
                metrics := job.ctl("status", job.id, "--metrics")):
            pass
        self.assertRegex(metrics, r'(?m)^plenum_job_own_seconds\{job="\w+",host="[^"]+",instance="1"\} 0\.\d+$')
        while not re.search(r"(?m)^Host \S+ is slow \(instance 1\): program, ", job.ctl("status", job.id)):
            pass
        logged = re.compile(r"host \S+ \(instance 1\) is slow: program, .*, since step \d+$")
        while not any(logged.search(line) for line in list(job.said)):
            self.assertIsNone(job.process.poll())
        slow = [entry for entry in job.stop()["slow"] if entry["instance"] == 1]
        self.assertGreaterEqual(len(slow), 1)
        self.assertEqual((slow[0]["cause"], slow[0]["host"]), ("program", instance["host"]))
        self.assertIn(f"since step {slow[0]['since_step']}", slow[0]["text"])

    def test_stopped(self):
        """a stopped program is shown until it continues"""
        job = self.start()
        pid = job.status()["instances"][2]["pid"]
        os.kill(pid, signal.SIGSTOP)
        while True:
            instance = job.status()["instances"][2]
            if instance["slow"]:
                if instance["slow_cause"] == "stopped":
                    break
        self.assertRegex(instance["slow"], r"^stopped by a signal, since step \d+$")
        self.assertEqual(instance["state"], "stopped")
        os.kill(pid, signal.SIGCONT)
        while job.status()["instances"][2]["slow_cause"] == "stopped":
            pass
        job.stop()


if __name__ == "__main__":
    tap.main()
