# SPDX-License-Identifier: MIT
"""A progress bar for a training loop, in one instance of the job only."""

import time
import warnings
from typing import Any, Dict, Iterable, Iterator, Optional, TypeVar

from ._lib import caller
from .job import Job, job as this_job

__all__ = ["progress"]

T = TypeVar("T")

_SHOW_EVERY_S = 1.0


def _waited(stats: Any) -> float:
    return float(stats.waited + stats.copy_waited)


def _postfix(before: Any, now: Any) -> Dict[str, str]:
    """Return images per second and the share of waiting time, between two snapshots of a stream's statistics."""
    elapsed = max(now.elapsed - before.elapsed, 1e-9)
    return {"img/s": f"{(now.samples - before.samples) / elapsed:.0f}",
            "waiting": f"{100 * (_waited(now) - _waited(before)) / elapsed:.0f}%"}


def progress(batches: Iterable[T], *, job: Optional[Job] = None, **options: Any) -> Iterator[T]:
    """Iterate over ``batches``, with a tqdm bar in instance 0 and none in the others.

    >>> for batch in pyplenum.progress(stream, desc="training"):  # doctest: +SKIP
    ...     train(batch)

    For a :class:`Stream` or a loader, the bar also shows this instance's images per second and the share of time spent
    waiting for data. ``options`` are passed to tqdm. If tqdm is not installed, there is a warning instead of a bar.
    """
    if (job or this_job()).instance_index != 0:
        yield from batches
        return
    try:
        from tqdm import tqdm
    except ImportError:
        warnings.warn("tqdm is not installed: no progress bar is shown", stacklevel=caller())
        yield from batches
        return
    options = {"unit": "batch", **options}
    with tqdm(batches, **options) as bar:
        shown, before = time.monotonic(), getattr(batches, "stats", None)
        for batch in bar:
            yield batch
            if before is not None and time.monotonic() - shown >= _SHOW_EVERY_S:
                now = getattr(batches, "stats")
                bar.set_postfix(_postfix(before, now), refresh=False)
                shown, before = time.monotonic(), now
