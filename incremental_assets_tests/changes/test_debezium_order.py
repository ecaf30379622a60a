"""Events of many connectors, each log in the order in which its changes became true."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.changes.debezium import envelopes
from incremental_assets.changes.log_position import (
    POSITION_KINDS,
    PositionKind,
    kind_counts,
    settle_position_kind,
    with_positions,
)
from incremental_assets.errors import SourceError
from incremental_assets_tests.changes.debezium_logs import LOGS, mysql, nth, oracle, postgres

POSITIONS: dict[str, tuple[dict[str, Any], tuple[str | None, Decimal | None]]] = {
    "the event's own lsn": (postgres("u", 1025, 1080), ("lsn", Decimal(1025))),
    "file and position": (
        mysql("u", "mysql-bin.000003", 484),
        ("binlog", Decimal(3_00000000000000000484)),
    ),
    "a time in nanoseconds": (
        {"op": "u", "source": {"ts_ms": 1559033904863}},
        ("time", Decimal(1559033904863000000)),
    ),
    "a flattened document whose own time is missing": (
        {"__op": "u", "__ord": 3, "__ts_ms": 5},
        ("time", Decimal(5_000_000)),
    ),
    "a negative position": (mysql("u", "b.000001", -5), (None, None)),
    "a negative time": ({"op": "u", "source": {"ts_ms": -1}}, (None, None)),
    "a time beyond all calendars": ({"op": "u", "source": {"ts_ms": 2**62}}, (None, None)),
    "a file that is not numbered": (
        mysql("u", "CommitLog-6-1.log", 4, ts_ms=1),
        ("time", Decimal(10**6)),
    ),
    "a file number without end": (mysql("u", "b." + "9" * 30, 4), (None, None)),
    "a position that is no number": ({"op": "u", "source": {"lsn": "1:4::0:0"}}, (None, None)),
    "no position": ({"op": "u", "source": {}}, (None, None)),
    "a message, which has one but does not count": (
        {"op": "m", "source": {"lsn": 7}},
        (None, None),
    ),
}
# Events that are one and the same, sent twice; then one whose order in the transaction is too long.
FURTHER = [
    postgres("u", 1025, 1080) | {"ts_ms": 1},
    postgres("u", 1025, 1080) | {"ts_ms": 2},
    oracle("u", "7", "5", **nth("1234567890123456789")),
]


def read(spark: SparkSession, events: Sequence[dict[str, Any]]) -> DataFrame:
    """The events of row 1, in an order that is not the log's; `n` is their place in the log."""
    lines = [
        (
            n,
            json.dumps(
                ({"id": 1} if "__op" in event else {"after": {"id": 1}, "before": {"id": 1}})
                | event
            ),
        )
        for n, event in enumerate(events)
    ]
    rows = spark.createDataFrame(lines[::-1], "n int, line string")
    return envelopes(rows.select("n", F.parse_json("line").alias("payload")), ["id"])


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> list[Any]:
    """All events, read at once: those of the logs, of the positions, and the further ones."""
    events = [event for _, log in LOGS.values() for event in log]
    events += [*(event for event, _ in POSITIONS.values()), *FURTHER]
    found = sorted(read(spark, events).collect(), key=lambda row: row["n"])
    assert len(found) == len(events)
    return found


@pytest.mark.parametrize("name", LOGS)
def test_positions_order_a_log_as_it_became_true(rows: list[Any], name: str) -> None:
    kind, log = LOGS[name]
    names = list(LOGS)
    first = sum(len(LOGS[before][1]) for before in names[: names.index(name)])
    of_log = rows[first : first + len(log)]

    assert {row["_position_kind"] for row in of_log} == {kind}
    positions = [(row["_order"], row["_within"]) for row in of_log]
    assert None not in [number for position in positions for number in position]
    assert positions == sorted(set(positions))


def test_a_position_is_this_number(rows: list[Any]) -> None:
    of_positions = rows[-len(POSITIONS) - len(FURTHER) : -len(FURTHER)]

    found = [(row["_position_kind"], row["_order"]) for row in of_positions]
    assert dict(zip(POSITIONS, found, strict=True)) == {
        name: position for name, (_, position) in POSITIONS.items()
    }


def test_the_same_event_has_the_same_position_whenever_it_is_sent(rows: list[Any]) -> None:
    first, again, _ = rows[-len(FURTHER) :]

    assert (first["_order"], first["_within"]) == (again["_order"], again["_within"])


def test_a_row_of_the_binary_log_has_the_number_that_older_tables_hold(rows: list[Any]) -> None:
    of_mysql = [row for row in rows if row["_position_kind"] == "binlog"]

    assert of_mysql[2]["_within"] == Decimal("1" + "0" * 18 + "9" + "0" * 17 + "1")


def test_numbers_too_long_for_their_position_count_as_missing(rows: list[Any]) -> None:
    # Next to the scn of 19 digits there is room for 18.
    assert rows[-1]["_within"] == Decimal("1" + "0000000000000000005" + "0" * 17 + "1")


SETTLED: list[tuple[dict[PositionKind, int], PositionKind | None, PositionKind | None]] = [
    ({}, None, None),
    ({}, "lsn", "lsn"),
    ({"lsn": 3, "time": 0}, None, "lsn"),
    ({"lsn": 3}, "lsn", "lsn"),
    ({"lsn": 3, "time": 2}, None, "lsn"),
    ({"time": 2}, "lsn", "lsn"),
    ({"time": 2}, None, "time"),
    ({"time": 2}, "time", "time"),
    ({}, "time", "time"),
]
UNSETTLED: list[tuple[dict[PositionKind, int], PositionKind | None, str]] = [
    (
        {"lsn": 3, "binlog": 1},
        None,
        r"log shop has events of 2 logs: 3 of kind 'lsn', 1 of kind 'binlog'",
    ),
    ({"binlog": 1}, "lsn", r"1 of kind 'binlog'; earlier loads ordered it by 'lsn'"),
    ({"lsn": 1}, "time", r"1 of kind 'lsn'; earlier loads ordered it by 'time'"),
    ({"lsn": 1, "scn": 1}, "binlog", r"events of 3 logs"),
]


@pytest.mark.parametrize(("counts", "remembered", "kind"), SETTLED, ids=str)
def test_a_log_is_ordered_in_one_way_from_its_first_load_on(
    counts: dict[PositionKind, int], remembered: PositionKind | None, kind: PositionKind | None
) -> None:
    assert settle_position_kind(counts, remembered, "shop") == kind


@pytest.mark.parametrize(("counts", "remembered", "message"), UNSETTLED, ids=str)
def test_positions_of_two_logs_are_refused(
    counts: dict[PositionKind, int], remembered: PositionKind | None, message: str
) -> None:
    with pytest.raises(SourceError, match=message):
        settle_position_kind(counts, remembered, "shop")


MIXED = {
    "change": postgres("u", 1000, 990),
    "read": postgres("r", 1000, None, "true"),
    "read without position": {"op": "r", "source": {"ts_ms": 5}},
    "read without anything": {"op": "r", "source": {}},
    "change with a time": {"op": "u", "source": {"ts_ms": 5}},
    "change without anything": {"op": "u", "source": {}},
    "message": {"op": "m", "source": {"file": "b.000001", "pos": 4}},
}


@pytest.fixture(scope="module")
def mixed(spark: SparkSession) -> Iterator[DataFrame]:
    events = read(spark, list(MIXED.values())).drop("payload", "_row").cache()
    yield events
    events.unpersist()


def test_one_aggregate_counts_what_fixes_the_kind(mixed: DataFrame) -> None:
    found = mixed.agg(*(count.alias(kind) for kind, count in kind_counts().items())).collect()[0]

    assert found.asDict() == {**dict.fromkeys(POSITION_KINDS, 0), "lsn": 2, "time": 1}


def test_reads_without_a_position_come_first_and_changes_without_one_nowhere(
    mixed: DataFrame,
) -> None:
    found = dict(zip(MIXED, with_positions(mixed, "lsn").orderBy("n").collect(), strict=True))

    assert {name: row["_order"] for name, row in found.items()} == {
        "change": 1000,
        "read": 1000,
        "read without position": 0,
        "read without anything": 0,
        "change with a time": None,
        "change without anything": None,
        "message": None,
    }
    assert found["read"]["_within"] < found["change"]["_within"]
    assert found["read without position"]["_within"] == 5_000_000
    assert found["read without anything"]["_within"] == 0
    assert found["change with a time"]["_within"] is None


def test_a_log_of_times_orders_its_reads_by_time_too(mixed: DataFrame) -> None:
    found = dict(zip(MIXED, with_positions(mixed, "time").orderBy("n").collect(), strict=True))

    assert found["read without position"]["_order"] == 5_000_000
    assert found["change with a time"]["_order"] == 5_000_000
    assert found["read without position"]["_within"] < found["change with a time"]["_within"]
    assert found["change"]["_order"] is None


def test_before_anything_is_settled_only_reads_have_a_position(mixed: DataFrame) -> None:
    found = dict(zip(MIXED, with_positions(mixed, None).orderBy("n").collect(), strict=True))

    assert [name for name, row in found.items() if row["_order"] is not None] == [
        "read without position",
        "read without anything",
    ]
