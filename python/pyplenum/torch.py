"""Batches as PyTorch tensors: views of the same memory, no copy."""

from typing import Tuple

import torch

from .stream import Batch

__all__ = ["tensors"]


def tensors(batch: Batch) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """``(images, labels, valid)`` of a batch, with steps, replicas and micro-batch as one dimension.

    ``images`` is int8 or uint8 [N, H, W, C] or [N, C, H, W], ``labels`` int64 [N], ``valid`` bool [N]. All are views of
    the ring: the slot is free when the last of them is gone. ``labels`` and ``valid`` must not be written to.
    """
    # torch warns of arrays that are read-only, since it cannot keep anybody from writing: these two are small, and copied.
    return (torch.from_numpy(batch.images), torch.tensor(batch.labels.reshape(-1)),
            torch.tensor(batch.valid.reshape(-1)))
