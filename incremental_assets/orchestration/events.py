"""What a load has to say to Dagster: materializations, and what its rules found."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg

from incremental_assets.lakehouse import TableLoadResult
from incremental_assets.orchestration.metadata import Shown, as_markdown, check_metadata
from incremental_assets.table import Table

_SEVERITY = {True: dg.AssetCheckSeverity.ERROR, False: dg.AssetCheckSeverity.WARN}


def asset_key(table: Table) -> dg.AssetKey:
    """`bronze/events` is the asset key ["bronze", "events"]."""
    return dg.AssetKey(table.name.split("/"))


def days_alone(
    table: Table, result: TableLoadResult, after: Shown
) -> Iterator[dg.AssetMaterialization | dg.AssetObservation]:
    """What each day has to say where the run does not speak for them all.

    One that is as it should be is materialized. Of one that is held the numbers are observed.
    """
    for day, day_result in result.days.items():
        if day not in result.failed:
            yield dg.AssetMaterialization(
                asset_key(table),
                partition=str(day),
                metadata={**after.whole, **after.day(day_result)},
                tags={
                    "dagster/code_version": table.code_version,
                    "dagster/data_version": after.data_version([day]),
                    "dagster/data_version_is_user_provided": "true",
                },
            )
        elif day_result.entries:
            metadata = after.day(day_result)
            yield dg.AssetObservation(asset_key(table), partition=str(day), metadata=metadata)


def evaluations(table: Table, result: TableLoadResult) -> Iterator[dg.AssetCheckEvaluation]:
    """Each rule's result on the partition of its day, and none for a day with nothing to judge.

    Dagster then shows the check as skipped; what was found before stays in its history. A day that
    was refused because its upstream is held fails its blocking checks, so that it is red where one
    looks.
    """
    for day, day_result in result.days.items():
        for name, check in table.checks().items():
            blocking = check.blocking
            judged = day_result.checks.get(name)
            if judged is not None:
                blocking = judged.severity == "fail"  # what was accepted blocks nothing
                yield dg.AssetCheckEvaluation(
                    asset_key(table),
                    name,
                    judged.passed,
                    metadata=dict(check_metadata(judged)),
                    severity=_SEVERITY[blocking],
                    description=as_markdown(judged.found),
                    blocking=blocking,
                    partition=str(day),
                )
            elif day_result.state == "refused" and blocking:
                yield dg.AssetCheckEvaluation(
                    asset_key(table),
                    name,
                    False,
                    metadata={"found": day_result.reason},
                    severity=_SEVERITY[blocking],
                    description=as_markdown(day_result.reason),
                    blocking=blocking,
                    partition=str(day),
                )
