"""A process that loads a topic, killed again and again: each message ends up once."""

from __future__ import annotations

import random
import subprocess
import sys
import time

from incremental_assets.settings import Settings
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.kafka.broker import Broker
from incremental_assets_tests.kafka.world import BRONZE, DAYS, REMOTE, bronze, event, landed
from incremental_assets_tests.thorough import thorough

pytestmark = thorough("kafka/test_interrupted.py: a load that dies at each step")

# Until it is killed.
LOADS = """
print("begins", flush=True)
while True:
    shop.load(DAYS)
"""


def test_a_process_that_is_killed_while_messages_come_loses_none_and_loads_none_twice(
    lake: Lakes, server: str, settings: Settings, broker: Broker, topic: str
) -> None:
    chance = random.Random(2017)
    shop = lake(bronze(broker, topic))
    folders = (settings.lake, settings.landing, str(settings.cache))
    sent = 0
    for _ in range(4):
        child = subprocess.Popen(
            [sys.executable, "-c", REMOTE + LOADS, server, broker.url, topic, *folders],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "begins\n"
        until = time.monotonic() + chance.uniform(1, 5)
        while time.monotonic() < until:
            days = [f"{chance.randint(5, 10):02d} 10" for _ in range(5)]
            broker.send(topic, [event(sent + n, day) for n, day in enumerate(days)])
            sent += len(days)
            time.sleep(0.2)
        child.kill()
        child.communicate()

    shop.load(DAYS)
    shop.load(DAYS)

    assert sorted(int(name) for _, name in landed(shop)) == list(range(sent))
    batches = {(e.batch, e.state) for e in shop.lakehouse.ledger.view().table(BRONZE).loads}
    assert len(batches) > 4  # some were loaded by the processes
    assert shop.pending_days(BRONZE) == []
