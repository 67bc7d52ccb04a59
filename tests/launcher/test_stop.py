# SPDX-License-Identifier: MIT
"""Jobs whose instances stop at the same step: plenum_job_should_stop() under plenumrun, and without it."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))

import tap  # noqa: E402

PLENUMRUN = os.path.join(BUILD, "plenumrun")
STOPPER = os.path.join(BUILD, "tests", "launcher", "stopper")
FOREVER = "1000000000"
LIMIT_S = 300  # when something hangs
SEED = int(os.environ.get("PLENUM_STOP_SEED") or random.SystemRandom().randrange(2**32))
ROUNDS = int(os.environ.get("PLENUM_STOPS", "2"))  # for each number of instances
MPIRUN = subprocess.run(["mpirun", "--version"], capture_output=True).returncode == 0 if any(
    os.access(os.path.join(p, "mpirun"), os.X_OK) for p in os.environ["PATH"].split(":")) else False
NO_RANK = {name: value for name, value in os.environ.items()
           if not re.match("PLENUM_(?!CACHE|PLENUMD)|OMPI_COMM", name)}


def is_gone(pid):
    """Has this process ended? It may still be a zombie."""
    try:
        return read(f"/proc/{pid}/stat").rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read()


class Job:
    """A running job. Its lines are read one at a time, so that a test can wait for one."""

    def __init__(self, *words, instances=2, options=(), starter="own"):
        self.folder = tempfile.TemporaryDirectory()
        self.result_path = os.path.join(self.folder.name, "result")
        self.errors = open(os.path.join(self.folder.name, "errors"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [PLENUMRUN, "--starter", starter, "--allow-run-as-root", "-n", str(instances), "--result",
             self.result_path, "--loader", "none", *options, STOPPER, *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=NO_RANK)
        self.lines = []

    def wait_for(self, pattern, count=1):
        """Read until `count` lines match; returns the last match."""
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            match = re.search(pattern, line)
            count -= match is not None
            if count == 0:
                return match
        raise AssertionError(f"the job ended before it printed '{pattern}': {self.end()}")

    def wait_for_steps(self, **least):
        """Read until these instances (i0=3: instance 0) have begun these steps. plenumrun then knows that they call
        plenum_job_should_stop()."""
        left = {int(name[1:]): step for name, step in least.items()}
        while left:
            match = self.wait_for(r"instance (\d+) is in step (\d+)$")
            if int(match[2]) >= left.get(int(match[1]), 2**63):
                del left[int(match[1])]

    def send(self, signum):
        self.process.send_signal(signum)

    def end(self):
        """Read the rest of the output; return the exit status."""
        self.process.stdin.close()
        self.lines += [line.rstrip() for line in self.process.stdout]
        status = self.process.wait(LIMIT_S)
        self.process.stdout.close()
        return status

    def said(self):
        self.errors.seek(0)
        return self.errors.read()

    def result(self):
        with open(self.result_path, encoding="utf-8") as file:
            return json.load(file)

    def stops(self):
        """Return {instance: the step before which it has stopped}."""
        found = [re.fullmatch(r"instance (\d+) stops before (\d+)", line) for line in self.lines]
        return {int(m[1]): int(m[2]) for m in found if m}

    def begun(self):
        """Return {instance: its last step}."""
        found = [re.fullmatch(r"instance (\d+) is in step (\d+)", line) for line in self.lines]
        return {int(m[1]): int(m[2]) for m in found if m}

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.errors.close()
        self.folder.cleanup()


class Stop(unittest.TestCase):
    def start(self, *words, **options):
        job = Job(*words, **options)
        self.addCleanup(job.close)
        return job

    def test_progress(self):
        """a job is restarted while its programs reach later steps, and ends if they do not"""
        job = self.start("20", "die=0:5", instances=1,
                         options=["--max-restarts", "9", "--max-restarts-without-progress", "2"])
        self.assertEqual(job.end(), 93, job.said())
        # The first start has made progress, and the others have not.
        self.assertEqual(job.lines.count("instance 0 is in step 5"), 3, job.said())
        self.assertIn("no step was taken for the first time", job.said())
        self.assertNotIn("has no effect", job.said())

    def check_stopped(self, job, instances):
        """Check that all these instances stopped before the same step, and that none has begun that step."""
        status = job.end()
        self.assertEqual(status, 75, job.said())
        stops = job.stops()
        self.assertEqual(set(stops), set(instances), job.said())
        self.assertEqual(len(set(stops.values())), 1, stops)
        step = stops[min(instances)]
        for instance in instances:
            self.assertEqual(job.begun()[instance], step - 1)
        self.assertEqual((job.result()["exit_status"], job.result()["stopped_at_step"]), (75, step))
        self.assertIn(f"have stopped before step {step}, as requested", job.said())
        return step

    def test_random(self):
        """all instances stop at the same step, whenever the signal arrives"""
        draw = random.Random(SEED)
        for instances in range(1, 6):
            for together in [("together",), ()] * ROUNDS:
                signum = draw.choice([signal.SIGTERM, signal.SIGUSR1])
                rank, step = draw.randrange(instances), draw.choice([0, 1, draw.randrange(200)])
                with self.subTest(instances=instances, together=together, signum=signum, rank=rank, step=step,
                                  seed=SEED):
                    job = self.start(FOREVER, *together, instances=instances)
                    job.wait_for_steps(**{f"i{i}": step if i == rank else 0 for i in range(instances)})
                    job.send(signum)
                    self.check_stopped(job, range(instances))

    @unittest.skipUnless(MPIRUN, "no mpirun")
    def test_mpirun(self):
        """instances that mpirun has started stop at the same step"""
        job = self.start(FOREVER, instances=3, starter="mpirun")
        job.wait_for_steps(i0=0, i1=0, i2=20)
        job.send(signal.SIGTERM)
        self.check_stopped(job, range(3))

    def test_finished(self):
        """an instance that has ended does not delay the others"""
        job = self.start(FOREVER, "end=1:3", instances=3)
        job.wait_for_steps(i0=0, i1=2, i2=0)
        if "instance 1 completes" not in job.lines:  # it may have ended before instance 2 began
            job.wait_for("instance 1 completes")
        job.send(signal.SIGUSR1)
        self.check_stopped(job, (0, 2))

    def test_last_step(self):
        """a job that completes its last step instead of stopping has exit status 0"""
        job = self.start("1", "wait=0:0", instances=2)
        job.wait_for_steps(i0=0, i1=0)
        job.send(signal.SIGTERM)
        self.assertEqual(job.end(), 0, job.said())
        self.assertEqual(job.stops(), {})
        self.assertIsNone(job.result()["stopped_at_step"])

    def test_death(self):
        """an instance that fails while the job stops makes the job fail, and does not restart it"""
        job = self.start(FOREVER, "fail=1", instances=3, options=("--max-restarts", "3"))
        job.wait_for_steps(i0=9, i1=0, i2=0)
        job.send(signal.SIGTERM)
        self.assertEqual(job.end(), 4, job.said())
        self.assertIn("instance 1 on host", job.said())
        self.assertNotIn("starts again", job.said())

    def test_death_before(self):
        """an instance that dies before the decided step makes the job fail"""
        job = self.start(FOREVER, "wait=0:0", "die=0:0", instances=3)
        job.wait_for_steps(i0=0, i1=4, i2=0)
        job.send(signal.SIGTERM)
        job.wait_for("instance [12] stops before", count=2)
        self.assertEqual(job.end(), 3, job.said())
        self.assertIn("instance 0 on host", job.said())

    def test_silent(self):
        """an instance that stops asking ends the job after --stop-timeout, and is named"""
        job = self.start(FOREVER, "hang=1:5", instances=2, options=("--stop-timeout", "1", "--grace", "1"))
        job.wait_for_steps(i0=0, i1=5)
        job.send(signal.SIGUSR1)
        self.assertEqual(job.end(), 124, job.said())
        self.assertRegex(job.said(), r"did not stop at the same step within 1.0 s \(--stop-timeout\): .*instance 1 on "
                                     r"host \S+ is at step 5 of \d+")

    def test_one_never_asks(self):
        """an instance that never calls plenum_job_should_stop() ends the job after --stop-timeout, and is named"""
        job = self.start(FOREVER, "never=1", "hang=1:5", instances=2, options=("--stop-timeout", "1", "--grace", "1"))
        job.wait_for_steps(i0=5, i1=0)
        job.send(signal.SIGUSR1)
        self.assertEqual(job.end(), 124, job.said())
        self.assertRegex(job.said(), r"instance 1 on host \S+ has not called plenum_job_should_stop\(\)")

    def test_none_asks(self):
        """a program that never calls plenum_job_should_stop() gets SIGTERM and SIGUSR1"""
        for signum in (signal.SIGTERM, signal.SIGUSR1):
            job = self.start(FOREVER, "never", "hang=0:1", "hang=1:1", instances=2)
            job.wait_for_steps(i0=1, i1=1)
            job.send(signum)
            self.assertEqual(job.end(), 128 + signum, job.said())
            self.assertNotIn("same step", job.said())

    def test_second_signal(self):
        """a second SIGTERM ends programs that do not end by themselves"""
        for first in (signal.SIGTERM, signal.SIGUSR1):
            job = self.start(FOREVER, "linger", instances=2)
            job.wait_for_steps(i0=3, i1=3)
            job.send(first)
            job.wait_for("stops before", count=2)
            job.send(signal.SIGTERM)
            if first == signal.SIGUSR1:  # Slurm sends SIGTERM later: that is the same request
                self.wait_until(lambda: "stopping already" in job.said())
                self.assertIsNone(job.process.poll())
                job.send(signal.SIGTERM)
            self.assertEqual(job.end(), 128 + signal.SIGTERM, job.said())

    def test_between_starts(self):
        """SIGUSR1 ends a job that waits before it starts again, if its programs call plenum_job_should_stop()"""
        job = self.start(FOREVER, "die=0:0", instances=1, options=("--max-restarts", "9"))
        self.wait_until(lambda: "trying again in 4 s" in job.said())
        job.send(signal.SIGUSR1)
        self.assertEqual(job.end(), 128 + signal.SIGUSR1, job.said())
        self.assertIn("the job was ended by SIGUSR1 before it started again", job.said())

    def test_before_questions(self):
        """SIGUSR1 that ends programs before they call plenum_job_should_stop() does not restart them"""
        job = self.start(FOREVER, "never", "hang=0:1", "hang=1:1", options=("--max-restarts", "9"))
        job.wait_for_steps(i0=1, i1=1)
        job.send(signal.SIGUSR1)
        self.assertEqual(job.end(), 128 + signal.SIGUSR1, job.said())
        self.assertNotIn("starts again", job.said())

    def test_while_starting(self):
        """SIGUSR1 is not lost while a job starts"""
        for _ in range(10):
            job = self.start(FOREVER, instances=2, options=("--max-restarts", "9", "--no-host-check"))
            children = f"/proc/{job.process.pid}/task/{job.process.pid}/children"
            while job.process.poll() is None and not read(children):
                pass
            job.send(signal.SIGUSR1)
            self.wait_until(lambda: job.process.poll() is not None or "stopping the programs" in job.said())
            self.assertIn(job.end(), (75, 128 + signal.SIGUSR1), job.said())

    def wait_until(self, holds):
        end = time.monotonic() + LIMIT_S
        while not holds():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def test_command(self):
        """--stop-command stops the job when it ends with status 0, and not before"""
        with tempfile.TemporaryDirectory() as folder:
            flag, count = os.path.join(folder, "flag"), os.path.join(folder, "count")
            job = self.start(FOREVER, options=("--stop-command", f"echo >>{count}; test -e {flag}", "--stop-poll",
                                               "100ms"))
            self.wait_until(lambda: os.path.exists(count) and os.path.getsize(count) >= 3)
            self.assertIsNone(job.process.poll())
            with open(flag, "w", encoding="ascii"):
                pass
            self.check_stopped(job, (0, 1))
            self.assertIn("--stop-command has ended with status 0: stopping", job.said())

    def test_command_without_questions(self):
        """--stop-command ends a program that never calls plenum_job_should_stop() with SIGTERM"""
        job = self.start(FOREVER, "never", "hang=0:1", "hang=1:1", options=("--stop-command", "true"))
        self.assertEqual(job.end(), 128 + signal.SIGTERM, job.said())
        self.assertIn("sending the programs SIGTERM, because none has called plenum_job_should_stop()", job.said())

    def test_bad_command(self):
        """a command that cannot be run is reported once"""
        job = self.start("1", "wait=0:0", options=("--stop-command", "/no/such/program 2>/dev/null", "--stop-poll",
                                                    "100ms"))
        self.wait_until(lambda: "cannot be run" in job.said())
        self.assertEqual(job.end(), 0)
        self.assertEqual(job.said().count("cannot be run"), 1)

    def test_hanging_command(self):
        """a command that does not end is killed with the job"""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "pid")
            job = self.start(FOREVER, options=("--stop-command", f"echo $$ >{path}; sleep 1000"))
            self.wait_until(lambda: os.path.exists(path) and os.path.getsize(path) > 1)
            job.wait_for_steps(i0=0, i1=0)
            job.send(signal.SIGTERM)
            self.check_stopped(job, (0, 1))
            with open(path, encoding="ascii") as file:
                self.assertFalse(os.path.exists(f"/proc/{int(file.read())}"))

    def test_command_leaves_nothing(self):
        """processes that a command has started end with it, and with plenumrun, even if that is killed"""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "pids")
            for then, status in (("false", 75), ("sleep 1000", -signal.SIGKILL)):
                with open(path, "w", encoding="ascii"):
                    pass
                job = self.start(FOREVER, options=("--stop-command", f"sleep 1000 & echo $! >>{path}; {then}",
                                                   "--stop-poll", "100ms"))
                self.wait_until(lambda: len(read(path).split()) >= (2 if then == "false" else 1))
                job.wait_for_steps(i0=0, i1=0)
                job.send(signal.SIGTERM if status == 75 else signal.SIGKILL)
                self.assertEqual(job.end(), status, job.said())
                for pid in read(path).split():
                    self.wait_until(lambda: is_gone(pid))

    def test_signal_to_program(self):
        """SIGUSR1 to one program stops all: batch systems signal all processes"""
        job = self.start(FOREVER, "raise=1:6", instances=3)
        self.check_stopped(job, range(3))
        self.assertIn("a program was sent SIGUSR1: stopping", job.said())

    def test_signal_to_shim(self):
        """SIGUSR1 to a program's parent stops all, too, and does not kill the program"""
        job = self.start(FOREVER, instances=2)
        parent = int(job.wait_for(r"is process \d+ of (\d+)")[1])
        job.wait_for_steps(i0=0, i1=8)
        os.kill(parent, signal.SIGUSR1)
        self.check_stopped(job, range(2))

    def test_children(self):
        """only one process of an instance may call plenum_job_should_stop()"""
        job = self.start("1", "twice", instances=2)
        self.assertEqual(job.end(), 0)
        said = [line for line in job.lines if line.startswith("child: ")]
        self.assertEqual(len(said), 2)
        for line in said:
            self.assertRegex(line, r"child: -16: .* process \d+ of this instance calls it, too")

    # ---- without plenumrun ----

    def alone(self, *words, **environment):
        run = subprocess.run([STOPPER, *words], capture_output=True, text=True, timeout=LIMIT_S,
                             env={**NO_RANK, **environment})
        return run.returncode, run.stdout.splitlines()

    def test_alone(self):
        """a process without plenumrun stops by its own signals"""
        for word in ("raise=0:5", "raised=0:5"):
            status, lines = self.alone(FOREVER, word)
            self.assertEqual((status, lines[-1]), (0, "instance 0 stops before 6"))

    def test_own_handler(self):
        """a program's own handler remains"""
        status, lines = self.alone("9", "own", "raised=0:5")
        self.assertEqual((status, lines[-1]), (0, "instance 0 completes"))

    def test_forked(self):
        """a child that has inherited the job is rejected"""
        status, lines = self.alone("1", "fork")
        self.assertEqual(status, 0)
        self.assertTrue(any(re.match("child: -10: .*open it again after fork", line) for line in lines), lines)

    def test_torchrun(self):
        """several instances of another launcher cannot agree, and get an error"""
        status, lines = self.alone("9", RANK="1", WORLD_SIZE="2", LOCAL_RANK="1", LOCAL_WORLD_SIZE="2")
        self.assertEqual(status, 6)
        self.assertRegex(lines[-1], "error -95: .*2 instances started by torchrun cannot agree on a step: start them")

    def test_lost_page(self):
        """a stop page that cannot be opened is an error: the program could never stop"""
        status, lines = self.alone("9", "own", PLENUM_STOP="/proc/1/fd/99", PLENUM_JOB_ID="x",
                                   PLENUM_NUM_INSTANCES="1", PLENUM_INSTANCE_INDEX="0", PLENUM_NUM_LOCAL_INSTANCES="1",
                                   PLENUM_LOCAL_INSTANCE_INDEX="0", PLENUM_NUM_REPLICAS="1", PLENUM_REPLICA_OFFSET="0",
                                   PLENUM_NUM_LOCAL_REPLICAS="1")
        self.assertEqual(status, 6, lines)
        self.assertRegex(lines[-1], "error -95: .*plenumrun's memory .* cannot be opened")


if __name__ == "__main__":
    tap.main()
