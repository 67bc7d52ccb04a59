# SPDX-License-Identifier: MIT
"""Names for checkpoint files that a late process of an earlier start cannot overwrite.

Each start of a run writes to its own file: FILE.1, FILE.2 and so on. It takes the next number by creating
FILE.N.claim, which fails if another process has it already, and resumes from the file with the highest number. So a
process that was frozen or cut off, and that continues long after the job has started again, can only write to a file
that no later start reads. Comparing times or numbers before a rename would not be enough, because time passes between
the two.
"""

import contextlib
import errno
import os
import re
from typing import Dict, Iterator, Optional, Union

from ._lib import PlenumError


class Checkpoint:
    """The checkpoint files of a run, for the one process that writes them.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> checkpoint = Checkpoint(os.path.join(folder.name, "run.pt"))
    >>> checkpoint.newest is None
    True
    >>> with checkpoint.replace() as path, open(path, "w") as file:
    ...     _ = file.write("weights and cursor")
    >>> os.path.basename(checkpoint.newest)
    'run.pt.1'

    Create one in a single process (instance 0) at each start of the program, before it reads a checkpoint.
    ``newest`` is the complete checkpoint to resume from, or None. If all instances write parts of a checkpoint,
    broadcast ``number`` and put it into their names.

    plenumrun's variables ``PLENUM_JOB_ID`` and ``PLENUM_GENERATION`` also show whether a later start of the same job
    has begun: then the constructor and ``replace()`` raise `PlenumError` (``ESTALE``). Other launchers need no
    variables: the numbers are in the order in which processes were started. ``replace()`` also raises it if a later
    start of any job has written a checkpoint, because no start would read this one.

    All starts must see the same folder. Files of earlier starts are removed once this one has written its first.
    """

    def __init__(self, path: Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]):
        name = os.fsdecode(path)
        if not name:
            raise ValueError("the name of the checkpoint is empty")
        self.path = os.path.abspath(name)
        self._job = os.environ.get("PLENUM_JOB_ID", "")
        self._generation = int(os.environ.get("PLENUM_GENERATION") or 0)
        self.number = self._claim()
        self.newest = self._find_newest()

    def _files(self, suffix: str) -> Dict[int, str]:
        """Return the numbers and paths of files FILE.N + suffix."""
        folder, name = os.path.split(self.path)
        form = re.compile(re.escape(name) + r"\.([1-9][0-9]*)" + re.escape(suffix))
        found = ((form.fullmatch(entry), entry) for entry in os.listdir(folder))
        return {int(match.group(1)): os.path.join(folder, entry) for match, entry in found if match}

    def _find_newest(self) -> Optional[str]:
        files = self._files("")
        if files:
            return files[max(files)]
        folder, name = os.path.split(self.path)
        # Not os.path.exists(), for which a broken link does not exist: the run would start from scratch.
        return self.path if name in os.listdir(folder) else None

    def _check_start(self) -> None:
        """Raise an error if a later start of this job has begun. Files that are not its claims are ignored."""
        for path in self._files(".claim").values():
            text = b""
            with contextlib.suppress(FileNotFoundError, IsADirectoryError), open(path, "rb") as file:
                text = file.read(4096)
            job, _, generation = text.partition(b" ")
            if self._job and job == os.fsencode(self._job) and generation.isdigit() \
                    and int(generation) > self._generation:
                raise PlenumError(errno.ESTALE, f"{self.path}: start {int(generation)} of this job has begun, and this "
                                                f"process belongs to start {self._generation}: end it")

    def _check(self) -> None:
        """Raise an error if a later start of this job has begun, or a later start has written this checkpoint."""
        self._check_start()
        newest = max([0, *self._files("")])
        if newest > self.number:
            raise PlenumError(errno.ESTALE, f"{self.path}.{newest} was written by a later start, and this process has "
                                            f"number {self.number}: end it; does another job write to this checkpoint?")

    def _claim(self) -> int:
        """Take the next number, and record which start it belongs to."""
        new = f"{self.path}.claim-{os.getpid()}-{os.urandom(4).hex()}"
        try:
            with open(new, "xb") as file:
                file.write(os.fsencode(f"{self._job} {self._generation}"))
            while True:
                self._check_start()
                number = 1 + max([0, *self._files(".claim"), *self._files("")])
                with contextlib.suppress(FileExistsError):
                    os.link(new, f"{self.path}.{number}.claim")  # atomic, also over NFS
                    return number
        finally:
            with contextlib.suppress(FileNotFoundError):  # it could not be created
                os.unlink(new)

    @contextlib.contextmanager
    def replace(self) -> Iterator[str]:
        """Yield the name of a file to write. When the block ends, the file is on the disk, as the newest checkpoint."""
        new, path = f"{self.path}.{self.number}.new", f"{self.path}.{self.number}"
        try:
            yield new
            with open(new, "rb") as file:
                os.fsync(file.fileno())
            self._check()
            os.replace(new, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(new)
            raise
        folder = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self.newest = path
        for suffix in "", ".new", ".claim":
            for number, earlier in self._files(suffix).items():
                if number < self.number:
                    with contextlib.suppress(OSError):
                        os.unlink(earlier)
