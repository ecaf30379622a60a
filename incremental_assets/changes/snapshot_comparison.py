"""How a snapshot is compared with the one before it, and how much of it may be deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from incremental_assets import plurals
from incremental_assets.quality.judge import RuleResult
from incremental_assets.quality.rule import Severity

DELETED_SHARE = "deleted_share"


@dataclass(frozen=True, slots=True)
class SnapshotComparison:
    """What a table of snapshots has to know to compare them.

    `key` are the columns that identify a row, `ignore` those whose change is none, and
    `max_deleted_share` (0 to 1) how much of what was there a snapshot may delete. With `scope`, a
    snapshot is the part of the table with the values of these columns that its rows have.
    """

    key: tuple[str, ...]
    ignore: tuple[str, ...]
    scope: tuple[str, ...]
    max_deleted_share: float

    def checks(self) -> Mapping[str, tuple[str, Severity]]:
        """The check of the deletes, by its name: its description and its severity."""
        most = f"{self.max_deleted_share:.0%} of the rows before it"
        return {DELETED_SHARE: (f"A snapshot deletes at most {most}.", "fail")}

    def judged(self, rows: int, before: int, deleted: int) -> RuleResult:
        """Whether a snapshot of so many rows deletes no more of those before than it may."""
        share = deleted / before if before else 0.0
        passed = share <= self.max_deleted_share
        of = f"{deleted:,} of {plurals.counted(before, 'row')} ({share:.1%})"
        found = f"the snapshot deletes {of}"
        if not passed and not rows:
            found = (
                f"the snapshot has no row, and {before:,} were there: deliver it whole, or take "
                "its file away; if it is accepted, nothing changes"
            )
        elif not passed:
            found = (
                f"the snapshot would delete {of}, and at most {self.max_deleted_share:.1%} may be "
                "deleted at once: check whether it is complete, and accept the day if it is"
            )
        most = self.max_deleted_share
        return RuleResult(DELETED_SHARE, "fail", passed, found, share, most, before)
