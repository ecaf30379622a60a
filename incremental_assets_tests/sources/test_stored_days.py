"""Which days a stored source has rows for, told without a JVM."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from incremental_assets.days import DayRange
from incremental_assets.sources.stored import StoredSource
from incremental_assets.sources.stored_days import rows_by_day
from incremental_assets_tests.feeds.world import at

ALL = DayRange(date(2017, 1, 1), date(2017, 1, 31))
ROWS = pl.DataFrame(
    {
        "id": [1, 2, 3, 4],
        "at": [at("05 00:00"), at("05 23:59"), at("06 00:00"), None],
        "day": [date(2017, 1, 5), date(2017, 1, 5), date(2017, 1, 6), None],
        "text": ["2017-01-05"] * 4,
    },
    schema_overrides={"at": pl.Datetime("us", "UTC")},
)


def written(folder: Path, rows: pl.DataFrame, kind: str) -> StoredSource:
    place = folder / kind
    if kind == "delta":
        rows.write_delta(str(place), mode="overwrite")
    elif kind == "delta_by_day":
        options: Any = {"partition_by": ["day"]}
        rows.write_delta(str(place), mode="overwrite", delta_write_options=options)
    elif kind == "parquet_by_day":
        rows.write_parquet(pl.PartitionBy(place, key="day"), mkdir=True)
    else:
        place.mkdir(exist_ok=True)
        rows.write_parquet(place / "1.parquet")
    return StoredSource(str(place))


KINDS = ("delta", "parquet", "delta_by_day", "parquet_by_day")


@pytest.mark.parametrize("kind", KINDS)
def test_every_day_has_its_rows_and_another_row_is_seen(tmp_path: Path, kind: str) -> None:
    fixed = written(tmp_path, ROWS, kind).fix()
    before = rows_by_day(fixed, "day", "id", ALL)
    assert before == {date(2017, 1, 5): "2:3:0", date(2017, 1, 6): "1:3:0", None: "1:4:0"}

    more = written(tmp_path, ROWS.with_columns(id=pl.Series([1, 7, 3, 4])), kind).fix()
    after = rows_by_day(more, "day", "id", ALL)

    assert after is not None
    assert {day for day in before if before[day] != after[day]} == {date(2017, 1, 5)}


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_a_timestamps_day_is_its_day_in_utc(tmp_path: Path, unit: Any, zone: str | None) -> None:
    kind = ROWS["at"].dt.cast_time_unit(unit)
    kind = kind.dt.convert_time_zone(zone) if zone else kind.dt.replace_time_zone(None)
    fixed = written(tmp_path, ROWS.with_columns(at=kind), "parquet").fix()

    found = rows_by_day(fixed, "at", "id", ALL)

    assert found == {date(2017, 1, 5): "2:3:0", date(2017, 1, 6): "1:3:0", None: "1:4:0"}


def test_days_before_those_that_are_asked_for_are_skipped(tmp_path: Path) -> None:
    fixed = written(tmp_path, ROWS, "parquet").fix()

    found = rows_by_day(fixed, "at", "at", DayRange(date(2017, 1, 7), date(2017, 1, 9)))

    assert found is not None
    assert set(found) <= {date(2017, 1, 6), None}


def test_what_cannot_be_told_is_left_to_reading(tmp_path: Path) -> None:
    parquet = written(tmp_path, ROWS, "parquet").fix()
    assert rows_by_day(parquet, "text", "id", ALL) is None
    assert rows_by_day(parquet, "at", "text", ALL) is None
    assert rows_by_day(parquet, "missing", "id", ALL) is None
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "1.jsonl").write_text('{"id": 1}\n')
    assert rows_by_day(StoredSource(str(tmp_path / "json")).fix(), "at", "id", ALL) is None
