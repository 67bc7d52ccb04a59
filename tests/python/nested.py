# SPDX-License-Identifier: MIT
"""Takes this process's share of samples, and reports the samples or the error; for test_launchers.py.

    nested.py ACTION FOLDER COUNT

It waits for COUNT outcomes in the folder before it ends, so that processes that claim one rank exist at the same time.
"""

import json
import os
import subprocess
import sys
import time

ACTION, FOLDER, COUNT = sys.argv[1], sys.argv[2], int(sys.argv[3])
DEADLINE_S = 120


def outcomes():
    return [name for name in os.listdir(FOLDER) if name.endswith(".json")]


def tell(action, outcome):
    path = os.path.join(FOLDER, f"{os.getpid()}-{action}")
    with open(path, "w") as file:
        json.dump({"action": action, "pid": os.getpid(), **outcome}, file)
    os.rename(path, path + ".json")


def take(action, **options):
    import pyplenum

    try:
        with pyplenum.Stream(os.path.join(FOLDER, "data"), "none", micro_batch=4, epochs=1, **options) as stream:
            tell(action, {"samples": [int(n) for batch in stream for n in batch.samples[batch.valid]]})
    except pyplenum.PlenumError as error:
        tell(action, {"refused": str(error)})


def spawned(rank, action):
    take(action)
    wait()


def by_accelerate():
    from accelerate import debug_launcher

    debug_launcher(spawned, (0, "spawned"), num_processes=2)


def by_lightning():
    """Train with Lightning, which starts the second process unless a launcher has done so."""
    import lightning
    import torch

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def train_dataloader(self):
            take("take")
            return torch.utils.data.DataLoader(torch.zeros(2, 1))

        def training_step(self, batch, _):
            return (self.weight * batch).sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1)

    trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_steps=1, logger=False, barebones=True)
    trainer.fit(Module())


def wait():
    end = time.monotonic() + DEADLINE_S
    while len(outcomes()) < COUNT:
        if time.monotonic() > end:
            sys.exit("the other processes have not reported in time")
        time.sleep(0.02)


def start(action):
    subprocess.run([sys.executable, __file__, action, FOLDER, "0"], check=True)


def main():
    first = os.environ.get("RANK", os.environ.get("SLURM_PROCID")) == "0"
    if ACTION == "before":  # rank 0 starts a program before it takes its own share
        import pyplenum  # noqa: F401
        if first:
            start("child")
    if ACTION in ("accelerate", "lightning"):
        by_accelerate() if ACTION == "accelerate" else by_lightning()
        wait()
        return
    if ACTION == "spawn":
        import multiprocessing

        context = multiprocessing.get_context("spawn")
        processes = [context.Process(target=spawned, args=(rank, "spawned")) for rank in range(2)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        return
    take(ACTION, **({"rank": 0, "world_size": 1} if ACTION == "whole" else {}))
    if ACTION in ("during", "explicit") and first:
        start("child" if ACTION == "during" else "whole")
    if ACTION == "fork" and first:
        child = os.fork()
        if child == 0:
            take("forked")
            os._exit(0)
        os.waitpid(child, 0)
    wait()


if __name__ == "__main__":
    main()
