"""One load: claim, read, gate, write, record, in this order only. Knows nothing of Dagster.

Days of a table are claimed before they are read: a load that publishes what this one looks up must
see the claim. A loader's target, which has no days, is claimed at its first write:
what is new is known by reading, and a load that finds nothing leaves no trace. The claim is refused
if another run claimed a batch meanwhile, so what was read is what is loaded.

Reading may stage files already, where the gate judges what was written: landed files, gold by day
and merged gold. No reader sees staged files, and those of days that the gate holds are removed.
Before it a table is changed in nothing but columns that are added or widened, and the base that
snapshots are compared with, which saves reading. Rows are published here alone, after the gate, and
are durable in this order: the claim, quarantine, side tables and the snapshot of a source, the
commit, the record. A load that dies between any two of them is settled by the next one: the commit
has the outcome, or a fence makes it impossible.

The lock, the settling of what an earlier load left and the comparison of ledger and table surround
this, for both kinds of load: in `lakehouse.py`, and in `engine/target_load.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.errors import IncrementalAssetsError
from incremental_assets.frames import Frames
from incremental_assets.spark.failure import SPARK_ERRORS

R = TypeVar("R")  # what is read
G = TypeVar("G")  # the gate's verdict
O = TypeVar("O")  # the outcome  # noqa: E741
REPAIR = "Nothing was loaded; repair or remove the file, and run again."
"""What to do about a file that is not what it should be."""


class Steps(ABC, Generic[R, G, O]):
    """The steps of one batch, of a table's days or of a target."""

    claims_before_read: ClassVar[bool]

    @abstractmethod
    def frames(self) -> Frames:
        """The batch's own session, and the frames that it caches."""

    @abstractmethod
    def claim(self) -> None:
        """Write the next number to the ledger. Raises ConflictError if another run did."""

    @abstractmethod
    def read(self, frames: Frames) -> R | None:
        """The rows of the batch; None where nothing is new."""

    @abstractmethod
    def gate(self, frames: Frames, read: R) -> G | None:
        """Judge the rows; None where none of them is new."""

    @abstractmethod
    def quarantine(self, frames: Frames, read: R, judged: G) -> None:
        """Put the rows that break a rule into quarantine."""

    @abstractmethod
    def stage(self, frames: Frames, read: R, judged: G) -> StagedWrite | None:
        """Write the files that will be committed; None where nothing will be."""

    @abstractmethod
    def commit(self, read: R, judged: G, write: StagedWrite | None) -> O:
        """One Delta commit: files, number and token; and the outcome that it makes."""

    @abstractmethod
    def record(self, outcome: O) -> O:
        """Write the outcome to the ledger."""

    @abstractmethod
    def number(self) -> int:
        """The number that the claim gave."""

    @abstractmethod
    def explained(self, error: Exception) -> IncrementalAssetsError:
        """The error to raise for a failure of Spark."""


def load(steps: Steps[R, G, O]) -> O | None:
    """Load one batch; None where nothing is new.

    Raises an IncrementalAssetsError if it could not be done; nothing is then half-written.
    """
    try:
        with steps.frames() as frames:
            if steps.claims_before_read:
                steps.claim()
            read = steps.read(frames)
            judged = steps.gate(frames, read) if read is not None else None
            if read is None or judged is None:
                return None
            if not steps.claims_before_read:
                steps.claim()
            steps.quarantine(frames, read, judged)
            write = steps.stage(frames, read, judged)
            for side in write.side if write is not None else ():
                side.put(steps.number())
            outcome = steps.commit(read, judged, write)
        return steps.record(outcome)
    except SPARK_ERRORS as error:
        raise steps.explained(error) from error
