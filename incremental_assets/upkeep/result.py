"""What is asked of a maintenance, and what it tells that it did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal, get_args

from incremental_assets.days import DayRange
from incremental_assets.delta.compact import DEFAULT_LIMITS, Limits
from incremental_assets.errors import DefinitionError
from incremental_assets.ledger.lock import BRIEFLY_SECONDS

Step = Literal["optimize", "vacuum", "checkpoint", "quarantine", "ledger"]
STEPS: tuple[Step, ...] = get_args(Step)


def steps_named(names: Sequence[str]) -> tuple[Step, ...]:
    """The steps of these names, or all. Raises DefinitionError for one that there is not."""
    unknown = sorted(set(names) - set(STEPS))
    if unknown:
        raise DefinitionError(
            f"There is no step {unknown[0]!r} of maintenance; the steps are {', '.join(STEPS)}."
        )
    return tuple(step for step in STEPS if not names or step in names)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be done: which steps, small files of which days (None: all), or only told."""

    days: DayRange | None = None
    steps: tuple[Step, ...] = STEPS
    dry_run: bool = False
    limits: Limits = DEFAULT_LIMITS
    patience: float = BRIEFLY_SECONDS


EVERYTHING = Asked()


@dataclass(frozen=True, slots=True)
class Kept:
    """What was done to one Delta table of the lake: a table, what lies beside it, its quarantine.

    `days` are those whose files were joined (a table without days has none), `skipped` what was
    left for another time and why. `files` and `bytes` are those of the newest version, before and
    after; `removed` counts files and `freed` their bytes. `checkpoint` is the version of a new
    one. `failed` says why the rest was not done.
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
class Upkeep:
    """What was done to the lake; `ledger_files` are those before and after, None if not asked."""

    places: tuple[Kept, ...]
    ledger_files: tuple[int, int] | None
    seconds: float

    @property
    def failed(self) -> tuple[str, ...]:
        """What could not be done, in words."""
        return tuple(kept.failed for kept in self.places if kept.failed)
