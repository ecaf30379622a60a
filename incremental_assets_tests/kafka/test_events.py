"""Events of a topic in a bronze table: each message once, on the day of its timestamp."""

from __future__ import annotations

import re
from datetime import date

from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.world import states
from incremental_assets_tests.kafka.broker import Broker, Message
from incremental_assets_tests.kafka.world import (
    BRONZE,
    DAYS,
    bronze,
    event,
    kept,
    landed,
    plain,
)
from incremental_assets_tests.thorough import thorough


def test_messages_land_on_the_day_of_their_timestamp_and_each_is_loaded_once(
    lake: Lakes, broker: Broker, topic: str
) -> None:
    old = Message('{"name": "old"}', at=1_400_000_000_000)
    broker.send(topic, [old, event("a", "05 10"), event("a", "05 10"), event("b", "06 09")])
    shop = lake(bronze(broker, topic))

    first = shop.load(DAYS)
    again = shop.load(DAYS)

    assert landed(shop) == [("05", "a"), ("05", "a"), ("06", "b")]
    assert states(first, BRONZE) == ["committed", "committed", *["idle"] * 4]
    assert states(again, BRONZE) == ["idle"] * 6
    # A message before the first day is named, and waits for nobody.
    assert any("1 message of days before 2017-01-01" in line for line in shop.logged)
    committed = shop.lakehouse.ledger.view().table(BRONZE).last_committed
    assert committed.keys() == {date(2017, 1, 5), date(2017, 1, 6)}
    assert shop.pending_days(BRONZE) == []

    # What came since is pending on its days alone; a partition is read from its beginning.
    broker.add_partitions(topic, 2)
    new = [event("c", "07 10"), event("late", "05 11", partition=1), event("d", "07 12")]
    broker.send(topic, new)
    assert shop.pending_days(BRONZE) == ["2017-01-05", "2017-01-07"]
    shop.load("2017-01-07")
    assert [name for day, name in landed(shop) if day != "05"] == ["b", "c", "d"]
    assert shop.pending_days(BRONZE) == ["2017-01-05"]
    broker.send(topic, [event("later", "05 12"), event("e", "06 10")])
    shop.load("2017-01-05")

    assert [name for day, name in landed(shop) if day == "05"] == ["a", "a", "late", "later"]
    assert shop.pending_days(BRONZE) == ["2017-01-06"]


@thorough("kafka/test_days.py: days in any order, of a topic in memory")
def test_days_that_are_loaded_one_by_one_get_each_message_once(
    lake: Lakes, broker: Broker, topic: str
) -> None:
    shop = lake(bronze(broker, topic))
    broker.send(topic, [event(n, f"{5 + n % 4:02d} {n:02d}") for n in range(20)])

    for day in ("07", "05", "08", "06"):
        shop.load(f"2017-01-{day}")

    assert landed(shop) == sorted((f"{5 + n % 4:02d}", str(n)) for n in range(20))


def test_key_headers_offset_and_timestamp_are_kept_and_bytes_that_are_no_json(
    lake: Lakes, broker: Broker, topic: str
) -> None:
    headers = [("trace", b"t1"), ("trace", b"\xff"), ("none", None)]
    broker.send(
        topic,
        [
            plain('{"name": "ü"}', "05 10", '{"id": 1}', headers),
            plain(None, "05 11", "k1"),
            plain(b"\xff\x00", "05 12", b"\xfe"),
            plain("[1] {", "05 13"),
            plain("", "05 14"),
            plain(b"\x00\x00\x00\x00\x07" + b'{"name": "b"}', "05 15"),
        ],
    )
    shop = lake(bronze(broker, topic))

    shop.load(DAYS)

    assert kept(shop, "to_json(payload)", "_raw") == [
        ('{"name":"ü"}', None),
        ("null", None),
        (None, "base64:/wA="),
        (None, "[1] {"),
        (None, ""),
        ('{"name":"b"}', None),
    ]
    keys = [row[0] for row in kept(shop, "to_json(try_variant_get(_message, '$.key'))")]
    assert keys == ['{"id":1}', '"k1"', '"base64:/g=="', "null", "null", "null"]
    assert kept(shop, "to_json(_message)")[0][0] == (
        '{"headers":[{"key":"trace","value":"t1"},{"key":"trace","value":"base64:/w=="},'
        '{"key":"none","value":null}],"key":{"id":1},"offset":0,"partition":0,'
        '"timestamp":"2017-01-05 10:00:00+00:00","timestamp_type":"create",'
        f'"topic":"{topic}"}}'
    )
    assert kept(shop, "_file", "_hash LIKE '%/0/0'")[0] == (f"{topic}/0", True)


def test_messages_of_aborted_transactions_do_not_count_and_open_ones_wait(
    lake: Lakes, broker: Broker, topic: str
) -> None:
    shop = lake(bronze(broker, topic))
    broker.send_in_transaction(topic, [event("aborted", "05 10")], commit=False)
    broker.send_in_transaction(topic, [event("a", "05 11"), event("b", "06 11")])
    shop.load(DAYS)
    assert landed(shop) == [("05", "a"), ("06", "b")]

    producer = broker.producer(**{"transactional.id": f"{topic}-open"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, '{"name": "open"}', partition=0)
    producer.flush(30)
    broker.send(topic, [event("behind", "05 12")])
    assert shop.pending_days(BRONZE) == []
    shop.load(DAYS)
    behind = r"2 offsets will wait for open transactions \(partition 0: 5 … 6\)"
    assert any(re.search(behind, line) for line in shop.logged), shop.logged

    producer.abort_transaction(30)
    broker.wait_for_transactions(topic)
    assert shop.pending_days(BRONZE) == ["2017-01-05"]
    shop.load(DAYS)
    assert landed(shop) == [("05", "a"), ("05", "behind"), ("06", "b")]


@thorough("kafka/test_days.py: messages of days to come, of a topic in memory")
def test_a_message_of_a_day_to_come_is_loaded_today_and_not_once_more_on_its_day(
    lake: Lakes, broker: Broker, topic: str
) -> None:
    shop = lake(bronze(broker, topic))
    broker.send(topic, [event("ahead", "12 10"), event("now", "10 10")])
    shop.load(DAYS)
    assert landed(shop) == [("10", "now"), ("12", "ahead")]

    shop.now = shop.now.replace(day=12)
    assert shop.pending_days(BRONZE) == []
    broker.send(topic, [event("b", "12 11")])
    shop.load("2017-01-12")

    assert landed(shop) == [("10", "now"), ("12", "ahead"), ("12", "b")]
