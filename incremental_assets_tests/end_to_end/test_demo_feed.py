"""All feeds of the demo, landed and loaded by the command line, against the truth."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from incremental_assets_tests.end_to_end.shop import Shop
from incremental_assets_tests.retail_truth import assert_tables_are_the_truth, retail_truth

DAYS = [date(2017, 1, day) for day in (1, 2, 3)]
SHARES = ("--late", "0.05", "--duplicate", "0.01", "--bad", "0.004", "--sample", "0.3")


def test_tables_equal_what_the_landed_feeds_say(shop: Shop) -> None:
    # The last day first, through Dagster's own command line and then ours; what is late lands
    # when the days that it belongs to are loaded already.
    for first, last in (("2017-01-01", "2017-01-02"), ("2017-01-03", "2017-01-03")):
        landed = shop.command("demo", "land", "--from", first, "--to", last, *SHARES)
        assert landed.returncode == 0, landed.stderr
        done = shop.materialize("--select", "*", "--partition", last)
        assert done.returncode == 0, done.stderr
        assert shop.command("run").returncode == 0

    truth = retail_truth(Path(shop.settings.landing), shop.settings.start_date, DAYS)
    assert len(truth["silver/sales"]) > 2_000
    assert_tables_are_the_truth(shop.settings.lake, truth)

    shown = shop.command("demo", "show", COLUMNS="160")
    assert shown.returncode == 0, shown.stderr
    assert "gold/daily_product_sales" in shown.stdout
    assert "products with the most revenue" in shown.stdout
