"""Values, names and orders that look harmless: nothing is taken for something else, nor twice."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

from incremental_assets.changes import by_sequence as sequence_module
from incremental_assets.changes.progress import Progress, Waiting, progress_from, step
from incremental_assets.delta.delta_table import ensure_table
from incremental_assets.errors import (
    DefinitionError,
    SettingsError,
    SourceError,
)
from incremental_assets.loaders import (
    CDCLoader,
    DeltaDiffLoader,
    SequenceBasedLoader,
    TimestampBasedLoader,
)
from incremental_assets.loaders.result import LoadResult
from incremental_assets.quality.rules import between, quarantine
from incremental_assets.writes import (
    SCD2,
    DeleteInsert,
    Merge,
    OverwriteDays,
    WriteStrategy,
)
from incremental_assets_tests.loaders.conftest import NOON, Place
from incremental_assets_tests.thorough import thorough

AT = "2024-05-10T10:00:00Z"
BETWEEN = "2024-05-10T10:30:00Z"
LATER = "2024-05-10T11:00:00Z"


def by_timestamp(place: Place, key: Any = None, **options: Any) -> LoadResult:
    loader = TimestampBasedLoader(place.spark, place.clock)
    of = {"timestamp_column": "at", "table_name": "t", "primary_key": key}
    return loader.load_incremental(**place.paths, **of, **options)


def by_sequence(place: Place, **options: Any) -> LoadResult:
    loader = SequenceBasedLoader(place.spark, place.clock)
    return loader.load_incremental(**place.paths, sequence_column="id", table_name="t", **options)


def by_log(place: Place, key: str = "id", **options: Any) -> LoadResult:
    loader = CDCLoader(place.spark, place.clock)
    return loader.process_cdc(place.source, place.target, place.watermarks, key, "t", **options)


def by_snapshot(place: Place, rows: pl.DataFrame, key: str, **options: Any) -> LoadResult:
    place.source.mkdir(exist_ok=True)
    rows.write_parquet(place.source / "all.parquet")
    place.now += timedelta(hours=1)
    loader = DeltaDiffLoader(place.spark, place.clock)
    found = loader.detect_changes(place.source, place.target, place.snapshot, key, "t", **options)
    result: LoadResult = found["result"]
    return result


def test_a_gap_that_fills_among_too_many_runs_or_beyond_64_bits_is_loaded_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("incremental_assets.changes.ranges.MOST", 3)
    beyond_64_bits = 12345678901234567890

    def take(*numbers: int) -> LoadResult:
        place.land_lines([{"id": str(n)} for n in numbers])
        return by_sequence(place)

    many = range(100, 130, 3)
    take(1, 2, 5)
    take(3, 4, *many)
    take(200, beyond_64_bits, beyond_64_bits + 2)
    last = take(beyond_64_bits + 1, 10**38 - 1)

    assert last.watermark_after == "9" * 38
    found = sorted(int(n) for (n,) in place.rows("id"))
    big = (beyond_64_bits, beyond_64_bits + 1, beyond_64_bits + 2, 10**38 - 1)
    assert found == [*range(1, 6), *many, 200, *big]


def test_each_gap_is_waited_for_from_when_it_was_seen() -> None:
    hour, minute = timedelta(hours=1), timedelta(minutes=1)
    detector = sequence_module.Sequence("id", on_gap="wait", deadline=hour)
    first = step(detector, Progress(0), [(1, 2), (4, 4)], NOON, "t")
    second = step(detector, first.after, [(3, 4), (6, 6)], NOON + 59 * minute, "t")
    third = step(detector, second.after, [(6, 6)], NOON + 61 * minute, "t")
    last = step(detector, third.after, [(6, 6)], NOON + 119 * minute, "t")

    assert [first.stop, second.stop, third.stop, last.stop] == [2, 4, 4, None]
    assert last.after == Progress(6, ((5, 5),))
    both = step(detector, Progress(0), [(2, 2), (4, 4)], NOON, "t")
    passed = step(detector, both.after, [(2, 2), (4, 4), (6, 6)], NOON + hour, "t")
    assert passed.stop == 4
    assert passed.after == Progress(4, ((1, 1), (3, 3)), (Waiting(5, 5, NOON + hour),))
    older = {"waiting_since": NOON.isoformat()}
    assert progress_from(older, 2).waiting[0].since == NOON


@pytest.fixture(scope="module")
def odd(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A target of odd values, loaded in two steps and merged by a key in partitions."""
    place = Place(spark, tmp_path_factory.mktemp("odd"))
    options: dict[str, Any] = {"partition_by": "p", "rules": quarantine(between("x", 0, 10))}
    fine = {"p": "p", "n": 1, "x": 1.0, "at": AT}
    place.land_lines(
        [
            {**fine, "id": 7},
            {**fine, "id": 8, "p": ""},
            {**fine, "id": 9, "p": "__HIVE_DEFAULT_PARTITION__"},
            # Neighbours that no double tells apart, next to a fraction.
            {**fine, "id": 10, "n": 2**53},
            {**fine, "id": 11, "n": 2**53 + 1},
            {**fine, "id": 12, "n": 0.5},
            *({**fine, "id": 20 + n, "x": x} for n, x in enumerate((10.0, 0.0))),
            *({**fine, "id": 22 + n, "x": x} for n, x in enumerate((10.0000000004, -4e-10))),
            {**fine, "id": 30, "at": "0000-01-01T00:00:00Z"},
            {**fine, "id": 40, "x": -1.0, "at": LATER},
        ]
    )
    assert by_timestamp(place, ["id", "p"], **options).watermark_after == f"{AT[:-1]}.000000Z"
    place.land_lines([{**fine, "id": "007", "at": LATER}, {**fine, "id": 41, "at": BETWEEN}])
    by_timestamp(place, ["id", "p"], **options)
    return place


@pytest.mark.parametrize(
    ("ids", "loaded"),
    [
        pytest.param((7, 8, 9), [7], id="texts that Delta's log has no partition of"),
        pytest.param((10, 11, 12), [10, 11, 12], id="whole numbers that no double holds"),
        pytest.param((20, 21, 22, 23), [20, 21], id="a bound is not rounded"),
        pytest.param((30,), [30], id="a year that Python does not know"),
        pytest.param((40, 41), [41], id="a bad row does not move the watermark"),
    ],
)
def test_a_value_is_loaded_as_it_is_or_not_at_all(
    odd: Place, ids: Sequence[int], loaded: list[int]
) -> None:
    assert [id_ for (id_,) in odd.rows("id") if id_ in ids] == loaded


def test_what_is_not_loaded_is_in_quarantine(odd: Place) -> None:
    assert odd.quarantined() == [["id_unreadable"], *[["p_empty"]] * 2, *[["x_between"]] * 3]
    assert [n for id_, n in odd.rows("id", "n") if id_ in (10, 11, 12)] == [
        "9007199254740992",
        "9007199254740993",
        "0.5",
    ]


def test_a_partition_by_a_floating_point_number_is_refused(place: Place) -> None:
    place.land_lines([{"id": 1, "x": 1e10, "at": AT}, {"id": 2, "x": 0.5, "at": AT}])

    with pytest.raises(SourceError, match=r"'x'.* cannot partition"):
        by_timestamp(place, partition_by="x")
    assert not place.target.exists()


DAY = date(2024, 5, 10)
DATED = {"id": pl.Int64, "price": pl.Float64, "day": pl.Date, "at": pl.Datetime("us", "UTC")}


def dated(number: int, minutes: int, price: float = 1.0) -> dict[str, Any]:
    at = NOON - timedelta(hours=2) + timedelta(minutes=minutes)
    return {"id": number, "price": price, "day": DAY, "at": at}


@pytest.mark.parametrize(
    "write",
    [
        OverwriteDays("day"),
        pytest.param(DeleteInsert(), marks=thorough("loaders/test_odd_values.py: another write")),
    ],
)
def test_a_batch_that_replaces_others_is_never_a_part_of_what_came(
    place: Place, write: Any
) -> None:
    options: dict[str, Any] = {"partition_by": "day", "write": write}
    with pytest.raises(DefinitionError, match="max_records"):
        by_timestamp(place, "id", max_records=1, **options)
    schema = {**DATED, "k": pl.Int64}
    ahead = {**dated(3, 0), "at": NOON + timedelta(minutes=30)}
    place.land([{**row, "k": 7} for row in (dated(1, 10), dated(2, 20), ahead)], schema)
    by_timestamp(place, "k", **options)
    place.now += timedelta(hours=1)
    by_timestamp(place, "k", **options)

    assert place.rows("id") == [(1,), (2,)]
    assert place.quarantined() == [["at_in_future"]]


@thorough("loaders/test_odd_values.py, sources/test_stored_csv.py: the same in JSON")
def test_a_number_with_leading_zeros_is_not_the_number_without(place: Place) -> None:
    place.source.mkdir()
    (place.source / "a.csv").write_text(f"id,name,at\n7,Ann,{AT}\n8,Bob,{AT}\n")
    by_timestamp(place, "id")
    (place.source / "b.csv").write_text(f"id,name,at\n007,Zed,{LATER}\n")
    by_timestamp(place, "id")

    assert place.rows("id", "name") == [(7, "Ann"), (8, "Bob")]
    assert place.quarantined() == [["id_unreadable"]]


def test_numbers_in_csv_stay_apart_and_money_is_the_decimal_that_the_target_declares(
    place: Place,
) -> None:
    columns = {"id": "long", "price": "decimal(18,4)", "at": "timestamp"}
    ensure_table(str(place.target), "prices", list(columns.items()), ())
    place.source.mkdir()
    prices = ("0.1", "12345678901234.5678", "1")
    numbers = ("9007199254740992", "9007199254740993", "0.5")
    lines = [
        f"{n},{price},{number},{AT}"
        for n, (price, number) in enumerate(zip(prices, numbers, strict=True))
    ]
    (place.source / "a.csv").write_text("\n".join(["id,price,n,at", *lines, f"3,much,1,{AT}"]))

    by_timestamp(place)

    assert place.rows("id", "price", "n") == [
        (n, Decimal(price), number)
        for n, (price, number) in enumerate(zip(prices, numbers, strict=True))
    ]
    assert place.quarantined() == [["price_unreadable"]]


def test_fractions_of_codes_and_of_many_digits_stay_apart(place: Place) -> None:
    header = "section,part,code,digits,amount,at"
    rows = [
        ("1.1", "1", "1E5", "1.234567890123456789", "12.50"),
        ("1.10", "1", "10E4", "1.234567890123456788", "3.00"),
        ("1.2", "1.0", "100000", "1e400", "0.1"),
    ]
    place.source.mkdir()
    lines = [header, *(",".join((*row, AT)) for row in rows)]
    (place.source / "a.csv").write_text("\n".join(lines))
    by_timestamp(place, ["section", "code"], partition_by="part")
    (place.source / "b.csv").write_text(f"{header}\n1.10,1,10E4,2,4,{LATER}\n")
    by_timestamp(place, ["section", "code"], partition_by="part")

    assert place.rows("section", "part", "code", "digits", "amount") == [
        (*rows[0][:4], 12.5),
        ("1.10", "1", "10E4", "2", 4.0),
        (*rows[2][:4], 0.1),
    ]


def test_a_target_whose_key_is_a_double_is_loaded_as_before(place: Place) -> None:
    columns = {"section": "double", "amount": "double", "at": "timestamp"}
    ensure_table(str(place.target), "sections", list(columns.items()), ())
    place.source.mkdir()
    for file, (section, at) in {"a": ("1.1", AT), "b": ("1.10", LATER)}.items():
        (place.source / f"{file}.csv").write_text(
            f"section,amount,at\n{section},1.234567890123456789,{at}\n1.2,1e3,{at}\n"
        )
        by_timestamp(place, "section")

    assert place.rows("section", "amount") == [(1.1, 1.2345678901234568), (1.2, 1000.0)]
    assert place.quarantined() == []


def test_numbers_in_json_with_more_digits_than_a_double_are_two_keys(place: Place) -> None:
    keys = ("2024.00000000000000001", "2024.00000000000000002", "0.5")
    place.land_lines([f'{{"id": {key}, "at": "{AT}"}}' for key in keys])
    by_timestamp(place, "id")

    assert place.rows("id") == [(key,) for key in sorted(keys)]


def test_a_log_goes_on_with_numbers_as_texts_and_with_truncates_alone(place: Place) -> None:
    def event(number: Any, name: str, word: str = "UPDATE") -> dict[str, Any]:
        return {"id": 1, "n": name, "operation": word, "sequence_num": number}

    place.land_lines([event(1, "a", "INSERT")])
    by_log(place)
    others = [event("99999999999999999999", "c"), event("2024-05-10", "d"), event("0/1", "e")]
    place.land_lines([event("2", "b"), *others])
    by_log(place)
    assert place.rows("id", "n") == [(1, "b")]
    assert place.quarantined() == [["sequence_num_unreadable"]] * 3
    place.land_lines([{"operation": "TRUNCATE", "sequence_num": 3}])
    by_log(place)

    assert place.rows("id") == []


def test_a_place_that_delta_cannot_open_is_refused(place: Place) -> None:
    place.land_lines([{"id": 1, "at": AT}])
    place.target = place.folder / "a[x]"

    with pytest.raises(SettingsError, match=r"target_path .*'\['"):
        by_timestamp(place)


def test_a_session_with_other_words_for_time_and_another_zone_changes_nothing(
    place: Place,
) -> None:
    place.spark = place.spark.newSession()
    place.spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    place.spark.conf.set("spark.sql.parser.escapedStringLiterals", "true")
    place.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    place.land_lines(
        [
            {"id": 1, "at": "2024-05-10T13:30:00+02:00"},  # 11:30 in UTC
            {"id": 1, "at": "2024-05-10T11:45:00"},
            {"id": 1, "at": "2024-05-10T06:00:00-05:00"},  # 11:00 in UTC
        ]
    )
    first = by_timestamp(place, "id")

    assert place.rows("at") == [("2024-05-10T11:45:00",)]
    assert first.watermark_after == "2024-05-10T11:45:00.000000Z"
    assert by_timestamp(place, "id").records_read == 0


@pytest.mark.parametrize(
    ("first", "other"),
    [
        pytest.param(Merge(), SCD2(), id="on"),
        pytest.param(
            *(SCD2(), Merge()),
            id="off",
            marks=thorough(
                "loaders/test_target_rewinds.py: a target that holds versions stays one"
            ),
        ),
    ],
)
def test_scd2_is_neither_switched_on_nor_off(
    place: Place, first: WriteStrategy, other: WriteStrategy
) -> None:
    place.land_lines([{"id": 1, "n": "a", "operation": "I", "sequence_num": 1}])
    by_log(place, write=first)
    before = place.version()
    place.land_lines([{"id": 1, "n": "b", "operation": "U", "sequence_num": 2}])

    with pytest.raises(DefinitionError, match="it would become a mixture of both"):
        by_log(place, write=other)
    assert place.version() == before
