# SPDX-License-Identifier: MIT
"""Tests Keras and TensorFlow with Streams: examples/frameworks/keras_photos.py, and when TensorFlow frees an array."""

import re
import sys

import frameworks

frameworks.need("Keras with TensorFlow", "numpy", "tensorflow", "keras")

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import pyplenum  # noqa: E402
import tap  # noqa: E402
from frameworks import COUNT, FrameworkCase  # noqa: E402

import keras_photos as example  # noqa: E402

IMAGES = tf.TensorSpec((None, 32, 32, 3), tf.uint8)


class KerasTest(FrameworkCase):
    def stream(self, **options):
        return pyplenum.Stream(self.photos, "rrc(32) flip(0.5)", seed=7, micro_batch=8, last="drop", dtype="uint8",
                               **options)

    def images(self, epochs):
        """Return copies of the images of all batches, in order."""
        with self.stream(epochs=epochs) as stream:
            return [batch.images.copy() for batch in stream]

    def test_example(self):
        """the example trains for two epochs, and resumes with the third"""
        file = self.path("run.keras")
        out = self.run_example("keras_photos.py", self.photos, "--epochs", "2", "--save", file)
        self.assertEqual(re.findall(r"Epoch (\d)/2\s+6/6", out), ["1", "2"])
        out = self.run_example("keras_photos.py", self.photos, "--epochs", "3", "--initial-epoch", "2", "--resume",
                               file)
        self.assertEqual(re.findall(r"Epoch (\d)/3\s+6/6", out), ["3"])

    def test_fit(self):
        """fit() gets each epoch once, in order, with its length, starting at initial_epoch"""
        shown, want = [], self.images(4)

        class Shown(keras.Model):
            def __init__(self):
                super().__init__()
                self.weight = self.add_weight()

            def train_step(self, data):
                shown.append(data[0].numpy())
                return {"loss": tf.constant(0.0)}

        with self.stream() as stream:
            for first, epochs in (0, 2), (2, 3), (1, 2):
                shown.clear()
                model = Shown()
                model.compile(run_eagerly=True)
                dataset = example.dataset_of(stream, first)
                self.assertEqual(int(dataset.cardinality()), 6)
                model.fit(dataset, initial_epoch=first, epochs=epochs, shuffle=False, verbose=0)
                self.assertEqual(len(shown), 6 * (epochs - first))
                for got, batch in zip(shown, want[6 * first:]):
                    self.assertTrue(np.array_equal(got, batch))

    def test_early(self):
        """leaving a loop over the data set early skips the rest of its epoch"""
        want = self.images(2)
        with self.stream() as stream:
            dataset = example.dataset_of(stream)
            for images, _ in dataset:
                break
            images, _ = next(iter(dataset))
            self.assertTrue(np.array_equal(images, want[6]))

    def test_arrays(self):
        """tensors that are kept never change: convert_to_tensor() copies; DLPack holds slots until SlotsHeldError"""
        ways = {"convert_to_tensor": tf.convert_to_tensor,
                "DLPack": lambda array: tf.experimental.dlpack.from_dlpack(array.__dlpack__())}
        held = set()
        for name, way in ways.items():
            with self.subTest(name), self.stream() as stream:
                want, kept = [], []
                try:
                    for _ in range(2 * stream.slots):
                        batch = next(stream)
                        want.append(batch.images.copy())
                        kept.append(way(batch.images))
                        del batch
                except pyplenum.SlotsHeldError:
                    held.add(name)
                for one, two in zip(want, kept):
                    self.assertTrue(np.array_equal(one, two.numpy()))
        self.assertEqual(held, {"DLPack"})

    def test_views(self):
        """a generator of views never delivers wrong pixels, but raises an error if tensors are kept

        It may also raise one if none are kept, because TensorFlow releases an array some time after its tensor.
        """
        want = self.images(4)
        for keep in False, True:
            with self.subTest(keep=keep), self.stream(epochs=4) as stream:
                dataset = tf.data.Dataset.from_generator(lambda: (batch.images for batch in stream),
                                                         output_signature=IMAGES)
                kept, error = [], ""
                try:
                    for number, images in enumerate(dataset):
                        self.assertTrue(np.array_equal(images, want[number]))
                        if keep:
                            kept.append(images)
                    self.assertEqual(number + 1, 4 * COUNT // 8)
                except tf.errors.OpError as caught:
                    error = caught.message
                if keep or error:
                    self.assertIn("views of earlier batches hold all", error)
                for images, one in zip(kept, want):
                    self.assertTrue(np.array_equal(images, one))

    def test_interrupt(self):
        """Ctrl-C interrupts fit(), and the next fit() continues with the next epoch"""
        self.assertEqual(self.interrupted(__file__, "--interrupted", self.photos).splitlines()[-1], "epoch 2 is next")


def interrupted(photos):
    class Pausing(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 1:
                frameworks.ready()

    model = keras.Sequential([keras.Input((32, 32, 3), dtype="uint8"), keras.layers.Rescaling(1 / 255),
                              keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(4)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    with pyplenum.Stream(photos, "rrc(32)", micro_batch=8, last="drop", dtype="uint8") as stream:
        dataset = example.dataset_of(stream)
        try:
            model.fit(dataset, epochs=2, shuffle=False, verbose=0, callbacks=[Pausing()])
        except KeyboardInterrupt:
            pass
        model.fit(dataset, epochs=1, shuffle=False, verbose=0)
        print(f"epoch {stream.place.epoch} is next")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        interrupted(sys.argv[2])
    else:
        tap.main()
