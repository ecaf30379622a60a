"""The runs that a sensor requests: ranges of days, each once, and a limited number of retries.

No cursor stores them: Dagster's runs show what was requested, and the ledger what is pending.
So it does not matter when a daemon was killed.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

import dagster as dg

from incremental_assets.days import DayRange, chunks, contiguous, named
from incremental_assets.orchestration.naming import ALONE, Naming
from incremental_assets.orchestration.partitions import days_of_run, tags_of
from incremental_assets.orchestration.under_way import runs_that_load
from incremental_assets.table import Table

# Dagster shows no tag that begins with a dot; the days of the run are the tag to read.
ASKED_FOR = ".dagster/incremental_assets_asked_for"
MOST_ATTEMPTS = 3
DAYS_PER_RUN = 31
_KEYS_PER_QUERY = 500


@dataclass(frozen=True)
class RunRequests:
    """The runs to request, and notes on what is not requested, and why."""

    runs: Sequence[dg.RunRequest] = ()
    left: Sequence[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Want:
    """Days of an asset at a position: what one run is to load."""

    asset: str
    days: DayRange
    position: str

    @property
    def asked(self) -> str:
        """What all attempts have in common."""
        digest = hashlib.blake2b(self.position.encode(), digest_size=8).hexdigest()
        return f"{self.asset} {self.days}:{digest}"


def runs_for(
    tables: Sequence[Table],
    positions: Mapping[date, str],
    instance: dg.DagsterInstance,
    naming: Naming = ALONE,
) -> RunRequests:
    """The runs that load the tables for these days; the days are those of the first table.

    A day's position identifies what is to be read: while it stays, the day is requested until a
    run has loaded it, `MOST_ATTEMPTS` times at most. A day of a run in progress is left to that
    run. Days are requested in contiguous ranges of at most `DAYS_PER_RUN`; the last attempt takes
    each day by itself, so that one bad day does not block its neighbours.
    """
    name, asset = tables[0].name, naming.key(tables[0]).to_user_string()
    left: list[str] = []
    taken = _under_way(instance, tables[0], naming)
    busy = {day for day in positions if any(day in span for span in taken)}
    if busy:
        left.append(f"{name}: a run over {named(busy)} is in progress")
    single = {
        day: _Want(asset, DayRange(day, day), position)
        for day, position in positions.items()
        if day not in busy
    }
    tried = _attempts(instance, [want.asked for want in single.values()])
    exhausted = [day for day, want in single.items() if tried[want.asked] >= MOST_ATTEMPTS]
    if exhausted:
        left.append(
            f"{name} {named(exhausted)} was tried {MOST_ATTEMPTS} times and is not done; check "
            "its last run. When its input changes it is requested again"
        )
    wanted = _ranges(asset, {day: positions[day] for day in single.keys() - set(exhausted)})
    tried |= _attempts(instance, [want.asked for want in wanted if len(want.days) > 1])
    apart = [want for want in wanted if len(want.days) > 1 and tried[want.asked] >= 2]
    wanted = [want for want in wanted if want not in apart]
    wanted += [single[day] for want in apart for day in want.days]
    keys = [naming.key(table) for table in tables]
    return RunRequests([_request(keys, want, tried[want.asked] + 1) for want in wanted], left)


def _ranges(asset: str, positions: Mapping[date, str]) -> list[_Want]:
    spans = [
        DayRange(some[0], some[-1])
        for span in contiguous(positions)
        for some in chunks(list(span), DAYS_PER_RUN)
    ]
    return [
        _Want(
            asset,
            span,
            positions[span.first] if len(span) == 1 else str([positions[day] for day in span]),
        )
        for span in spans
    ]


def _request(keys: Sequence[dg.AssetKey], want: _Want, attempt: int) -> dg.RunRequest:
    return dg.RunRequest(
        run_key=f"{want.asked}:{attempt}",
        asset_selection=keys,
        tags={ASKED_FOR: want.asked, **tags_of(want.days)},
    )


def _attempts(instance: dg.DagsterInstance, asked: Sequence[str]) -> Counter[str]:
    """How many runs that were requested by these keys have ended."""
    found: Counter[str] = Counter()
    for some in _parts(asked):
        runs = instance.get_runs(dg.RunsFilter(tags={ASKED_FOR: some}))
        found.update(run.tags[ASKED_FOR] for run in runs if run.is_finished)
    return found


def _parts(asked: Sequence[str]) -> Iterable[Sequence[str]]:
    for start in range(0, len(asked), _KEYS_PER_QUERY):
        yield asked[start : start + _KEYS_PER_QUERY]


def _under_way(instance: dg.DagsterInstance, table: Table, naming: Naming) -> list[DayRange]:
    """The days of the runs that load this table and have not ended."""
    spans = map(days_of_run, runs_that_load(instance, table, naming))
    return [span for span in spans if span is not None]
