# SPDX-License-Identifier: MIT
"""A training program without training, for test_losses.sh: its checkpoint keeps the samples of all steps.

    losses_run.py DATASET CHECKPOINT TRACE PAUSE

It saves a checkpoint every third step, and ends with an epoch once the file "enough" exists. Rank 0 appends a line to
TRACE at its start and after each step: "start" or "step", the time, the generation, and the steps and samples so far.
"""

import json
import os
import sys
import time

import pyplenum

dataset, path, trace, pause = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
job = pyplenum.job()
stream = pyplenum.Stream(dataset, "rrc(16)", seed=5, micro_batch=3, epochs=1000000)
state = {"cursor": stream.cursor.hex(), "hash": 0, "steps": 0, "shown": []}
checkpoint = pyplenum.Checkpoint(path) if job.instance_index == 0 else None
if checkpoint and checkpoint.newest:
    with open(checkpoint.newest, encoding="utf-8") as file:
        state = json.load(file)
state = job.broadcast_object(state)
stream.seek(bytes.fromhex(state["cursor"]))


def note(event):
    if checkpoint:
        with open(trace, "a", encoding="utf-8") as file:
            file.write(f"{event} {time.time():.3f} {os.environ['PLENUM_GENERATION']} {state['steps']} "
                       f"{len(state['shown'])} {job.num_instances}\n")


def save(name=None):
    if checkpoint and name:
        with open(name + ".new", "w", encoding="utf-8") as file:
            json.dump(state, file)
        os.replace(name + ".new", name)
    elif checkpoint:
        with checkpoint.replace() as new, open(new, "w", encoding="utf-8") as file:
            json.dump(state, file)


note("start")
while not job.should_stop(state["steps"]):
    batch = next(stream)
    epoch, valid = int(batch.epochs[0]), batch.valid.reshape(-1)
    positions, samples = batch.positions.reshape(-1)[valid], batch.samples.reshape(-1)[valid]
    mine = [[epoch, int(position), int(sample)] for position, sample in zip(positions, samples)]
    everything = job.allgather_object((batch.hash(), mine, os.path.exists("enough")))
    state["hash"] = (state["hash"] + sum(part[0] for part in everything)) % 2**64
    state["shown"] += [sample for part in everything for sample in part[1]]
    state["cursor"] = stream.cursor.hex()
    state["steps"] += 1
    note("step")
    if everything[0][2] and len(state["shown"]) % stream.num_samples == 0:
        save("result")
        sys.exit()
    time.sleep(pause)
    if state["steps"] % 3 == 0:
        save()
save()
