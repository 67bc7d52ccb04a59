# SPDX-License-Identifier: MIT
"""Makes command lines of PyTorch's launcher for tests."""

import functools
import os
import subprocess
import sys
import tempfile
import unittest

from ports import free_port


@functools.cache
def why_not():
    """Return why torchrun cannot start even a trivial program, or None if it can. (Debian's torch 2.6 cannot: it always
    requests libuv for its store, but was built without it.)"""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "nothing.py")
        with open(path, "w") as f:
            f.write("pass\n")
        try:
            p = subprocess.run(words(1, folder) + [path], capture_output=True, text=True, timeout=300)
        except subprocess.TimeoutExpired:
            return "torchrun does not end"
    return None if p.returncode == 0 else "torchrun starts nothing: " + (p.stderr.strip().splitlines() or ["?"])[-1]


def command(processes, folder):
    """Return the command prefix that starts `processes` processes of a program, with logs below `folder`. Skip the
    test if torchrun does not work here."""
    why = why_not()
    if why:
        raise unittest.SkipTest(why)
    return words(processes, folder)


def words(processes, folder):
    port = free_port()  # --standalone always uses the same port, so that two at once fail
    # Standard output goes through files and is labelled by process: torch 1.13 supports nothing else with Python 3.11.
    return [sys.executable, "-m", "torch.distributed.run", "--master_addr", "127.0.0.1", "--master_port", str(port),
            "--nproc_per_node", str(processes), "--redirects", "1", "--tee", "1", "--log_dir",
            tempfile.mkdtemp(dir=folder)]
