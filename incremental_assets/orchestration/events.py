"""The events of a load for Dagster: materializations and check evaluations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any

import dagster as dg

from incremental_assets.days import named
from incremental_assets.lakehouse import DayResult, TableLoadResult
from incremental_assets.ledger.hold_reason import rules_in
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.orchestration.metadata import (
    Shown,
    as_markdown,
    check_metadata,
    load_metadata,
)
from incremental_assets.quality.judge import RuleResult
from incremental_assets.table import Table

_SEVERITY = {True: dg.AssetCheckSeverity.ERROR, False: dg.AssetCheckSeverity.WARN}


def days_alone(
    key: dg.AssetKey, table: Table, result: TableLoadResult, after: Shown
) -> Iterator[dg.AssetMaterialization]:
    """The events of each day where the run has no single materialization for all of them.

    A held day has none: Dagster would list an observation with a green mark, like what was loaded.
    """
    for day, day_result in result.days.items():
        if day not in result.failed:
            yield materialization(key, table, day_result, after)


def materialization(
    key: dg.AssetKey, table: Table, result: DayResult, after: Shown
) -> dg.AssetMaterialization:
    """The materialization of one day that was published, or had nothing new."""
    return dg.AssetMaterialization(
        key,
        partition=str(result.day),
        metadata={**after.whole, **after.day(result)},
        tags={
            "dagster/code_version": table.code_version,
            "dagster/data_version": after.data_version([result.day]),
            "dagster/data_version_is_user_provided": "true",
        },
    )


def evaluations(
    key: dg.AssetKey, table: Table, result: TableLoadResult
) -> Iterator[dg.AssetCheckEvaluation]:
    """Each rule's result on the partition of its day, and none for a day with nothing to judge.

    Days on which a rule passed with the same value are one evaluation, on the last of them: a month
    of good days writes an event for each rule, not thirty. Dagster then shows the check of a day
    with nothing to judge as skipped; earlier results stay in its history. The rule that holds a day
    also has the numbers of the load, which no materialization shows. A day that was refused because
    its upstream is held fails its blocking checks, so that it is red in the UI.
    """
    alike: defaultdict[Hashable, list[date]] = defaultdict(list)
    for day, day_result in result.days.items():
        for each in day_result.checks.values():
            alike[_same_result(each, day)].append(day)
    for day, day_result in result.days.items():
        for name, check in table.checks().items():
            judged = day_result.checks.get(name)
            if judged is not None:
                *earlier, last = alike[_same_result(judged, day)]
                if day == last:
                    holds = day_result.state == "held" and check.blocking and not judged.passed
                    numbers = load_metadata(day_result) if holds else {}
                    yield _evaluation(key, judged, day, earlier, numbers)
            elif day_result.state == "refused" and check.blocking:
                yield dg.AssetCheckEvaluation(
                    key,
                    name,
                    False,
                    metadata={"found": day_result.reason},
                    severity=_SEVERITY[True],
                    description=as_markdown(f"{day}: {day_result.reason}"),
                    blocking=True,
                    partition=str(day),
                )


def still_held(
    key: dg.AssetKey, table: Table, history: TableHistory
) -> Iterator[dg.AssetCheckEvaluation]:
    """The rules that hold days of the table, each reported once more, as a warning about all.

    Of a run Dagster shows a check as it is on the last of the run's partitions, unless there is an
    evaluation of no partition. Without this one a check would be green as soon as a later day
    passes. It blocks nothing: the days that the run was about have their own evaluations.
    """
    by_rule: defaultdict[str, list[date]] = defaultdict(list)
    for day, entry in sorted(history.held.items()):
        if day not in history.accepted:
            for rule in table.checks().keys() & rules_in(entry.held_by):
                by_rule[rule].append(day)
    for rule, days in sorted(by_rule.items()):
        entry = history.held[days[-1]]
        yield dg.AssetCheckEvaluation(
            key,
            rule,
            False,
            metadata={"held": named(days), "held_since_batch": str(entry.batch)},
            severity=_SEVERITY[False],
            description=as_markdown(
                f"{named(days)}: held, since batch {entry.batch}: {entry.held_by}"
            ),
            blocking=False,
        )


def judged_before_the_last_day(
    key: dg.AssetKey, table: Table, result: TableLoadResult, history: TableHistory
) -> Iterator[dg.AssetCheckEvaluation]:
    """For a run that fails: each rule that was evaluated, but not on the last of the run's days.

    Of a run that failed Dagster shows a check as failed that has no evaluation on its last
    partition, or of none. Rules that hold days are reported by `still_held`.
    """
    open_days = history.held.keys() - history.accepted
    held = {rule for day in open_days for rule in rules_in(history.held[day].held_by)}
    for rule in sorted(table.checks().keys() - held):
        judged = [day for day, each in result.days.items() if rule in each.checks]
        if judged and judged[-1] != max(result.days):
            last = result.days[judged[-1]].checks[rule]
            yield dg.AssetCheckEvaluation(
                key,
                rule,
                last.passed,
                metadata={"judged_on": str(judged[-1]), **check_metadata(last)},
                severity=_SEVERITY[False],
                description=as_markdown(f"{judged[-1]}: {last.found}"),
                blocking=False,
            )


def _same_result(judged: RuleResult, day: date) -> Hashable:
    """What is equal for equal results; the result of a rule that failed is of its day alone."""
    own = None if judged.passed else day
    numbers = (judged.value, judged.threshold, judged.broken, judged.examples)
    return (judged.rule, judged.severity, own, numbers)


def _evaluation(
    key: dg.AssetKey,
    judged: RuleResult,
    day: date,
    earlier: Sequence[date],
    numbers: Mapping[str, Any],
) -> dg.AssetCheckEvaluation:
    """A rule's result on a day, which was the same on earlier days of the load."""
    metadata, found = {**check_metadata(judged), **numbers}, judged.found
    if earlier:
        metadata["same_on"] = named(earlier)
        found = f"{found}; the same value on {named(earlier)}"
    blocking = judged.severity == "fail"  # what was accepted blocks nothing
    return dg.AssetCheckEvaluation(
        key,
        judged.rule,
        judged.passed,
        metadata=metadata,
        severity=_SEVERITY[blocking],
        description=as_markdown(f"{day}: {found}"),
        blocking=blocking,
        partition=str(day),
    )
