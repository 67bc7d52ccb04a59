# SPDX-License-Identifier: MIT
"""Plenum in Python: this process's rank in its training job, collectives, and batches.

>>> import pyplenum
>>> job = pyplenum.job()
>>> job.num_instances
1

:mod:`pyplenum.torch` is for PyTorch: batches as tensors, a loader with ``state_dict()``, broadcasting a model.
"""

from ._lib import PlenumError
from .checkpoint import Checkpoint
from .job import Job, job
from .mix import Mix
from .normalise import normalise
from .progress import progress
from .stream import Batch, Boxes, Instances, Keypoints, LoaderWarning, Place, SlotsHeldError, Stats, Stream

__all__ = ["Batch", "Boxes", "Checkpoint", "Instances", "Job", "Keypoints", "LoaderWarning", "Mix", "Place",
           "PlenumError", "SlotsHeldError", "Stats", "Stream", "job", "normalise", "progress"]
__version__ = "0.1.0"
