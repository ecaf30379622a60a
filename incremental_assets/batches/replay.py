"""A batch of rows from quarantine: judged by today's rules and code, and merged where they pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.batches.batch import Batch, DayBatch, Outcome
from incremental_assets.batches.silver import (
    counted_rows,
    fit_columns,
    with_changes,
    write_good,
)
from incremental_assets.batches.superseded import in_quarantine
from incremental_assets.batches.typed import contract_of, replayed_rows, typed
from incremental_assets.errors import GateError
from incremental_assets.frames import persisted
from incremental_assets.lake import quarantine
from incremental_assets.lake.merge import Merged
from incremental_assets.lake.publish import publish
from incremental_assets.lake.quarantine import SAME
from incremental_assets.lake.session import own_session
from incremental_assets.lake.stage import Staged
from incremental_assets.ledger.entry import Entry
from incremental_assets.quality.details import with_details
from incremental_assets.quality.gate import (
    APART,
    Counted,
    DayGate,
    watched_rules,
)
from incremental_assets.quality.judge import RuleResult, not_named, row_result

REPLAYED = "replayed"


@dataclass(frozen=True)
class ReplayBatch(DayBatch):
    """Reads from bronze the rows that lie in quarantine: all, or those with one `reason`.

    What passes is merged like late data. The batch says anew what quarantine holds of its days, and
    its commit decides: before it nothing has left quarantine, after it what passed is in the table.
    """

    reason: str = ""

    def execute(self, batch: Batch) -> Outcome:
        with own_session(batch.spark(), batch.size) as session:
            aside = in_quarantine(session, batch, set(batch.work.days))
            if aside is None:  # nothing was ever set aside
                nothing = [replace(claim, state="committed") for claim in batch.claims]
                return Outcome(nothing, {})
            with persisted(aside) as kept:
                return self._replay(session, batch, kept)

    def _replay(self, session: SparkSession, batch: Batch, aside: DataFrame) -> Outcome:
        chosen = F.array_contains("reasons", self.reason) if self.reason else F.lit(1) == F.lit(1)
        lines = aside.where(chosen).select(*SAME).distinct()
        with (
            replayed_rows(session, batch, lines) as (landed, found),
            typed(landed, batch) as read,
            persisted(read.rows) as rows,
        ):
            counted = counted_rows(batch, rows)
            _refuse(batch, counted)
            # What bronze does not hold any more was repaired: its day is judged anew by itself.
            tried = _matching(aside.where(chosen), found, "left_semi")
            rest = aside.where(~chosen).unionByName(
                _matching(aside.where(chosen), found, "left_anti")
            )
            _put(batch, rows, tried, rest)
            before = _counts(tried, rest)
            entries = [
                _entry(claim, counted.days.get(claim.day), before.get(claim.day, _Before()))
                for claim in batch.claims
            ]
            good = [day for day, gate in counted.days.items() if gate.rows > gate.quarantined]
            written = Merged(Staged(batch.path, (), ()), ())
            if good:
                fit_columns(session, batch, rows)
                written = write_good(session, batch, replace(read, rows=rows), counted, good)
        entries = with_changes(entries, written)
        publish(written.staged, batch.transaction(entries), replaced_files=written.replaced)
        results = {day: [_result(gate)] for day, gate in counted.days.items()}
        settled = self.settled(batch.table, entries, batch.commit())
        return Outcome(settled, results, not_named(counted))


@dataclass(frozen=True, slots=True)
class _Before:
    """Rows of a day in quarantine: those that are tried, those of them in the shares, the rest."""

    tried: int = 0
    counted: int = 0
    rest: int = 0


def _matching(aside: DataFrame, found: DataFrame, how: str) -> DataFrame:
    same = [F.col(f"a.{name}").eqNullSafe(F.col(f"b.{name}")) for name in SAME]
    return aside.alias("a").join(found.alias("b"), same, how).select("a.*")


def _refuse(batch: Batch, counted: Counted) -> None:
    """Raise GateError where a rule on rows would hold their days."""
    failed = []
    for rule in watched_rules(batch.table.rules):
        for day, gate in counted.days.items():
            result = row_result(rule, counted.broken.get((day, rule.name), 0), gate.rows)
            if rule.severity == "fail" and not result.passed:
                failed.append(f"{day}: {rule.name}: {result.found}")
    if failed:
        raise GateError(
            f"{batch.table.name}: the replay is held back by {'; '.join(failed)}. Nothing left "
            "quarantine; repair the rows or the rule, or replay other days."
        )


def _put(batch: Batch, rows: DataFrame, tried: DataFrame, rest: DataFrame) -> None:
    """Write down what stays in quarantine of the batch's days."""
    bad = with_details(rows.where("size(_reasons) > 0"), contract_of(batch.table))
    bad = quarantine.seen_before(quarantine.as_kept(bad, batch.number, batch.now), tried)
    stays = rest.withColumn("_batch", F.lit(batch.number).cast("long")).select(*bad.columns)
    quarantine.put(bad.unionByName(stays), batch.quarantine_path, batch.table.name, batch.number)


def _counts(tried: DataFrame, rest: DataFrame) -> Mapping[date, _Before]:
    apart: Column = F.size(F.array_except("reasons", F.array(*map(F.lit, APART)))) == 0
    every = tried.select("_day", F.lit(True).alias("tried"), (~apart).alias("counted"))
    every = every.unionByName(
        rest.select("_day", F.lit(False).alias("tried"), F.lit(False).alias("counted"))
    )
    found = every.groupBy("_day").agg(
        F.count_if("tried"), F.count_if("counted"), F.count_if(~F.col("tried"))
    )
    return {row[0]: _Before(*row[1:]) for row in found.collect()}


def _entry(claim: Entry, gate: DayGate | None, before: _Before) -> Entry:
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
    found = f"{passed} of {gate.rows} rows passed"
    return RuleResult(REPLAYED, "warn", not gate.quarantined, found, passed, gate.rows, gate.rows)
