# SPDX-License-Identifier: MIT
"""Compares the result of elastic_run.py with plenumctl: each sample once per epoch, in order, and the same hash.

    elastic_check.py PLENUMCTL DATASET EPOCHS
"""

import json
import subprocess
import sys

plenumctl, dataset, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open("result", encoding="utf-8") as file:
    state = json.load(file)


def call(*words):
    words = [plenumctl, *words, dataset, "--pipeline", "rrc(16)", "--seed", "5", "--json"]
    return json.loads(subprocess.run(words, capture_output=True, check=True, text=True).stdout)


want = call("hash", "--epochs", str(epochs))
order = []
for epoch in range(epochs):
    samples = call("order", "--epoch", str(epoch), "--positions", f"0:{want['samples'] // epochs}")
    order += [[epoch, entry["position"], entry["sample"]] for entry in samples]
if state["shown"] != order:
    first = next((i for i, pair in enumerate(zip(state["shown"], order)) if pair[0] != pair[1]), "the end")
    sys.exit(f"{len(state['shown'])} samples instead of {len(order)}; they differ from {first} on")
if f"{state['hash']:016x}" != want["hash"]:
    sys.exit(f"hash {state['hash']:016x} instead of {want['hash']}")
