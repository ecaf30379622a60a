"""Looking through a topic without Spark: what is missing, who waits, and what is shown."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any

import pytest

from incremental_assets.errors import INTERRUPTED, STOPPED, SourceError
from incremental_assets.sources import kafka_scan
from incremental_assets.sources.kafka import Kafka
from incremental_assets.sources.kafka_days import MessagesByDay
from incremental_assets.sources.kafka_scan import messages_by_day
from incremental_assets_tests.kafka.broker import Broker, Message
from incremental_assets_tests.kafka.world import event

A_DAY = date(2017, 1, 5)


def looked_through(
    broker: Broker, topic: str, low: int, high: int, identity: str = "its own"
) -> MessagesByDay:
    source = Kafka(broker.url, topic)
    offsets = {0: low}, {0: high}
    return messages_by_day(source.access(), topic, identity, source.path, *offsets, {})


def test_where_a_broker_that_lags_ends_the_topic_the_rest_is_waited_for(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("incremental_assets.sources.kafka_access.SECONDS", 5.0)
    broker.send(topic, [event("a", "05 10")])
    broker.send_in_transaction(topic, [event("b", "05 10")], commit=False)

    with pytest.raises(SourceError, match="partition 0 has some from offset 3 to below 5"):
        looked_through(broker, topic, 0, 5)

    found = looked_through(broker, topic, 0, 3)  # its end is that of a transaction
    assert {day: messages.rows for day, messages in found.items()} == {A_DAY: 1}


def test_messages_that_expire_while_they_are_looked_through_are_named(
    broker: Broker, topic: str
) -> None:
    broker.send(topic, [event(n, "05 10") for n in range(3)])
    broker.expire(topic, before=2)

    with pytest.raises(SourceError, match=r"of partition 0 expired while they were looked .*again"):
        looked_through(broker, topic, 0, 3)


def test_a_message_whose_timestamp_spark_cannot_read_is_named(broker: Broker) -> None:
    topic = "test.nanoseconds"
    broker.create(topic, message_timestamp_after_max_ms=str(2**63 - 1))
    broker.send(topic, [event("a", "05 10"), Message("b", at=1_483_610_400_000_000_000)])

    with pytest.raises(SourceError, match=r"offset 1 of partition 0 .* perhaps these are nanosec"):
        looked_through(broker, topic, 0, 2)


def test_two_who_look_at_once_look_once_and_two_topics_are_two(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    add = kafka_scan._Counts.add

    def slowly(self: Any, partition: int, offset: int, at: int, size: int) -> None:
        looked.append(offset)
        time.sleep(0.02)
        add(self, partition, offset, at, size)

    monkeypatch.setattr(kafka_scan._Counts, "add", slowly)
    other = f"{topic}.other"
    broker.create(other)
    broker.send(topic, [event(n, "05 10") for n in range(5)])
    broker.send(other, [event("a", "06 10")])

    with ThreadPoolExecutor() as both:  # an old broker gives no topic an identity of its own
        tasks = [both.submit(looked_through, broker, topic, 0, 5, "none") for _ in range(2)]
        first, second = (task.result() for task in tasks)
    of_other = looked_through(broker, other, 0, 1, "none")

    assert first == second
    assert first[A_DAY].rows == 5
    assert looked == [*range(5), 0]
    assert of_other.keys() == {date(2017, 1, 6)}


# A command that looks through a topic, slowly, as if it had many messages.
LOOKING = """
import sys, time
from incremental_assets.cli import main
from incremental_assets.cli.interrupts import end_quietly
from incremental_assets.sources import kafka_scan
from incremental_assets.sources.kafka import Kafka

add = kafka_scan._Counts.add

def slowly(*what):
    time.sleep(0.005)
    add(*what)

kafka_scan._Counts.add, kafka_scan._AT_ONCE = slowly, 20
source = Kafka(*sys.argv[1:])

@main.command()
def look():
    now = source.fix().now
    where = source.access(), source.topic, now.identity, source.path
    kafka_scan.messages_by_day(*where, now.begin, now.end, {})

end_quietly()
main(["look"])
"""


def test_how_far_it_is_is_shown_on_a_terminal_and_an_interrupt_ends_it_with_one_line(
    broker: Broker, topic: str
) -> None:
    broker.send(topic, [event(n, "05 10") for n in range(4_000)])
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", LOOKING, broker.url, topic]
    wide = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "NO_COLOR": "1"}
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=wide) as looking:
        os.close(theirs)
        shown = _shown(ours, rb"of 4,000 offsets")
        looking.send_signal(signal.SIGINT)
        began = time.monotonic()
        rest = _shown(ours, None)
        took = time.monotonic() - began

    assert re.search(rf"Looking through {topic} .*\d+ of 4,000 offsets", shown)
    assert looking.returncode == INTERRUPTED
    assert took < 5
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", rest).splitlines()
    own = [line for line in lines if line.strip() and "Looking through" not in line]
    assert own == [STOPPED], rest


def _shown(terminal: int, until: bytes | None) -> str:
    """What a terminal shows, up to some text or its end."""
    found, latest = b"", time.monotonic() + 30
    while until is None or not re.search(until, found):
        assert time.monotonic() < latest, found
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            some = os.read(terminal, 10_000)
        except OSError:  # it is closed
            some = b""
        if not some:
            break
        found += some
    return found.decode()
