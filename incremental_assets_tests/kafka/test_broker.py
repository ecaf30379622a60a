"""The broker that other tests take for granted: offsets, transactions, and how it ends."""

from __future__ import annotations

from pathlib import Path

from incremental_assets_tests.databases.killed import ends_with_its_tests
from incremental_assets_tests.kafka.broker import Broker, Message
from incremental_assets_tests.thorough import thorough


def test_each_message_and_each_end_of_a_transaction_has_an_offset(
    broker: Broker, topic: str
) -> None:
    broker.send(topic, [Message("a"), Message(None, "b")])
    broker.send_in_transaction(topic, [Message("c")], commit=False)

    assert broker.ends(topic) == {0: 4}


@thorough("databases/test_servers.py: another server with the same keeper")
def test_the_broker_ends_with_the_tests_that_were_killed(tmp_path: Path) -> None:
    ends_with_its_tests(Broker, tmp_path)
