# SPDX-License-Identifier: MIT
"""Print what losses and joins cost a job, from the traces that test_losses.sh keeps.

    losses_table.py TRACE...

A trace has the lines of losses_run.py and, before each fault, a line "fault TIME KIND HOST". "stall" is the time from
the fault to the first step after it; without a restart, it is the longest time between two steps. "lost" counts the
steps that are repeated, because they were newer than the checkpoint.
"""

import statistics
import sys


def read(path):
    with open(path, encoding="utf-8") as file:
        return sorted((float(words[1]), words[0], words[2:]) for words in map(str.split, file))


def follow(events, begin, end):
    """Returns restarts, stall and lost steps between two faults."""
    restarts, lost, last, stall, latest = 0, 0, None, 0.0, 0
    awaited = begin
    for at, event, words in events:
        if at < begin and event != "fault":
            last, latest = at, int(words[1])
        elif event == "start" and begin <= at < end:
            restarts += 1
            lost += latest - int(words[1])
            awaited = begin if restarts == 1 else awaited
        elif event == "step" and begin <= at < end:
            if restarts and last != "moved":
                stall, last = at - awaited, "moved"
            elif not restarts:
                stall, last = max(stall, at - (last or begin)), at
            latest = int(words[1])
    return restarts, stall, lost


rows = {}
for path in sys.argv[1:]:
    events = read(path)
    faults = [(at, words) for at, event, words in events if event == "fault"]
    ends = [at for at, _ in faults[1:]] + [float("inf")]
    for (at, words), end in zip(faults, ends):
        rows.setdefault(words[0], []).append(follow(events, at, end))
rows["all"] = [result for results in rows.values() for result in results]
print(f"{'kind':10} {'faults':>6} {'restarts':>8} {'stall: median':>14} {'90 %':>7} {'max':>7} "
      f"{'steps lost: median':>19} {'max':>4}")
for kind, results in rows.items():
    stalls, lost = sorted(r[1] for r in results), sorted(r[2] for r in results)
    print(f"{kind:10} {len(results):6} {sum(r[0] for r in results):8} {statistics.median(stalls):12.2f} s "
          f"{stalls[int(0.9 * (len(stalls) - 1))]:5.1f} s {stalls[-1]:5.1f} s {statistics.median(lost):19g} "
          f"{lost[-1]:4}")
