"""Plenum in Python: who this process is in its training job, what all instances do together, and batches.

>>> import pyplenum
>>> job = pyplenum.job()
>>> job.num_instances
1
"""

from ._lib import PlenumError
from .job import Job, job
from .stream import Batch, LoaderWarning, SlotsHeldError, Stats, Stream

__all__ = ["Batch", "Job", "LoaderWarning", "PlenumError", "SlotsHeldError", "Stats", "Stream", "job"]
__version__ = "0.1.0"
