"""Which days a stored source has rows for, found without a JVM."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from incremental_assets.sources.file_fingerprints import files_by_day
from incremental_assets.sources.row_fingerprints import rows_by_day, rows_in
from incremental_assets.sources.stored import Stored
from incremental_assets_tests.feeds.world import at

FIFTH, SIXTH, LAST = date(2017, 1, 5), date(2017, 1, 6), date(2017, 1, 31)
ALL = [date(2017, 1, n) for n in range(1, 32)]
ROWS = pl.DataFrame(
    {
        "id": [1, 2, 3, 4],
        "at": [at("05 00:00"), at("05 23:59"), at("06 00:00"), None],
        "day": [date(2017, 1, 5), date(2017, 1, 5), date(2017, 1, 6), None],
        "text": ["2017-01-05"] * 4,
    },
    schema_overrides={"at": pl.Datetime("us", "UTC")},
)


def written(folder: Path, rows: pl.DataFrame, kind: str) -> Stored:
    place = folder / kind
    folder.mkdir(exist_ok=True)
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
    return Stored(str(place))


KINDS = ("delta", "parquet", "delta_by_day", "parquet_by_day")


@pytest.mark.parametrize("kind", KINDS)
def test_every_day_has_its_rows_and_another_row_is_seen(tmp_path: Path, kind: str) -> None:
    fixed = written(tmp_path, ROWS, kind).fix()
    before = rows_by_day(fixed, "day", ALL, LAST)
    assert before is not None
    # A row without a day counts to the last one.
    assert {day: rows_in(text) for day, text in before.items()} == {FIFTH: 2, SIXTH: 1, LAST: 1}

    more = written(tmp_path, ROWS.with_columns(text=pl.Series(["", "2017", "", ""])), kind).fix()
    after = rows_by_day(more, "day", ALL, LAST)
    turned = ROWS.reverse().select(*ROWS.columns[::-1]).with_columns(more=pl.lit(None, pl.String))
    same = rows_by_day(written(tmp_path / "2", turned, kind).fix(), "day", ALL, LAST)

    assert after is not None
    assert all(before[day] != after[day] for day in before)
    assert same == before


def test_values_that_change_places_between_rows_are_seen(tmp_path: Path) -> None:
    before = written(tmp_path, ROWS, "parquet").fix()
    turned = ROWS.with_columns(id=pl.Series([2, 1, 3, 4]))
    after = written(tmp_path / "2", turned, "parquet").fix()

    found = [rows_by_day(fixed, "day", [FIFTH, SIXTH], LAST) or {} for fixed in (before, after)]

    assert found[0][FIFTH] != found[1][FIFTH]
    assert found[0][SIXTH] == found[1][SIXTH]


@pytest.mark.parametrize("kind", ["delta", "delta_by_day", "parquet"])
def test_every_day_has_the_files_that_may_hold_its_rows(tmp_path: Path, kind: str) -> None:
    for number, days in enumerate((slice(0, 2), slice(2, 3), slice(3, 4))):
        rows = ROWS[days].with_columns(pl.col("day").cast(pl.Date))
        append(tmp_path, rows, kind, number)
    before = files_by_day(Stored(str(tmp_path / kind)).fix(), "day", ALL, LAST)
    assert before is not None
    assert {day: text[:2] for day, text in before.items()} == {FIFTH: "1:", SIXTH: "1:", LAST: "1:"}

    append(tmp_path, ROWS[2:3], kind, 3)
    after = files_by_day(Stored(str(tmp_path / kind)).fix(), "day", ALL, LAST)

    assert after is not None
    assert [day for day in after if after[day] != before.get(day)] == [SIXTH]
    # A file of a day to come counts to the last one, like one without a day.
    early = files_by_day(Stored(str(tmp_path / kind)).fix(), "day", [FIFTH], FIFTH)
    assert early is not None
    assert early[FIFTH][:2] == "4:"


def append(folder: Path, rows: pl.DataFrame, kind: str, number: int) -> None:
    if kind == "parquet":
        (folder / kind).mkdir(exist_ok=True)
        rows.write_parquet(folder / kind / f"{number}.parquet")
        return
    options: Any = {"partition_by": ["day"]} if kind == "delta_by_day" else {}
    rows.write_delta(str(folder / kind), mode="append", delta_write_options=options)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_a_timestamps_day_is_its_day_in_utc(tmp_path: Path, unit: Any, zone: str | None) -> None:
    kind = ROWS["at"].dt.cast_time_unit(unit)
    kind = kind.dt.convert_time_zone(zone) if zone else kind.dt.replace_time_zone(None)
    fixed = written(tmp_path, ROWS.with_columns(at=kind), "parquet").fix()

    found = rows_by_day(fixed, "at", ALL, LAST)
    files = files_by_day(fixed, "at", ALL, LAST)

    assert found is not None
    assert {day: rows_in(text) for day, text in found.items()} == {FIFTH: 2, SIXTH: 1, LAST: 1}
    assert files is not None
    assert {FIFTH, SIXTH, LAST} <= set(files)


def test_just_the_days_that_are_asked_for_are_reported(tmp_path: Path) -> None:
    fixed = written(tmp_path, ROWS, "parquet").fix()

    assert set(rows_by_day(fixed, "at", [SIXTH], LAST) or ()) == {SIXTH}
    assert set(rows_by_day(fixed, "at", [SIXTH, LAST], LAST) or ()) == {SIXTH, LAST}
    every_other = ALL[::2]  # in more ranges than are compared one by one
    assert set(rows_by_day(fixed, "at", every_other, LAST) or ()) == {FIFTH, LAST}


def test_what_is_unknown_is_left_to_reading(tmp_path: Path) -> None:
    parquet = written(tmp_path, ROWS, "parquet").fix()
    assert rows_by_day(parquet, "text", ALL, LAST) is None
    assert rows_by_day(parquet, "missing", ALL, LAST) is None
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "1.jsonl").write_text('{"id": 1}\n')
    lines = Stored(str(tmp_path / "json")).fix()
    assert rows_by_day(lines, "at", ALL, LAST) is None
    assert files_by_day(lines, "at", ALL, LAST) is None


def test_a_file_without_statistics_may_hold_rows_of_any_day(tmp_path: Path) -> None:
    (tmp_path / "parquet").mkdir()
    ROWS.write_parquet(tmp_path / "parquet" / "1.parquet", statistics=False)

    found = files_by_day(Stored(str(tmp_path / "parquet")).fix(), "day", ALL, LAST)

    assert found is not None
    assert sorted(found) == ALL


def test_folders_and_statistics_of_no_day_may_hold_rows_of_any_day(tmp_path: Path) -> None:
    """The 30th of February, and years that Python does not know."""
    folder = tmp_path / "named" / "day=2017-02-30"
    folder.mkdir(parents=True)
    ROWS.drop("day").write_parquet(folder / "a.parquet")
    far = pl.DataFrame({"at": pl.Series([569_000_000_000_000_000]).cast(pl.Datetime("us", "UTC"))})
    (tmp_path / "far").mkdir()
    far.write_parquet(tmp_path / "far" / "a.parquet")

    for name, column in (("named", "day"), ("far", "at")):
        (span,) = Stored(str(tmp_path / name)).fix().day_spans(column) or ()
        assert (span.first, span.last, span.dayless) == (None, None, "some"), name
