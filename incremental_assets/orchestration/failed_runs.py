"""Runs that failed, in the order in which Dagster recorded it."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

_FETCHED = 50


def failures(instance: dg.DagsterInstance, after: int | None = None) -> Sequence[dg.EventLogRecord]:
    """The events of failed runs after one, oldest first; without one, the newest event."""
    found = instance.fetch_run_status_changes(
        dg.RunStatusChangeRecordsFilter(dg.DagsterEventType.RUN_FAILURE, after_storage_id=after),
        limit=1 if after is None else _FETCHED,
        ascending=after is not None,
    )
    return found.records
