# SPDX-License-Identifier: MIT
"""docs/popdist.md: the code of every row is run exactly as printed there."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = os.environ["top_builddir"]
SOURCE = os.environ["top_srcdir"]
sys.path[:0] = [os.path.join(SOURCE, "tests", "python"), os.path.join(SOURCE, "tests", "e2e")]

import jobs  # noqa: E402
import tap  # noqa: E402

tap.require("numpy", programs=["mpirun"])
torch = tap.find("torch")


def code_of(cell):
    return re.findall(r"`([^`]*)`", cell)


def tables():
    """Return {heading of the first column: [(code in the first cell or its text, code in the second or None)]}"""
    found, name = {}, None
    for line in open(os.path.join(SOURCE, "docs", "popdist.md"), encoding="utf-8"):
        if not line.startswith("|"):
            name = None
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]
        if name is None:
            name = cells[0]
            found[name] = []
        elif not cells[0].startswith("---"):
            code = code_of(cells[1])
            assert len(code) <= 1, f"more than one piece of code in a row: {line}"
            found[name].append((cells[0], code[0] if code else None))
    return found


def setUpModule():
    global T
    T = tempfile.mkdtemp(prefix="plenum-test-")
    jobs.set_up(T)
    jobs.make_sample(os.path.join(T, "data"), "--images", "4", "--size", "64")


def tearDownModule():
    shutil.rmtree(T)


PLENUMRUN = os.path.join(BUILD, "plenumrun")


def plenumrun(*words):
    done = subprocess.run([PLENUMRUN, *words], capture_output=True, text=True, timeout=300, cwd=T)
    if done.returncode:
        raise AssertionError(f"{words}: status {done.returncode}: {done.stderr}")
    return done.stdout


def dry(*words):
    return json.loads(plenumrun("--dry-run", "--print-topology=json", *words, "true"))


def echo(*words, n=2):
    """Return a variable's value in each instance, sorted."""
    return sorted(plenumrun("-n", str(n), *words[:-1], "sh", "-c",
                            f"echo $PLENUM_INSTANCE_INDEX {words[-1]}").split("\n"))


class PopRunTest(unittest.TestCase):
    def test_options(self):
        """the replacement of every PopRun option works"""
        rows = tables()["PopRun"]
        for name, code in rows:
            with self.subTest(name):
                options = code_of(name)
                check = getattr(self, "check_" + options[-1].lstrip("-").replace("-", "_").replace("*", ""))
                check(*([shlex.split(code)] if code else [options]))
        self.assertEqual(len(rows), len([m for m in dir(self) if m.startswith("check_")]), "every check needs a row")

    def check_host(self, words):
        self.assertEqual([h["name"] for h in dry(*words)["hosts"]], ["h0", "h1", "h4"])

    def check_hostfile(self, words):
        path = os.path.join(T, "hosts")
        with open(path, "w") as file:
            file.write("a slots=2\n# not this\nb\n")
        plan = dry(*[path if word == "FILE" else word for word in words])
        self.assertEqual([(h["name"], h["num_instances"]) for h in plan["hosts"]], [("a", 2), ("b", 1)])

    def check_num_instances(self, words):
        self.assertEqual(dry(*words)["num_instances"], 3)

    def check_num_replicas(self, words):
        plan = dry("-n", "3", *words)
        self.assertEqual([(i["replica_offset"], i["num_local_replicas"]) for i in plan["instances"]],
                         [(0, 2), (2, 2), (4, 2)])

    def check_ipus_per_replica(self, words):
        self.assertEqual(dry(*words)["devices_per_replica"], 2)
        self.assertEqual(echo(*words, "$PLENUM_DEVICES_PER_REPLICA")[1:], ["0 2", "1 2"])

    def check_numa_aware(self, words):
        self.assertEqual(dry(*words)["process_placement"], "disabled")

    def check_process_placement(self, words):
        self.assertEqual(dry(*words)["process_placement"], "compact")

    def check_print_topology(self, words):
        out = plenumrun(*words, "echo", "the program ran")
        self.assertIn("Instance  Host", out)
        self.assertLess(out.index("Instance  Host"), out.index("the program ran"))

    def check_only_output_from_instance(self, words):
        self.assertEqual(echo(*words, "x"), ["", "1 x"])

    def check_host_subnet(self, words):
        self.assertEqual(echo(*words, "x")[1:], ["0 x", "1 x"])

    def check_mpi_global_args(self, words):
        self.assertEqual(echo(*words, "$GLOBAL")[1:], ["0 1", "1 1"])

    def check_mpi_local_args(self, words):
        self.assertEqual(echo(*words, "$LOCAL")[1:], ["0 1", "1 1"])

    def check_instance_mpi_local_args(self, words):
        self.assertEqual(echo(*words, "${ONE:-no}")[1:], ["0 no", "1 1"])

    def config(self):
        return os.path.join(T, "run.conf")

    def check_export_config(self, words):
        plenumrun(*[self.config() if word == "FILE" else word for word in words], "--num-instances", "2")
        self.assertIn("num-instances = 2", open(self.config()).read())

    def check_import_config(self, words):
        with open(self.config() + "2", "w") as file:
            file.write("num-instances = 3\nnum-replicas = 6\n")
        plan = dry(*[self.config() + "2" if word == "FILE" else word for word in words])
        self.assertEqual((plan["num_instances"], plan["num_replicas"]), (3, 6))

    def check_overwrite_config(self, words):
        with open(self.config(), "w") as file:
            file.write("x")
        with self.assertRaises(AssertionError):
            plenumrun("--export-config", self.config(), "--num-instances", "4")
        plenumrun("--export-config", self.config(), "--num-instances", "4", *words)
        self.assertIn("num-instances = 4", open(self.config()).read())

    def check_offline_mode(self, words):
        self.assertNotIn("the program ran", plenumrun(*words, "echo", "the program ran"))

    def check_executable_cache_path(self, words):
        self.assertEqual(echo(*words, "$CACHE_DIR")[1:], ["0 /tmp", "1 /tmp"])

    def check_verbose(self, words):
        done = subprocess.run([PLENUMRUN, *words, "true"], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0)
        self.assertNotEqual(done.stderr, "")

    def check_version_format(self, words):
        self.assertIn("plenum", json.dumps(json.loads(plenumrun(*words))).lower())

    def check_help(self, words):
        self.assertIn("--num-replicas", plenumrun(*words))

    def check_version(self, words):
        self.assertRegex(plenumrun(*words), r"\d+\.\d+")

    def check_remove_partition(self, names):
        """Check that the message names the rejected option."""
        for option in [name.replace("*", "partition") for name in names]:
            done = subprocess.run([PLENUMRUN, option, "x", "true"], capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 2)
            self.assertIn(option, done.stderr)


PROGRAM = """
import json, os, sys
import numpy as np
import pyplenum
try:
    import torch
    import pyplenum.torch
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
except ImportError:
    torch = None
job = pyplenum.job()
data = sys.argv[1]
x = np.full(3, float(job.instance_index))
y = np.arange(4) + float(job.instance_index)
o = {"from": job.instance_index}
f = lambda: "f was called"
prepared = []
prepare = lambda: prepared.append(1)
results = {}
for row in json.loads(sys.argv[2]):
    if "DistributedDataParallel" in row:
        torch.distributed.init_process_group("gloo")
    x[:] = job.instance_index
    value = eval(row)
    results[row] = value.tolist() if isinstance(value, np.ndarray) else value if isinstance(
        value, (int, str, bool, dict, list, type(None))) else type(value).__name__
    del value
if torch is not None and torch.distributed.is_initialized():
    torch.distributed.destroy_process_group()
print(json.dumps([job.instance_index, len(prepared), results]), flush=True)
"""

# The results of each row's code in instances 0 and 1. Instance 0 has two replicas, instance 1 has one; each replica has
# two devices. "..." accepts any result except an error.
WANT = {
    'job.launcher != "none"': (True, True),
    "pyplenum.job()": ("Job", "Job"),
    "job.num_replicas": (3, 3),
    "job.num_local_replicas": (2, 1),
    "job.replica_offset": (0, 2),
    "job.num_instances": (2, 2),
    "job.instance_index": (0, 1),
    "job.local_instance_index": (0, 1),
    "job.num_local_instances": (2, 2),
    "job.devices_per_replica": (2, 2),
    "job.devices_per_replica == 2": (True, True),
    'os.environ["CUDA_VISIBLE_DEVICES"]': ("0,1,2,3", "4,5"),
    "job.barrier()": (None, None),
    "f() if job.instance_index in {0} else None": ("f was called", None),
    'pyplenum.torch.Loader(data, "eval", micro_batch=4)': ("Loader", "Loader"),
    'pyplenum.Stream(data, "eval", micro_batch=4)': ("Stream", "Stream"),
    "job.broadcast(x, 0)": ([0.0] * 3, [0.0] * 3),
    'job.allreduce(x, "mean")': ([0.5] * 3, [0.5] * 3),
    'job.reduce_scatter(y, "mean")': ([0.5, 1.5], [2.5, 3.5]),
    "job.alltoall(y)": ([0.0, 1.0, 1.0, 2.0], [2.0, 3.0, 3.0, 4.0]),
    "job.allgather(x)": ([[0.0] * 3, [1.0] * 3],) * 2,
    "job.broadcast_object(o, 0)": ({"from": 0}, {"from": 0}),
    "job.allgather_object(o)": ([{"from": 0}, {"from": 1}],) * 2,
    "pyplenum.torch.broadcast_parameters(model, 0)": (None, None),
    "pyplenum.torch.broadcast_optimizer_state(optimizer, 0)": (None, None),
    "torch.nn.parallel.DistributedDataParallel(model)": ("DistributedDataParallel",) * 2,
    "job.broadcast_seed()": ...,
    "job.replica_seed(4711)": ...,
    "pyplenum.torch.check_same(model)": (None, None),
    "job.once_per_host(prepare)": (None, None),
}


class CallsTest(unittest.TestCase):
    def test_calls(self):
        """the replacement of every PopDist and Horovod call gives the right result in both instances"""
        found = tables()
        rows = [code for name in ("PopDist", "Horovod", "by hand") for _, code in found[name] if code]
        self.assertEqual(set(rows), set(WANT), "every row must be checked, and nothing else")
        if torch is None:
            rows = [row for row in rows if "torch" not in row]
        out = jobs.run([PLENUMRUN, "-n", "2", "--num-replicas", "3", "--allow-uneven", "--devices-per-replica", "2",
                        "--device-env", "cuda=0,1,2,3,4,5", sys.executable, "-c", PROGRAM, os.path.join(T, "data"),
                        json.dumps(rows)])
        instances = sorted(json.loads(line) for line in out.splitlines())
        self.assertEqual([i[0] for i in instances], [0, 1])
        self.assertEqual([i[1] for i in instances], [1, 0], "one instance of the host has prepared")
        for row in rows:
            got = tuple(i[2][row] for i in instances)
            if WANT[row] is not ...:
                self.assertEqual(got, WANT[row], row)
        seeds = [i[2]["job.broadcast_seed()"] for i in instances]
        self.assertEqual(seeds[0], seeds[1])
        self.assertNotEqual(seeds[0], 0)
        self.assertNotEqual(*[i[2]["job.replica_seed(4711)"] for i in instances])


tap.main()
