"""How deliveries become files, and how a row's own key decides what goes wrong with it."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime, timedelta

import polars as pl
import pytest

from incremental_assets.errors import DemoFeedError
from incremental_assets.retail.feed.deliveries import (
    Delivery,
    by_landing_day,
    delayed,
    line_files,
    table_file,
)
from incremental_assets.retail.feed.draws import Shares

NOON = datetime(2017, 1, 5, 12, tzinfo=UTC)


@pytest.mark.parametrize("share", [-0.1, 1.01, float("nan")])
@pytest.mark.parametrize("name", ["late", "duplicate", "bad"])
def test_a_share_outside_0_to_1_is_refused(name: str, share: float) -> None:
    with pytest.raises(DemoFeedError, match=f"share of {name} rows is {share}"):
        Shares(**{name: share})


def test_the_order_of_the_lines_does_not_depend_on_the_order_of_the_deliveries() -> None:
    deliveries = [Delivery(NOON + timedelta(hours=n % 10), f"line {n}") for n in range(40)]

    there, back = line_files(deliveries), line_files(reversed(deliveries))

    assert there == back
    assert list(there) == ["part-2.jsonl", "part-3.jsonl"]
    assert there["part-2.jsonl"].startswith(b"line 0\nline 10\n")


def test_a_table_file_is_the_same_whatever_the_order_of_its_rows() -> None:
    deliveries = [Delivery(NOON, (n, f"p{n}")) for n in range(20)]
    schema = {"id": pl.Int64, "name": pl.String}

    there, back = table_file(deliveries, schema), table_file(deliveries[::-1], schema)

    assert there == back
    assert pl.read_parquet(io.BytesIO(there)).height == 20


def test_what_a_day_sets_off_lands_once_on_that_day_or_later() -> None:
    def deliveries_of(day: date) -> list[Delivery]:
        noon = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
        return [Delivery(noon + timedelta(days=n), f"{day}+{n}") for n in range(3)]

    asked = [date(2017, 1, 5), date(2017, 1, 7)]

    landed = {
        day: [each.what for each in some] for day, some in by_landing_day(deliveries_of, asked, 2)
    }

    assert landed == {
        date(2017, 1, 5): ["2017-01-03+2", "2017-01-04+1", "2017-01-05+0"],
        date(2017, 1, 7): ["2017-01-05+2", "2017-01-06+1", "2017-01-07+0"],
    }


def test_what_is_late_lands_one_to_three_days_later_at_any_time() -> None:
    found = {delayed(NOON, late=True, days=n, at=n * 7919).date().day for n in range(50)}

    assert found == {6, 7, 8}
    assert delayed(NOON, late=False, days=2, at=5) == NOON
