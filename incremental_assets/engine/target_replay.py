"""Replaying the quarantine of a target: its rows are re-evaluated, and the good ones loaded.

The rows are read again from the source: a row in quarantine is for people, and lacks unreadable
values and what a log states of its event. Rows are identified by their `_hash`, so a row that was
repaired or deleted at the source stays in quarantine, as in the lake.

A replay is a batch like any other. It puts the rows that stay into quarantine again under its own
number, and by its entry only rows from this number on count: before its commit nothing has
left quarantine, after it the rows that passed are in the target. The outdated rows are then
removed; a load that finds some removes them first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession

from incremental_assets.changes.detector import NewRows, SourceWindow
from incremental_assets.delta.columns import HASH
from incremental_assets.engine.target import TargetTable
from incremental_assets.engine.target_load import load_target
from incremental_assets.engine.target_steps import Loaded, TargetSteps
from incremental_assets.errors import DefinitionError
from incremental_assets.frames import Frames
from incremental_assets.ledger.entry import Kind
from incremental_assets.quality.gate import Counted
from incremental_assets.quality.rule import RowRule


def replay_target(
    target: TargetTable, spark: SparkSession, now: datetime, log: Callable[[str], None]
) -> Loaded:
    """Judge the rows in quarantine by the rules of today, and load those that pass.

    Nothing is recorded where none does. Raises as a load does, and DefinitionError for a target
    that would lose rows by it.
    """
    if target.write.replaces_by_batch:
        raise DefinitionError(
            f"{target.name}: {target.write} would replace loaded rows by those that pass. Repair "
            "the rows at the source, with all that they belong to, and load again."
        )
    if target.changes.judges_all:
        return load_target(target, spark, now, log)
    # Shares of rows that were all bad before mean nothing.
    rules = tuple(rule for rule in target.rules if isinstance(rule, RowRule))
    return load_target(replace(target, rules=rules), spark, now, log, ReplaySteps)


class ReplaySteps(TargetSteps):
    """Reads the rows of the source that are in quarantine; the watermark stays where it is."""

    kind: ClassVar[Kind] = "replay"

    def read(self, frames: Frames) -> SourceWindow | None:
        there = self._request.state.quarantine_rows(frames.session)
        if there is None:
            return None
        return self._target.changes.read_again(self._request, frames, there)

    def _advanced(self, frames: Frames, read: SourceWindow, counted: Counted) -> NewRows | None:
        new = self._target.changes.advance_again(self._request, frames, read, counted)
        return new if self._does_release(frames, read, new) else None

    def _leaving(self, frames: Frames, read: SourceWindow, new: NewRows) -> Sequence[DataFrame]:
        """Also rows that were loaded since and are still in quarantine."""
        loaded = self._request.state.loaded(frames.session)
        return [*super()._leaving(frames, read, new), *(rows.select(HASH) for rows in loaded)]
