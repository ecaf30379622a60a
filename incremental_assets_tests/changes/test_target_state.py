"""What a target holds of each key, asked before a load: rows of two writes do not mix."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable, Schema

from incremental_assets.changes.target_state import TargetState
from incremental_assets.delta.table_key import key_properties
from incremental_assets.errors import DefinitionError
from incremental_assets.writes import SCD2, DeleteInsert, Merge, WriteStrategy
from incremental_assets_tests.ledger.entries import entry

COLUMNS = """{"type": "struct", "fields": [
    {"name": "_batch", "type": "long", "nullable": true, "metadata": {}},
    {"name": "id", "type": "long", "nullable": true, "metadata": {}}
]}"""


def state(path: Path, write: WriteStrategy) -> TargetState:
    return TargetState("people", str(path), write, ("id",)).with_table()


def created(path: Path, by: WriteStrategy | None) -> None:
    """A target without a row, as a load of this write creates it; an older version records none."""
    properties = key_properties(("id",), by.rows_of_key) if by is not None else {}
    schema = Schema.from_json(COLUMNS)
    DeltaTable.create(path, schema, configuration=properties, raise_if_key_not_exists=False)


@pytest.mark.parametrize(
    ("by", "then"),
    [
        pytest.param(Merge(), SCD2(), id="recorded, then by versions"),
        pytest.param(Merge(), DeleteInsert(), id="recorded, then by rows of a load"),
        pytest.param(None, SCD2(), id="not recorded, then by versions"),
    ],
)
def test_a_target_takes_another_write_only_as_long_as_no_load_has_filled_it(
    tmp_path: Path, by: WriteStrategy | None, then: WriteStrategy
) -> None:
    created(tmp_path, by)
    found = state(tmp_path, then)

    found.require_same_write()
    emptied = found.with_ledger(entry(1, "committed", "people"), None)
    with pytest.raises(DefinitionError, match="of each key, and is now to be loaded by"):
        emptied.require_same_write()
    if by is not None:
        state(tmp_path, by).with_ledger(emptied.last, None).require_same_write()
