"""An option of an unknown value or another type is refused where it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from incremental_assets.changes import Sequence, Timestamp
from incremental_assets.errors import DefinitionError, SourceError
from incremental_assets.loaders import (
    SCD2,
    CDCLoader,
    DeltaDiffLoader,
    LoaderOptions,
    Merge,
    SequenceBasedLoader,
    Target,
    TimestampBasedLoader,
)
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.rules import not_null, quarantine
from incremental_assets.quality.types import Text
from incremental_assets.settings import PROJECT_ROOT, user_name
from incremental_assets.sources.stored import Stored
from incremental_assets.table import Table
from incremental_assets.writes import Append

NO_SPARK: Any = None
PLACES = ("source", "target", "watermarks")
NOON = datetime(2024, 5, 10, 12, tzinfo=UTC)


def by_time(**given: Any) -> Target:
    paths = {"source_path": "/s", "target_path": "/t", "watermark_path": "/w"}
    named = paths | {"timestamp_column": "at", "table_name": "orders"}
    return TimestampBasedLoader(NO_SPARK).target(**named | given)


def by_number(**given: Any) -> Target:
    return SequenceBasedLoader(NO_SPARK).target("/s", "/t", "/w", "seq", "orders", **given)


def by_log(**given: Any) -> Target:
    return CDCLoader(NO_SPARK).target("/s", "/t", "/w", "id", "orders", **given)


def by_snapshot(**given: Any) -> Target:
    paths = {"source_path": "/s", "target_path": "/t", "snapshot_path": "/c"}
    named = paths | {"primary_key": "id", "table_name": "orders"}
    return DeltaDiffLoader(NO_SPARK).target(**named | given)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"nulls": "skip"}, "nulls is 'raise', 'include' or 'quarantine', not 'skip'"),
        ({"future": "drop"}, "future is 'quarantine' or 'include', not 'drop'"),
        ({"lookback": 3}, "are timedeltas"),
        ({"source_format": "jsonl"}, r"'csv' or Csv\(…\), not 'jsonl'; did you mean json"),
        ({"write": "merge"}, "write is 'merge'; give a write strategy"),
        ({"write": SCD2(valid_time="event"), "primary_key": "id"}, "is for tables of the lake"),
        ({"rules": "price >= 0"}, "'price >= 0' is no rule"),
        ({"primary_keys": "id"}, "no option primary_keys; did you mean primary_key"),
    ],
    ids=lambda it: next(iter(it)) if isinstance(it, dict) else "",
)
def test_of_a_loader_by_timestamp(tmp_path: Path, option: dict[str, Any], message: str) -> None:
    places = [tmp_path / place for place in PLACES]
    with pytest.raises(DefinitionError, match=message):
        TimestampBasedLoader(NO_SPARK).target(*places, "at", "orders", **option)


def test_of_a_loader_by_sequence_and_of_a_log(tmp_path: Path) -> None:
    places = [tmp_path / place for place in PLACES]
    sequence = SequenceBasedLoader(NO_SPARK)
    with pytest.raises(DefinitionError, match=r"nulls is .* not 'skip'"):
        sequence.target(*places, "seq", "orders", nulls="skip")
    odd: dict[str, Any]
    for odd, said in (
        ({"lookback": "1 day"}, "lookback is a count of numbers"),
        ({"lookback": -1}, "lookback is a count of numbers, not -1"),
        ({"max_gaps": -1}, "max_gaps is a count of numbers, not -1"),
        ({"gap_deadline": 3}, "the deadline of a gap is a timedelta"),
        ({"max_records": 2.5}, r"max_records is 2\.5; expected a whole number"),
    ):
        with pytest.raises(DefinitionError, match=said):
            sequence.target(*places, "seq", "orders", **odd)
    with pytest.raises(DefinitionError, match="needs a reason"):
        sequence.target(*places, "seq", "orders").rewind(0, NO_SPARK)
    with pytest.raises(DefinitionError, match="cdc_format is 'flat' or 'debezium', not 'avro'"):
        CDCLoader(NO_SPARK).target(*places, "id", "orders", cdc_format="avro")
    for own in ("operation", "sequence_num"):
        with pytest.raises(
            DefinitionError, match=rf"primary_key names \['{own}'\], columns of the"
        ):
            CDCLoader(NO_SPARK).target(*places, ["id", own], "orders")


WRONG_KINDS: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (by_snapshot, {"snapshot_at": "noon"}, "snapshot_at is 'noon'; expected an instant"),
    (by_snapshot, {"snapshot_at": 7}, "snapshot_at is 7; expected an instant"),
    (by_snapshot, {"max_deleted_share": "20%"}, "is a share from 0 to 1, not '20%'"),
    (by_snapshot, {"max_deleted_share": None}, "is a share from 0 to 1, not None"),
    (by_snapshot, {"watermark": "max"}, "watermark is 'max'; expected a function"),
    (by_snapshot, {"scope": [3]}, r"scope is \[3\]; expected the name of a column"),
    (by_time, {"primary_key": 1}, "primary_key is 1; expected the name of a column, or several"),
    (by_time, {"primary_key": ["id", None]}, r"primary_key is \['id', None\]; expected"),
    (by_time, {"partition_by": 5}, "partition_by is 5; expected the name of a column"),
    (
        by_time,
        {"timestamp_column": ["at"]},
        r"Timestamp is \['at'\]; expected the name of a column",
    ),
    (by_time, {"watermark": "max"}, "watermark is 'max'; expected a function, or None"),
    (by_time, {"start_from": "10/05/2024"}, "start_from is '10/05/2024'; expected an instant"),
    (by_time, {"start_from": 41}, "start_from is 41; expected an instant"),
    (by_number, {"start_from": 41.0}, r"start_from is 41\.0; expected a whole number"),
    (by_number, {"start_from": NOON}, "start_from is datetime.*; expected a whole number"),
    (by_number, {"watermark": "max"}, "watermark is 'max'; expected a function"),
    (by_log, {"operations": ["x"]}, r"operations is \['x'\]; expected a mapping of words"),
    (Table, {"reads": Stored("o")}, r"reads is Stored.*; expected a tuple: \(Stored"),
    (Table, {"rules": not_null("id")}, "rules is .*; expected a tuple of rules"),
    (Table, {"schema": {"id": Text()}}, "schema is .*; expected a Contract"),
    (Table, {"name": None}, "Table name None: expected bronze"),
    (Table, {"write": Merge}, "write is .*Merge.*; expected a write strategy, such as Merge"),
    (Table, {"changes": Timestamp}, "changes is .*; expected a change detector, such as"),
    (Table, {"transform": "x"}, "transform is 'x'; expected a function"),
    (Contract, {"id": Text}, "Contract column 'id' is .*; expected a type, such as Text"),
]
PARAMETERS: dict[Callable[..., Any], dict[str, Any]] = {
    Table: {"name": "bronze/o", "description": "", "reads": (Stored("o"),), "write": Append()}
}


@pytest.mark.parametrize(("define", "wrong", "message"), WRONG_KINDS, ids=str)
def test_a_value_of_another_kind_is_refused_by_its_name(
    define: Callable[..., Any], wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(DefinitionError, match=message):
        define(**PARAMETERS.get(define, {}) | wrong)


def test_what_is_meant_by_a_date_a_text_or_a_number_is_taken() -> None:
    midnight = datetime(2024, 5, 10, tzinfo=UTC)
    for given in (midnight, date(2024, 5, 10), "2024-05-10T02:00:00+02:00"):
        assert by_snapshot(snapshot_at=given).table.at == midnight
        assert by_time(start_from=given).table.start == "2024-05-10T00:00:00.000000Z"
    for number in (41, "41", Decimal("41.0"), np.int64(41)):
        assert by_number(start_from=number).table.start == "41"
    assert by_time(primary_key=["id", "at", "id"]).table.key == ("id", "at")


def test_no_table_lies_among_the_files_of_another_one() -> None:
    for paths in (
        {"target_path": "/s/target"},
        {"source_path": "s3://b/s", "target_path": "s3://b/s/t"},
        {"watermark_path": "/s/deep/marks"},
        {"source_path": "/t/landing"},
    ):
        with pytest.raises(DefinitionError, match=r"lies in the folder .*, such as .*/_"):
            by_time(**paths)
    with pytest.raises(DefinitionError, match=r"/s/copies lies in the folder /s, .*/s/_copies\."):
        by_snapshot(snapshot_path="/s/copies")
    by_snapshot(snapshot_path="/t/copies")  # which neither VACUUM nor a reader takes for data
    by_time(target_path="/s/_lake/target", watermark_path="/s/_lake/target/.marks")
    by_time(target_path="/source-2")


def test_history_is_a_deprecated_way_to_write_scd2(tmp_path: Path) -> None:
    def target(**options: Any) -> Target:
        with pytest.warns(DeprecationWarning, match=r"write=SCD2\(ignore_changes_in="):
            return CDCLoader(NO_SPARK).target(
                *(tmp_path / place for place in PLACES), "id", "orders", **options
            )

    ignoring = target(history=True, ignore_changes_in="at")
    assert ignoring.table.write == SCD2(ignore_changes_in=("at",))
    assert target(history=True).table.write == SCD2()
    assert target(history=False, ignore_changes_in="at").table.write == Merge()
    assert target(history=True, write=Merge()).table.write == Merge()


def test_the_warning_names_the_line_of_the_load(tmp_path: Path) -> None:
    places = [tmp_path / place for place in PLACES]
    with pytest.warns(DeprecationWarning, match="history") as warned, pytest.raises(SourceError):
        CDCLoader(NO_SPARK).process_cdc(*places, "id", "orders", history=True)
    assert warned[0].filename == __file__


def test_most_gaps_is_a_deprecated_name_of_max_gaps(tmp_path: Path) -> None:
    places = [tmp_path / place for place in PLACES]
    with pytest.warns(DeprecationWarning, match="it is named max_gaps") as warned:
        detector = Sequence("seq", most_gaps=7)
    assert warned[0].filename == __file__
    assert detector == Sequence("seq", max_gaps=7)
    assert replace(detector, on_gap="fail").max_gaps == 7  # without another warning
    with pytest.warns(DeprecationWarning, match="it is named max_gaps") as warned:
        target = SequenceBasedLoader(NO_SPARK).target(*places, "seq", "orders", most_gaps=7)
    assert target.table.changes == detector
    with pytest.warns(DeprecationWarning, match="max_gaps") as warned, pytest.raises(SourceError):
        SequenceBasedLoader(NO_SPARK).load_incremental(*places, "seq", "orders", most_gaps=7)
    assert [each.filename for each in warned] == [__file__]


def test_columns_to_ignore_are_a_tuple() -> None:
    one: Any = "at"
    with pytest.raises(DefinitionError, match=r"expected a tuple of columns: \('at',\)"):
        SCD2(ignore_changes_in=one)


def test_every_shared_option_is_documented() -> None:
    pages = (LoaderOptions.__doc__ or "", (PROJECT_ROOT / "docs/loaders.md").read_text())
    deprecated = {"history", "ignore_changes_in"}
    for option in LoaderOptions.__optional_keys__:
        assert f"`{option}`" in pages[0]
        assert f"| `{option}` |" in pages[1] or option in deprecated


def test_a_source_that_is_neither_a_path_nor_a_source(tmp_path: Path) -> None:
    nothing: Any = object()
    with pytest.raises(DefinitionError, match="source_path is of the type object; expected"):
        TimestampBasedLoader(NO_SPARK).target(nothing, tmp_path, tmp_path, "at", "orders")


def test_a_condition_that_is_no_rule() -> None:
    with pytest.raises(DefinitionError, match="is no rule; build one"):
        quarantine("price >= 0")


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 1234")

    monkeypatch.setattr("getpass.getuser", nobody)
    assert user_name().startswith("user ")
