"""Which fields of an event are marked as unchanged, and what is left of it."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incremental_assets.changes import ChangeLog
from incremental_assets.changes.debezium import envelopes
from incremental_assets.changes.unchanged import DEBEZIUM, placeholders
from incremental_assets.delta.columns import LACKS
from incremental_assets.errors import DefinitionError

BYTES = base64.b64encode(DEBEZIUM.encode()).decode()
NUMBERS = list(DEBEZIUM.encode())
# The placeholder of arrays of UUIDs: a UUID of version 3 of its bytes.
NAMED = placeholders(DEBEZIUM)[4].strip('[]"')


def read(spark: SparkSession, *events: Any) -> list[tuple[Any, list[str], bool]]:
    """The row, what it lacks, and whether it is whole, of each event."""
    lines = spark.createDataFrame(
        [(nth, json.dumps(event)) for nth, event in enumerate(events)], "nth int, line string"
    )
    rows = lines.withColumn("payload", F.parse_json("line"))
    found = envelopes(rows, ["id"], placeholder=DEBEZIUM).orderBy("nth", "_within")
    texts = found.select(F.to_json("_row").alias("row"), F.array_sort(LACKS), "_is_whole")
    return [(json.loads(row[0]), row[1], row[2]) for row in texts.collect()]


def event(op: str, after: Any, before: Any = None) -> dict[str, Any]:
    source = {"connector": "postgresql", "lsn": 1, "ts_ms": 1}
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1}


def test_a_placeholder_is_known_in_each_form_and_only_where_nothing_else_has_the_value(
    spark: SparkSession,
) -> None:
    after = {
        "id": 1,
        "text": DEBEZIUM,
        "bytes": BYTES,
        "texts": [DEBEZIUM],
        "many_bytes": [BYTES],
        "decimals": [base64.b64encode(bytes([byte])).decode() for byte in NUMBERS],
        "numbers": NUMBERS,
        "uuids": [NAMED],
        "map": {DEBEZIUM: DEBEZIUM},
        "map_text": json.dumps({DEBEZIUM: DEBEZIUM}, separators=(",", ":")),
        "part": f"not {DEBEZIUM}",
        "two": [DEBEZIUM, DEBEZIUM],
        "nothing": None,
    }
    marked = [
        *("bytes", "decimals", "many_bytes", "map", "map_text", "numbers", "text", "texts"),
        "uuids",
    ]
    rest = {name: value for name, value in after.items() if name not in marked}
    before = {"id": 1, "a": "was", "b": DEBEZIUM, "d": None}
    flat = {"id": 1, "a": DEBEZIUM, "__op": "u", "__lsn": 3}
    found = read(
        spark,
        event("u", after),
        event("u", {"id": 1, "a": DEBEZIUM, "b": DEBEZIUM, "c": 3, "d": DEBEZIUM}, before),
        event("d", None, {"id": 1, "a": "x", "b": DEBEZIUM}),
        event("c", {"id": 2, "a": "x"}),
        flat,
    )
    assert found == [
        (rest, marked, False),
        # The row before gives what it has, and a delete lacks nothing.
        ({"id": 1, "a": "was", "c": 3}, ["b", "d"], False),
        ({"id": 1, "a": "x"}, [], False),
        ({"id": 2, "a": "x"}, [], True),
        ({"id": 1}, ["a"], False),
    ]


def test_a_placeholder_may_be_given_in_hexadecimal() -> None:
    assert placeholders("hex:" + DEBEZIUM.encode().hex()) == placeholders(DEBEZIUM)


@pytest.mark.parametrize("wrong", [{"unchanged": "some"}, {"no_earlier": "fail"}])
def test_a_word_that_means_nothing_is_refused(wrong: Any) -> None:
    with pytest.raises(DefinitionError, match="use one of"):
        ChangeLog.debezium(**wrong)
