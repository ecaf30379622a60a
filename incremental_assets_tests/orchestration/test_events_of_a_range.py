"""A range of days writes what each day has to say into Dagster's event log, and nothing twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import dagster as dg

from incremental_assets.catalog import table_named, tables
from incremental_assets.lakehouse import DayResult, Lakehouse, TableLoadResult
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.orchestration.assets import incremental_assets
from incremental_assets.orchestration.events import (
    evaluations,
    judged_before_the_last_day,
    still_held,
)
from incremental_assets.orchestration.naming import ALONE
from incremental_assets.orchestration.partitions import RANGE_END, RANGE_START
from incremental_assets.orchestration.resources import SparkResource
from incremental_assets.quality.judge import RuleResult
from incremental_assets.settings import Settings
from incremental_assets.table import Table
from incremental_assets_tests.plan.ledgers import EVENTS, did

SALES = table_named(tables(), "silver/sales")
DAYS = [date(2017, 1, 1) + timedelta(days=n) for n in range(30)]
RULE = "qty_at_least_0"


def judged(rows: int, broken: int = 0, *, passed: bool | None = None) -> RuleResult:
    ok = not broken if passed is None else passed
    found = f"{broken} of {rows} rows failed"
    return RuleResult(RULE, "quarantine", ok, found, broken, 0, rows, broken)


def reported(*results: RuleResult) -> Sequence[dg.AssetCheckEvaluation]:
    """What is written of a rule that found this on the first days."""
    days = zip(DAYS, results, strict=False)
    loaded = {day: DayResult(day, "committed", checks={RULE: found}) for day, found in days}
    return list(evaluations(ALONE.key(SALES), SALES, TableLoadResult(SALES.name, loaded, 1.0)))


def test_days_on_which_a_rule_found_the_same_are_one_evaluation_on_the_last_of_them() -> None:
    (one,) = reported(judged(10), judged(12), judged(14))

    assert (one.passed, one.partition) == (True, "2017-01-03")
    assert one.description == (
        "2017-01-03: 0 of 14 rows failed; the same value on 2017-01-01...2017-01-02"
    )
    numbers = {name: value.value for name, value in one.metadata.items()}
    assert numbers == {
        "value": 0.0,
        "threshold": 0.0,
        "rows": 14,
        "found": "0 of 14 rows failed",
        "same_on": "2017-01-01...2017-01-02",
    }


def test_one_day_says_nothing_of_others() -> None:
    (one,) = reported(judged(10))

    assert one.description == "2017-01-01: 0 of 10 rows failed"
    assert "same_on" not in one.metadata


def test_a_day_of_another_value_and_every_day_that_failed_speak_for_themselves() -> None:
    found = reported(
        judged(10),
        judged(10, 1),
        judged(10, 1),
        judged(10, 2, passed=True),
        judged(10),
        replace(judged(10), severity="warn"),
    )

    assert [(each.partition, each.passed) for each in found] == [
        ("2017-01-02", False),
        ("2017-01-03", False),
        ("2017-01-04", True),
        ("2017-01-05", True),
        ("2017-01-06", True),
    ]
    assert found[3].metadata["same_on"].value == "2017-01-01"


def test_a_rule_that_holds_days_is_reported_once_more_of_no_partition_and_blocks_nothing() -> None:
    held = [did(SALES, batch, day, state="held") for batch, day in ((1, 2), (2, 3), (2, 4))]
    repaired = did(SALES, 3, 4)

    (check,) = still_held(ALONE.key(SALES), SALES, TableHistory(SALES.name, (*held, repaired)))

    assert (check.check_name, check.passed, check.blocking) == ("quarantined_share", False, False)
    assert (check.severity, check.partition) == (dg.AssetCheckSeverity.WARN, None)
    assert check.description == (
        "2017-01-02...2017-01-03: held, since batch 2: quarantined_share: 3 of 5"
    )


def test_nothing_is_reported_of_a_held_day_that_was_accepted_or_of_a_rule_that_is_gone() -> None:
    held = replace(did(SALES, 1, 2, state="held"), held_by="rule_of_old: 3 of 5")
    accepted = [did(SALES, 2, 3, state=state) for state in ("held", "accepted")]
    history = TableHistory(SALES.name, (held, accepted[0], replace(accepted[1], batch=3)))

    assert not list(still_held(ALONE.key(SALES), SALES, history))


def test_rules_of_an_earlier_day_are_reported_once_more_where_the_last_day_had_nothing_new() -> (
    None
):
    shares = RuleResult("quarantined_share", "fail", False, "3 of 5", 3, 0, 5, 3)
    found = DayResult(DAYS[1], "held", checks={RULE: judged(5), shares.rule: shares})
    idle = {day: DayResult(day, "idle") for day in (DAYS[0], DAYS[2])}
    result = TableLoadResult(SALES.name, {**idle, DAYS[1]: found}, 1.0)
    history = TableHistory(SALES.name, (did(SALES, 1, 2, state="held"),))

    (check,) = judged_before_the_last_day(ALONE.key(SALES), SALES, result, history)

    assert (check.check_name, check.passed, check.blocking) == (RULE, True, False)
    assert (check.partition, check.description) == (None, "2017-01-02: 0 of 5 rows failed")
    to_the_last = replace(result, days={day: result.days[day] for day in DAYS[:2]})
    assert not list(judged_before_the_last_day(ALONE.key(SALES), SALES, to_the_last, history))


class _Loaded(Lakehouse):
    """A lakehouse whose days are all loaded, and good."""

    def load(self, table: Table, days: Sequence[date], run_id: str = "") -> TableLoadResult:
        found = {
            day: DayResult(
                day,
                "committed",
                entries=(replace(did(table, 1, 1), day=day),),
                checks={name: replace(judged(10), rule=name) for name in table.checks()},
            )
            for day in days
        }
        return TableLoadResult(table.name, found, 1.0)


@dataclass(frozen=True)
class _Resource:
    settings: Settings

    def open(self, _spark: SparkResource, log: Any) -> Lakehouse:
        return _Loaded(self.settings, tables(), _no_spark, lambda: datetime.now(UTC), log)


def _no_spark() -> Any:
    raise AssertionError("no Spark is asked for")


def logged(settings: Settings) -> list[dg.EventLogEntry]:
    """What a run over thirty good days of sales leaves behind."""
    resources = {ALONE.spark: SparkResource(), ALONE.lakehouse: _Resource(settings)}
    made = dg.Definitions(
        incremental_assets(tables(), settings),
        resources=resources,
        executor=dg.in_process_executor,
    )
    with dg.DagsterInstance.ephemeral() as instance:
        run = made.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=instance,
            asset_selection=[dg.AssetKey(SALES.name.split("/"))],
            tags={RANGE_START: str(DAYS[0]), RANGE_END: str(DAYS[-1])},
        )
        days = instance.get_materialized_partitions(dg.AssetKey(SALES.name.split("/")))
        assert days == set(map(str, DAYS))
        return list(instance.all_logs(run.run_id))


def test_thirty_good_days_are_a_materialization_each_and_one_evaluation_of_each_rule(
    settings: Settings,
) -> None:
    events = Counter(
        entry.dagster_event.event_type_value if entry.dagster_event else "a line of the log"
        for entry in logged(settings)
    )

    assert events["ASSET_MATERIALIZATION"] == len(DAYS)
    assert events["ASSET_CHECK_EVALUATION"] == len(SALES.checks()) == 10
    assert events["ASSET_OBSERVATION"] == events["a line of the log"] == 0
    assert sum(events.values()) <= 100, events


def test_a_day_after_those_of_a_run_that_is_stale_is_named_in_its_log(settings: Settings) -> None:
    late = did(EVENTS, 1, 1, touched=[1, 31])
    Ledger(ledger_path(settings.lake)).transact_on(EVENTS.name, lambda _: [late])

    (line,) = [entry.user_message for entry in logged(settings) if not entry.dagster_event]

    assert line.startswith("silver/sales: stale, and not in this run: 2017-01-31; ")
