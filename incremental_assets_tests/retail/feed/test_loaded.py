"""What the demo shows of its loads: each row that came counts once, however often it was read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl

from incremental_assets.catalog import table_named, tables
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.retail.feed.loaded import by_table, loaded_days
from incremental_assets.settings import Settings
from incremental_assets_tests.plan.ledgers import did, jan

SALES = table_named(tables(), "silver/sales")


def test_rows_count_once_after_a_hold_and_a_replay_that_left_some_in_quarantine(
    settings: Settings,
) -> None:
    held = replace(did(SALES, 1, 5, state="held"), rows_read=10, rows_quarantined=9)
    loaded = replace(did(SALES, 2, 5), rows_read=10, rows_quarantined=3)
    replayed = replace(did(SALES, 3, 5), kind="replay", rows_read=3, rows_quarantined=2)
    for entry in (held, loaded, replayed):
        Ledger(ledger_path(settings.lake)).transact_on(SALES.name, lambda _, e=entry: [e])  # type: ignore[misc]
    quarantine = Path(settings.lake) / "quarantine" / "silver_sales"
    quarantine.mkdir(parents=True)
    still = {"_batch": [3, 3], "_day": [jan(5)] * 2, "reasons": [["qty_unreadable"]] * 2}
    pl.DataFrame(still).write_delta(str(quarantine), delta_write_options={"partition_by": ["_day"]})

    (shown,) = by_table(settings, [SALES], loaded_days(settings, [SALES], None))

    assert (shown.rows_in, shown.quarantined) == (10, 2)
