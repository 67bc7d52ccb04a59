# SPDX-License-Identifier: MIT
"""An instance of a job that changes the weights of its stream while a loader dies: see test_sampling.py.

amending.py FOLDER LOADERS PID: amends the stream at steps 6 and 12, and kills the loader PID in between. Writes what it
has delivered to FOLDER/rank-N.
"""

import errno
import os
import signal
import sys
import warnings

import pyplenum

folder, loaders, victim = sys.argv[1], sys.argv[2], int(sys.argv[3])
job = pyplenum.job()
first = job.instance_index == 0


def refused(stream, code, **weights):
    """Return the message of amend(), which must fail with the error number `code`."""
    try:
        stream.amend(**weights)
    except pyplenum.PlenumError as error:
        assert error.errno == code, error
        return error.strerror
    raise AssertionError(weights)


warnings.simplefilter("ignore", pyplenum.LoaderWarning)
os.chdir(os.path.join(folder, str(job.instance_index % 2)))  # each of the two folders has its own w.npy
try:
    pyplenum.Stream(os.path.join(folder, "red"), "rrc(16)", weights={2: "file:w.npy"}, together=True, loader=loaders)
except pyplenum.PlenumError as error:
    assert error.errno == errno.EINVAL and "plans differ" in error.strerror, error
else:
    raise AssertionError("different weights of samples were accepted")
with open(os.path.join(folder, "plan"), encoding="utf-8") as file:
    plan = file.read()
with pyplenum.Stream(plan, "rrc(16) flip(0.5)", seed=5, micro_batch=4, epochs=2, together=True,
                     loader=loaders) as stream:
    per_step = 4 * job.num_instances
    hashed, said = 0, []
    for step, batch in enumerate(stream):
        hashed += batch.hash()
        if step == 6:
            # The first block boundary that the stream has not reached.
            at = -(-7 * per_step // 16) * 16
            said.append(refused(stream, errno.EBADMSG, at={at: {"red": 1 + first, "blu": 3}}))
            missing = os.path.join(folder, "w.npy") if first else "/nowhere/w.npy"
            said.append(refused(stream, errno.EBADMSG, at={at: {"red": 1, "blu": 3}}, weights={"red": {20: missing}}))
            said.append(refused(stream, errno.EBADMSG, weights={"red": {30: "file:w.npy"}}))
            if first:
                os.kill(victim, signal.SIGKILL)
            stream.amend({at: {"red": 1, "blu": 3}}, weights={"red": {3: f"file:{folder}/w.npy"}})
        if step == 12:
            stream.amend(weights={"blu": {9: f"file:{folder}/v.npy"}})
    dataset = stream._dataset
with open(os.path.join(folder, f"rank-{job.instance_index}"), "w", encoding="utf-8") as file:
    file.write("\n".join([str(hashed % 2**64), *(line.replace("\n", " ") for line in said), dataset]))
