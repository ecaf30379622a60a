"""How far Dagster is with its own record of a run over many days, which is silent otherwise.

Before a run begins, Dagster writes an event for each day and table that is planned; when a table
is loaded, one for each of its days. In SQLite each is a commit of its own, so that thousands of
days take minutes in which no step logs anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import dagster as dg

from incremental_assets.days import DayRange, parse_day
from incremental_assets.errors import DayError
from incremental_assets.plurals import counted
from incremental_assets.repeatedly import repeatedly

_EVERY_SECONDS = 10.0
_Records = Mapping[dg.AssetKey, Any]
_T = TypeVar("_T")


@contextmanager
def recording_progress(
    instance: dg.DagsterInstance,
    keys: Sequence[dg.AssetKey],
    days: DayRange,
    tell: Callable[[str], None],
    every: float = _EVERY_SECONDS,
) -> Iterator[None]:
    """While a run over these assets and days goes on: `tell` takes a line of progress now and then.

    Only while Dagster records what is planned, or the days of a table that was loaded.
    """
    progress = _if_answered(lambda: _Recording(instance, keys, days))

    def tell_progress() -> None:
        line = _if_answered(progress.line) if progress is not None else None
        if line:
            tell(line)

    with repeatedly(tell_progress, every):
        yield


def _if_answered(ask: Callable[[], _T]) -> _T | None:
    """What the instance answers; None where it cannot, which is no reason to fail a run."""
    try:
        return ask()
    except Exception:  # noqa: BLE001 - each storage of Dagster has errors of its own
        return None


class _Recording:
    """Asks the instance what it has recorded since this was made."""

    def __init__(
        self, instance: dg.DagsterInstance, keys: Sequence[dg.AssetKey], days: DayRange
    ) -> None:
        self._instance, self._keys, self._days = instance, keys, days
        self._before = {key: each.last_run_id for key, each in self._records().items()}
        self._started = time.monotonic()
        self._last: tuple[dg.AssetKey, int, float] | None = None

    def line(self) -> str:
        """What is being recorded now, how far that is, and how long it may take; "" for nothing."""
        records = self._records()
        begun = [k for k, each in records.items() if each.last_run_id != self._before.get(k)]
        if len(begun) < len(self._keys):
            done, of = max(len(begun) - 1, 0), len(self._keys)
            seconds = time.monotonic() - self._started
            return (
                f"Dagster records the plan of {counted(len(self._days), 'day')}: "
                f"{done} of {counted(of, 'table')}{_left(done, of, seconds)}"
            )
        return self._of_a_table(records)

    def _of_a_table(self, records: _Records) -> str:
        now, of = time.monotonic(), len(self._days)
        run_ids = {each.last_run_id for each in records.values()}
        for key, each in records.items():
            last = each.last_materialization_record
            done = self._position(last) if last is not None and last.run_id in run_ids else of
            if not 0 < done < of:
                continue
            before, self._last = self._last, (key, done, now)
            left = ""
            if before is not None and before[0] == key and done > before[1]:
                left = _left(done - before[1], of - before[1], now - before[2])
            name = key.to_user_string()
            return f"Dagster records {name}: {done:,} of {counted(of, 'day')}{left}"
        return ""

    def _position(self, record: dg.EventLogRecord) -> int:
        try:
            day = parse_day(record.partition_key or "")
        except DayError:
            return 0
        return (day - self._days.first).days + 1

    def _records(self) -> _Records:
        found = self._instance.get_asset_records(self._keys)
        return {each.asset_entry.asset_key: each.asset_entry for each in found}


def _left(done: int, of: int, seconds: float) -> str:
    """How long the rest will take if it goes on as so far; "" where nothing is done yet."""
    return f", about {seconds / done * (of - done):,.0f} s more" if done else ""
