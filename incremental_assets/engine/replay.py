"""A batch of rows from quarantine: judged by today's rules and code, and merged where they pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.delta.quarantine import IDENTITY
from incremental_assets.delta.stage import Staged
from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.engine.batch import Batch, DayBatch, Outcome
from incremental_assets.engine.bronze_rows import replayed_rows
from incremental_assets.engine.outdated import in_quarantine
from incremental_assets.engine.put_in_quarantine import put_of_days
from incremental_assets.engine.silver import (
    counted_rows,
    fit_columns,
    with_changes,
)
from incremental_assets.engine.table_write import stage_good
from incremental_assets.engine.typed import Typed, typed
from incremental_assets.frames import Frames
from incremental_assets.ledger.entry import Entry
from incremental_assets.plurals import counted
from incremental_assets.quality.gate import (
    Counted,
    DayGate,
)
from incremental_assets.quality.judge import RuleResult, judge_rows, not_named, require_passed
from incremental_assets.quality.rule import APART

REPLAYED = "replayed"


@dataclass(frozen=True)
class _Tried:
    """Rows typed again, the rows in quarantine that these are (`tried`), and the others."""

    read: Typed
    tried: DataFrame
    rest: DataFrame


@dataclass(frozen=True)
class ReplayBatch(DayBatch[tuple[_Tried, ...]]):
    """Reads from bronze the rows that are in quarantine: all, or those with one `reason`.

    Rows that pass are merged like late data. The batch puts the rows that stay into quarantine
    again, under its own number, and its commit decides: before it nothing has left quarantine,
    after it the rows that passed are in the table.
    """

    reason: str = ""

    def read(self, batch: Batch, frames: Frames) -> tuple[_Tried, ...]:
        session = frames.session
        found = in_quarantine(session, batch, set(batch.work.days))
        if found is None:  # nothing was ever quarantined
            return ()
        there = frames.cache(found)
        chosen = F.array_contains("reasons", self.reason) if self.reason else F.lit(1) == F.lit(1)
        lines = there.where(chosen).select(*IDENTITY)
        landed, known = replayed_rows(frames, batch, lines)
        read = typed(frames, landed, batch)
        # A row that bronze no longer holds was repaired: the batch of its day judges it.
        tried = _matching(there.where(chosen), known, "left_semi")
        repaired = _matching(there.where(chosen), known, "left_anti")
        rest = there.where(~chosen).unionByName(repaired)
        return (_Tried(replace(read, rows=frames.cache(read.rows)), tried, rest),)

    def gate(self, batch: Batch, frames: Frames, read: tuple[_Tried, ...]) -> Outcome:
        if not read:
            return Outcome([replace(claim, state="committed") for claim in batch.claims], {})
        (here,) = read
        counted = counted_rows(batch, here.read)
        require_passed(batch.table.name, _results(batch, counted))
        before = _counts(here.tried, here.rest)
        entries = [
            _entry(claim, counted.days.get(claim.day), before.get(claim.day, _QuarantinedBefore()))
            for claim in batch.claims
        ]
        results = {day: [_result(gate)] for day, gate in counted.days.items() if day is not None}
        return Outcome(entries, results, not_named(counted), counted)

    def quarantine(
        self, batch: Batch, frames: Frames, read: tuple[_Tried, ...], outcome: Outcome
    ) -> None:
        for here in read:
            put_of_days(batch, here.read.rows, here.tried, here.rest)

    def stage(
        self, batch: Batch, frames: Frames, read: tuple[_Tried, ...], outcome: Outcome
    ) -> StagedWrite | None:
        if not read:
            return None
        (here,) = read
        assert outcome.counted is not None
        days = outcome.counted.days.items()
        good = [day for day, gate in days if day is not None and gate.rows > gate.quarantined]
        if not good:
            return StagedWrite(Staged(batch.path, (), ()))
        fit_columns(frames.session, batch, here.read.rows)
        return stage_good(frames, batch, here.read, outcome.counted, sorted(good))

    def counted(self, outcome: Outcome, write: StagedWrite) -> Sequence[Entry]:
        return with_changes(outcome.entries, write)


@dataclass(frozen=True, slots=True)
class _QuarantinedBefore:
    """Rows of a day in quarantine: those that are tried, those of them in the shares, the rest."""

    tried: int = 0
    counted: int = 0
    rest: int = 0


def _matching(quarantined: DataFrame, found: DataFrame, how: str) -> DataFrame:
    same = [F.col(f"a.{name}").eqNullSafe(F.col(f"b.{name}")) for name in IDENTITY]
    return quarantined.alias("a").join(found.alias("b"), same, how).select("a.*")


def _results(batch: Batch, counted: Counted) -> list[RuleResult]:
    """What the rules on rows found, which would hold their days; shares mean nothing here."""
    return [
        replace(result, rule=f"{day}: {result.rule}")
        for day, gate in counted.days.items()
        for result in judge_rows(gate, batch.table.rules, counted)
    ]


def _counts(tried: DataFrame, rest: DataFrame) -> Mapping[date, _QuarantinedBefore]:
    apart: Column = F.size(F.array_except("reasons", F.array(*map(F.lit, APART)))) == 0
    every = tried.select("_day", F.lit(True).alias("tried"), (~apart).alias("counted"))
    every = every.unionByName(
        rest.select("_day", F.lit(False).alias("tried"), F.lit(False).alias("counted"))
    )
    found = every.groupBy("_day").agg(
        F.count_if("tried"), F.count_if("counted"), F.count_if(~F.col("tried"))
    )
    return {row[0]: _QuarantinedBefore(*row[1:]) for row in found.collect()}


def _entry(claim: Entry, gate: DayGate | None, before: _QuarantinedBefore) -> Entry:
    """The outcome of a day. Its counts change what the day's shares are taken of."""
    gate = gate or DayGate(claim.day)
    return replace(
        claim,
        state="committed",
        rows_read=gate.rows,
        rows_quarantined=gate.quarantined + before.rest,
        rows_late=gate.late,
        rows_counted=gate.counted - before.counted,
        rows_counted_quarantined=gate.counted_quarantined - before.counted,
    )


def _result(gate: DayGate) -> RuleResult:
    passed = gate.rows - gate.quarantined
    found = f"{passed:,} of {counted(gate.rows, 'row')} passed"
    return RuleResult(REPLAYED, "warn", not gate.quarantined, found, passed, gate.rows, gate.rows)
