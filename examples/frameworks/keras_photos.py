#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Keras on TensorFlow: fit() with a tf.data.Dataset. A run can resume at the start of an epoch (--initial-epoch).

    plenumctl make-sample photos
    python3 keras_photos.py photos --epochs 2 --save run.keras
    python3 keras_photos.py photos --epochs 4 --initial-epoch 2 --resume run.keras

TensorFlow uses arrays without a copy and keeps them for longer than a step, so the generator passes copies. tf.data
requests batches ahead of the loop, so the position of a run is fit()'s epoch, not stream.cursor.
"""

import argparse

import keras
import tensorflow as tf

import pyplenum


def dataset_of(stream: pyplenum.Stream, initial_epoch: int = 0) -> tf.data.Dataset:
    """Return a data set that yields one epoch of the stream per iteration."""
    next_epoch = initial_epoch

    def batches():
        nonlocal next_epoch
        stream.seek_to(next_epoch)
        next_epoch += 1
        for _ in range(stream.steps_per_epoch):
            batch = stream.next()
            yield batch.images.copy(), batch.labels.reshape(-1).copy()

    image, label = tf.TensorSpec((None, 32, 32, 3), tf.uint8), tf.TensorSpec((None,), tf.int64)
    dataset = tf.data.Dataset.from_generator(batches, output_signature=(image, label))
    return dataset.apply(tf.data.experimental.assert_cardinality(stream.steps_per_epoch)).prefetch(2)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("dataset")
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--initial-epoch", type=int, default=0)
    p.add_argument("--save", metavar="FILE", help="write the model at the end")
    p.add_argument("--resume", metavar="FILE", help="resume with this model")
    args = p.parse_args()
    keras.utils.set_random_seed(7)
    with pyplenum.Stream(args.dataset, "rrc(32) flip(0.5)", seed=7, micro_batch=8, last="drop",
                         dtype="uint8") as stream:
        if args.resume:
            model = keras.saving.load_model(args.resume)
        else:
            model = keras.Sequential([
                keras.Input((32, 32, 3), dtype="uint8"), keras.layers.Rescaling(1 / 255),
                keras.layers.Conv2D(16, 3, strides=2, activation="relu"), keras.layers.GlobalAveragePooling2D(),
                keras.layers.Dense(stream.num_classes)])
            model.compile(keras.optimizers.SGD(0.02, momentum=0.9),
                          keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(dataset_of(stream, args.initial_epoch), epochs=args.epochs, initial_epoch=args.initial_epoch,
                  shuffle=False, verbose=2)
        if args.save:
            model.save(args.save)


if __name__ == "__main__":
    main()
