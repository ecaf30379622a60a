"""What a load has to say to Dagster: materializations, what its rules found, and its failure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

import dagster as dg

from incremental_assets.days import named
from incremental_assets.load import DayResult, LoadResult
from incremental_assets.orchestration.metadata import check_metadata, day_metadata
from incremental_assets.table import Table

_SEVERITY = {True: dg.AssetCheckSeverity.ERROR, False: dg.AssetCheckSeverity.WARN}
_VERSION_TAGS = {"dagster/data_version_is_user_provided": "true"}


def asset_key(table: Table) -> dg.AssetKey:
    """`bronze/events` is the asset key ["bronze", "events"]."""
    return dg.AssetKey(table.name.split("/"))


def materializations(
    table: Table, result: LoadResult, about: Mapping[str, Any]
) -> Iterator[dg.AssetMaterialization]:
    """One for each day that is as it should be; `about` is the metadata of the table."""
    version = str(about.get("delta_version", 0))
    for day, day_result in result.days.items():
        if day not in result.failed:
            yield dg.AssetMaterialization(
                asset_key(table),
                partition=str(day),
                metadata={**day_metadata(day_result), **about},
                tags={**_VERSION_TAGS, "dagster/data_version": version},
            )


def evaluations(table: Table, result: LoadResult) -> Iterator[dg.AssetCheckEvaluation]:
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
                    description=judged.found,
                    blocking=blocking,
                    partition=str(day),
                )
            elif day_result.state == "refused" and blocking:
                yield dg.AssetCheckEvaluation(
                    asset_key(table),
                    name,
                    False,
                    severity=_SEVERITY[blocking],
                    description=day_result.reason,
                    blocking=blocking,
                    partition=str(day),
                )


def failure_text(table: Table, failed: Mapping[date, DayResult]) -> str:
    """Which days were not published, and why, in one message."""
    lines = [f"{table.name}: {named(failed)} not published."]
    for day, result in list(failed.items())[:5]:
        lines.append(f"{day}: {result.reason}.")
    if len(failed) > 5:
        lines.append(f"… and {len(failed) - 5} more days.")
    return " ".join(lines)
