"""A topic as a source: what is refused, how it is reached, and what is asked without Spark."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from incremental_assets.changes import Files, Sequence, SnapshotDiff, Timestamp
from incremental_assets.errors import DefinitionError, SourceError, SparkUnavailableError
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.operations.compare import compare_with_source
from incremental_assets.settings import PROJECT_ROOT, Settings
from incremental_assets.sources.kafka import Kafka
from incremental_assets.sources.stored import Stored
from incremental_assets.spark.optional_jars import jars_of
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.world import Lake
from incremental_assets_tests.kafka.broker import Broker
from incremental_assets_tests.kafka.world import (
    BRONZE,
    DAYS,
    REMOTE,
    bronze,
    bronze_of,
    event,
    landed,
)
from incremental_assets_tests.thorough import thorough

PAGE = PROJECT_ROOT / "docs/kafka.md"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"brokers": "localhost"}, "expected host:port"),
        ({"brokers": "user:secret@host:9092"}, "expected host:port"),
        ({"topic": "a topic"}, "no name of a topic"),
        ({"topic": ".."}, "no name of a topic"),
        ({"value": "xml"}, "value of events"),
        ({"security": "SSH"}, "security of events"),
        ({"mechanism": "GSSAPI"}, "mechanism of events"),
        ({"on_gap": "ignore"}, "on_gap of events"),
        ({"ca": "ca.pem"}, "without TLS; expected"),
        ({"security": "SASL_PLAINTEXT", "certificate": "own.pem"}, "without TLS; expected"),
        ({"credentials": "secret word"}, "expected how two environment variables"),
    ],
)
def test_a_source_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        Kafka(**{"brokers": "localhost:9092", "topic": "events"} | options)


@pytest.mark.parametrize(
    "changes", [Timestamp("at"), Sequence("n"), SnapshotDiff(("id",)), Files()]
)
def test_a_detector_that_reads_no_topic_is_refused(changes: Any) -> None:
    topic = Kafka("localhost:9092", "events")
    table = bronze_of(topic)

    with pytest.raises(DefinitionError):
        replace(table, changes=changes)
    with pytest.raises(DefinitionError, match="Offsets reads topics"):
        replace(table, reads=(Stored("events"),))


def without_spark(shop: Lake) -> Lakehouse:
    def none() -> SparkSession:
        raise AssertionError("Spark was asked for")

    return Lakehouse(shop.settings, list(shop.tables.values()), none, lambda: shop.now)


def test_what_is_new_is_found_and_nothing_new_is_loaded_without_spark(
    lake: Lakes, broker: Broker, topic: str
) -> None:
    shop = lake(bronze(broker, topic))
    table = shop.tables[BRONZE]
    days = [date(2017, 1, 5) + timedelta(days=n) for n in range(6)]
    broker.send(topic, [event("a", "05 10"), event("b", "05 11"), event("c", "07 11")])
    loads = without_spark(shop)

    plan = loads.plan(table, days, loads.ledger.view())
    found = {day.day: (day.why, day.rows) for work in plan.work for day in work.days.values()}
    (compared,) = compare_with_source([table], loads.ledger.view(), shop.settings, shop.now)

    assert found == {date(2017, 1, 5): ("2 new rows", 2), date(2017, 1, 7): ("1 new row", 1)}
    assert (compared.at_source, compared.in_table) == ("offset 3 of partition 0", "nothing")
    shop.load(DAYS)
    loads.load(table, days)
    (compared,) = compare_with_source([table], loads.ledger.view(), shop.settings, shop.now)
    assert (compared.in_table, compared.days_behind) == ("offset 3 of partition 0", 0)


def test_no_message_is_looked_through_twice(
    lake: Lakes, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from incremental_assets.sources import kafka_scan

    looked: list[int] = []
    add = kafka_scan._Counts.add

    def counted(self: Any, partition: int, offset: int, at: int, size: int) -> None:
        looked.append(offset)
        add(self, partition, offset, at, size)

    monkeypatch.setattr(kafka_scan._Counts, "add", counted)
    shop = lake(bronze(broker, topic))
    broker.send(topic, [event("a", "05 10"), event("b", "06 11")])
    shop.pending_days(BRONZE)
    shop.load("2017-01-05")
    broker.send(topic, [event("c", "05 12")])
    shop.load("2017-01-06")
    kafka_scan._last.clear()  # as in another process
    shop.load(DAYS)
    shop.pending_days(BRONZE)

    assert looked == [0, 1, 2]
    assert landed(shop) == [("05", "a"), ("05", "c"), ("06", "b")]


def test_a_broker_or_topic_that_is_not_there_is_named_in_one_sentence(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        SourceError, match=r"kafka://.*/nowhere: the broker cannot be asked: .*topic"
    ):
        Kafka(broker.url, "nowhere").fix()
    monkeypatch.setattr("incremental_assets.sources.kafka_access.SECONDS", 1.0)
    with pytest.raises(SourceError, match=r"cannot be asked: .*run again"):
        Kafka("127.0.0.1:1", "events").fix()


def test_jars_that_were_not_fetched_are_named_with_the_command(tmp_path: Any) -> None:
    with pytest.raises(SparkUnavailableError, match=r"setup --with kafka"):
        jars_of(["kafka"], tmp_path)


def test_the_tables_of_the_page_are_tables() -> None:
    names: dict[str, Any] = {"__name__": "example"}

    for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S):
        exec(compile(block, str(PAGE), "exec", dont_inherit=True), names)

    assert names["ORDERS"].log == names["ORDER_CHANGES"].changes


LOAD_AND_PRINT = "shop.load(DAYS); print(landed(shop))"


@thorough("kafka/test_kafka.py, spark/test_start.py: the jars of an embedded Spark")
def test_a_connect_server_gets_the_jars_of_kafka(
    server: str, settings: Settings, broker: Broker, topic: str
) -> None:
    broker.send(topic, [event("a", "05 10"), event("b", "06 10")])
    folders = (settings.lake, settings.landing, str(settings.cache))

    done = subprocess.run(
        [sys.executable, "-c", REMOTE + LOAD_AND_PRINT, server, broker.url, topic, *folders],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.splitlines()[-1:] == ["[('05', 'a'), ('06', 'b')]"], done.stderr
