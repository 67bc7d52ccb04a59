# SPDX-License-Identifier: MIT
"""Tests Hugging Face accelerate with Loaders: examples/frameworks/accelerate_photos.py, and accelerate's functions."""

import os
import re
import sys

import frameworks

frameworks.need("accelerate", "numpy", "accelerate")

import accelerate  # noqa: E402
import torch  # noqa: E402

import pyplenum.torch  # noqa: E402
import tap  # noqa: E402
from frameworks import COUNT, FrameworkCase  # noqa: E402


def open_loader(photos, **options):
    return pyplenum.torch.Loader(photos, "rrc(16)", seed=7, micro_batch=8, last="drop", fields=("samples",), **options)


def shown(loop):
    return [n for samples, in loop for n in samples.tolist()]


class AccelerateTest(FrameworkCase):
    def samples_of(self, out):
        return [eval(one) for one in re.findall(r"samples (\[.*\])", out)]

    def test_resume(self):
        """after save_state() in mid-epoch or at an epoch's end, load_state() continues with the right samples"""
        loader = open_loader(self.photos)
        whole = [shown(loader) for _ in range(3)]
        self.check_epochs(sum(whole, []))
        for batches in 1, 6, 8:
            first, second = accelerate.Accelerator(cpu=True), accelerate.Accelerator(cpu=True)
            loader, other = open_loader(self.photos), open_loader(self.photos)
            first.register_for_checkpointing(loader)
            second.register_for_checkpointing(other)
            loops = iter(loader)
            for n in range(batches):
                if n == 6:
                    loops = iter(loader)
                next(loops)
            first.save_state(self.path(str(batches)))
            file = os.path.join(self.path(str(batches)), "custom_checkpoint_0.pkl")
            self.assertEqual(torch.load(file, weights_only=True), loader.state_dict())
            second.load_state(self.path(str(batches)))
            self.assertEqual(other.epoch, batches // 6)
            self.assertEqual(shown(other), whole[batches // 6][8 * (batches % 6):])
            self.assertEqual(shown(other), whole[batches // 6 + 1])

    def test_prepare(self):
        """prepare() returns a Loader unchanged"""
        accelerator, loader = accelerate.Accelerator(cpu=True), open_loader(self.photos)
        self.assertIs(accelerator.prepare(loader), loader)
        self.assertEqual((len(loader), len(loader.dataset)), (6, COUNT))

    def test_example(self):
        """the example, in one process and in two, shows each sample once per epoch, also if it resumes in mid-epoch"""
        os.environ["ACCELERATE_USE_CPU"] = "true"  # without it, torchrun's processes do not join
        for processes, program in (1, ["accelerate", "launch", "--cpu"]), (2, ["torchrun", "--nproc_per_node", "2"]):
            program += [os.path.join(frameworks.EXAMPLES, "accelerate_photos.py"), self.photos]
            whole = self.samples_of(self.run_ok(*program))
            self.assertEqual({len(step) for step in whole}, {8 * processes})
            self.check_epochs(sum(whole, []))
            folder = self.path(str(processes))
            before = self.samples_of(self.run_ok(*program, "--steps", "2", "--save", folder))
            after = self.samples_of(self.run_ok(*program, "--resume", folder))
            self.assertEqual(before + after, whole)

    def test_fork(self):
        """Loaders created in forked processes deliver disjoint shares; one created before the fork raises an error"""
        out = self.run_ok(sys.executable, __file__, "--forked", self.photos, self.path("told"))
        shares = []
        for rank in range(2):
            with open(self.path(f"told-{rank}"), encoding="utf-8") as f:
                one, sentence = eval(f.read())
            shares += one
            self.assertIn("forked from the one that opened the stream", sentence, out)
        self.assertEqual(sorted(shares), list(range(COUNT)))

    def test_interrupt(self):
        """Ctrl-C interrupts the loop, and the next loop delivers the next epoch"""
        self.assertEqual(self.interrupted(__file__, "--interrupted", self.photos).splitlines()[-1],
                         "16 of epoch 0, 48 of epoch 1, epoch 2 is next")


def in_fork(photos, told, early):
    accelerator = accelerate.Accelerator(cpu=True)
    try:
        sentence = str(shown(early))
    except OSError as error:
        sentence = str(error)
    # the rank is passed, because all processes of this launcher inherit their parent's RANK
    mine = open_loader(photos, rank=accelerator.process_index, world_size=accelerator.num_processes)
    with open(f"{told}-{accelerator.process_index}", "w", encoding="utf-8") as f:
        f.write(repr((shown(mine), sentence)))


def forked(photos, told):
    early = pyplenum.torch.Loader(photos, "rrc(16)", rank=0, world_size=1)
    accelerate.debug_launcher(in_fork, (photos, told, early), num_processes=2)


def interrupted(photos):
    loader, first = open_loader(photos), []
    try:
        for number, (samples,) in enumerate(accelerate.Accelerator(cpu=True).prepare(loader)):
            first += samples.tolist()
            if number == 1:
                frameworks.ready()
    except KeyboardInterrupt:
        pass
    print(f"{len(first)} of epoch 0, {len(set(shown(loader)))} of epoch 1, epoch {loader.epoch} is next")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        {"--forked": forked, "--interrupted": interrupted}[sys.argv[1]](*sys.argv[2:])
    else:
        tap.main()
