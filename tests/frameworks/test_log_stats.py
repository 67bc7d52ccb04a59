# SPDX-License-Identifier: MIT
"""Tests examples/frameworks/log_stats.py, which writes the loader's statistics for TensorBoard."""

import frameworks

frameworks.need("TensorBoard, with PyTorch,", "numpy", "torch", "tensorboard")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: E402

import tap  # noqa: E402
from frameworks import COUNT, FrameworkCase  # noqa: E402


class LogTest(FrameworkCase):
    def test_example(self):
        """each step has the loader's statistics"""
        folder = self.path("runs")
        self.run_example("log_stats.py", self.photos, folder)
        events = EventAccumulator(folder)
        events.Reload()
        tags = events.Tags()["scalars"]
        self.assertLessEqual({"data/waited", "data/elapsed", "data/samples", "data/ready"}, set(tags))
        self.assertNotIn("data/loader", tags)
        self.assertEqual([event.value for event in events.Scalars("data/samples")], list(range(8, COUNT + 1, 8)))


if __name__ == "__main__":
    tap.main()
