"""Whether a day of gold is merged into or rebuilt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from incremental_assets.plan import merge_or_rebuild as sizes
from incremental_assets.plan.merge_or_rebuild import merge_or_rebuild
from incremental_assets.settings import Settings
from incremental_assets.table import SameDay, Table
from incremental_assets.writes import Merge
from incremental_assets_tests.plan.ledgers import SALES, USERS, did, jan, ledger, planned


@pytest.mark.parametrize(
    ("changed", "rows", "way"),
    [
        (10, 2_000, "rebuild"),
        (10, 1_000_000, "merge"),
        (100_000, 1_000_000, "merge"),
        (100_001, 1_000_000, "rebuild"),
    ],
)
def test_few_changed_rows_of_a_large_day_are_merged(changed: int, rows: int, way: str) -> None:
    found, why = merge_or_rebuild(changed, rows)

    assert found == way
    assert f"{rows:,}" in why


def test_a_day_that_reads_two_tables_is_rebuilt(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "SMALL_DAY", 0)
    monkeypatch.setattr(sizes, "MERGED_SHARE", 1000)
    one = Table(
        "gold/one",
        "",
        (SameDay(SALES),),
        Merge(),
        key=SALES.key,
        transform=lambda sales: sales,
    )
    two = replace(one, reads=(*one.reads, SameDay(USERS)), transform=lambda sales, _: sales)
    done = [
        replace(did(each, 1, 1, touched=[1], read=read), rows_counted=1_000)
        for each, read in ((SALES, {}), (USERS, {}), (one, {SALES.name: 1, USERS.name: 1}))
    ]
    view = ledger(*done, replace(did(SALES, 2, 1, touched=[1]), rows_counted=1))

    (merged,), (rebuilt,) = (planned(table, [1], view, settings).work for table in (one, two))

    assert (merged.mode, rebuilt.mode) == ("merge", "rebuild")
    assert rebuilt.days[jan(1)].why.endswith("it reads the day of several tables")
