"""`watermarks history`: what each batch read, in the words of its source."""

from __future__ import annotations

import json
from dataclasses import replace

from incremental_assets.ledger.entry import Window
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.retail.bronze.orders import ORDERS
from incremental_assets_tests.cli.conftest import Command
from incremental_assets_tests.plan.ledgers import SALES, did

SOURCE = "/data/orders"


def test_a_table_by_timestamp_shows_its_moments_and_not_the_versions_of_its_source(
    command: Command, lake: Ledger
) -> None:
    read = (Window(SOURCE, 0, 0),)
    low, high = "2017-01-05T10:00:00.000000Z", "2017-01-06T10:00:00.000000Z"
    first = replace(did(ORDERS, 1, 5), windows=read, high=low)
    second = replace(did(ORDERS, 2, 6), windows=read, low=low, high=high)
    lake.transact_on(ORDERS.name, lambda _: [first, second])

    done = command("watermarks", "history", "bronze/orders", "--json")

    shown = [(e["batch"], e["upstream"], e["low"], e["high"]) for e in json.loads(done.stdout)]
    assert shown == [(2, SOURCE, low, high), (1, SOURCE, "", low)]


def test_a_person_reads_moments_without_microseconds_that_are_none(
    command: Command, lake: Ledger
) -> None:
    moments = ("2017-01-05T10:00:00.000000Z", "2017-01-06T10:00:00.000001Z")
    read = replace(did(ORDERS, 1, 5), windows=(Window(SOURCE, 0, 0),), low=moments[0])
    lake.transact_on(ORDERS.name, lambda _: [replace(read, high=moments[1])])

    shown = command("watermarks", "history", "bronze/orders").stdout

    assert "2017-01-05T10:00:00Z" in shown
    assert moments[1] in shown


def test_a_table_of_the_lake_shows_the_batches_of_its_upstreams(
    command: Command, lake: Ledger
) -> None:
    lake.transact_on(SALES.name, lambda _: [did(SALES, 1, 5, read={"bronze/events": 3})])

    done = command("watermarks", "history", "silver/sales", "--json")

    (shown,) = json.loads(done.stdout)
    assert (shown["upstream"], shown["low"], shown["high"]) == ("bronze/events", "0", "3")
