"""The detectors that bring deletes, with each way of writing that can, through all that can happen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest

from incremental_assets.engine import target_steps as load_module
from incremental_assets.loaders import CDCLoader, DeltaDiffLoader, LoadResult
from incremental_assets.testing import Killed
from incremental_assets.writes import SCD2, Merge, WriteStrategy
from incremental_assets_tests.loaders.conftest import NOON, Place
from incremental_assets_tests.loaders.crashes import CRASHES
from incremental_assets_tests.thorough import thorough

EVENTS = {"id": pl.Int64, "amount": pl.Int64, "operation": pl.String, "seq": pl.Int64}
COPY = {"id": pl.Int64, "amount": pl.Int64}
Shown = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Event:
    """What became of a key at a place in the order; no amount is a delete."""

    id: int
    amount: int | None
    at: Any


@dataclass(frozen=True)
class Step:
    """What lands, what a load reads and quarantines of it, and what really happened in it.

    `dies` says how a load before it dies.
    """

    name: str
    lands: Sequence[Mapping[str, Any]] | None
    reads: int
    happened: Sequence[Event] = ()
    aside: int = 0
    at: datetime | None = None
    dies: str = ""


def _event(id_: int, amount: int | None, number: int | None) -> Mapping[str, Any]:
    operation = "UPDATE" if amount else "DELETE"
    return {"id": id_, "amount": amount, "operation": operation, "seq": number}


def _log(name: str, *events: tuple[int, int | None, int | None], dies: str = "") -> Step:
    """Events of a flat log: the key, the amount (none: a delete) and the number."""
    rows = [_event(*each) for each in events]
    readable = [Event(i, a, n) for i, a, n in events if n is not None]
    return Step(name, rows or None, len(rows), readable, len(rows) - len(readable), dies=dies)


NEW_EVENTS = ((1, 11, 4), (4, 40, 8), (2, None, 7))
BY_LOG = (
    _log("first load", (1, 10, 1), (2, 20, 2), (3, 30, 3)),
    _log("new rows and a delete", *NEW_EVENTS, dies="before the write"),
    _log(
        "late rows, one before a delete, equal numbers of other keys, a delete of what never was, "
        "a row without a number, and the rows before again",
        *((3, 33, 2), (2, 22, 6), (6, 60, 8), (7, 70, 8), (5, None, 5), (8, 80, None)),
        *NEW_EVENTS,
        dies="when its rows are staged",
    ),
    Step("the same rows again", [_event(*each) for each in NEW_EVENTS], 3),
    Step("nothing new", None, 0),
    _log(
        "rows that come back, and one from before a delete of what never was",
        *((2, 23, 9), (4, None, 10), (5, 50, 4)),
        dies="after the write",
    ),
)


def _moment(hours: int) -> datetime:
    return NOON - timedelta(days=1) + timedelta(hours=hours)


def _copy(name: str, hours: int, rows: Mapping[int, int], *happened: Event, dies: str = "") -> Step:
    """A full copy of a table for a moment."""
    lands = [{"id": i, "amount": a} for i, a in rows.items()]
    return Step(name, lands, len(lands), happened, at=_moment(hours), dies=dies)


FIRST_COPY = {1: 10, 2: 20, 3: 30}
SECOND_COPY = {1: 11, 3: 30, 4: 40}
BY_COPY = (
    _copy("first load", 1, FIRST_COPY, *(Event(i, a, _moment(1)) for i, a in FIRST_COPY.items())),
    _copy(
        "new rows and a delete",
        5,
        SECOND_COPY,
        *(Event(1, 11, _moment(5)), Event(4, 40, _moment(5)), Event(2, None, _moment(5))),
        dies="before the write",
    ),
    Step("the same rows again", None, 3, at=_moment(6)),
    Step(
        "a row without a key",
        [{"id": i, "amount": a} for i, a in ((None, 9), (1, 12), (3, 30), (4, 40))],
        4,
        [Event(1, 12, _moment(7))],
        aside=1,
        at=_moment(7),
        dies="when its rows are staged",
    ),
    _copy(
        "a row that comes back",
        8,
        {1: 12, 2: 23, 3: 30, 4: 40},
        Event(2, 23, _moment(8)),
        dies="after the write",
    ),
)


def load_log(place: Place, step: Step, *, write: WriteStrategy) -> LoadResult:
    if step.lands is not None:
        place.land(step.lands, EVENTS)
    return CDCLoader(place.spark, place.clock).process_cdc(
        place.source,
        place.target,
        place.watermarks,
        "id",
        "orders",
        sequence_column="seq",
        write=write,
    )


def load_copy(place: Place, step: Step, *, write: WriteStrategy) -> LoadResult:
    if step.lands is not None:
        for old in place.source.glob("*"):
            old.unlink()
        place.land(step.lands, COPY)
    return DeltaDiffLoader(place.spark, place.clock).detect_changes(
        place.source,
        place.target,
        place.snapshot,
        "id",
        "orders",
        write=write,
        snapshot_at=step.at,
        max_deleted_share=0.5,
    )["result"]


@dataclass
class Truth:
    """What a table should hold, by the plainest means."""

    events: list[Event] = field(default_factory=list)

    def live(self) -> Shown:
        last = {e.id: e for e in sorted(self.events, key=lambda e: e.at)}
        return sorted(((e.id, e.amount) for e in last.values() if e.amount), key=str)

    def versions(self) -> Shown:
        found: Shown = []
        for id_ in {e.id for e in self.events}:
            of_key = sorted((e for e in self.events if e.id == id_), key=lambda e: e.at)
            ends = [*(e.at for e in of_key[1:]), None]
            found += [
                (id_, e.amount, e.at, end, end is None)
                for e, end in zip(of_key, ends, strict=True)
                if e.amount
            ]
        return sorted(found, key=str)


def shown(place: Place, *, write: WriteStrategy) -> Shown:
    versions = ("valid_from", "valid_to", "is_current") if write.keeps_versions else ()
    return place.rows("id", "amount", *versions)


Load = Callable[..., LoadResult]
DETECTORS: Mapping[str, tuple[Load, Sequence[Step]]] = {
    "change log": (load_log, BY_LOG),
    "snapshot diff": (load_copy, BY_COPY),
}
HELD = (
    "loaders/test_matrix_deletes.py, loaders/test_snapshots.py, "
    "loaders/test_killed_at_each_commit.py: a history of a log, snapshots, and loads that are killed"
)
ALIVE = [replace(step, dies="") for step in BY_LOG]
COMBINATIONS = [
    pytest.param(load_log, ALIVE, SCD2(), id="change log, history, alive"),
    *(
        pytest.param(load, story, write, id=f"{name}, {write.mode}", marks=thorough(HELD))
        for name, (load, story) in DETECTORS.items()
        for write in (Merge(), SCD2())
    ),
]


@pytest.mark.parametrize(("load", "story", "write"), COMBINATIONS)
def test_each_step_changes_just_what_it_should_also_where_a_load_before_it_died(
    place: Place,
    load: Load,
    story: Sequence[Step],
    write: WriteStrategy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    truth = Truth()
    for step in story:
        if step.dies:
            with monkeypatch.context() as dying, pytest.raises(Killed):
                dying.setattr(load_module, *CRASHES[step.dies])
                load(place, step, write=write)
        before = place.version() if place.target.exists() else None

        result = load(place, replace(step, lands=None) if step.dies else step, write=write)

        truth.events += [event for event in step.happened if event not in truth.events]
        wanted = truth.versions() if write.keeps_versions else truth.live()
        assert shown(place, write=write) == wanted, step.name
        published = step.dies == "after the write"
        assert result.records_quarantined == step.aside, step.name
        if step.happened and not published:
            assert result.records_read == step.reads, step.name
        else:
            assert (result.records_loaded, place.version()) == (0, before), step.name
