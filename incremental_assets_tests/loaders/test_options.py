"""An option of an unknown value or another type is refused where it is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from incremental_assets.errors import DefinitionError
from incremental_assets.loaders import CDCLoader, SequenceBasedLoader, TimestampBasedLoader
from incremental_assets.quality.rules import quarantine

NO_SPARK: Any = None
PLACES = ("source", "target", "watermarks")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"nulls": "skip"}, "nulls is 'raise', 'include' or 'quarantine', not 'skip'"),
        ({"future": "drop"}, "future is 'quarantine' or 'include', not 'drop'"),
        ({"lookback": 3}, "are timedeltas"),
        ({"source_format": "jsonl"}, "is 'delta', 'parquet', 'json' or 'csv', not 'jsonl'"),
        ({"write": "merge"}, "write is 'merge'; give a write strategy"),
        ({"rules": "price >= 0"}, "'price >= 0' is no rule"),
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
    with pytest.raises(DefinitionError, match="lookback is a count of numbers"):
        sequence.target(*places, "seq", "orders", lookback="1 day")
    with pytest.raises(DefinitionError, match="cdc_format is 'flat' or 'debezium', not 'avro'"):
        CDCLoader(NO_SPARK).target(*places, "id", "orders", cdc_format="avro")


def test_a_source_that_is_neither_a_path_nor_a_source(tmp_path: Path) -> None:
    nothing: Any = object()
    with pytest.raises(DefinitionError, match="source_path is of the type object; expected"):
        TimestampBasedLoader(NO_SPARK).target(nothing, tmp_path, tmp_path, "at", "orders")


def test_a_condition_that_is_no_rule() -> None:
    with pytest.raises(DefinitionError, match="is no rule; build one"):
        quarantine("price >= 0")
