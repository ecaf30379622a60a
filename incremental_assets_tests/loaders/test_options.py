"""An option of an unknown value or another type is refused where it is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from incremental_assets.errors import DefinitionError, SourceError
from incremental_assets.loaders import (
    SCD2,
    CDCLoader,
    LoaderOptions,
    Merge,
    SequenceBasedLoader,
    Target,
    TimestampBasedLoader,
)
from incremental_assets.quality.rules import quarantine
from incremental_assets.settings import PROJECT_ROOT, user_name

NO_SPARK: Any = None
PLACES = ("source", "target", "watermarks")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"nulls": "skip"}, "nulls is 'raise', 'include' or 'quarantine', not 'skip'"),
        ({"future": "drop"}, "future is 'quarantine' or 'include', not 'drop'"),
        ({"lookback": 3}, "are timedeltas"),
        ({"source_format": "jsonl"}, "'json_document' or 'csv', not 'jsonl'"),
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
        ({"most_gaps": -1}, "most_gaps is a count of numbers, not -1"),
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
