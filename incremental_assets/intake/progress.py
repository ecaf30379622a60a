"""How far a sequence was read: as the ledger keeps it, and the step that a load may take."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame

from incremental_assets.changes.by_sequence import Progress, Sequence, Step, step
from incremental_assets.errors import SourceError
from incremental_assets.intake.islands import islands


def progress_from(state: Mapping[str, Any], high: int | None) -> Progress:
    """The progress in a detector's state; `high` where the state names no number of its own."""
    gaps = tuple((low, top) for low, top in state.get("gaps", ()))
    since = state.get("waiting_since")
    waiting = datetime.fromisoformat(since) if since else None
    return Progress(state.get("top", high), gaps, waiting)


def state_of_progress(progress: Progress, watermark: int | None) -> dict[str, Any]:
    """The same for the ledger; what is not said is as the watermark is."""
    state: dict[str, Any] = {}
    if watermark != progress.high:
        state["top"] = progress.high
    if progress.gaps:
        state["gaps"] = [list(gap) for gap in progress.gaps]
    if progress.waiting_since:
        state["waiting_since"] = progress.waiting_since.isoformat()
    return state


def next_step(
    changes: Sequence, before: Progress, rows: DataFrame, column: str, now: datetime, table: str
) -> Step:
    """How far a load may go, given the numbers in a column of `rows`.

    Raises SourceError for a gap where `on_gap` is `fail`, and for a column that is no sequence.
    """
    there, dense = islands(rows, column)
    return step(changes, before, there, now, table) if dense else _sparse(changes, before, there)


def _sparse(changes: Sequence, before: Progress, there: list[tuple[int, int]]) -> Step:
    if changes.on_gap != "report":
        raise SourceError(
            f"{changes.column} has so many gaps that it is no sequence; with on_gap="
            f"{changes.on_gap!r} nothing can be loaded. Use on_gap='report'."
        )
    low, high = there[0]
    top = high if before.high is None else max(high, before.high)
    note = f"{changes.column} has too many gaps from {low} to {high} to remember them; none is"
    return Step(None, Progress(top, before.gaps), (note,))
