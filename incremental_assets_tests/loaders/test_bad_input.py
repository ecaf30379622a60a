"""What cannot be loaded says what, where and what to do, and loses nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, ClassVar

import polars as pl
import pytest
from deltalake import DeltaTable

from incremental_assets.decodable import landed_bytes
from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.errors import (
    DefinitionError,
    GateError,
    IncrementalAssetsError,
    LakeError,
    LedgerError,
    SourceError,
    WatermarkError,
)
from incremental_assets.frames import Frames
from incremental_assets.loaders import (
    LoadResult,
    SequenceBasedLoader,
    TimestampBasedLoader,
    read_watermarks,
)
from incremental_assets.quality.rules import at_least, fail, quarantine, row_count, unique
from incremental_assets.query import query
from incremental_assets.sources.source import FixedSource
from incremental_assets.writes import SCD2, RecomputeKeys, WriteStrategy
from incremental_assets.writes.destination import ChangeSet, Destination
from incremental_assets_tests.loaders.conftest import NOON, Place

SCHEMA = {"id": pl.Int64, "amount": pl.Int64, "at": pl.Datetime("us", "UTC")}


def rows(*found: tuple[int | None, int, int | None]) -> list[Mapping[str, Any]]:
    """Rows of an id, an amount and how many minutes before the load they changed."""
    return [
        {"id": i, "amount": a, "at": None if m is None else NOON - timedelta(minutes=m)}
        for i, a, m in found
    ]


def load(place: Place, **options: Any) -> LoadResult:
    return TimestampBasedLoader(place.spark, place.clock).load_incremental(
        **(place.paths | {"timestamp_column": "at", "table_name": "orders"} | options)
    )


Prepare = Callable[[Place], Mapping[str, Any]]


def _nothing(_: Place) -> Mapping[str, Any]:
    return {}


def _classic_watermarks(place: Place) -> Mapping[str, Any]:
    classic = {"table_name": ["orders"], "watermark_value": ["1"], "last_updated": [NOON]}
    pl.DataFrame(classic).write_delta(str(place.watermarks))
    return {}


def _a_target_of_csv(place: Place) -> Mapping[str, Any]:
    place.target.mkdir()
    (place.target / "old.csv").write_text("id\n1\n")
    return {}


def _a_filled_target(place: Place) -> Mapping[str, Any]:
    pl.DataFrame(rows((1, 1, 1)), schema=SCHEMA).write_delta(str(place.target))
    return {}


BAD = [
    pytest.param(SourceError, "nothing at", lambda p: {"source_path": p.folder / "gone"}, id="no source"),
    pytest.param(SourceError, "no column 'when'", lambda _: {"timestamp_column": "when"}, id="no cursor column"),
    pytest.param(SourceError, "no column 'key'", lambda _: {"primary_key": "key"}, id="no key column"),
    pytest.param(SourceError, "'id' is bigint.*cannot be ordered", lambda _: {"timestamp_column": "id"}, id="a cursor of another type"),
    pytest.param(SourceError, "1 of 2 new rows have no at", _nothing, id="a null cursor"),
    pytest.param(LedgerError, "plain watermark table", _classic_watermarks, id="a classic watermark table"),
    pytest.param(LakeError, "no Delta table, but holds old.csv", _a_target_of_csv, id="a target of another kind"),
    pytest.param(LakeError, "holds rows already", _a_filled_target, id="a filled target to append to"),
    pytest.param(DefinitionError, "table_name is ''", lambda _: {"table_name": ""}, id="no table name"),
    pytest.param(DefinitionError, "table_name is None", lambda _: {"table_name": None}, id="a table name of None"),
    pytest.param(DefinitionError, "needs a primary_key", lambda _: {"write": SCD2()}, id="history without key"),
    pytest.param(DefinitionError, "rules .'row_count', 'a_unique'. judge days", lambda _: {"rules": fail(row_count(1), unique("a"))}, id="rule on days"),
    pytest.param(SourceError, "no column 'dt'", lambda _: {"partition_by": "dt", "nulls": "include"}, id="no partition column"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "message", "prepare"), BAD)
def test_it_is_refused_in_words_and_moves_no_watermark(
    place: Place, kind: type[Exception], message: str, prepare: Prepare
) -> None:
    place.land(rows((1, 10, 5), (2, 20, None)), SCHEMA)
    options = prepare(place)

    with pytest.raises(kind, match=message) as refused:
        load(place, **options)

    assert isinstance(refused.value, IncrementalAssetsError)
    if kind is not LedgerError:
        assert read_watermarks(place.spark, place.watermarks).count() == 0


def test_bad_rows_are_quarantined_with_their_reasons_and_the_rest_goes_on(place: Place) -> None:
    def line(id_: int | None, amount: int, at: str = "2024-05-10T11:55:00Z") -> str:
        return json.dumps({"id": id_, "amount": amount, "at": at})

    one, two = line(1, 10).encode(), line(2, 10).encode()
    damaged = [one + two, one + b"] " + two, one[:-1] + b', "x": "caf\xe9"}', b"PK\x03\x04\xff"]
    bad = [
        line(3, 30, "2025-05-10T12:00:00Z"),
        line(4, 40, "yesterday"),
        line(5, -1),
        line(None, -9),
    ]
    place.land_lines([]).write_bytes(b"\n".join([one, *damaged, *map(str.encode, bad)]) + b"\n")
    rules = [*quarantine(at_least("amount", 0)), *fail(at_least("amount", -5))]

    first = load(place, primary_key="id", rules=rules)
    place.land_lines([line(6, 60, "2024-05-10T11:58:00Z")])
    second = load(place, primary_key="id", rules=rules)

    assert (first.records_read, first.records_quarantined, first.records_loaded) == (9, 8, 1)
    assert first.watermark_after == "2024-05-10T11:55:00.000000Z"  # the future silences nothing
    assert "beyond" in " ".join(first.notes)
    # A row that is quarantined holds no load by another rule.
    assert all(check.passed for check in first.checks if check.severity == "fail")
    assert (second.records_read, second.records_quarantined) == (1, 0)
    assert place.rows("id") == [(1,), (6,)]
    assert place.quarantined() == [
        ["amount_at_least_0"],
        ["at_in_future"],
        ["at_unreadable"],
        ["id_null", "amount_at_least_0"],
        *[["line_unreadable"]] * 4,
    ]
    kept = query(DeltaTable(str(place.target / "_quarantine")), "row, reasons")
    unreadable = kept.filter(kept["reasons"].list.contains("line_unreadable"))["row"]
    assert sorted(map(landed_bytes, unreadable)) == sorted(damaged)


def test_rows_from_the_future_and_without_a_cursor_can_be_included_each_once(
    place: Place,
) -> None:
    place.land(rows((1, 10, 5), (2, 20, -60 * 24), (3, 30, None)), SCHEMA)
    first = load(place, future="include", nulls="include")
    again = load(place, future="include", nulls="include")

    assert (first.records_loaded, again.records_read) == (3, 0)
    assert first.watermark_after == "2024-05-10T11:55:00.000000Z"


def test_a_filled_target_is_appended_to_above_a_given_watermark(place: Place) -> None:
    _a_filled_target(place)
    place.land(rows((1, 1, 30), (3, 3, 10), (2, 20, 4)), SCHEMA)

    result = load(place, start_from=NOON - timedelta(minutes=10))

    # A row at the given watermark is taken to be there.
    assert place.rows("id", "amount") == [(1, 1), (2, 20)]
    assert (result.records_read, result.watermark_before) == (1, "2024-05-10T11:50:00.000000Z")


def test_a_first_load_that_can_read_no_timestamp_is_refused(place: Place) -> None:
    place.land_lines([{"id": 1, "at": "12/1/2010 8:26"}, {"id": 2, "at": "12/13/2010 8:34"}])

    with pytest.raises(
        SourceError, match=r"not one value of at is ISO 8601, such as '12/1/2010 8:26'"
    ):
        load(place)

    assert not place.target.exists()


@pytest.mark.parametrize("indent", [None, 2], ids=["one line", "pretty"])
def test_a_first_load_of_a_json_array_is_refused(place: Place, indent: int | None) -> None:
    place.land_lines([json.dumps([{"id": 1, "at": "2024-05-10T11:00:00Z"}], indent=indent)])

    with pytest.raises(SourceError, match="none of them is a JSON object"):
        load(place)


def test_a_rule_that_holds_a_load_names_keys_of_rows_that_break_it(place: Place) -> None:
    place.land(rows((1, 10, 5), (2, -1, 4)), SCHEMA)

    with pytest.raises(GateError, match="amount_at_least_0: 1 of 2 rows failed, such as id=2"):
        load(place, primary_key="id", rules=[fail(at_least("amount", 0))])
    assert not place.target.exists()


def test_a_source_that_is_another_one_once_it_was_read_publishes_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def require_read(*_: object) -> None:
        raise SourceError("it was created again")

    place.land(rows((1, 1, 1)), SCHEMA)
    monkeypatch.setattr(FixedSource, "require_read", require_read)

    with pytest.raises(SourceError, match="created again"):
        load(place)

    assert not place.target.exists()


def test_a_write_of_gold_tables_is_refused(place: Place) -> None:
    place.land(rows((1, 10, 5)), SCHEMA)

    with pytest.raises(DefinitionError, match="computes the rows of a gold table"):
        load(place, primary_key="id", write=RecomputeKeys())


class _LooksNothingUp(WriteStrategy):
    """Finds rows by key, and stages them as if the table had none."""

    by_key: ClassVar[bool] = True

    def stage(self, frames: Frames, to: Destination, changes: ChangeSet) -> StagedWrite:
        return to.stage_new(to.as_written(changes))


def test_a_write_by_key_that_looks_no_key_up_is_refused(place: Place) -> None:
    place.land(rows((1, 10, 5)), SCHEMA)
    load(place, primary_key="id", write=_LooksNothingUp())
    place.land(rows((1, 11, 4), (2, 20, 4)), SCHEMA)

    for _ in range(2):
        with pytest.raises(DefinitionError, match=r"_LooksNothingUp\(\) finds .* by `to\.merge`"):
            load(place, primary_key="id", write=_LooksNothingUp())

    assert place.rows("id", "amount") == [(1, 10)]


def test_no_more_than_max_records_are_taken_at_a_time_and_none_is_skipped(place: Place) -> None:
    """Equal rows are loaded together, as often as they are there."""
    place.land(rows((1, 1, 9), (1, 1, 9), (2, 2, 8), (3, 3, 8), (4, 4, 7)), SCHEMA)

    taken = [load(place, max_records=most).records_loaded for most in (1, 2, 2, 2)]

    assert taken == [2, 2, 1, 0]
    assert place.rows("id") == [(1,), (1,), (2,), (3,), (4,)]


def test_a_filled_target_is_merged_into_and_replaced_versions_are_not_read_again(
    place: Place,
) -> None:
    _a_filled_target(place)
    place.land(rows((1, 11, 9), (2, 2, 5)), SCHEMA)
    load(place, primary_key="id", lookback=timedelta(hours=1))
    assert place.rows("id", "amount") == [(1, 11), (2, 2)]
    place.land(rows((1, 12, 4)), SCHEMA)
    load(place, primary_key="id", lookback=timedelta(hours=1))

    assert load(place, primary_key="id", lookback=timedelta(hours=1)).records_read == 0
    assert place.rows("id", "amount") == [(1, 12), (2, 2)]


def test_rows_that_lost_to_a_later_one_or_to_a_delete_are_not_read_again(place: Place) -> None:
    """With `max_records` they would be all that each load reads, for ever."""
    include: Any = {"primary_key": "id", "nulls": "include", "max_clock_skew": timedelta.max}
    place.land(rows((1, 0, None), (1, 1, 180), (2, 2, 120)), SCHEMA)
    load(place, **include)
    place.land(rows((3, 3, 60), (4, 4, None)), SCHEMA)
    assert [load(place, **include, max_records=1).records_read for _ in range(2)] == [1, 1]
    assert place.rows("id", "amount") == [(1, 1), (2, 2), (3, 3), (4, 4)]

    place.source, place.target = place.folder / "marked", place.folder / "live"
    marked: Any = {"primary_key": "id", "deleted_column": "gone", "lookback": timedelta(hours=1)}
    gone = SCHEMA | {"gone": pl.String}
    first, second, other = rows((1, 1, 180), (1, 1, 150), (2, 2, 140))
    place.land([first | {"gone": None}, second | {"gone": "x"}], gone)
    load(place, **marked, table_name="live")
    place.land([other | {"gone": None}], gone)
    load(place, **marked, table_name="live", max_records=1)
    assert place.rows("id") == [(2,)]


def test_a_clock_without_a_time_zone_is_refused(place: Place) -> None:
    place.land(rows((1, 1, 9)), SCHEMA)
    place.now = place.now.replace(tzinfo=None)

    with pytest.raises(DefinitionError, match="with their time zone"):
        load(place)


def test_after_an_empty_load_columns_grow_the_target_and_a_changed_type_is_refused(
    place: Place,
) -> None:
    place.land([], SCHEMA)
    empty = load(place)
    assert (empty.records_read, empty.watermark_after) == (0, None)
    place.land(rows((1, 10, 5)), SCHEMA)
    load(place)
    more = SCHEMA | {"note": pl.String}
    place.land([{**rows((2, 20, 4))[0], "note": "new"}], more)
    load(place)
    assert place.rows("id", "note") == [(1, None), (2, "new")]

    for file in place.source.iterdir():
        file.unlink()
    place.land([{**rows((3, 30, 3))[0], "amount": "thirty"}], SCHEMA | {"amount": pl.String})
    before = place.version()

    with pytest.raises(IncrementalAssetsError, match="amount"):
        load(place)
    assert place.version() == before


def test_another_detector_is_refused_and_watermarks_are_shown_as_the_classic_table(
    place: Place,
) -> None:
    place.land(rows((1, 10, 5)), SCHEMA)
    load(place)
    with pytest.raises(WatermarkError, match="loaded by timestamp of 'at' so far"):
        SequenceBasedLoader(place.spark, place.clock).load_incremental(
            **place.paths, sequence_column="id", table_name="orders"
        )
    SequenceBasedLoader(place.spark, place.clock).load_incremental(
        place.source, place.folder / "other", place.watermarks, "id", "by number"
    )

    shown = read_watermarks(place.spark, place.watermarks)

    assert shown.dtypes == [
        ("table_name", "string"),
        ("watermark_value", "string"),
        ("last_updated", "timestamp"),
    ]
    assert sorted((r["table_name"], r["watermark_value"]) for r in shown.collect()) == [
        ("by number", "1"),
        ("orders", "2024-05-10T11:55:00.000000Z"),
    ]
