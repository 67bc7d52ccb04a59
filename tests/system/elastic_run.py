# SPDX-License-Identifier: MIT
"""A training program without training, for test_elastic.sh: it keeps the samples of all steps in its checkpoint.

    elastic_run.py DATASET CHECKPOINT EPOCHS PAUSE
"""

import json
import os
import sys
import time

import pyplenum

dataset, path, epochs, pause = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
job = pyplenum.job()
stream = pyplenum.Stream(dataset, "rrc(16)", seed=5, micro_batch=3, epochs=epochs)
state = {"cursor": stream.cursor.hex(), "hash": 0, "shown": []}
checkpoint = pyplenum.Checkpoint(path) if job.instance_index == 0 else None
if checkpoint and checkpoint.newest:
    with open(checkpoint.newest, encoding="utf-8") as file:
        state = json.load(file)
state = job.broadcast_object(state)
stream.seek(bytes.fromhex(state["cursor"]))
if checkpoint:
    print(f"start {os.environ['PLENUM_GENERATION']}: {job.num_replicas} replicas, {len(state['shown'])} samples so far",
          flush=True)
steps = 0
for batch in stream:
    epoch, valid = int(batch.epochs[0]), batch.valid.reshape(-1)
    positions, samples = batch.positions.reshape(-1)[valid], batch.samples.reshape(-1)[valid]
    mine = [[epoch, int(position), int(sample)] for position, sample in zip(positions, samples)]
    everything = job.allgather_object((batch.hash(), mine))
    state["hash"] = (state["hash"] + sum(part[0] for part in everything)) % 2**64
    state["shown"] += [sample for part in everything for sample in part[1]]
    state["cursor"] = stream.cursor.hex()
    steps += 1
    time.sleep(pause)
    if checkpoint and steps % 3 == 0:
        with checkpoint.replace() as new, open(new, "w", encoding="utf-8") as file:
            json.dump(state, file)
if checkpoint:
    with open("result.new", "w", encoding="utf-8") as file:
        json.dump(state, file)
    os.replace("result.new", "result")
