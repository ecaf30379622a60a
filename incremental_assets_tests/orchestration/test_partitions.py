"""Which days Dagster shows: up to the last that is known of a business that is over, or today."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from threading import Event

import polars as pl
import pytest
from dagster import AssetKey

from incremental_assets.catalog import tables
from incremental_assets.errors import SettingsError
from incremental_assets.ledger.entry import Touched
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.orchestration import partitions
from incremental_assets.orchestration.build import build_definitions
from incremental_assets.orchestration.jobs import load_days
from incremental_assets.orchestration.partitions import daily, last_day
from incremental_assets.settings import Settings
from incremental_assets_tests.ledger.entries import append, entry

NOW = datetime(2018, 6, 1, 12, tzinfo=UTC)


def land(settings: Settings, *days: str, feed: str = "events") -> None:
    for day in days:
        (Path(settings.landing) / feed / day).mkdir(parents=True)


def test_the_partitions_end_with_the_last_day_that_has_landed_of_any_feed(
    settings: Settings,
) -> None:
    land(settings, "2017-01-03", "2017-01-05", "tmp")
    land(settings, "2017-01-06", feed="users")

    last = last_day(tables(), settings, NOW)

    assert last == date(2017, 1, 6)
    keys = daily(settings, last).get_partition_keys()
    assert (keys[0], keys[-1], len(keys)) == ("2017-01-01", "2017-01-06", 6)


def test_days_of_the_ledger_count_that_were_loaded_or_have_rows_to_be_read(
    settings: Settings,
) -> None:
    land(settings, "2017-01-03")
    ledger = Ledger(ledger_path(settings.lake))
    touched = [Touched(date(2017, 1, 4), 1), Touched(date(2017, 2, 9), 1)]
    append(ledger, entry(1, "committed", "bronze/events", day=date(2017, 1, 5), touched=touched))

    assert last_day(tables(), settings, NOW) == date(2017, 2, 9)


@pytest.mark.parametrize(
    "landed",
    [(), ("2018-05-20",), ("2017-01-03", "2018-06-01"), ("2018-06-30",)],
    ids=["nothing landed", "lately", "today", "in the future"],
)
def test_the_partitions_of_a_business_that_goes_on_end_today(
    settings: Settings, landed: tuple[str, ...]
) -> None:
    land(settings, *landed)

    assert last_day(tables(), settings, NOW) is None


def orders(settings: Settings, day: int | None) -> pl.DataFrame:
    at = None if day is None else datetime(2017, 2, day, 10, tzinfo=UTC)
    column = pl.Series([at], dtype=pl.Datetime("us", "UTC"))
    return pl.DataFrame({"order_id": ["a"], "updated_at": column})


def test_what_a_table_is_built_on_counts_though_it_is_not_among_the_tables(
    settings: Settings,
) -> None:
    land(settings, "2017-01-03")
    gold = [table for table in tables() if table.layer == "gold"]

    assert last_day(gold, settings, NOW) == date(2017, 1, 3)


def test_a_source_without_day_folders_counts_by_what_its_files_say_of_their_rows(
    settings: Settings,
) -> None:
    land(settings, "2017-01-03")
    path = f"{settings.landing}/orders"

    orders(settings, 7).write_delta(path)
    assert last_day(tables(), settings, NOW) == date(2017, 2, 7)
    orders(settings, None).write_delta(path, mode="append")  # of the day of the load
    assert last_day(tables(), settings, NOW) is None


def test_they_end_today_where_only_rows_have_days_or_the_landing_cannot_be_listed(
    settings: Settings,
) -> None:
    land(settings, "2017-01-03")
    (Path(settings.landing) / "orders").mkdir()
    (Path(settings.landing) / "orders/a.json").write_text('{"order_id":"a"}\n')

    assert last_day(tables(), settings, NOW) is None
    assert last_day(tables(), settings.replace(landing="/nowhere"), NOW) is None
    assert daily(settings).get_partition_keys()[-1] == str(datetime.now(UTC).date())


def test_an_end_that_is_set_is_the_end(settings: Settings) -> None:
    land(settings, "2017-01-03")

    assert last_day(tables(), settings.replace(end_date=date(2017, 3, 31)), NOW) == date(
        2017, 3, 31
    )
    assert last_day(tables(), settings.replace(end_date=date(2019, 1, 1)), NOW) is None
    with pytest.raises(SettingsError, match="END_DATE is 2016-12-31, before the first partition"):
        settings.replace(end_date=date(2016, 12, 31))


def test_days_before_the_first_partition_do_not_count(settings: Settings) -> None:
    land(settings, "0001-01-01", "2016-12-31")
    assert last_day(tables(), settings, NOW) is None
    land(settings, "2017-01-03")
    assert last_day(tables(), settings, NOW) == date(2017, 1, 3)


def test_a_source_that_raises_or_does_not_answer_holds_up_no_definitions(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(settings, "2017-01-03")
    monkeypatch.setattr(partitions, "_MOST_SECONDS", 0.2)
    answers = Event()

    def never(*_: object, **__: object) -> date:
        answers.wait(20)
        return date(2017, 1, 3)

    def fails(*_: object, **__: object) -> date:
        raise OverflowError("date value out of range")

    for look in (never, fails):
        monkeypatch.setattr(partitions, "last_known_day", look)
        assert last_day(tables(), settings, NOW) is None
    answers.set()


@pytest.mark.parametrize(
    "words",
    [
        ("asset", "materialize"),
        ("job", "execute"),
        ("launch", "--assets", "*"),
        ("api", "execute_run"),
        ("dev",),
    ],
)
def test_a_run_may_load_days_that_nobody_knew_when_it_was_asked_for(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    land(settings, "2017-01-03")
    monkeypatch.setattr("sys.argv", ["dagster", *words, "-m", "incremental_assets"])

    shown = last_day(tables(), settings, NOW)

    assert shown == (date(2017, 1, 3) if words == ("dev",) else None)


@pytest.mark.parametrize("end", ["", "2017-01-03"], ids=["as known", "as set"])
def test_assets_have_them_and_a_run_of_the_command_line_goes_on_to_today(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setenv("INCREMENTAL_ASSETS_END_DATE", end)
    land(settings, "2017-01-03")
    monkeypatch.setenv("INCREMENTAL_ASSETS_LAKE", settings.lake)
    monkeypatch.setenv("INCREMENTAL_ASSETS_LANDING", settings.landing)

    repository = build_definitions(tables()).get_repository_def()
    shown = repository.asset_graph.get(AssetKey(["silver", "sales"])).partitions_def
    job = load_days().partitions_def

    assert shown is not None
    assert shown.get_partition_keys()[-1] == "2017-01-03"
    assert job is not None
    assert job.get_partition_keys()[-1] == str(datetime.now(UTC).date())
