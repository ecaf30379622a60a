"""The runs that a sensor requests: ranges of days, each once, and a limited number of retries.

No cursor stores them: Dagster's runs show what was requested, and the ledger what is pending.
So it does not matter when a daemon was killed.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
# Which asset a run was requested for, and the digest of the position of each of its days.
_ASSET = ".dagster/incremental_assets_asked_for_asset"
_POSITIONS = ".dagster/incremental_assets_positions"
# The daemon retries no run of a sensor, whatever the instance sets: these requests do, and at the
# last attempt each day by itself, for which retries of the whole range would leave none.
_NO_RETRY = {"dagster/max_retries": "0"}
_ENDED_BADLY = (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
# The last ones of an asset that are read: a day that failed before these is tried once more alone.
_MOST_FAILED = 1_000
_TOGETHER = MOST_ATTEMPTS - 1  # how many attempts a day has in a range


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
        return f"{self.asset} {self.days}:{_digest(self.position)}"


def runs_for(
    tables: Sequence[Table],
    positions: Mapping[date, str],
    instance: dg.DagsterInstance,
    naming: Naming = ALONE,
) -> RunRequests:
    """The runs that load the tables for these days; the days are those of the first table.

    A day's position identifies what is to be read: while it stays, the day is requested until a
    run has loaded it, `MOST_ATTEMPTS` times at most. A day of a run in progress is left to that
    run. Days are requested in contiguous ranges of at most `DAYS_PER_RUN`. Where a day needs its
    last attempt, each day of its range is requested by itself, so that one bad day does not block
    its neighbours, whatever happens to their positions.
    """
    name, asset = tables[0].name, naming.key(tables[0]).to_user_string()
    left: list[str] = []
    taken = _under_way(instance, tables[0], naming)
    busy = {day for day in positions if any(day in span for span in taken)}
    if busy:
        left.append(f"{name}: A run over {named(busy)} is in progress.")
    single = {
        day: _Want(asset, DayRange(day, day), position)
        for day, position in positions.items()
        if day not in busy
    }
    tried = _Attempts()
    tried.add(_failed(instance, asset, single))
    tried.add(_ended(instance, [*single.values()]))
    exhausted = [day for day in single if tried.times(day) >= MOST_ATTEMPTS]
    if exhausted:
        left.append(
            f"{name}: {named(exhausted)} was tried {MOST_ATTEMPTS} times and is not done; check "
            "its last run. When its input changes, it is requested again."
        )
    wanted = _ranges(asset, {day: positions[day] for day in single.keys() - set(exhausted)})
    tried.add(_ended(instance, [want for want in wanted if len(want.days) > 1]))
    runs = []
    keys = [naming.key(table) for table in tables]
    for want in wanted:
        apart = len(want.days) > 1 and tried.times(*want.days) >= _TOGETHER
        for each in (single[day] for day in want.days) if apart else (want,):
            attempt = tried.times(*each.days) + 1
            runs.append(_request(keys, each, attempt, [positions[day] for day in each.days]))
    return RunRequests(runs, left)


@dataclass(frozen=True, slots=True)
class _Attempts:
    """The runs that have ended without loading a day, by the day."""

    runs: dict[date, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, found: Iterable[tuple[date, str]]) -> None:
        """Add days, each with a run that was to load it."""
        for day, run_id in found:
            self.runs[day].add(run_id)

    def times(self, *days: date) -> int:
        """How often that one of the days was tried which was tried most often."""
        return max(len(self.runs[day]) for day in days)


def _digest(position: str) -> str:
    return hashlib.blake2b(position.encode(), digest_size=8).hexdigest()


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


def _request(
    keys: Sequence[dg.AssetKey], want: _Want, attempt: int, positions: Sequence[str]
) -> dg.RunRequest:
    tags = {
        ASKED_FOR: want.asked,
        _ASSET: want.asset,
        _POSITIONS: " ".join(map(_digest, positions)),
    }
    return dg.RunRequest(
        run_key=f"{want.asked}:{attempt}",
        asset_selection=keys,
        tags={**tags, **_NO_RETRY, **tags_of(want.days)},
    )


def _failed(
    instance: dg.DagsterInstance, asset: str, wanted: Mapping[date, _Want]
) -> Iterator[tuple[date, str]]:
    """The days that are wanted and the runs that failed to load them at that position.

    Other days of these runs may have been at other positions.
    """
    if not wanted:
        return
    failed = dg.RunsFilter(tags={_ASSET: asset}, statuses=_ENDED_BADLY)
    for run in instance.get_runs(failed, limit=_MOST_FAILED):
        digests = run.tags.get(_POSITIONS, "").split()
        for day, digest in zip(days_of_run(run) or (), digests, strict=False):
            if day in wanted and _digest(wanted[day].position) == digest:
                yield day, run.run_id


def _ended(instance: dg.DagsterInstance, wanted: Sequence[_Want]) -> Iterator[tuple[date, str]]:
    """The days of what is wanted and the runs that were requested for just that and have ended."""
    for some in _parts([want.asked for want in wanted]):
        for run in instance.get_runs(dg.RunsFilter(tags={ASKED_FOR: some})):
            if run.is_finished:
                yield from ((day, run.run_id) for day in days_of_run(run) or ())


def _parts(asked: Sequence[str]) -> Iterable[Sequence[str]]:
    for start in range(0, len(asked), _KEYS_PER_QUERY):
        yield asked[start : start + _KEYS_PER_QUERY]


def _under_way(instance: dg.DagsterInstance, table: Table, naming: Naming) -> list[DayRange]:
    """The days of the runs that load this table and have not ended."""
    spans = map(days_of_run, runs_that_load(instance, table, naming))
    return [span for span in spans if span is not None]
