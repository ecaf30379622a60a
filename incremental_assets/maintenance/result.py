"""The options of a maintenance, and its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal, get_args

from incremental_assets.choices import no_such
from incremental_assets.days import DayRange
from incremental_assets.delta.compact import DEFAULT_LIMITS, CompactionLimits
from incremental_assets.errors import DefinitionError
from incremental_assets.ledger.lock import BRIEFLY_SECONDS

MaintenanceStep = Literal["optimize", "vacuum", "checkpoint", "quarantine", "ledger"]
STEPS: tuple[MaintenanceStep, ...] = get_args(MaintenanceStep)


def steps_named(names: Sequence[str]) -> tuple[MaintenanceStep, ...]:
    """The steps of these names, or all. Raises DefinitionError for an unknown name."""
    unknown = sorted(set(names) - set(STEPS))
    if unknown:
        raise DefinitionError(no_such("step of maintenance", unknown[0], STEPS))
    return tuple(step for step in STEPS if not names or step in names)


@dataclass(frozen=True, slots=True)
class MaintenanceOptions:
    """Which steps are done, and of which days files are compacted (None: all).

    With `dry_run` nothing is changed. A table that a load has the lock of is waited for up to
    `lock_seconds`.
    """

    days: DayRange | None = None
    steps: tuple[MaintenanceStep, ...] = STEPS
    dry_run: bool = False
    limits: CompactionLimits = DEFAULT_LIMITS
    lock_seconds: float = BRIEFLY_SECONDS


EVERYTHING = MaintenanceOptions()


@dataclass(frozen=True, slots=True)
class MaintainedTable:
    """What was done to one Delta table of the lake: a table, a side table of one, its quarantine.

    `days` are those whose files were compacted (a table without days has none), `skipped` what was
    left for another time and why. `files` and `bytes` are those of the newest version, before and
    after; `removed` counts files and `freed` their bytes. `checkpoint` is the version of a new
    one. `failed` is which steps were not done, and why.
    """

    name: str
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    version_before: int = 0
    version_after: int = 0
    days: tuple[date, ...] = ()
    skipped: tuple[str, ...] = ()
    removed: int = 0
    freed: int = 0
    checkpoint: int | None = None
    rows_expired: int = 0
    failed: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class MaintenanceResult:
    """What was done to the lake; `ledger_files` are those before and after, None if left out."""

    tables: tuple[MaintainedTable, ...]
    ledger_files: tuple[int, int] | None
    seconds: float

    @property
    def failed(self) -> tuple[str, ...]:
        """What could not be done, in words."""
        return tuple(table.failed for table in self.tables if table.failed)
