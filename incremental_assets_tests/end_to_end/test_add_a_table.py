"""A new user does what docs/add-a-table.md says, with a feed of their own, and nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path

import dagster as dg
import polars as pl

from incremental_assets.settings import PROJECT_ROOT
from incremental_assets_tests.end_to_end.shop import Shop
from incremental_assets_tests.pages import written


def test_three_files_of_the_page_make_three_tables_that_stay_up_to_date(
    warm_shop: Shop, tmp_path: Path
) -> None:
    shop = warm_shop
    files = written("add-a-table", tmp_path / "theirs")
    assert [path.parent.name for path in files] == ["bronze", "silver", "gold"]
    shop.env |= {
        "INCREMENTAL_ASSETS_TABLES": "shop.tables",
        "INCREMENTAL_ASSETS_KEY_PREFIX": "shop/back",
        # Before the code that is tested, wherever it is checked out.
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "theirs"), str(PROJECT_ROOT)]),
    }
    returns = [
        {
            "return_id": "a",
            "qty": 2,
            "returned_at": "2017-01-05T10:00:00Z",
            "updated_at": "2017-01-05",
        },
        {
            "return_id": "b",
            "qty": -1,
            "returned_at": "2017-01-05T11:00:00Z",
            "updated_at": "2017-01-05",
        },
        *(
            {"return_id": f"{n}", "qty": 1, "returned_at": "2017-01-05T12:00:00Z"}
            for n in range(30)
        ),
    ]
    land(shop, "2017-01-05", *returns)

    # Each table in a process of its own.
    at_once = {"INCREMENTAL_ASSETS_TABLES_AT_ONCE": "2"}
    done = shop.materialize("--select", "*", "--partition", "2017-01-05", **at_once)
    assert done.returncode == 0, done.stderr
    assert daily(shop) == [("2017-01-05", 32)]

    a_rule_that_was_too_strict_is_corrected(shop, tmp_path / "theirs/shop/tables/silver/returns.py")
    with shop.instance() as instance:
        gold = dg.AssetKey(["shop", "back", "gold", "daily_returns"])
        assert instance.get_materialized_partitions(gold) == {"2017-01-05", "2017-01-06"}
        assert {run.job_name for run in instance.get_runs()} == {
            "__ASSET_JOB",
            "shop_back_load_days",
        }


def a_rule_that_was_too_strict_is_corrected(shop: Shop, silver: Path) -> None:
    """The row that it quarantined is replayed; a bad one that stays is dropped."""
    assert len(pl.read_delta(f"{shop.settings.lake}/quarantine/silver_returns")) == 1
    silver.write_text(silver.read_text().replace('at_least("qty", 0)', 'at_least("qty", -1)'))
    late = {"return_id": "c", "qty": 5, "returned_at": "2017-01-05T23:00:00Z"}
    today = {"return_id": "d", "qty": 7, "returned_at": "2017-01-06T10:00:00Z"}
    land(shop, "2017-01-06", late, today)
    land(shop, "2017-01-07", {"return_id": "x", "qty": "none"})

    replay, run, drop, left = shop.commands(
        ("quarantine", "replay", "silver/returns", "--json"),
        ("run",),
        ("quarantine", "drop", "silver/returns", "--reason", "a test till", "--yes"),
        ("quarantine", "list"),
    )

    assert replay.returncode == 0, replay.stderr
    (day,) = json.loads(replay.stdout)
    columns = ("day", "tried", "passed", "in_quarantine")
    assert [day[name] for name in columns] == ["2017-01-05", 1, 1, 0]
    assert run.returncode == 1, run.stderr  # all that came on the 7th is bad
    assert "gate accept silver/returns 2017-01-07 --reason" in run.stderr
    assert daily(shop) == [("2017-01-05", 36), ("2017-01-06", 7)]
    assert drop.stdout.strip() == "Dropped 1 row of silver/returns, of 1 day."
    assert left.stdout.strip() == "In quarantine: nothing."


def land(shop: Shop, day: str, *rows: dict[str, object]) -> None:
    folder = Path(shop.settings.landing) / "returns" / day
    folder.mkdir(parents=True)
    (folder / "returns.jsonl").write_text("\n".join(map(json.dumps, rows)))


def daily(shop: Shop) -> list[tuple[str, int]]:
    gold = pl.read_delta(f"{shop.settings.lake}/gold/daily_returns").sort("dt")
    return [(str(day), returned) for day, returned in gold.select("dt", "returned").iter_rows()]
