"""Topics in which a message is the newest row of its key, and one without a value its delete."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from incremental_assets.changes import Upserts
from incremental_assets.changes.unchanged import DEBEZIUM
from incremental_assets.errors import DefinitionError, SourceError
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.types import Integer, Text
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.stored import Stored
from incremental_assets.table import SameDay, Table
from incremental_assets.writes import SCD2, Append, Merge
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.test_retract import all_equal
from incremental_assets_tests.feeds.world import Lake
from incremental_assets_tests.kafka.broker import Broker, Message
from incremental_assets_tests.kafka.world import DAYS, bronze, plain, quarantined
from incremental_assets_tests.thorough import thorough

NOW, PAST = "silver/products", "silver/past"


def shop_of(lake: Lakes, broker: Broker, topic: str) -> Lake:
    """The rows as they are, and their versions."""
    landed = bronze(broker, topic, Upserts())
    now = Table(
        name=NOW,
        description="The products as they are.",
        reads=(SameDay(landed),),
        key=("sku",),
        schema=Contract(sku=Text(), name=Text(), price=Integer()),
        write=Merge(),
    )
    past = replace(now, name=PAST, description="Their versions.", write=SCD2())
    return lake(landed, now, past)


def row(key: Any, at: str, **fields: Any) -> Message:
    return plain(json.dumps(fields) if fields else None, at, json.dumps(key))


def wrapped(value: Any) -> dict[str, Any]:
    """As Kafka Connect writes it with its schemas."""
    return {"schema": {"type": "struct"}, "payload": value}


def versions(lake: Lake) -> list[tuple[Any, ...]]:
    return lake.rows(PAST, "sku", "name", "valid_from", "valid_to")


def test_the_last_message_of_a_key_is_its_row_and_one_without_a_value_ends_it(
    lake: Lakes, broker: Broker, topic: str
) -> None:
    shop = shop_of(lake, broker, topic)
    broker.send(
        topic,
        [
            row("a", "05 10", name="A", price=1),  # the key is the column itself
            row({"sku": "b"}, "05 10", name="B"),  # an object, as ksqlDB's
            row({"sku": "c"}, "05 11", sku="c", name="C"),  # in the value, too
            row(wrapped({"sku": "d"}), "05 11", **wrapped({"name": "D"})),
            row("b", "05 12", name="BB"),
            row("c", "05 12"),
            row("nobody", "05 13"),  # a delete of what never was
            row("e", "05 13", sku="other", name="E"),  # the value counts
            plain("5", "05 13", json.dumps("f")),  # no row
            plain(None, "05 13"),  # neither key nor value
            row({"no": "b"}, "05 13"),  # another key
            plain("{cut", "05 13", json.dumps("g")),
            row("h", "05 13", name="H", price="dear"),
            row("i", "05 13", name="I"),
            # As Debezium rewrites a delete, of a row that was too large for the log.
            row("i", "05 14", name=DEBEZIUM, __deleted="true"),
            row("j", "05 13", name="J"),
            row("j", "05 14", name=DEBEZIUM, price=3),
            row("k", "05 13", name="K", schema="x", payload=None),  # two columns of a row
        ],
    )
    shop.load(DAYS)

    first = [("a", "A", 1), ("b", "BB", None), ("d", "D", None)]
    more = [("j", "J", None), ("k", "K", None), ("other", "E", None)]
    assert shop.rows(NOW, "sku", "name", "price") == first + more
    assert quarantined(shop, NOW) == [
        ("5", ["no_row"]),
        ("null", ["no_row"]),
        ('{"key":{"no":"b"}}', ["sku_null"]),
        ('{"name":"H","price":"dear"}', ["price_unreadable"]),
        (json.dumps({"name": DEBEZIUM, "price": 3}, separators=(",", ":")), ["field_unchanged"]),
        ("{cut", ["line_unreadable"]),
    ]

    # A late message of the day before, behind those of today: the offset counts, not the time.
    broker.send(
        topic, [row("a", "06 10"), row("d", "06 11", name="DD"), row("d", "05 23", name="D3")]
    )
    broker.send(topic, [row("c", "06 12", name="again"), row("a", "07 10", name="back")])
    shop.load("2017-01-07")
    shop.load(DAYS)

    assert shop.rows(NOW, "sku", "name")[:4] == [
        ("a", "back"),
        ("b", "BB"),
        ("c", "again"),
        ("d", "D3"),
    ]
    all_equal(shop)


@thorough("kafka/test_upserts.py: the last message of each key")
def test_versions_of_a_key_last_from_message_to_message(
    lake: Lakes, broker: Broker, topic: str
) -> None:
    shop = shop_of(lake, broker, topic)
    broker.send(
        topic, [row("a", "05 10", name="A"), row("a", "06 10", name="AA"), row("a", "07 10")]
    )
    shop.load("2017-01-07")
    shop.load(DAYS)

    assert shop.rows(NOW, "sku") == []
    found = versions(shop)
    assert [each[:2] for each in found] == [("a", "A"), ("a", "AA")]
    assert found[0][3] == found[1][2]
    all_equal(shop)


def test_a_topic_that_was_given_more_partitions_is_refused_and_nothing_is_loaded(
    lake: Lakes, broker: Broker, topic: str
) -> None:
    shop = shop_of(lake, broker, topic)
    broker.send(topic, [row("a", "05 10", name="A")])
    shop.load(DAYS)
    broker.add_partitions(topic, 2)
    broker.send(topic, [row("a", "06 10", name="AA")])

    with pytest.raises(SourceError, match="had 1 partition when it was read, and has 2 now"):
        shop.load(DAYS)
    assert shop.rows(NOW, "name") == [("A",)]

    broker.delete(topic)
    broker.create(topic)
    landed = bronze(broker, topic, Upserts(), on_gap="accept")
    with pytest.raises(SourceError, match="those of the old topic would win"):
        shop.with_tables(landed).load(DAYS)


@pytest.mark.parametrize("read", [LandedFiles("x"), Stored("x")])
def test_only_a_topic_has_upserts(read: LandedFiles | Stored) -> None:
    with pytest.raises(DefinitionError, match="ChangeLog"):
        Table("bronze/x", "", (read,), Append(), changes=Upserts())
