# SPDX-License-Identifier: MIT
"""Tests torchft with examples/frameworks/torchft_photos.py: when replica groups are killed and restarted, the committed
steps show each sample exactly once."""

import logging
import os
import sys

import frameworks

os.environ["RUST_LOG"] = "error"
frameworks.need("torchft", "numpy", "torch", "torchft")

import torch  # noqa: E402
from torchft.coordination import LighthouseServer  # noqa: E402

import elastic  # noqa: E402
import tap  # noqa: E402
from frameworks import FrameworkCase  # noqa: E402

import torchft_photos as example  # noqa: E402

logging.disable(logging.WARNING)


def group(photos, lighthouse, name):
    """Return a group's body: the example's main(), which waits for permission before each step."""
    def body(tell, may_go):
        store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
        os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="localhost", MASTER_PORT=str(store.port),
                          TORCHFT_LIGHTHOUSE=lighthouse, REPLICA_GROUP_ID=str(name))

        class Manager(example.Manager):
            def __init__(self, *words, state_dict, **options):
                super().__init__(*words, state_dict=state_dict, **options)
                self.weights = state_dict

            def start_quorum(self):
                numbers = [t.double().sum().item() for t in self.weights()[0].values()]
                data = self.data.committed
                order = may_go(epoch=data["epoch"], tag=data["tag"], weights=repr(numbers))
                if order is None:
                    raise SystemExit(0)
                if order == "x":
                    data["tag"] ^= 1 << 40  # as if this group had committed another step
                super().start_quorum()

        class Data(example.Data):
            def __init__(self, manager, stream):
                super().__init__(manager, stream)
                manager.data = self

            def next(self):
                batch = super().next()
                tell("take", position=int(batch.positions.min()) - self.share[0]
                     * elastic.MICRO_BATCH, rank=self.share[0], size=self.share[1], **elastic.report(batch))
                return batch

            def commit(self):
                super().commit()
                tell("commit", tag=self.committed["tag"])

        example.Manager, example.Data = Manager, Data
        example.EPOCHS, example.MICRO_BATCH = 1 << 60, elastic.MICRO_BATCH
        sys.argv = ["torchft_photos.py", photos]
        example.main()
    return body


class TorchftTest(FrameworkCase):
    def setUp(self):
        def make():
            server = LighthouseServer(bind="[::]:0", min_replicas=1, join_timeout_ms=60000, heartbeat_timeout_ms=10000)
            return server.address(), server

        self.lighthouse, end = elastic.serve(make, self.path("lighthouse"))
        self.addCleanup(end)
        self.job = elastic.Run(self.path("log"))
        self.addCleanup(lambda: self.job.kill(*self.job.ranks))
        self.begin(0, 1, 2)

    def begin(self, *names):
        for name in names:
            self.job.start(name, group(self.photos, self.lighthouse, name))

    def until_taken(self, name):
        """Wait until this group is within a step of three groups."""
        self.job.until(lambda rank, line: line["kind"] == "take" and rank.name == name and line["size"] == 3)

    def until_healed(self, name):
        """Wait until this group has committed a step of three groups."""
        self.job.until(lambda rank, line: line["kind"] == "commit" and rank.name == name and rank.key[2] == 3)

    def check(self):
        """End the run, and check that each sample was shown once, in order, and that all have the same weights."""
        ranks = list(self.job.ranks.values())
        self.job.finish()
        self.assertEqual(len({(rank.line["tag"], rank.line["weights"]) for rank in ranks}), 1)
        shown, total, sizes = self.job.lineage()
        order, whole = elastic.expected(self.photos, self.job.last_epoch)
        self.assertEqual((shown, total), (order, whole["hash"]))
        self.assertEqual(len(order), whole["samples"])
        return sizes

    def test_killed_in_a_step(self):
        """if a group is killed within a step, the others divide the step, and the group heals when it is restarted"""
        self.until_healed(1)
        self.until_taken(1)
        self.job.kill(1)
        self.job.until_size(2)
        self.begin(1)
        self.until_healed(1)
        self.assertEqual({2, 3}, set(self.check()) & {2, 3})

    def test_killed_between_steps(self):
        """a group that is killed between two steps and restarted at once loses and repeats no sample"""
        self.until_healed(2)
        self.job.hold(2)
        self.job.until(lambda rank, line: line["kind"] == "ready" and rank.name == 2)
        self.job.kill(2)
        self.job.hold()
        self.begin(2)
        self.until_healed(2)
        self.check()

    def test_first_step(self):
        """if a group is killed within its first step, no sample is lost or repeated"""
        self.job.until(lambda rank, line: line["kind"] == "take" and rank.name == 1)
        self.job.kill(1)
        self.job.until_size(2)
        self.check()

    def test_two_at_once(self):
        """if two of three groups are killed at once, they heal from the third, and no sample is lost or repeated"""
        self.until_healed(0)
        self.until_taken(1)
        self.job.kill(0, 1)
        self.job.until_size(1)
        self.begin(0, 1)
        self.until_healed(0)
        self.check()

    def test_other_history(self):
        """a group that has taken other steps than the majority ends without changing the others, and then heals"""
        self.until_healed(0)
        self.job.orders[1] = "x"
        _, line = self.job.until(lambda rank, line: line["kind"] == "end" and rank.name == 1 or line["kind"] == "end")
        self.assertEqual(line["code"], 1)
        self.begin(1)
        self.until_healed(1)
        with open(self.job.log, encoding="utf-8") as file:
            self.assertEqual(file.read().count("other steps than the majority"), 1)
        self.check()


if __name__ == "__main__":
    tap.main()
