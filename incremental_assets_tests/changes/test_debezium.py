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

ANNE = {"id": 1004, "first_name": "Anne", "last_name": "Kretchmar", "email": "annek@noanswer.org"}
ANNE_MARIE = {**ANNE, "first_name": "Anne Marie"}
RENUMBERED = {**ANNE, "id": 2004}
MYSQL = {
    "version": "2.7.0.Final",
    "connector": "mysql",
    "name": "dbserver1",
    "ts_ms": 1465581029100,
    "snapshot": "false",
    "db": "inventory",
    "table": "customers",
    "server_id": 223344,
    "gtid": None,
    "file": "mysql-bin.000003",
    "pos": 484,
    "row": 0,
    "thread": 7,
}
POSTGRES = {
    "connector": "postgresql",
    "name": "PostgreSQL_server",
    "ts_ms": 1559033904863,
    "snapshot": False,
    "db": "postgres",
    "sequence": '["24023119","24023128"]',
    "schema": "public",
    "table": "customers",
    "txId": 555,
    "lsn": 24023128,
    "xmin": None,
}
MONGODB = {
    "connector": "mongodb",
    "name": "fulfillment",
    "ts_ms": 1558965508000,
    "snapshot": False,
    "db": "inventory",
    "rs": "rs0",
    "collection": "customers",
    "ord": 31,
    "h": 1546547425148721999,
}
SCHEMA = {"type": "struct", "fields": [], "optional": False, "name": "dbserver1.Envelope"}
KEY = {"id": 1004}
ALONE = {"id": 1, "name": "Ann", "seen": "2024-05-01T10:00:00+02:00"}


def event(op: str, before: Any = None, after: Any = None, source: Any = MYSQL) -> dict[str, Any]:
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1465581029523}


def wrapped(payload: Any) -> dict[str, Any]:
    return {"schema": SCHEMA, "payload": payload}


def document(**fields: Any) -> str:
    return json.dumps({"_id": {"$numberLong": "1004"}, **fields})


CREATE = event("c", after=ANNE)
UPDATE = event("u", before=ANNE, after=ANNE_MARIE)
DELETE = event("d", before=ANNE_MARIE)
KEY_ONLY_DELETE = event("d")
FLAT = {**ANNE, "__op": "u", "__table": "customers", "__lsn": 9, "__deleted": "false"}

# What is read of a message: operation, row, word, snapshot.
MESSAGES: Mapping[str, tuple[Any, tuple[str, Any, str | None, bool]]] = {
    "create": (CREATE, ("upsert", ANNE, "c", False)),
    "update": (UPDATE, ("upsert", ANNE_MARIE, "u", False)),
    "delete": (DELETE, ("delete", ANNE_MARIE, "d", False)),
    "snapshot read": (event("r", after=ANNE), ("upsert", ANNE, "r", True)),
    "with schema": (wrapped(CREATE), ("upsert", ANNE, "c", False)),
    "key and value": ({"key": KEY, "value": CREATE}, ("upsert", ANNE, "c", False)),
    "key and value with schema": (
        {"key": wrapped(KEY), "value": wrapped(DELETE)},
        ("delete", ANNE_MARIE, "d", False),
    ),
    "value without key": ({"offset": 7, "value": CREATE}, ("upsert", ANNE, "c", False)),
    "kcat, as text": (
        {"topic": "t", "key": json.dumps(KEY), "payload": json.dumps(wrapped(CREATE))},
        ("upsert", ANNE, "c", False),
    ),
    "value as text": (
        {"key": json.dumps(KEY), "value": json.dumps(CREATE)},
        ("upsert", ANNE, "c", False),
    ),
    "delete without before takes the message's key": (
        {"key": KEY, "value": KEY_ONLY_DELETE},
        ("delete", KEY, "d", False),
    ),
    "delete without before, key with schema": (
        {"key": wrapped(KEY), "value": wrapped(KEY_ONLY_DELETE)},
        ("delete", KEY, "d", False),
    ),
    "delete whose before lacks the key": (
        {"key": KEY, "value": event("d", before={"email": "annek@noanswer.org"})},
        ("delete", KEY, "d", False),
    ),
    "delete of replica identity default": (
        wrapped(event("d", before=KEY, source=POSTGRES)),
        ("delete", KEY, "d", False),
    ),
    "truncate": (
        {"source": POSTGRES, "op": "t", "ts_ms": 1559033904961},
        ("truncate", None, "t", False),
    ),
    "message": (
        {"source": POSTGRES, "op": "m", "message": {"prefix": "foo", "content": "Ymfy"}},
        ("ignore", None, "m", False),
    ),
    "tombstone": (None, ("ignore", None, None, False)),
    "tombstone with schema": ({"schema": None, "payload": None}, ("ignore", None, None, False)),
    "tombstone with key": ({"key": KEY, "value": None}, ("ignore", None, None, False)),
    "tombstone with key and schema": (
        {"key": wrapped(KEY), "value": {"schema": None, "payload": None}},
        ("ignore", None, None, False),
    ),
    "tombstone of kcat": ({"key": json.dumps(KEY), "payload": None}, ("ignore", None, None, False)),
    "transaction begins": (
        {"status": "BEGIN", "id": "571:53195829", "ts_ms": 1, "event_count": None},
        ("ignore", None, None, False),
    ),
    "transaction ends, with schema": (
        wrapped({"status": "END", "id": "571:53195832", "event_count": 2, "data_collections": []}),
        ("ignore", None, None, False),
    ),
    "schema change": (
        wrapped(
            {
                "source": MYSQL,
                "databaseName": "inventory",
                "ddl": "ALTER TABLE …",
                "tableChanges": [],
            }
        ),
        ("ignore", None, None, False),
    ),
    "schema change without ddl": (
        {"source": MYSQL, "databaseName": "testDB", "ddl": None, "tableChanges": []},
        ("ignore", None, None, False),
    ),
    "heartbeat": ({"ts_ms": 1465581029523}, ("ignore", None, None, False)),
    "heartbeat with key": (
        {
            "key": {"serverName": "dbserver1"},
            "value": {"ts_ms": 1, "ts_us": 1000, "ts_ns": 1000000},
        },
        ("ignore", None, None, False),
    ),
    "MongoDB create": (
        wrapped(event("c", after=document(first_name="Anne"), source=MONGODB)),
        ("upsert", {"_id": {"$numberLong": "1004"}, "first_name": "Anne"}, "c", False),
    ),
    "MongoDB delete with the document before": (
        wrapped(
            event("d", before=document(first_name="Anne"), source={**MONGODB, "snapshot": True})
        ),
        ("delete", {"_id": {"$numberLong": "1004"}, "first_name": "Anne"}, "d", False),
    ),
    "MongoDB delete by its key": (
        {
            "key": wrapped({"id": '{"$oid" : "596e275826f08b2730779e1f"}'}),
            "value": wrapped(event("d", source=MONGODB)),
        },
        ("delete", {"_id": {"$oid": "596e275826f08b2730779e1f"}}, "d", False),
    ),
    "flattened": (FLAT, ("upsert", ANNE, "u", False)),
    "flattened with schema": (wrapped(FLAT), ("upsert", ANNE, "u", False)),
    "flattened snapshot read": ({**ANNE, "__op": "r"}, ("upsert", ANNE, "r", True)),
    "flattened, said to be of a snapshot": (
        {**ANNE, "__op": "c", "__source_snapshot": "last"},
        ("upsert", ANNE, "c", True),
    ),
    "flattened delete": ({**ANNE, "__op": "d", "__deleted": "true"}, ("delete", ANNE, "d", False)),
    "flattened delete without word": ({**ANNE, "__deleted": "true"}, ("delete", ANNE, None, False)),
    "flattened without word": ({**ANNE, "__deleted": "false"}, ("upsert", ANNE, None, False)),
    "flattened row with columns key and value": (
        {"id": 1, "key": "a", "value": "b", "__op": "c"},
        ("upsert", {"id": 1, "key": "a", "value": "b"}, "c", False),
    ),
    "a row with columns op, payload and schema": (
        event("c", after={"id": 1, "op": "x", "payload": {"a": 1}, "schema": "s"}),
        ("upsert", {"id": 1, "op": "x", "payload": {"a": 1}, "schema": "s"}, "c", False),
    ),
    "values stay as they are": (
        event("c", after={"id": 1, "price": "SQfH", "date": 16850, "text": "{}", "none": None}),
        (
            "upsert",
            {"id": 1, "price": "SQfH", "date": 16850, "text": "{}", "none": None},
            "c",
            False,
        ),
    ),
}

NOT_KNOWN: Mapping[str, tuple[Any, str, str | None]] = {
    "an unknown word": (event("x", after=ANNE), "unknown_operation", "x"),
    "a flattened row with an unknown word": ({**ANNE, "__op": "x"}, "unknown_operation", "x"),
    "a plain row": (ANNE, "no_envelope", None),
    "a plain row with schema": (wrapped(ANNE), "no_envelope", None),
    "a plain row that has an op": ({**ANNE, "op": "c"}, "no_envelope", None),
    "a row with a status": ({"id": 1, "status": "OPEN"}, "no_envelope", None),
    "a row with a time": ({"id": 1, "ts_ms": 1}, "no_envelope", None),
    "a row alone, of which no time was named": (ALONE, "no_envelope", None),
    "an empty object": ({}, "no_envelope", None),
    "a null value of nobody": ({"value": None}, "no_envelope", None),
    "text": ("c", "no_envelope", None),
    "a list": ([CREATE], "no_envelope", None),
    "an envelope without op": (
        {"before": None, "after": ANNE, "source": MYSQL},
        "no_envelope",
        None,
    ),
    "a create without a row": (event("c"), "no_row", "c"),
    "a MongoDB update that carries changes only": (
        {"op": "u", "updateDescription": {"updatedFields": "{}"}, "source": MONGODB},
        "no_row",
        "u",
    ),
    "a delete of nothing": (event("d"), "no_row", "d"),
}


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
    told = {
        str(before): [(row["_operation"], row["_row"]) for row in found[f"before {before}"]]
        for before in BEFORES
    }

    assert told == {str(before): [("upsert", ANNE)] for before in BEFORES}


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
    payloads = {
        "a row": ALONE,
        "an event": {"op": "d", "before": ALONE, "after": None, "ts_ms": 1714550400000},
        "no time": {"id": 1, "seen": "soon"},
        "a row with a field of the envelope": ALONE | {"op": "?"},
    }

    rows = read(frame(spark, payloads), "id", time="seen")

    assert {
        name: (row["_operation"], row["_reason"], row["changed"]) for name, (row,) in rows.items()
    } == {
        "a row": ("upsert", None, 1714550400000_000),
        "an event": ("delete", None, 1714550400000_000),
        "no time": (None, "no_envelope", None),
        "a row with a field of the envelope": (None, "no_envelope", None),
    }


def test_an_event_changed_when_its_source_says_else_when_it_was_seen(found: Found) -> None:
    assert {name: found[f"time {name}"][0]["changed"] for name in TIMES} == {
        name: micros for name, (_, micros) in TIMES.items()
    }
