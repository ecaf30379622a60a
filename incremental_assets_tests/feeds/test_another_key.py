"""A table whose definition names another key is not loaded: rows of two keys do not mix."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
from deltalake import DeltaTable

from incremental_assets.delta.table_key import recorded_key
from incremental_assets.engine import table_load
from incremental_assets.errors import DefinitionError
from incremental_assets.operations.rebuild_ledger import rebuild_ledger
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.test_null_keys import DAY, KEY, NEXT, landed, row, silver

ONE_PART = ("id",)


def test_a_table_by_another_key_is_refused_and_loaded_from_its_beginning_once_it_is_removed(
    lake: Lakes,
) -> None:
    rows = landed("rows")
    table = silver("merged", rows, version_by=("at",))
    shop = lake(rows, table)
    shop.land("rows", DAY, "1.jsonl", [row(1, "x", "first"), row(1, "y", "other", hour=11)])
    shop.load(DAY)
    shop.land("rows", NEXT, "1.jsonl", [row(2, "x", "second", hour=12)])
    path = shop.path("silver/merged")
    version = DeltaTable(path).version()

    otherwise = shop.with_tables(rows, replace(table, key=ONE_PART))
    with pytest.raises(DefinitionError, match=r"is filled by the key \['id', 'part'\]") as error:
        otherwise.load(NEXT)
    assert f"remove {path} and run `incremental-assets ledger rebuild silver/merged`" in str(
        error.value
    )
    assert DeltaTable(path).version() == version
    turned = shop.with_tables(rows, replace(table, key=(*reversed(KEY),)))
    turned.load(NEXT)
    assert len(shop.rows("silver/merged", *KEY)) == 3

    shutil.rmtree(path)
    rebuild_ledger(otherwise.lakehouse, [otherwise.tables["silver/merged"]])
    otherwise.load(f"{DAY}...{NEXT}")

    assert shop.rows("silver/merged", "id", "name") == [(1, "other"), (2, "second")]
    assert recorded_key(DeltaTable(path)) == ONE_PART


def test_a_table_of_an_older_version_takes_the_key_that_it_is_loaded_by(
    lake: Lakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = landed("rows")
    table = silver("merged", rows, version_by=("at",))
    shop = lake(rows, table)
    shop.land("rows", DAY, "1.jsonl", [row(1, "x", "first")])
    with monkeypatch.context() as older:
        older.setattr(table_load, "key_properties", lambda key: {})
        shop.load(DAY)
    path = shop.path("silver/merged")
    assert recorded_key(DeltaTable(path)) == ()
    shop.land("rows", NEXT, "1.jsonl", [row(2, "x", "second")])

    shop.load(NEXT)

    assert recorded_key(DeltaTable(path)) == KEY
    assert shop.rows("silver/merged", "name") == [("first",), ("second",)]
