# SPDX-License-Identifier: MIT
"""Tests Lightning with Loaders: the module of examples/frameworks/lightning_photos.py, and how it uses a Loader."""

import logging
import os
import sys
import warnings

import frameworks

frameworks.need("Lightning", "numpy", "lightning")

import lightning  # noqa: E402
import torch  # noqa: E402
from lightning.pytorch.callbacks import ModelCheckpoint  # noqa: E402

import tap  # noqa: E402
from frameworks import COUNT, FrameworkCase  # noqa: E402

import lightning_photos as example  # noqa: E402

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.simplefilter("ignore")
BATCHES = COUNT // 8
STILL = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}


class Shown(example.Classifier):
    """The example's module, which records its samples: a list for each epoch."""

    def __init__(self, file=None):
        super().__init__(classes=4)
        self.epochs, self.file = [], file

    def on_train_epoch_start(self):
        self.epochs.append([])

    def training_step(self, batch, number):
        self.epochs = self.epochs or [[]]  # on_train_epoch_start() is not called for a resumed epoch
        self.epochs[-1] += batch[2].tolist()
        return super().training_step(batch, number)

    def on_train_end(self):
        if self.file:
            with open(f"{self.file}-{self.global_rank}", "w", encoding="utf-8") as f:
                f.write(repr(self.epochs))

    @property
    def samples(self):
        return sum(self.epochs, [])


def trainer(**options):
    return lightning.Trainer(**{"max_epochs": 3, "devices": 1, "enable_checkpointing": False, **STILL, **options})


class LightningTest(FrameworkCase):
    def fit(self, ckpt_path=None, **options):
        one, model = trainer(**options), Shown()
        one.fit(model, datamodule=example.Photos(self.photos), ckpt_path=ckpt_path)
        return one, model

    def test_epochs(self):
        """each epoch has every sample once, Lightning knows the number of batches, and the rest of an epoch that
        Lightning ends early is skipped"""
        one, model = self.fit()
        self.assertEqual((one.num_training_batches, one.num_val_batches), (BATCHES, [BATCHES]))
        self.assertEqual(len(model.epochs), 3)
        self.check_epochs(model.samples)
        some = self.fit(limit_train_batches=2)[1]
        self.assertEqual(some.epochs, [epoch[:16] for epoch in model.epochs])

    def test_resume(self):
        """a run resumed from a checkpoint of mid-epoch or an epoch's end shows the samples of an uninterrupted run, as
        does a run that reloads its Loaders in every epoch"""
        whole = self.fit()[1]
        self.assertEqual(self.fit(reload_dataloaders_every_n_epochs=1)[1].epochs, whole.epochs)
        keep = ModelCheckpoint(self.path("kept"), "{step}", every_n_train_steps=1, save_top_k=-1)
        ends = ModelCheckpoint(self.path("ends"), "{epoch}", save_top_k=-1)
        self.fit(enable_checkpointing=True, callbacks=[keep, ends], val_check_interval=3)
        for step, options in (1, {}), (5, {}), (6, {}), (8, {}), (9, {"val_check_interval": 3}), (12, {}):
            with self.subTest(step=step, **options):
                file = os.path.join(self.path("kept"), f"step={step}.ckpt")
                self.assertEqual(self.fit(file, **options)[1].samples, whole.samples[8 * step:])
        for epoch in 0, 1:
            with self.subTest(epoch=epoch):
                file = os.path.join(self.path("ends"), f"epoch={epoch}.ckpt")
                self.assertEqual(self.fit(file)[1].epochs, whole.epochs[epoch + 1:])

    def test_max_steps(self):
        """a run that max_steps ended in mid-epoch resumes with the rest of that epoch, which Lightning counts as an
        epoch of its own"""
        whole = self.fit()[1].samples
        one, model = self.fit(max_steps=8)
        self.assertEqual(model.samples, whole[:64])
        one.save_checkpoint(self.path("ckpt"))
        self.assertEqual(self.fit(self.path("ckpt"), max_epochs=4)[1].samples, whole[64:])

    def test_weights_only(self):
        """torch.load() with weights_only accepts a checkpoint, which has the Loader's position"""
        one, _ = self.fit(max_steps=8)
        one.save_checkpoint(self.path("ckpt"))
        state = torch.load(self.path("ckpt"), weights_only=True)
        self.assertEqual(set(state["Photos"]["loader"]), {"version", "cursor", "dtype", "made with"})
        self.assertEqual(state["loops"]["fit_loop"]["state_dict"]["combined_loader"], [state["Photos"]["loader"]])

    def check_two(self, start):
        shares = []
        start(self.path("told"))
        for rank in range(2):
            with open(self.path(f"told-{rank}"), encoding="utf-8") as f:
                shares.append(eval(f.read()))
        self.assertEqual([len(share) for share in shares], [2, 2])
        for one, two in zip(*shares):
            self.assertEqual(len(one), len(two))
            self.assertEqual(sorted(one + two), list(range(COUNT)))

    def test_two_processes(self):
        """two processes get disjoint shares of all samples, whether started as programs, spawned, or forked"""
        for strategy in "ddp", "ddp_spawn", "ddp_notebook":
            with self.subTest(strategy):
                self.check_two(lambda told: self.run_ok(sys.executable, __file__, "--two", strategy, self.photos, told))

    def test_made_too_early(self):
        """the error about a Loader created before its process was started says where to create it"""
        for strategy, words in (("ddp_notebook", "forked from the one that opened the stream"),
                                ("ddp_spawn", "create it in the process that uses its batches")):
            with self.subTest(strategy):
                self.assertIn(words, self.run_ok(sys.executable, __file__, "--early", strategy, self.photos))

    def test_interrupt(self):
        """Ctrl-C ends Lightning's loop, and the next fit() continues with the Loader's next epoch"""
        out = self.interrupted(__file__, "--interrupted", self.photos)
        self.assertEqual(out.splitlines()[-1], "16 of epoch 0, 48 of epoch 1, epoch 2 is next")

    def test_example(self):
        """the example ends in mid-epoch and resumes from its checkpoint"""
        file = self.path("run.ckpt")
        self.run_example("lightning_photos.py", self.photos, "--steps", "5", "--save", file)
        self.assertEqual(torch.load(file, weights_only=True)["global_step"], 5)
        self.run_example("lightning_photos.py", self.photos, "--resume", file)


def two(strategy, photos, told):
    trainer(max_epochs=2, devices=2, strategy=strategy).fit(Shown(told), datamodule=example.Photos(photos))


def early(strategy, photos):
    loader = example.Photos(photos).train_dataloader()
    try:
        trainer(devices=2, strategy=strategy).fit(Shown(), loader)
    except Exception as error:
        print(error)


def interrupted(photos):
    class Pausing(Shown):
        def training_step(self, batch, number):
            found = super().training_step(batch, number)
            if number == 1:
                frameworks.ready()
            return found

    loader, first, second = example.Photos(photos).train_dataloader(), Pausing(), Shown()
    try:
        trainer().fit(first, loader)
    except (KeyboardInterrupt, SystemExit):
        pass
    trainer(max_epochs=1).fit(second, loader)
    assert not set(first.samples) & set(range(COUNT)) - set(second.samples)
    print(f"{len(first.samples)} of epoch 0, {len(set(second.samples))} of epoch 1, epoch {loader.epoch} is next")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        {"--two": two, "--early": early, "--interrupted": interrupted}[sys.argv[1]](*sys.argv[2:])
    else:
        tap.main()
