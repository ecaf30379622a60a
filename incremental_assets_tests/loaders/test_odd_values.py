"""Values, names and orders that look harmless: nothing is taken for something else, nor twice."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable

from incremental_assets.changes.by_sequence import Sequence
from incremental_assets.changes.progress import Progress, Waiting, progress_from, step
from incremental_assets.delta.delta_table import ensure_table
from incremental_assets.errors import (
    DefinitionError,
    GateError,
    SettingsError,
    SnapshotError,
    SourceError,
)
from incremental_assets.loaders import (
    CDCLoader,
    DeltaDiffLoader,
    SequenceBasedLoader,
    TimestampBasedLoader,
)
from incremental_assets.loaders.result import LoadResult
from incremental_assets.quality.rules import between, fail, quarantine, satisfies
from incremental_assets.query import query
from incremental_assets.writes import (
    SCD2,
    DeleteInsert,
    Merge,
    OverwriteDays,
    ReplaceDay,
    WriteStrategy,
)
from incremental_assets_tests.loaders.conftest import NOON, Place

AT = "2024-05-10T10:00:00Z"
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


def test_a_gap_that_fills_among_too_many_runs_is_loaded_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("incremental_assets.changes.ranges.MOST", 3)
    place.land_lines([{"id": n} for n in (1, 2, 5)])
    by_sequence(place)
    place.land_lines([{"id": n} for n in (3, 4, *range(100, 130, 3))])
    by_sequence(place)
    place.land_lines([{"id": 200}])
    by_sequence(place)

    assert sorted(n for (n,) in place.rows("id")) == [*range(1, 6), *range(100, 130, 3), 200]


def test_numbers_beyond_64_bits_go_on(place: Place) -> None:
    place.land_lines([{"id": "12345678901234567890"}, {"id": "12345678901234567892"}])
    by_sequence(place)
    place.land_lines([{"id": "12345678901234567891"}, {"id": "9" * 38}])
    result = by_sequence(place)

    assert result.records_inserted == 2
    assert result.watermark_after == "9" * 38
    assert len(place.rows("id")) == 4


def test_each_gap_is_waited_for_from_when_it_was_seen() -> None:
    hour, minute = timedelta(hours=1), timedelta(minutes=1)
    detector = Sequence("id", on_gap="wait", deadline=hour)
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


def test_an_empty_text_that_names_a_partition_is_quarantined(place: Place) -> None:
    for value in ("a", "b"):
        rows = [{"id": n, "p": p, "v": value, "at": AT} for n, p in ((1, ""), (2, "x"))]
        place.land_lines([{**row, "at": LATER} if value == "b" else row for row in rows])
        by_timestamp(place, ["id", "p"], partition_by="p")

    assert place.rows("id", "p", "v") == [(2, "x", "b")]
    assert place.quarantined() == [["p_empty"], ["p_empty"]]


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


def test_a_day_that_is_read_again_is_judged_with_all_its_rows(place: Place) -> None:
    options: dict[str, Any] = {"partition_by": "day", "write": ReplaceDay("day")}
    not_negative = satisfies("price_ok", "price >= 0")
    place.land([dated(1, 10)], DATED)
    by_timestamp(place, rules=fail(not_negative), **options)
    place.land([dated(2, 20), dated(3, 5, -5.0), dated(4, 6)], DATED)

    with pytest.raises(GateError, match="price_ok"):
        by_timestamp(place, rules=fail(not_negative), **options)
    assert place.rows("id") == [(1,)]
    by_timestamp(place, rules=quarantine(not_negative), **options)

    assert place.rows("id") == [(1,), (2,), (4,)]
    assert place.quarantined() == [["price_ok"]]


@pytest.mark.parametrize("write", [OverwriteDays("day"), DeleteInsert()])
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


def test_equal_rows_are_loaded_as_often_as_they_are_there_whatever_the_bound(
    place: Place,
) -> None:
    place.land_lines([{"id": 1, "at": AT}, {"id": 1, "at": AT}, {"id": 2, "at": LATER}])
    for _ in range(3):
        by_timestamp(place, max_records=1)

    assert place.rows("id") == [(1,), (1,), (2,)]


def test_a_bad_row_does_not_move_the_watermark(place: Place) -> None:
    place.land_lines([{"id": 1, "at": AT}, {"id": -1, "at": LATER}])
    rules = quarantine(between("id", 0, 10))
    assert by_timestamp(place, rules=rules).watermark_after == "2024-05-10T10:00:00.000000Z"
    place.land_lines([{"id": 2, "at": "2024-05-10T10:30:00Z"}])
    by_timestamp(place, rules=rules)

    assert place.rows("id") == [(1,), (2,)]
    assert place.quarantined() == [["id_between"]]


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_number_with_leading_zeros_is_not_the_number_without(place: Place, kind: str) -> None:
    if kind == "csv":
        place.source.mkdir()
        (place.source / "a.csv").write_text(f"id,name,at\n7,Ann,{AT}\n8,Bob,{AT}\n")
        by_timestamp(place, "id")
        (place.source / "b.csv").write_text(f"id,name,at\n007,Zed,{LATER}\n")
    else:
        place.land_lines(
            [{"id": n, "name": name, "at": AT} for n, name in ((7, "Ann"), (8, "Bob"))]
        )
        by_timestamp(place, "id")
        place.land_lines([{"id": "007", "name": "Zed", "at": LATER}])
    by_timestamp(place, "id")

    assert place.rows("id", "name") == [(7, "Ann"), (8, "Bob")]
    assert place.quarantined() == [["id_unreadable"]]


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_whole_numbers_that_no_double_holds_stay_apart_next_to_a_fraction(
    place: Place, kind: str
) -> None:
    ids = ("9007199254740992", "9007199254740993", "0.5")
    if kind == "csv":
        place.source.mkdir()
        text = "\n".join(["id,at", *(f"{each},{AT}" for each in ids)])
        (place.source / "a.csv").write_text(text)
    else:
        place.land_lines([f'{{"id":{each},"at":"{AT}"}}' for each in ids])
    by_timestamp(place, "id")

    assert [row[0] for row in place.rows("id")] == ["0.5", *ids[:2]]


def test_money_in_csv_is_read_as_the_decimal_that_the_target_declares(place: Place) -> None:
    columns = {"id": "long", "price": "decimal(18,4)", "at": "timestamp"}
    ensure_table(str(place.target), "prices", list(columns.items()), ())
    place.source.mkdir()
    prices = ("0.1", "12345678901234.5678", "1")
    rows = [f"{n},{price},{AT}" for n, price in enumerate(prices)]
    (place.source / "a.csv").write_text("\n".join(["id,price,at", *rows, f"3,much,{AT}"]))

    by_timestamp(place)

    assert place.rows("id", "price") == [(n, Decimal(price)) for n, price in enumerate(prices)]
    assert place.quarantined() == [["price_unreadable"]]


def test_a_bound_is_not_rounded(place: Place) -> None:
    rows = [10.0000000004, -4e-10, 10.0, 0.0]
    place.land_lines([{"id": n, "x": x, "at": AT} for n, x in enumerate(rows)])
    by_timestamp(place, rules=quarantine(between("x", 0, 10)))

    assert place.rows("x") == [(0.0,), (10.0,)]


def test_years_that_python_does_not_know_are_loaded(place: Place) -> None:
    place.land_lines([{"id": 1, "at": AT}, {"id": 2, "at": "0000-01-01T00:00:00Z"}])

    assert by_timestamp(place).records_inserted == 2


def test_columns_that_begin_with_an_underscore_are_the_sources_own(place: Place) -> None:
    rows = pl.DataFrame({"_id": ["a", "b", "c"], "_v": [1, 1, 1]})
    by_snapshot(place, rows, "_id")
    second = by_snapshot(place, rows.with_columns(_v=pl.Series([1, 2, 1])), "_id")

    assert (second.records_updated, second.records_deleted) == (1, 0)
    assert place.rows("_id", "_v") == [("a", 1), ("b", 2), ("c", 1)]
    with pytest.raises(SourceError, match="'_wins'"):
        by_snapshot(place, rows.with_columns(_wins=pl.lit(1)), "_id")


def test_a_snapshot_that_comes_late_deletes_no_more_than_another(place: Place) -> None:
    whole = pl.DataFrame({"id": list(range(10)), "v": [1] * 10})
    days = [NOON + timedelta(days=n) for n in range(3)]
    by_snapshot(place, whole, "id", write=SCD2(), snapshot_at=days[0])
    by_snapshot(place, whole.with_columns(v=2), "id", write=SCD2(), snapshot_at=days[2])

    with pytest.raises(SnapshotError, match="8 of 10"):
        by_snapshot(place, whole.head(2), "id", write=SCD2(), snapshot_at=days[1])


def test_a_row_may_have_columns_of_the_names_that_a_message_has(place: Place) -> None:
    def event(number: int, **after: Any) -> dict[str, Any]:
        return {"op": "c", "before": None, "after": after, "source": {"lsn": number}}

    place.land_lines([event(1, id=1, payload='{"x":1}', key="k", op="o"), {"op": "?"}])
    by_log(place, cdc_format="debezium")

    assert place.rows("id", "payload", "key", "op") == [(1, '{"x":1}', "k", "o")]
    quarantine_table = query(DeltaTable(str(place.target / "_quarantine")))
    assert quarantine_table["row"].to_list() == ['{"op":"?"}']
    place.land_lines([event(2, id=2, _key="k")])
    with pytest.raises(SourceError, match="_key"):
        by_log(place, cdc_format="debezium")


def test_a_log_goes_on_with_numbers_as_texts_and_with_truncates_alone(place: Place) -> None:
    def event(number: Any, name: str, word: str = "UPDATE") -> dict[str, Any]:
        return {"id": 1, "n": name, "operation": word, "sequence_num": number}

    place.land_lines([event(1, "a", "INSERT")])
    by_log(place)
    place.land_lines([event("2", "b"), event("99999999999999999999", "c")])
    by_log(place)
    assert place.rows("id", "n") == [(1, "b")]
    assert place.quarantined() == [["sequence_num_unreadable"]]
    place.land_lines([{"operation": "TRUNCATE", "sequence_num": 3}])
    by_log(place)

    assert place.rows("id") == []


def test_a_place_that_delta_cannot_open_is_refused(place: Place) -> None:
    place.land_lines([{"id": 1, "at": AT}])
    place.target = place.folder / "a[x]"

    with pytest.raises(SettingsError, match=r"target_path .*'\['"):
        by_timestamp(place)


def test_a_session_with_other_words_for_time_changes_nothing(place: Place) -> None:
    session = place.spark.newSession()
    session.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    session.conf.set("spark.sql.parser.escapedStringLiterals", "true")
    loader = TimestampBasedLoader(session, place.clock)
    place.land_lines([{"id": 1, "at": AT}, {"id": 2, "at": "2024-05-10T06:30:00-05:00"}])
    of: dict[str, Any] = {"timestamp_column": "at", "table_name": "t"}
    first = loader.load_incremental(**place.paths, **of)

    assert first.watermark_after == "2024-05-10T11:30:00.000000Z"
    assert loader.load_incremental(**place.paths, **of).records_read == 0


@pytest.mark.parametrize(
    ("first", "other"), [(Merge(), SCD2()), (SCD2(), Merge())], ids=["on", "off"]
)
def test_scd2_is_neither_switched_on_nor_off(
    place: Place, first: WriteStrategy, other: WriteStrategy
) -> None:
    place.land_lines([{"id": 1, "n": "a", "operation": "I", "sequence_num": 1}])
    by_log(place, write=first)
    before = place.version()
    place.land_lines([{"id": 1, "n": "b", "operation": "U", "sequence_num": 2}])

    with pytest.raises(DefinitionError, match=r"SCD2\(\): half of it"):
        by_log(place, write=other)
    assert place.version() == before
    by_log(place, write=first)

    assert ("b",) in place.rows("n")
