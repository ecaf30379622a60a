"""Events as Debezium documents them, in each way in which they are written down."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import VariantVal

from incremental_assets.changes.debezium import envelopes
from incremental_assets.errors import DefinitionError
from incremental_assets_tests.changes.debezium_messages import (
    ALONE,
    ANNE,
    CREATE,
    DELETE,
    KEY,
    MESSAGES,
    MONGODB,
    NOT_KNOWN,
    POSTGRES,
    RENUMBERED,
    document,
    event,
)

# Whether a row was read by a snapshot, as its source tells it.
FLAGS: Mapping[Any, bool] = {
    **dict.fromkeys((True, "true", "TRUE", "first", "first_in_data_collection"), True),
    **dict.fromkeys(("last", "last_in_data_collection", "incremental"), True),
    **dict.fromkeys((False, "false", "", None), False),
}
# Of the row before, what names no old key.
BEFORES = (None, {}, {"email": "a"}, {"id": None}, "text")
# When an event happened, and the microseconds that are read of it.
TIMES: Mapping[str, tuple[dict[str, Any], int | None]] = {
    "both": ({"source": {"lsn": 1, "ts_ms": 1500}, "ts_ms": 2500}, 1500_000),
    "microseconds": ({"source": {"lsn": 1, "ts_ms": 1, "ts_us": 1500}}, 1500),
    "seen": ({"source": {"lsn": 1}, "ts_ms": 2500}, 2500_000),
    "neither": ({"source": {"lsn": 1}}, None),
}
A, B = {"id": 1, "who": "A"}, {"id": 2, "who": "B"}
OTHERS: Mapping[str, Any] = {
    **{
        f"snapshot {flag}": event("c", after=ANNE, source={**POSTGRES, "snapshot": flag})
        for flag in FLAGS
    },
    **{f"before {before}": event("u", before=before, after=ANNE) for before in BEFORES},
    **{
        f"time {name}": {"op": "c", "before": None, "after": {"id": 1}, **times}
        for name, (times, _) in TIMES.items()
    },
    "moved": event("u", before=ANNE, after=RENUMBERED),
    "there": event("u", before=A, after={**A, "id": 2}),
    "back": event("u", before=B, after={**B, "id": 1}),
}
MYSQL_AT = 1465581029100_000
BROKEN = '{"op": "c", "after"'
Found = Mapping[str, list[dict[str, Any]]]


def frame(spark: SparkSession, messages: Mapping[str, Any]) -> DataFrame:
    lines = [(name, json.dumps(message)) for name, message in messages.items()]
    rows = spark.createDataFrame(lines, "name string, line string")
    return rows.select("name", F.parse_json("line").alias("payload"))


def read(rows: DataFrame, *key: str, time: str = "") -> Found:
    found: dict[str, list[dict[str, Any]]] = {}
    events = envelopes(rows, key, time)
    for row in events.withColumn("changed", F.unix_micros("_changed_at")).collect():
        values = row.asDict()
        for name in ("_row", "payload"):
            if isinstance(values[name], VariantVal):
                values[name] = json.loads(values[name].toJson())
        found.setdefault(values["name"], []).append(values)
    return found


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> Found:
    """All messages, read at once, next to columns of others and a line that is no JSON."""
    messages = {name: message for name, (message, *_) in {**MESSAGES, **NOT_KNOWN}.items()}
    lines = {name: json.dumps(message) for name, message in {**messages, **OTHERS}.items()}
    lines["broken"] = BROKEN
    payload = F.try_parse_json("line")
    rows = spark.createDataFrame(list(lines.items()), "name string, line string").select(
        "name",
        payload.alias("payload"),
        F.when(payload.isNull(), F.col("line")).alias("_raw"),
        F.lit("2024-01-01").alias("dt"),
        F.lit(7).alias("_batch"),
    )
    read_once = read(rows, "id")
    assert read_once.keys() == lines.keys()
    return read_once


@pytest.fixture(scope="module")
def of_two_fields(spark: SparkSession) -> Found:
    """Events of a table whose key has two fields."""
    before, after = {"_id": 1, "b": "x", "c": 1}, {"_id": 1, "b": "y", "c": 1}
    messages = {
        "key": event("u", before=before, after=after),
        "other": event("u", before=before, after={**before, "c": 2}),
        "document": event(
            "u", before=document(b="x", n=1), after=document(b="x", n=2), source=MONGODB
        ),
    }
    return read(frame(spark, messages), "_id", "b")


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_is_read_as_documented(found: Found, name: str) -> None:
    (row,) = found[name]

    assert (row["_operation"], row["_row"], row["_op_word"], row["_snapshot"]) == MESSAGES[name][1]
    assert row["_reason"] is None


@pytest.mark.parametrize("name", NOT_KNOWN)
def test_what_cannot_be_applied_says_why(found: Found, name: str) -> None:
    (row,) = found[name]

    assert (row["_operation"], row["_reason"], row["_op_word"]) == (None, *NOT_KNOWN[name][1:])
    assert (row["_position_kind"], row["_order"], row["_within"]) == (None, None, None)


def test_a_row_that_a_snapshot_read_is_known_by_its_source(found: Found) -> None:
    assert {flag: found[f"snapshot {flag}"][0]["_snapshot"] for flag in FLAGS} == FLAGS


def test_a_changed_key_is_a_delete_of_the_old_and_then_the_new(found: Found) -> None:
    old, new = found["moved"]

    assert (old["_operation"], old["_row"]) == ("delete", ANNE)
    assert (new["_operation"], new["_row"]) == ("upsert", RENUMBERED)
    assert old["_op_word"] == new["_op_word"] == "u"
    assert (old["_position_kind"], old["_order"]) == (new["_position_kind"], new["_order"])
    assert old["_within"] < new["_within"]


def test_one_field_of_the_key_is_enough_to_change_it(of_two_fields: Found) -> None:
    assert len(of_two_fields["key"]) == 2
    assert len(of_two_fields["other"]) == 1


def test_without_the_old_key_nothing_is_known_of_it(found: Found) -> None:
    operations = {
        str(before): [(row["_operation"], row["_row"]) for row in found[f"before {before}"]]
        for before in BEFORES
    }

    assert operations == {str(before): [("upsert", ANNE)] for before in BEFORES}


def test_rows_that_swap_their_keys_at_one_position_do_not_delete_each_other(found: Found) -> None:
    rows = [*found["there"], *found["back"]]

    assert len({row["_order"] for row in rows}) == 1
    last = {
        key: max((row for row in rows if row["_row"]["id"] == key), key=lambda row: row["_within"])
        for key in (1, 2)
    }
    assert {key: (row["_operation"], row["_row"]["who"]) for key, row in last.items()} == {
        1: ("upsert", "B"),
        2: ("upsert", "A"),
    }


def test_a_mongodb_document_is_known_by_its_id(of_two_fields: Found) -> None:
    (row,) = of_two_fields["document"]

    assert row["_row"] == {"_id": {"$numberLong": "1004"}, "b": "x", "n": 2}


def test_further_columns_are_kept_and_the_staged_ones_are_gone(
    spark: SparkSession, found: Found
) -> None:
    rows = frame(spark, {"create": CREATE}).withColumns({"dt": F.lit(""), "_batch": F.lit(7)})

    read_from = envelopes(rows, ["id"])

    assert read_from.columns == [
        *("name", "payload", "dt", "_batch"),
        *("_op_word", "_operation", "_snapshot", "_row", "_reason"),
        *("_position_kind", "_order", "_within", "_changed_at"),
    ]
    assert read_from.schema["_row"].dataType.simpleString() == "variant"
    assert read_from.schema["_order"].dataType.simpleString() == "decimal(38,0)"
    assert read_from.schema["_within"].dataType.simpleString() == "decimal(38,0)"
    (row,) = found["create"]
    assert (row["dt"], row["_batch"], row["payload"]) == ("2024-01-01", 7, CREATE)


def test_a_line_that_is_no_json_is_left_alone(found: Found) -> None:
    (broken,) = found["broken"]

    assert (broken["_operation"], broken["_reason"], broken["_op_word"]) == (None, None, None)
    assert broken["_raw"] == BROKEN


def test_a_log_without_a_key_is_refused(spark: SparkSession) -> None:
    with pytest.raises(DefinitionError, match="needs the key"):
        envelopes(frame(spark, {"create": CREATE}), [])


def test_a_row_alone_is_an_upsert_at_the_time_that_it_names(spark: SparkSession) -> None:
    at, later = 1714550400000_000, "2024-05-01T11:00:00Z"
    rewritten = {"id": 2, "seen": ALONE["seen"]}
    parts = {"op": "x", "before": "b", "after": {"a": 1}, "source": "web", "payload": {"a": 1}}
    payloads: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "a row": (ALONE, ("upsert", None, at)),
        "an event": (
            {"op": "d", "before": ALONE, "after": None, "ts_ms": at // 1000},
            ("delete", None, at),
        ),
        "no time": ({"id": 1, "seen": "soon"}, (None, "no_envelope", None)),
        **{
            f"a row with a column {name}": (ALONE | {name: value}, ("upsert", None, at))
            for name, value in parts.items()
        },
        "a row with columns key and value": (
            ALONE | {"key": "theme", "value": "dark"},
            ("upsert", None, at),
        ),
        "a row with columns key and value, which is null": (
            ALONE | {"key": "theme", "value": None},
            ("upsert", None, at),
        ),
        "a message": ({"key": KEY, "value": DELETE, "seen": later}, ("delete", None, MYSQL_AT)),
        "a message as text": (
            {"payload": json.dumps({"schema": {}, "payload": DELETE}), "seen": later},
            ("delete", None, MYSQL_AT),
        ),
        "a tombstone": (
            {"key": KEY, "value": None, "offset": 7, "seen": later},
            ("ignore", None, None),
        ),
        "a flattened row": (rewritten | {"__op": "u"}, ("upsert", None, at)),
        "a flattened delete": (rewritten | {"__deleted": "true"}, ("delete", None, at)),
        "a flattened row with a time of its own": (
            rewritten | {"__op": "u", "__ts_ms": 5},
            ("upsert", None, 5000),
        ),
    }

    messages = {name: message for name, (message, _) in payloads.items()}
    rows = read(frame(spark, messages), "id", time="seen")

    assert {
        name: (row["_operation"], row["_reason"], row["changed"]) for name, (row,) in rows.items()
    } == {name: found for name, (_, found) in payloads.items()}
    (row,), (delete,) = rows["a flattened row"], rows["a flattened delete"]
    assert (row["_position_kind"], row["_order"]) == ("time", delete["_order"])
    assert row["_within"] < delete["_within"]  # which has the time of the row that it deletes


def test_an_event_changed_when_its_source_says_else_when_it_was_seen(found: Found) -> None:
    assert {name: found[f"time {name}"][0]["changed"] for name in TIMES} == {
        name: micros for name, (_, micros) in TIMES.items()
    }
