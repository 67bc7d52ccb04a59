# SPDX-License-Identifier: MIT
"""Compare the result of losses_run.py with plenumctl: each sample once per epoch, in order, and the same hash.

    losses_check.py PLENUMCTL DATASET
"""

import json
import subprocess
import sys

plenumctl, dataset = sys.argv[1], sys.argv[2]
with open("result", encoding="utf-8") as file:
    state = json.load(file)


def call(*words):
    words = [plenumctl, *words, dataset, "--pipeline", "rrc(16)", "--seed", "5", "--json"]
    return json.loads(subprocess.run(words, capture_output=True, check=True, text=True).stdout)


samples = call("hash", "--epochs", "1")["samples"]
epochs, rest = divmod(len(state["shown"]), samples)
if rest or epochs == 0:
    sys.exit(f"{len(state['shown'])} samples are not whole epochs of {samples}")
order = []
for epoch in range(epochs):
    entries = call("order", "--epoch", str(epoch), "--positions", f"0:{samples}")
    order += [[epoch, entry["position"], entry["sample"]] for entry in entries]
if state["shown"] != order:
    first = next(i for i, pair in enumerate(zip(state["shown"], order)) if pair[0] != pair[1])
    sys.exit(f"the samples differ from {first} on: {state['shown'][first]} instead of {order[first]}")
want = call("hash", "--epochs", str(epochs))["hash"]
if f"{state['hash']:016x}" != want:
    sys.exit(f"hash {state['hash']:016x} instead of {want}")
print(f"{len(order)} samples of {epochs} epochs")
