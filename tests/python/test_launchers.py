# SPDX-License-Identifier: MIT
"""Tests which samples processes take if one launcher runs inside another, or if a rank starts programs (nested.py).

The law: no sample is seen twice by processes that consider themselves one job, unless one of them is rejected; and if
none is rejected, they see each sample. tests/libdist/test_launchers.c covers other combinations of variables.
"""

import glob
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ["top_srcdir"]
sys.path.append(os.path.join(SOURCE, "tests", "e2e"))

import jobs  # noqa: E402
import tap  # noqa: E402
import torchrun  # noqa: E402

tap.require("numpy")
torch = tap.find("torch")

HERE = os.path.dirname(os.path.abspath(__file__))
NESTED = os.path.join(HERE, "nested.py")
SAMPLES = list(range(21))
needs_mpirun = unittest.skipIf(shutil.which("mpirun") is None, "mpirun is not installed")
needs_torch = unittest.skipIf(torch is None, "PyTorch is not installed for this Python")


def python_with(*modules):
    """Return a Python with these modules and NumPy: this one, or one of "make check-frameworks"; otherwise None."""
    here = os.environ.get("PLENUM_FRAMEWORKS", "")
    for python in [sys.executable, *(sorted(glob.glob(os.path.join(here, "*", "bin", "python3"))) if here else ())]:
        if subprocess.run([python, "-c", f"import numpy, {', '.join(modules)}"], capture_output=True).returncode == 0:
            return python
    return None


CHILD = ("which started this one, is instance 0 of 2", "rank=0, world_size=1")
TWICE = ("is already instance 0 of 2 of this job", "rank=0, world_size=1")
NO_FIT = ("do not fit", "one launcher was started within another", "rank=0, world_size=1")


def setUpModule():
    global T, OWN
    T = tempfile.mkdtemp(prefix="plenum-test-")
    jobs.set_up(T)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name, None)
    os.environ["OMP_NUM_THREADS"] = "1"
    jobs.make_sample(os.path.join(T, "data"), "--classes", "3", "--images", "7", "--size", "64")
    OWN = jobs.without_mpirun(T)


def tearDownModule():
    shutil.rmtree(T)


def plenumrun(n):
    return [os.path.join(jobs.BUILD, "plenumrun"), "-n", str(n)]


def mpirun(n):
    old = "(Open MPI) 4." in subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout
    daemons = ["--mca", "oob_tcp_if_include", "lo"] if old else []
    return ["mpirun", "--oversubscribe", *daemons, "--bind-to", "none", "-n", str(n)]


def by_torchrun(n):
    return [*torchrun.command(n, T), "--no_python"]


def each_by_torchrun():
    """Return a command that runs a separate torchrun of one process in each of two ranks."""
    first, second = (shlex.join(by_torchrun(1)) for _ in range(2))
    return ["sh", "-c", f'if [ "${{RANK:-$OMPI_COMM_WORLD_RANK}}" = 0 ]; then {first} "$@"; else {second} "$@"; fi',
            "sh"]


def srun(task, tasks):
    """Return the variables of a Slurm step."""
    return {"SLURM_STEP_NUM_TASKS": str(tasks), "SLURM_PROCID": str(task), "SLURM_LOCALID": str(task),
            "SLURM_NODEID": "0", "SLURM_STEP_TASKS_PER_NODE": str(tasks), "SLURM_JOB_ID": str(os.getpid()),
            "SLURM_STEP_ID": "0"}


def by_hand(rank, world, master=True):
    return {"RANK": str(rank), "WORLD_SIZE": str(world),
            **({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(os.getpid())} if master else {})}


class LaunchersTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        if bool(os.environ.get("PLENUM_TEST_SRUN")) != (self._testMethodName == "test_srun"):
            self.skipTest("tests/system/test_slurm.sh runs test_srun, and no other, in an allocation")

    def outcomes(self, commands, env=None):
        """Run commands concurrently. The word FOLDER in them is replaced by nested.py's folder."""
        folder = tempfile.mkdtemp(dir=T)
        os.symlink(os.path.join(T, "data"), os.path.join(folder, "data"))
        base = dict(os.environ) if env is None else env
        running = [subprocess.Popen([word.replace("FOLDER", folder) for word in words], env={**base, **variables},
                                    stderr=subprocess.PIPE, text=True, stdout=subprocess.DEVNULL)
                   for words, variables in commands]
        self.said = ""
        try:
            for process in running:
                self.said += process.communicate(timeout=300)[1]
        finally:
            for process in running:
                process.kill()
        result = []
        for name in sorted(os.listdir(folder)):
            if name.endswith(".json"):
                with open(os.path.join(folder, name)) as file:
                    result.append(json.load(file))
        return result

    def cell(self, launcher, count, action="take", env=None, refused=0, why=(), rounds=1, commands=None, whole=0,
             python=sys.executable):
        """Check that of `count` processes, `refused` are rejected and `whole` report that they take all samples."""
        program = [python, NESTED, action, "FOLDER", str(count)]
        found = self.outcomes(commands or [(launcher + program, {})], env)
        self.assertEqual(len(found), count * rounds, self.said)
        seen = sorted(n for one in found if one["action"] != "whole" for n in one.get("samples", ()))
        self.assertEqual(len(set(seen)) * rounds, len(seen), "a sample is seen twice")
        texts = [one["refused"] for one in found if "refused" in one]
        self.assertEqual(len(texts), refused, texts)
        for text in texts:
            for words in why:
                self.assertIn(words, text)
        if not refused:
            self.assertEqual(seen, sorted(SAMPLES * rounds))
        alone = [one["samples"] for one in found if one["action"] == "whole"]
        self.assertEqual(sorted(n for one in alone for n in one), sorted(SAMPLES * whole))
        return found

    def test_plenumrun(self):
        """plenumrun's instances get shares, also with its own starter, wrappers, and programs in turn"""
        self.cell(plenumrun(2), 2, env=OWN)
        self.cell(plenumrun(2) + ["sh", "-c", '"$@"; true', "sh", "nice", "env", "A=1"], 2, env=OWN)
        program = shlex.join([sys.executable, NESTED, "take", "FOLDER", "2"])
        self.cell(None, 2, rounds=2, commands=[(plenumrun(2) + ["sh", "-c", f"{program} && {program}"], {})], env=OWN)

    @needs_mpirun
    def test_mpirun(self):
        """mpirun's instances get shares; mpirun inside plenumrun's only instance is rejected"""
        self.cell(mpirun(2), 2)
        inner = [shutil.which("mpirun"), *mpirun(2)[1:]]
        self.cell(plenumrun(1) + inner, 2, env=OWN, refused=2, why=NO_FIT + ("PLENUM_NUM_INSTANCES=1",))

    @needs_torch
    def test_torchrun(self):
        """torchrun's ranks take precedence in plenumrun's only instance; in two separate instances they are rejected"""
        self.cell(plenumrun(1) + by_torchrun(2), 2, env=OWN)
        self.cell(plenumrun(2) + each_by_torchrun(), 2, env=OWN, refused=2, why=NO_FIT + ("PLENUM_NUM_INSTANCES=2",))

    @needs_torch
    @needs_mpirun
    def test_torchrun_and_mpirun(self):
        """torchrun inside mpirun and mpirun inside torchrun are rejected"""
        self.cell(mpirun(2) + each_by_torchrun(), 2, refused=2, why=NO_FIT)
        self.cell(by_torchrun(1) + mpirun(2), 2, refused=2, why=NO_FIT)

    def test_accelerate(self):
        """processes of accelerate's launchers get shares, alone and inside plenumrun's only instance"""
        python = python_with("accelerate")
        if not python:
            self.skipTest("accelerate is not installed for this Python: make check-frameworks installs it")
        self.cell([], 2, "accelerate", python=python)
        self.cell(plenumrun(1), 2, "accelerate", env=OWN, python=python)
        if shutil.which("mpirun"):
            hosts = os.path.join(T, "hosts")
            with open(hosts, "w") as file:
                file.write("localhost slots=2\n")
            launch = [python, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2", "--num_machines",
                      "1", "--mixed_precision", "no", "--dynamo_backend", "no", "--mpirun_hostfile", hosts]
            program = [NESTED, "take", "FOLDER", "2"]
            self.cell(None, 2, commands=[(launch + program, {})])

    def test_lightning(self):
        """Lightning's processes get shares"""
        python = python_with("lightning")
        if not python:
            self.skipTest("Lightning is not installed for this Python: make check-frameworks installs it")
        self.cell([], 2, "lightning", python=python)

    def test_srun(self):
        """tasks of a real srun, and plenumrun in a step, get shares; a task's child and srun in plenumrun do not"""
        srun = ["srun", "--overlap", "-N", "1"]
        self.cell([*srun, "-n", "2"], 2)
        self.cell([*srun, "-n", "2"], 3, "during", refused=1, why=CHILD)
        self.cell([*srun, "-n", "1", *plenumrun(2)], 2, env=OWN)
        self.cell(plenumrun(1) + [*srun, "-n", "2"], 2, env=OWN, refused=2, why=NO_FIT)

    def test_children(self):
        """a program that rank 0 starts, before or while it takes samples, and a process that it forks are rejected"""
        for action in ("before", "during"):
            with self.subTest(action):
                found = self.cell(plenumrun(2), 3, action, env=OWN, refused=1, why=CHILD)
                self.assertIn("refused", [one for one in found if one["action"] == "child"][0])
        found = self.cell(plenumrun(2), 3, "fork", env=OWN, refused=1, why=("from which this one was forked",))
        self.cell(plenumrun(2), 3, "explicit", env=OWN, whole=1)

    def test_one_instance(self):
        """a program started by a job's only instance sees all samples, like the instance itself"""
        found = self.outcomes([(plenumrun(1) + [sys.executable, NESTED, "during", "FOLDER", "2"], {})], OWN)
        self.assertEqual([sorted(one["samples"]) for one in found], [SAMPLES, SAMPLES], self.said)

    def test_by_hand(self):
        """with variables set by hand, ranks get shares; a rank's child, or a second process of one rank, is rejected"""
        for name, first, second, actions in (("torchrun", by_hand(0, 2), by_hand(1, 2), ("before",)),
                                             ("srun", srun(0, 2), srun(1, 2), ("during",)),
                                             ("no name", by_hand(0, 2, False), by_hand(1, 2, False), ("before",))):
            with self.subTest(name):
                for action, count, refused in (("take", 2, 0), *((each, 3, 1) for each in actions)):
                    words = [sys.executable, NESTED, action, "FOLDER", str(count)]
                    self.cell(None, count, action, refused=refused, why=CHILD,
                              commands=[(words, first), (words, second)])
                if name != "no name":
                    words = [sys.executable, NESTED, "take", "FOLDER", "2"]
                    self.cell(None, 2, refused=1, why=TWICE, commands=[(words, first), (words, first)])

    def test_spawned(self):
        """processes that multiprocessing spawns without a rank are rejected, alone and inside an instance"""
        why = ("multiprocessing has started this process", "rank=0, world_size=1")
        self.cell([], 2, "spawn", refused=2, why=why)
        self.cell(plenumrun(1), 2, "spawn", env=OWN, refused=2, why=why)
        self.cell(None, 2, "spawn", refused=1, why=TWICE,
                  commands=[([sys.executable, NESTED, "spawn", "FOLDER", "2"], by_hand(0, 2))])

    def test_job_in_job(self):
        """plenumrun warns when a process of a different job starts it"""
        for rank, size in (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
                           ("PMI_RANK", "PMI_SIZE")):
            done = subprocess.run(plenumrun(2) + ["true"], env={**OWN, rank: "1", size: "2"}, capture_output=True,
                                  text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"{rank}=1 and {size}=2: plenumrun was started by a process of another job", done.stderr)


tap.main()
