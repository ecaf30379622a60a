"""Truncates of a log: however many there were, a load looks at those that count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incremental_assets.changes.target_state import TargetState
from incremental_assets.writes import SCD2, Merge, WriteStrategy
from incremental_assets_tests.event_log import EventLog, operators
from incremental_assets_tests.loaders.conftest import Place
from incremental_assets_tests.loaders.test_cdc import Event, live, load, versions
from incremental_assets_tests.thorough import thorough


def truncates(first: int, last: int) -> list[Event]:
    return [(None, None, "TRUNCATE", at) for at in range(first, last, 10)]


def position(place: Place) -> dict[str, Any]:
    rows = DeltaTable(str(place.watermarks)).to_pyarrow_table(columns=["batch", "position"])
    last = max(rows.to_pylist(), key=lambda row: (row["batch"], bool(row["position"])))
    found: dict[str, Any] = json.loads(last["position"])
    return found


@thorough("loaders/test_truncates.py: few truncates, in whatever order")
@pytest.mark.parametrize(
    "write",
    [
        pytest.param(
            Merge(), id="merge", marks=thorough("loaders/test_truncates.py: with history")
        ),
        pytest.param(SCD2(), id="history"),
    ],
)
def test_a_load_after_many_truncates_is_planned_as_one_after_few(
    place: Place, spark: SparkSession, event_log: Path, write: WriteStrategy
) -> None:
    counted, found = EventLog(spark, event_log), []
    first: list[Event] = [(1, "Ann", "INSERT", 1), (3, "Cy", "INSERT", 500)]
    load(place, *first, *truncates(10, 30), write=write)
    for key, late, more in ((2, 12, truncates(30, 210)), (4, 17, [])):
        counted.new()
        load(place, (key, "late", "INSERT", late), write=write)
        events = counted.new()
        found.append((operators(events), len(json.dumps(position(place)))))
        if more:
            load(place, *more, write=write)

    (few, short), (many, long) = found
    assert 0 < many < 1.5 * few
    assert long < short + 5  # the digits of the last place
    if write.keeps_versions:
        assert versions(place) == [
            (1, "Ann", 1, 10, False),
            (2, "late", 12, 20, False),
            (3, "Cy", 500, None, True),
            (4, "late", 17, 20, False),
        ]
    else:
        assert live(place) == [(3, "Cy")]


def test_each_truncate_ends_what_there_was_in_whatever_order_they_come(place: Place) -> None:
    load(place, (1, "A", "INSERT", 1), (1, "A", "UPDATE", 25), write=SCD2())
    late: list[Event] = [(1, "C", "UPDATE", 12), (3, "D", "INSERT", 45), (4, "E", "INSERT", 2)]
    rest = [*truncates(10, 50), (2, "B", "INSERT", 35), *late, *truncates(5, 6)]
    load(place, *rest, write=SCD2())

    assert versions(place) == [
        (1, "A", 1, 5, False),
        (1, "A", 25, 30, False),
        (1, "C", 12, 20, False),
        (2, "B", 35, 40, False),
        (3, "D", 45, None, True),
        (4, "E", 2, 5, False),
    ]


@thorough("loaders/test_truncates.py: truncates of this version")
@pytest.mark.parametrize(
    "write",
    [
        pytest.param(Merge(), id="merge"),
        pytest.param(SCD2(), id="history", marks=thorough("loaders/test_truncates.py: merge")),
    ],
)
def test_truncates_that_an_earlier_version_kept_in_the_ledger_go_on(
    place: Place, write: WriteStrategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(place, (1, "Ann", "INSERT", 1), *truncates(10, 30), write=write)
    side_table = DeltaTable(str(place.target / "_beside"))
    side_table.delete("_deleted AND id IS NULL")
    before = TargetState.position

    def as_it_was(state: TargetState, first: Any) -> Any:
        found = before(state, first)
        assert found.state.pop("truncated") == ["20", "0"]
        found.state["truncates"] = [["10", "0"], ["20", "0"]]
        return found

    with monkeypatch.context() as earlier:
        earlier.setattr(TargetState, "position", as_it_was)
        load(place, (2, "Bob", "INSERT", 30), write=write)
    assert position(place)["truncated"] == ["20", "0"]

    load(place, (3, "late", "INSERT", 5), (3, "later", "UPDATE", 15), write=write)

    if write.keeps_versions:
        assert versions(place)[2:] == [(3, "late", 5, 10, False), (3, "later", 15, 20, False)]
    else:
        assert live(place) == [(2, "Bob")]
