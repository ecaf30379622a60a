"""A load of a topic that dies at any step, is held, or is rewound: each message ends up once."""

from __future__ import annotations

import shutil
from datetime import date

import pytest

from incremental_assets.changes import Offsets
from incremental_assets.operations.accept import accept
from incremental_assets.operations.rebuild_ledger import rebuild_ledger
from incremental_assets.operations.rewind import TableRewind
from incremental_assets.quality.rules import fail, row_count
from incremental_assets.sources.kafka import Kafka
from incremental_assets.table import Table
from incremental_assets.testing import Killed
from incremental_assets.verifying import verify
from incremental_assets.writes import Append
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.world import states
from incremental_assets_tests.kafka.broker import Broker
from incremental_assets_tests.kafka.world import BRONZE, DAYS, bronze, event, landed
from incremental_assets_tests.verifying.lakes import days_of, found_by_day, lose_lines


def die(*_: object, **__: object) -> None:
    raise Killed


STEPS = {
    "plan": "incremental_assets.sources.kafka_fixed.messages_by_day",
    "read": "incremental_assets.sources.kafka_fixed.read_messages",
    "stage": "incremental_assets.engine.stored.stage",
    "commit": "incremental_assets.engine.table_load.publish",
    "record": "incremental_assets.engine.table_load.record",
}


def test_a_load_that_died_at_any_step_ends_as_if_nothing_had_happened(
    lake: Lakes, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = lake(bronze(broker, topic))
    expected = []
    for number, (step, where) in enumerate(STEPS.items()):
        broker.send(topic, [event(f"{step} {n}", f"{5 + n:02d} {number:02d}") for n in range(3)])
        expected += [(f"{5 + n:02d}", f"{step} {n}") for n in range(3)]
        with monkeypatch.context() as broken:
            broken.setattr(where, die)
            with pytest.raises(Killed):
                shop.load("2017-01-05...2017-01-06")
    # More comes before the next load, which may take other days.
    broker.send(topic, [event("late", "05 20")])
    shop.load("2017-01-05")
    shop.load(DAYS)

    assert landed(shop) == sorted([*expected, ("05", "late")])
    assert shop.pending_days(BRONZE) == []
    assert shop.lakehouse.ledger.view().table(BRONZE).unsettled == ()


def test_messages_of_a_held_day_wait_until_it_passes_or_is_accepted(
    lake: Lakes, broker: Broker, topic: str
) -> None:
    table = Table(
        name=BRONZE,
        description="Events as they came.",
        reads=(Kafka(broker.url, topic),),
        changes=Offsets(),
        write=Append(),
        rules=fail(row_count(at_least=2)),
    )
    shop = lake(table)
    broker.send(topic, [event("a", "05 10"), event("b", "06 10"), event("c", "06 11")])

    assert states(shop.load("2017-01-05...2017-01-06"), BRONZE) == ["held", "committed"]
    assert landed(shop) == [("06", "b"), ("06", "c")]
    accept(shop.lakehouse, table, date(2017, 1, 5), "a quiet day")
    broker.send(topic, [event("d", "07 12"), event("e", "07 13")])  # of another day
    assert states(shop.load("2017-01-05"), BRONZE) == ["committed"]
    shop.load(DAYS)

    assert [name for _, name in landed(shop)] == ["a", "b", "c", "d", "e"]


def test_a_rewound_day_is_read_again_and_no_message_comes_twice(
    lake: Lakes, broker: Broker, topic: str
) -> None:
    shop = lake(bronze(broker, topic))
    for hour in (10, 11):
        broker.send(topic, [event(f"{day} {hour}", f"{day} {hour}") for day in ("05", "06")])
        shop.load(DAYS)
    TableRewind(shop.lakehouse, shop.tables[BRONZE]).record(1, "to see")
    broker.send(topic, [event("05 12", "05 12")])

    assert shop.pending_days(BRONZE) == ["2017-01-05", "2017-01-06"]
    shop.load(DAYS)

    assert landed(shop) == [
        ("05", "05 10"),
        ("05", "05 11"),
        ("05", "05 12"),
        ("06", "06 10"),
        ("06", "06 11"),
    ]
    assert shop.pending_days(BRONZE) == []


def test_a_ledger_that_is_rebuilt_goes_on_where_the_table_is(
    lake: Lakes, broker: Broker, topic: str
) -> None:
    shop = lake(bronze(broker, topic))
    broker.send(topic, [event("a", "05 10"), event("b", "06 10")])
    shop.load("2017-01-05")
    shutil.rmtree(shop.lakehouse.ledger.path)
    rebuild_ledger(shop.lakehouse, [shop.tables[BRONZE]])
    broker.send(topic, [event("c", "05 11")])

    shop.load(DAYS)

    assert landed(shop) == [("05", "a"), ("05", "c"), ("06", "b")]


def test_what_was_loaded_is_what_the_topic_has_and_a_damaged_table_is_reported(
    lake: Lakes, broker: Broker, topic: str
) -> None:
    shop = lake(bronze(broker, topic))
    days = ("05", "06", "07")
    broker.send(topic, [event(f"{day} {n}", f"{day} 10") for n in (1, 2) for day in days])
    shop.load(DAYS)
    broker.send(topic, [event("later", "07 12")])  # this day waits, and is not compared
    lose_lines(shop.spark, shop.path(BRONZE), "_landing_day = '2017-01-05'")

    found = verify(shop.lakehouse, shop.tables[BRONZE])

    assert days_of(found) == ["2017-01-05", "2017-01-06"]
    assert found_by_day(found.rows) == {"2017-01-05": (2, 0, 0)}
