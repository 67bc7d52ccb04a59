# SPDX-License-Identifier: MIT
"""Tests joint work of several instances, such as collectives; started by test_world.py under a launcher.

    world.py all FOLDER HASH        every collective; functions of pyplenum.torch only if there is torch
    world.py refused FOLDER HASH    collectives before torch.distributed can carry them
    world.py late FOLDER HASH       a collective in which the last instance takes no part
"""

import glob
import importlib.machinery
import io
import os
import sys
import tarfile
import time
import types

import numpy as np

import pyplenum

try:
    import torch
except ImportError:
    torch = None

job = pyplenum.job()
me, count = job.instance_index, job.num_instances
last = count - 1


def expect(condition, what):
    if not condition:
        raise AssertionError(f"instance {me}: {what}")


def say(word):
    """Write a word for test_world.py to count. It goes to a file, because mpirun sometimes loses the last output."""
    with open(os.path.join(sys.argv[2], f"said-{me}"), "a") as f:
        f.write(word + "\n")


def raises(number, pattern, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except pyplenum.PlenumError as error:
        expect(error.errno == number and pattern in str(error), f"wanted {number} '{pattern}', got {error!r}")
        return
    expect(False, f"nothing was raised instead of '{pattern}'")


def check_arrays():
    for dtype in ("int8", "uint16", "float16", "complex128", "bool", "int64"):
        for size in (0, 1, 7, 100003):
            want = (np.arange(size) % 2 + last).astype(dtype)
            x = want.copy() if me == last else np.zeros(size, dtype)
            expect(job.broadcast(x, root=last) is x, "broadcast must return its argument")
            expect((x == want).all(), f"broadcast of {size} {dtype}")
    for dtype in ("int32", "int64", "float32", "float64", "float16"):
        for op, want in (("sum", count * (count + 1) // 2), ("min", 1), ("max", count),
                         ("mean", (count + 1) // 2 if dtype.startswith("int") else (count + 1) / 2)):
            x = np.full((3, 5), me + 1, dtype)
            job.allreduce(x, op)
            expect((x == want).all(), f"{op} of {dtype}: {x[0, 0]}")
    x = job.allgather(np.full((2, 3), me, np.uint8))
    expect(x.shape == (count, 2, 3) and (x == np.arange(count).reshape(-1, 1, 1)).all(), "allgather")
    check_parts()
    read_only = np.zeros(3)
    read_only.flags.writeable = False
    try:
        job.broadcast(read_only)
        expect(False, "a read-only array was accepted")
    except ValueError as error:
        expect("read-only" in str(error), error)


def check_parts():
    for size in (1, 1000):  # sent with the header, and separately
        x = np.arange(count * 2 * size, dtype=np.float32).reshape(count * 2, size)
        parts = np.split(x, count)
        got = job.reduce_scatter(x * (me + 1))
        expect((got == parts[me] * (count * (count + 1) // 2)).all(), "reduce_scatter")
        got = job.alltoall(x + 7 * me)
        expect((got == np.concatenate([parts[me] + 7 * i for i in range(count)])).all(), "alltoall")
    try:
        job.alltoall(np.zeros(count + 1 if count > 1 else ()))
        expect(False, "an array was divided that cannot be")
    except ValueError as error:
        expect("must be divisible by the number of instances" in str(error), error)


def check_objects():
    thing = {"instance": me, "list": [1, None, "x"]}
    expect(job.broadcast_object(thing, root=last)["instance"] == last, "broadcast_object")
    expect([x["instance"] for x in job.allgather_object(thing)] == list(range(count)), "allgather_object")
    expect(job.broadcast_object(None) is None, "None must arrive as None")
    seed = job.broadcast_seed()
    expect(seed != 0 and len(set(job.allgather_object(seed))) == 1, "all must get one seed, not 0")
    expect(job.broadcast_seed(4711 if me == 0 else None) == 4711, "the given seed must be returned")
    expect(len(set(job.allgather_object(job.replica_seed(seed)))) == count, "the seeds of replicas must differ")
    expect(job.replica_seed(seed, 5) == job.broadcast_object(job.replica_seed(seed, 5)), "all must agree on it")


def check_mismatch():
    """Check that instances that make different calls get an error, and that later calls work."""
    x = np.full(1000, me, "float32" if me == last else "int32")
    raises(5, "all must make the same calls", job.broadcast, x)
    expect((x == me).all(), "a rejected call must not change the array")
    raises(5, "all must make the same calls", *((job.barrier,) if me == last else (job.allgather, x[:0])))
    for size in (1, 1000):  # sent with the header, and separately
        for who in range(count):
            x = np.array([[np.nan, me] if me == who else [1.0, me]] * size)
            job.allreduce(x, "max")
            expect(np.isnan(x[:, 0]).all() and (x[:, 1] == last).all(), "NaN in one instance must be NaN in all")


def check_same():
    x = np.arange(100000, dtype=np.float32)
    job.same(x)
    if me == last:
        x.view(np.uint8)[12345] ^= 4
    raises(74, f"instance {last} holds different bytes from the other", job.same, x)


def check_once_per_host(folder):
    path = os.path.join(folder, "prepared")

    def prepare():
        expect(not os.path.exists(path), "only one instance may prepare")
        time.sleep(0.2)  # long enough for the others to arrive first
        open(path, "w").close()

    job.once_per_host(prepare)
    expect(os.path.exists(path), "no instance may continue before the preparation ends")

    def fail():
        raise OSError(28, "the disk is full")

    try:
        job.once_per_host(fail)
        expect(False, "a failure must be reported to all")
    except OSError as error:
        expect(error.errno == 28 and "the disk is full" in str(error), error)
        expect(isinstance(error, pyplenum.PlenumError) != (job.local_instance_index == 0),
               "the original exception must be raised where it occurred")


def model_of(seed):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Linear(4, 2).half())
    return model.to(memory_format=torch.channels_last)


def check_models():
    import pyplenum.torch as pt

    model = model_of(seed=me)
    raises(74, "0.weight: instance", pt.check_same, model)
    pt.broadcast_parameters(model, root=last)
    pt.check_same(model)
    want = model_of(seed=last).state_dict()
    for name, value in model.state_dict().items():
        expect(torch.equal(value, want[name]), name)
    expect(model[0].weight.is_contiguous(memory_format=torch.channels_last), "the memory format must not change")
    pt.broadcast_parameters(list(model.named_parameters()))
    if me == last:
        with torch.no_grad():
            model[1].bias[3] += 1e-6
    raises(74, f"1.bias: instance {last} holds different bytes from the other", pt.check_same, model)
    other = torch.nn.Linear(2, 2 + (me == last))
    raises(74, f"the models differ in names, shapes or types: instance {last}", pt.broadcast_parameters, other)

    model = model_of(seed=0).float()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * (me + 1), momentum=0.9)
    if me == 0:  # only this one has read the checkpoint
        for p in model.parameters():
            p.grad = torch.ones_like(p)
        optimizer.step()
    pt.broadcast_parameters(model)
    pt.broadcast_optimizer_state(optimizer)
    for p in model.parameters():
        p.grad = torch.full_like(p, 0.5)
    optimizer.step()
    pt.check_same(model)
    expect(optimizer.param_groups[0]["lr"] == 0.1, "the optimizer's options must be sent, too")

    x = torch.full((4,), float(me))
    expect(job.allreduce(x) is x and x[0] == count * (count - 1) / 2, "tensors must be summed in place")
    x = torch.full((3,), float(me)).bfloat16()
    expect(job.broadcast(x, root=last)[0] == last, "any type must be sent")
    expect(torch.equal(job.allgather(torch.tensor([me])), torch.arange(count).reshape(-1, 1)), "must be a tensor")


def check_stream(folder):
    """Check that the shares of all instances make up the whole, and that one of them shows a progress bar."""
    class Bar:
        def __init__(self, iterable, **options):
            self.iterable = iterable
            say("bar")

        def __enter__(self):
            return self

        def __exit__(self, *exc):
            pass

        def __iter__(self):
            return iter(self.iterable)

    tqdm = types.ModuleType("tqdm")
    tqdm.__spec__ = importlib.machinery.ModuleSpec("tqdm", None)  # PyTorch checks whether it can be imported
    tqdm.tqdm = Bar
    sys.modules["tqdm"] = tqdm
    with pyplenum.Stream(os.path.join(folder, "data"), "rrc(16)", micro_batch=4, epochs=2) as s:
        total = np.zeros(2, np.int64)
        for b in pyplenum.progress(s):
            total += np.array([b.hash(), b.num_valid], np.uint64).astype(np.int64)
        job.allreduce(total)
        expect(total[1] == 2 * s.num_samples, "every sample must count once per epoch")
    expect(total[0] == np.array(int(sys.argv[3], 16), np.uint64).astype(np.int64), "the hashes must add up")


def check_together(folder):
    """Check that streams are opened together in all instances or in none, and that parts of archives are disjoint."""
    data = os.path.join(folder, "data")
    with pyplenum.Stream(data, "rrc(16)", micro_batch=4, epochs=1, together=True) as s:
        total = np.array([sum(b.num_valid for b in s)])
        expect(job.allreduce(total)[0] == s.num_samples, "every sample counts once")
    raises(22, "seed", pyplenum.Stream, data, "rrc(16)", seed=me, together=True)
    raises(2, "nowhere", pyplenum.Stream, data if me == 0 else os.path.join(folder, "nowhere"), "rrc(16)",
           together=True)
    if me == 0:
        samples = sorted(os.path.join(where, name) for where, _, names in os.walk(data, followlinks=True)
                         for name in names)
        for k in range(2 * count):
            with tarfile.open(os.path.join(folder, f"a-{k:02}.tar"), "w") as archive:
                for i, path in enumerate(samples[k::2 * count]):
                    archive.add(path, f"{k}-{i}.jpg")
                    label = tarfile.TarInfo(f"{k}-{i}.cls")
                    label.size = 1
                    archive.addfile(label, io.BytesIO(b"%d" % (i % 2)))
    job.barrier()
    with pyplenum.Stream(f"tar:{folder}/a-{{00..{2 * count - 1:02}}}.tar", "rrc(16)", micro_batch=4, epochs=2,
                         split="file") as s:
        names = [name for b in s for name in s.names(b.samples[b.valid])]
    parts = job.allgather_object(names)
    expect(all(len(part) == 2 * len(set(part)) for part in parts), "each sample of a part must occur once per epoch")
    expect(len(set(sum(parts, []))) == 56, "all parts together must be the whole")
    try:
        pyplenum.Stream(data, "rrc(16)", job=2, together=True)
        expect(False, "an invalid job was accepted")
    except ValueError as error:
        expect("whole job" in str(error), error)


def main():
    what = sys.argv[1]
    if what == "refused":
        raises(95, "torch.distributed", job.barrier)
        return
    if job.launcher == "torchrun":
        torch.distributed.init_process_group("gloo")
    if what == "late":
        job.barrier()
        job.set_timeout(2)
        if me != last:
            raises(110, f"instance {last} has not arrived", job.barrier)
            raises(131, "an earlier collective timed out", job.barrier)
            say("timed out")
        # A launcher may end the others when one exits, so all stay until the others have reported.
        while len(glob.glob(os.path.join(sys.argv[2], "said-*"))) < count - 1:
            time.sleep(0.02)
        os._exit(0)
    check_arrays()
    check_objects()
    check_mismatch()
    check_same()
    check_once_per_host(sys.argv[2])
    check_stream(sys.argv[2])
    check_together(sys.argv[2])
    if torch is not None:
        check_models()
    job.barrier()
    say("done")
    if job.launcher == "torchrun":
        torch.distributed.destroy_process_group()


main()
