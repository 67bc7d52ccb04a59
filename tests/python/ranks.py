# SPDX-License-Identifier: MIT
"""Reports the shares of two ranks of a process group without a launcher; started by test_identity.py.

    ranks.py CASE FOLDER      two processes of torch.multiprocessing.spawn
"""

import json
import multiprocessing.process
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing
import torch.utils.data

import pyplenum
import pyplenum.torch
from pyplenum import job as identity

RANKS = 2


def init(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=RANKS)


def loader(folder, **options):
    return pyplenum.torch.Loader(os.path.join(folder, "data"), "rrc(16)", micro_batch=4,
                                 **{"fields": ("samples",), "shuffle": False, **options})


def shown(batches):
    return [int(n) for samples, in batches for n in samples]


def sentence(call, *arguments, **options):
    """Return the message of the error that the call raises."""
    try:
        call(*arguments, **options)
    except (pyplenum.PlenumError, ValueError, TypeError) as error:
        return str(error)
    return "nothing was raised"


def tell_place(told):
    job = pyplenum.job()
    told.update(launcher=job.launcher, place=[job.num_instances, job.instance_index, job.num_local_instances,
                                              job.local_instance_index])
    told["gathered"] = job.allgather_object(job.instance_index)


def adopted(rank, folder, told):
    """Take the rank from the process group."""
    init(rank, folder)
    told["samples"] = shown(loader(folder))
    tell_place(told)


def lightning(rank, folder, told):
    """Set the variables of Lightning's own processes, from which a rank cannot be derived without a group."""
    os.environ.update(WORLD_SIZE=str(RANKS), LOCAL_RANK=str(rank), NODE_RANK="0")
    told["before"] = sentence(loader, folder)
    adopted(rank, folder, told)


def explicit(rank, folder, told):
    """Pass the rank, without a process group."""
    told["samples"] = shown(loader(folder, rank=rank, world_size=RANKS))
    told["all"] = shown(loader(folder, rank=0, world_size=1))
    job = pyplenum.job(rank=rank, world_size=RANKS, local_rank=rank, local_world_size=RANKS)
    told["again"] = shown(loader(folder))
    told["other"] = sentence(pyplenum.job, rank=1 - rank, world_size=RANKS)
    told["early"] = sentence(job.barrier)
    init(rank, folder)
    tell_place(told)


def late(rank, folder, told):
    """Create the process group after the streams were opened."""
    told["spawned"] = sentence(loader, folder), sentence(pyplenum.job)
    multiprocessing.process._parent_process = None  # as if multiprocessing had not started this process
    opened = loader(folder)
    stream = pyplenum.Stream(os.path.join(folder, "data"), "rrc(16)")
    whole = loader(folder, rank=0, world_size=1)
    next(stream)
    init(rank, folder)
    told["loop"] = sentence(lambda: next(iter(opened)))
    told["stream"] = sentence(next, stream)
    told["job"] = sentence(pyplenum.job().barrier)
    told["open"] = sentence(loader, folder)
    told["whole"] = shown(whole)


def contradicted(rank, folder, told):
    """Set a launcher's variables with a different rank."""
    os.environ.update(WORLD_SIZE="1", RANK="0", LOCAL_WORLD_SIZE="1", LOCAL_RANK="0")
    init(rank, folder)
    told["open"] = sentence(loader, folder)
    told["job"] = sentence(pyplenum.job)


def absent(rank, folder, told):
    """Open nothing in rank 1."""
    identity._OTHERS_S = 0.5
    init(rank, folder)
    if rank == 0:
        told["open"] = sentence(loader, folder)
    dist.barrier()


def forked(rank, folder, told):
    """Open the data in a forked child of the rank."""
    adopted(rank, folder, told)
    said = os.path.join(folder, f"child-{rank}")
    child = os.fork()
    if child == 0:
        try:
            with open(said, "w") as file:
                json.dump([sentence(loader, folder), shown(loader(folder, rank=rank, world_size=RANKS)),
                           shown(loader(folder, rank=0, world_size=1))], file)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    with open(said) as file:
        told["child"], told["pid"] = json.load(file), os.getpid()


class Handed(torch.utils.data.IterableDataset):
    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        return iter(self.loader)


class Opened(torch.utils.data.IterableDataset):
    def __init__(self, folder, shares):
        self.folder, self.shares = folder, shares

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        return iter(loader(self.folder, **({"rank": info.id, "world_size": info.num_workers} if self.shares else {})))


def workers(rank, folder, told):
    """Open the data in workers of a DataLoader."""
    def through(dataset, context="fork"):
        batches = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context=context)
        return [int(n) for batch in batches for n in batch[0]]

    told["handed"] = sentence(through, Handed(loader(folder, rank=0, world_size=1)))
    told["spawned"] = sentence(through, Handed(loader(folder, rank=0, world_size=1)), "spawn")
    told["opened"] = sentence(through, Opened(folder, False))
    told["shares"] = through(Opened(folder, True))


def run(rank, case, folder):
    told = {}
    globals()[case](rank, folder, told)
    with open(os.path.join(folder, f"told-{rank}"), "w") as file:
        json.dump(told, file)
    if dist.is_initialized():
        dist.barrier()  # rank 0 must end last, because it has the store
        dist.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(run, (sys.argv[1], sys.argv[2]), nprocs=RANKS)
