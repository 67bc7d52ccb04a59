# SPDX-License-Identifier: MIT
"""Tests a Loader in Jupyter: the kernel's interrupt, cells run repeatedly, outputs that are kept, and a restart."""

import os
import queue
import time

import frameworks

frameworks.need("a kernel of Jupyter, with PyTorch,", "numpy", "torch", "ipykernel", "jupyter_client")

from jupyter_client.manager import start_new_kernel  # noqa: E402

import tap  # noqa: E402
from frameworks import COUNT, LIMIT_S, FrameworkCase  # noqa: E402

SETUP = """
import sys, time
sys.path.insert(0, {python!r})
import torch, pyplenum.torch
loader = pyplenum.torch.Loader({photos!r}, "rrc(16)", seed=7, micro_batch=8, fields=("images", "samples"))
"""
LOOP = """
first = []
for images, samples in loader:
    first += samples.tolist()
    print(len(first), flush=True)
    if len(first) == 16:
        time.sleep({limit})
"""


class JupyterTest(FrameworkCase):
    def setUp(self):
        self.manager, self.client = start_new_kernel(kernel_name="python3", startup_timeout=LIMIT_S)
        self.addCleanup(self.manager.shutdown_kernel, now=True)
        self.addCleanup(self.client.stop_channels)
        self.assertEqual(self.cell(SETUP.format(python=os.path.join(frameworks.SOURCE, "python"), photos=self.photos)),
                         ("", None))

    def cell(self, code, interrupt_after=None):
        """Run a cell. Return its output, and the name of the exception that it raised, or None."""
        number, out, error, deadline = self.client.execute(code), "", None, time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            try:
                message = self.client.get_iopub_msg(timeout=1)
            except queue.Empty:
                continue
            if message["parent_header"].get("msg_id") != number:
                continue
            content = message["content"]
            out += content.get("text", "") + content.get("data", {}).get("text/plain", "")
            if message["msg_type"] == "error":
                error = content["ename"]
            if interrupt_after and out.endswith(interrupt_after):
                self.manager.interrupt_kernel()
                interrupt_after = None
            if message["msg_type"] == "status" and content["execution_state"] == "idle":
                return out, error
        raise AssertionError(f"the cell does not end: {out}")

    def test_interrupt(self):
        """the kernel's interrupt ends a loop, and each time the cell runs again, its loop begins the next epoch"""
        for epoch in range(4):
            out, error = self.cell(LOOP.format(limit=LIMIT_S), interrupt_after="16\n")
            self.assertEqual((out.split(), error), (["8", "16"], "KeyboardInterrupt"))
            self.assertEqual(self.cell("print(loader.epoch, loader.stream.place.position)"), (f"{epoch} 16\n", None))
        self.assertEqual(self.cell("print(len({n for _, samples in loader for n in samples.tolist()}))"),
                         (f"{COUNT}\n", None))
        self.assertEqual(self.cell("print(loader.epoch)"), ("5\n", None))

    def test_outputs(self):
        """outputs that IPython keeps hold slots, which causes SlotsHeldError; after %reset, a loop works"""
        errors = [self.cell("next(iter(loader))[0]")[1] for _ in range(8)]
        self.assertIn("SlotsHeldError", errors)
        self.assertEqual(self.cell("%reset -f out\nfor images, samples in loader: pass")[1], None)

    def test_restart(self):
        """restarting the kernel leaves no loader behind"""
        pid = int(self.cell("import os; print(os.getpid())")[0])
        before = loaders_of(self.folder)
        self.assertTrue(before)
        self.manager.restart_kernel(now=True)
        deadline = time.monotonic() + LIMIT_S
        while before & loaders_of(self.folder):
            self.assertLess(time.monotonic(), deadline, f"a loader outlives kernel {pid}")
            time.sleep(0.1)


def loaders_of(folder):
    """Return the processes of plenumd with this cache folder in their environment."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                program = os.path.basename(f.read().split(b"\0")[0])
            with open(f"/proc/{pid}/environ", "rb") as f:
                if program == b"plenumd" and folder.encode() in f.read():
                    found.add(pid)
        except OSError:
            continue
    return found


if __name__ == "__main__":
    tap.main()
