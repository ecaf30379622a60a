"""Debezium's events through a load: from envelopes to live rows and histories."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable

from incremental_assets.errors import SourceError
from incremental_assets.loaders import CDCLoader, LoadResult
from incremental_assets.query import query
from incremental_assets.writes import SCD2
from incremental_assets_tests.loaders.conftest import Place
from incremental_assets_tests.thorough import thorough

Json = Mapping[str, Any]
ANNE = {"id": 1004, "first_name": "Anne", "email": "annek@noanswer.org"}
MARIE = ANNE | {"first_name": "Anne Marie"}


def postgres(op: str, lsn: int, before: Json | None = None, after: Json | None = None) -> Json:
    source = {"connector": "postgresql", "lsn": lsn, "ts_ms": 1559033904863, "snapshot": "false"}
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1559033904900}


def mysql(op: str, file: str, pos: int, after: Json) -> Json:
    source = {"connector": "mysql", "file": file, "pos": pos, "row": 0}
    return {"before": None, "after": after, "source": source, "op": op, "ts_ms": 1}


def wrapped(event: Json | None) -> Json:
    return {"schema": {"type": "struct", "name": "dbserver1.inventory"}, "payload": event}


def process(place: Place, **options: Any) -> LoadResult:
    return CDCLoader(place.spark, place.clock).process_cdc(
        place.source,
        place.target,
        place.watermarks,
        primary_key="id",
        table_name="customers",
        cdc_format="debezium",
        **options,
    )


def names(place: Place) -> list[tuple[Any, ...]]:
    return place.rows("id", "first_name")


def test_the_tutorials_customers_come_change_and_go_in_the_order_of_the_log(place: Place) -> None:
    wrap = wrapped  # the other tests have bare events
    place.land_lines([wrap(postgres("r", 10, after={**ANNE, "id": 1001}))])
    place.land_lines([wrap(postgres("u", 30, ANNE, MARIE)), wrap(postgres("c", 20, after=ANNE))])
    process(place)
    assert names(place) == [(1001, "Anne"), (1004, "Anne Marie")]

    late = postgres("u", 25, ANNE, {**ANNE, "first_name": "older"}) | {"ts_ms": 9999999999999}
    moved = postgres("u", 35, {**ANNE, "id": 1001}, {**MARIE, "id": 7})
    place.land_lines([wrap(late), wrap(moved), wrap(postgres("d", 40, MARIE)), "null"])
    result = process(place)
    assert names(place) == [(7, "Anne Marie")]
    assert (result.records_deleted, result.watermark_after) == (2, "40")
    assert [c for c in place.columns() if not c.startswith("_")] == ["email", "first_name", "id"]

    truncate = wrap(postgres("t", 50))
    place.land_lines([truncate, wrap(postgres("c", 60, after={**ANNE, "id": 5}))])
    process(place)
    assert names(place) == [(5, "Anne")]

    place.land_lines([wrap(mysql("u", "mysql-bin.000001", 4, MARIE))])  # of another log
    with pytest.raises(SourceError, match="land the events of each source"):
        process(place)


def test_a_flattened_row_with_a_column_called_value_is_no_message(place: Place) -> None:
    row = {"id": 1, "key": "mode", "value": "dark", "__op": "c", "__lsn": 10}
    place.source.mkdir(parents=True)
    pl.DataFrame([row]).write_parquet(place.source / "1.parquet")

    process(place)

    assert place.rows("id", "key", "value") == [(1, "mode", "dark")]


@thorough("loaders/test_debezium_log.py, feeds/test_change_log.py: the history by times")
def test_a_history_counts_in_the_logs_positions(place: Place) -> None:
    place.land_lines([postgres("c", 10, after=ANNE), postgres("d", 40, MARIE)])
    process(place, write=SCD2())
    place.land_lines([postgres("u", 30, ANNE, MARIE)])
    process(place, write=SCD2())

    shown = place.rows("valid_from", "valid_to", "first_name", "is_current")
    assert [(n, int(a), int(b), c) for a, b, n, c in shown] == [
        ("Anne", 10, 30, False),
        ("Anne Marie", 30, 40, False),
    ]


def test_a_log_that_holds_no_event_is_refused(place: Place) -> None:
    place.land_lines(["{broken", json.dumps(ANNE)])

    with pytest.raises(SourceError, match="holds no row of a Debezium event, but lines such as"):
        process(place)


def test_lines_that_are_no_event_and_tombstones_alone_are_read_once_and_hold_up_no_load(
    place: Place,
) -> None:
    """A row may have columns of the names that a message has."""
    named = {"payload": '{"x":1}', "key": "k", "op": "o"}
    place.land_lines(["null", "null"])
    place.land_lines([postgres("c", 10, after=ANNE | named), '{"cut": ', {"op": "?"}])
    for _ in range(2):
        process(place, max_records=1)
    assert place.quarantined() == [["line_unreadable"], ["no_envelope"]]
    assert place.rows("id", *named) == [(1004, *named.values())]

    place.land_lines(["{broken", json.dumps(ANNE)])
    assert process(place).records_quarantined == 2
    assert process(place).records_read == 0
    assert place.rows("id") == [(1004,)]
    quarantined = query(DeltaTable(str(place.target / "_quarantine")))["row"].to_list()
    assert '{"op":"?"}' in quarantined
    place.land_lines([postgres("c", 20, after=ANNE | {"_key": "k"})])
    with pytest.raises(SourceError, match="_key"):
        process(place)


@pytest.mark.parametrize(
    "binary",
    [
        pytest.param(False, id="text"),
        pytest.param(
            True,
            id="bytes",
            marks=thorough(
                "loaders/test_debezium_log.py, sources/test_stored_parquet.py: text, and bytes"
            ),
        ),
    ],
)
def test_a_topic_dumped_as_key_and_value_is_read_with_deletes_that_only_the_key_names(
    place: Place, *, binary: bool
) -> None:
    def message(event: Json | None) -> tuple[str, str | None]:
        return json.dumps({"id": 1004}), json.dumps(event) if event else None

    def topic(name: str, *messages: tuple[str, str | None]) -> None:
        rows = pl.DataFrame(messages, schema=["key", "value"], orient="row")
        rows = rows.cast(pl.Binary) if binary else rows
        place.source.mkdir(exist_ok=True)
        rows.write_parquet(place.source / name)

    topic("1.parquet", message(wrapped(postgres("c", 10, after=ANNE))), message(None))
    process(place)
    assert names(place) == [(1004, "Anne")]

    topic("2.parquet", message(postgres("d", 40)), message(None))
    result = process(place)

    assert (names(place), result.records_deleted, result.records_quarantined) == ([], 1, 0)
