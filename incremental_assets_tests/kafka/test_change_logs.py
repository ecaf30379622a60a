"""Change logs in topics: Debezium's and flat ones, into silver and by the loaders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

from incremental_assets.changes import ChangeLog
from incremental_assets.errors import DefinitionError, SourceError
from incremental_assets.loaders import CDCLoader, SequenceBasedLoader
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.types import Integer, Text
from incremental_assets.sources.kafka import Kafka
from incremental_assets.table import SameDay, Table
from incremental_assets.testing import Killed
from incremental_assets.writes import SCD2, Merge
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.kafka.broker import Broker, Message
from incremental_assets_tests.kafka.world import DAYS, bronze, plain, quarantined
from incremental_assets_tests.thorough import thorough


def debezium(
    op: str, lsn: int, at: str, before: Any = None, after: Any = None, *, wrapped: bool = False
) -> Message:
    """A change as Debezium sends it, with the row's key as the message's."""
    source = {"connector": "postgresql", "lsn": lsn, "ts_ms": 1483600000000, "snapshot": "false"}
    value: Any = {"op": op, "before": before, "after": after, "source": source}
    key: Any = {"id": (after or before)["id"]}
    if wrapped:
        value, key = ({"schema": {"type": "struct"}, "payload": each} for each in (value, key))
    return plain(json.dumps(value), at, json.dumps(key))


def tombstone(of: int, at: str) -> Message:
    return plain(None, at, json.dumps({"id": of}))


def ann(name: str = "Ann") -> dict[str, Any]:
    return {"id": 1, "name": name}


BOB = {"id": 2, "name": "Bob"}


def silver(bronze: Table, write: Merge | SCD2) -> Table:
    return Table(
        name="silver/events",
        description="The rows as they are.",
        reads=(SameDay(bronze),),
        key=("id",),
        schema=Contract(id=Integer(required=True), name=Text()),
        write=write,
    )


def test_debeziums_changes_reach_silver_with_their_deletes_by_the_message_key(
    lake: Lakes, broker: Broker, topic: str
) -> None:
    landed = bronze(broker, topic, ChangeLog.debezium())
    shop = lake(landed, silver(landed, Merge()))
    broker.send(
        topic,
        [
            debezium("r", 10, "05 10", after=ann()),
            debezium("c", 20, "05 11", after=BOB, wrapped=True),
            debezium("u", 30, "06 10", ann(), ann("Anna")),
            # A delete whose row is not in it: the message's key names the row.
            plain(
                json.dumps({"op": "d", "before": None, "after": None, "source": {"lsn": 40}}),
                "06 11",
                json.dumps({"id": 2}),
            ),
            tombstone(2, "06 11"),
            debezium("u", 25, "06 12", ann(), ann("older")),
            debezium("c", 50, "06 12", after={"id": 3, "name": "Cy"}, wrapped=True),
            plain("{", "06 13"),
        ],
    )
    shop.load("2017-01-05...2017-01-06")

    assert shop.rows("silver/events", "id", "name") == [(1, "Anna"), (3, "Cy")]
    assert quarantined(shop, "silver/events") == [("{", ["line_unreadable"])]


def test_a_flat_log_keeps_every_version_and_a_tombstone_is_no_event_of_it(
    lake: Lakes, broker: Broker, topic: str
) -> None:
    landed = bronze(broker, topic, ChangeLog())
    shop = lake(landed, silver(landed, SCD2()))

    def change(operation: str, number: int, at: str, **row: Any) -> Message:
        value = {"operation": operation, "sequence_num": number, **row}
        return plain(json.dumps(value), at)

    broker.send(
        topic,
        [
            change("INSERT", 1, "05 10", id=1, name="Ann"),
            change("DELETE", 5, "06 10", id=1, name=None),
            tombstone(1, "06 10"),
            change("UPDATE", 3, "07 10", id=1, name="Anna"),
        ],
    )
    shop.load(DAYS)

    versions = shop.rows("silver/events", "name", "valid_from", "valid_to")
    assert versions == [("Ann", 1, 3), ("Anna", 3, 5)]
    assert quarantined(shop, "silver/events") == [("null", ["unknown_operation"])]


class Target:
    """A target that a loader keeps up with a topic."""

    def __init__(self, spark: SparkSession, source: Kafka, folder: Path, **options: Any) -> None:
        self.spark, self.source, self.folder, self.options = spark, source, folder, options

    def load(self, **options: Any) -> int:
        done = CDCLoader(self.spark).process_cdc(
            self.source,
            self.folder / "target",
            self.folder / "watermarks",
            "id",
            "people",
            **self.options | options,
        )
        return done.records_read

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(pl.read_delta(str(self.folder / "target")).select("id", "name").rows())


@thorough(
    "kafka/test_interrupted.py, loaders/test_debezium_log.py: a lake that dies, and the loader over files"
)
def test_the_loader_follows_a_topic_of_debezium_and_dies_and_goes_on(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    people = Target(spark, Kafka(broker.url, topic), tmp_path, cdc_format="debezium")
    broker.send(
        topic,
        [debezium("c", 10, "05 10", after=ann()), debezium("c", 20, "05 11", after=BOB)],
    )
    assert people.load() == 2
    broker.send(
        topic,
        [
            debezium("u", 30, "06 10", ann(), ann("Anna")),
            debezium("d", 40, "05 12", BOB),
            tombstone(2, "05 12"),
        ],
    )
    for step in ("publish", "record"):
        with monkeypatch.context() as broken:

            def die(*_: object, **__: object) -> None:
                raise Killed

            broken.setattr(f"incremental_assets.engine.target_steps.{step}", die)
            with pytest.raises(Killed):
                people.load()
    assert people.load() == 0  # what died behind the commit was there
    assert people.rows == [(1, "Anna")]


@thorough("kafka/test_kafka.py, loaders/test_cdc.py: topics in the lake, flat logs in files")
def test_the_loader_reads_a_flat_topic_some_messages_at_a_time(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    people = Target(spark, Kafka(broker.url, topic), tmp_path)
    rows = [(1, "Ann", "INSERT"), (2, "Bob", "INSERT"), (1, "Anna", "UPDATE"), (2, None, "DELETE")]
    events = [
        {"id": key, "name": name, "operation": operation, "sequence_num": number}
        for number, (key, name, operation) in enumerate(rows)
    ]
    broker.send_in_transaction(topic, [plain("{}", "05 09")] * 3, commit=False)
    broker.send(topic, [plain(json.dumps(each), "05 10") for each in events])

    taken = [people.load(max_records=3) for _ in range(3)]

    assert taken == [2, 2, 0]  # what was aborted has offsets, too
    assert people.rows == [(1, "Anna")]

    broker.send_in_transaction(topic, [plain("{}", "05 11")], commit=False)
    assert people.load() == 0  # the topic ends with what was aborted
    broker.send(topic, [plain("{}", "05 11")] * 2)
    broker.expire(topic, before=12)
    with pytest.raises(SourceError, match=r"2 offsets expired .*\(partition 0: 10 … 11\)"):
        people.load()


def test_a_topic_is_read_by_offsets_alone(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    with pytest.raises(DefinitionError, match=r"Sequence compares rows, and .* is a topic"):
        SequenceBasedLoader(spark).load_incremental(
            Kafka(broker.url, topic), tmp_path / "target", tmp_path / "marks", "n", table_name="n"
        )
