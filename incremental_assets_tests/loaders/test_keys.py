"""A target is filled by one key: another one would close or double rows that are others."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable

from incremental_assets.errors import DefinitionError
from incremental_assets.loaders import CDCLoader, DeltaDiffLoader, TimestampBasedLoader
from incremental_assets.writes import SCD2, Append, DeleteInsert, OverwriteDays
from incremental_assets_tests.loaders.conftest import NOON, Place
from incremental_assets_tests.thorough import thorough

PEOPLE = {"id": pl.Int64, "email": pl.String, "at": pl.Datetime("us", "UTC")}
KEY = "incremental_assets.key"


def land(place: Place, *people: tuple[int, str]) -> None:
    rows = [{"id": id_, "email": email, "at": NOON} for id_, email in people]
    place.land(rows, PEOPLE)


def load(place: Place, key: Any, table: str = "people", **options: Any) -> None:
    TimestampBasedLoader(place.spark, place.clock).load_incremental(
        **place.paths, timestamp_column="at", table_name=table, primary_key=key, **options
    )


def recorded(place: Place) -> str | None:
    found: str | None = DeltaTable(str(place.target)).metadata().configuration.get(KEY)
    return found


def test_a_loader_with_another_key_is_refused_and_nothing_is_loaded(place: Place) -> None:
    land(place, (1, "a@x"), (2, "b@x"))
    load(place, "id")
    before = place.version()
    land(place, (3, "a@x"))

    for key, options in (
        ("email", {}),
        (["id", "email"], {}),
        (None, {"write": Append()}),
        ("email", {"table": "by another load"}),
        ("email", {"write": SCD2()}),
    ):
        with pytest.raises(DefinitionError, match=r"filled by the primary_key \['id'\]"):
            load(place, key, **options)
    with pytest.raises(DefinitionError, match="primary_key"):
        DeltaDiffLoader(place.spark, place.clock).detect_changes(
            place.source, place.target, place.snapshot, "email", "copies"
        )

    assert place.version() == before
    load(place, "id")
    assert place.rows("id") == [(1,), (2,), (3,)]


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param(
            {"write": OverwriteDays("email"), "partition_by": "email"},
            marks=thorough("loaders/test_keys.py: a target that was appended to"),
        ),
    ],
    ids=str,
)
def test_a_target_that_is_filled_by_no_key_is_not_loaded_by_one_for_it_may_hold_it_twice(
    place: Place, options: dict[str, Any]
) -> None:
    land(place, (1, "a@x"), (1, "b@x"))
    load(place, None, **options)

    with pytest.raises(DefinitionError, match="is filled by no key"):
        load(place, "id", partition_by=options.get("partition_by", ()))

    land(place, (2, "c@x"))
    load(place, None, **options)
    assert place.rows("id") == [(1,), (1,), (2,)]


def test_a_target_is_not_loaded_by_a_write_that_keeps_other_rows_of_a_key(place: Place) -> None:
    """Whatever the ledger knows of it: another table_name, or watermark_path, knows nothing."""
    land(place, (1, "a@x"), (1, "b@x"))
    load(place, "id", write=DeleteInsert())
    for options in ({}, {"table": "by another load"}, {"write": Append()}, {"write": SCD2()}):
        with pytest.raises(DefinitionError, match="holds all rows of one load of each key"):
            load(place, "id", **options)

    place.target = place.folder / "versions"
    load(place, "id", "versions", write=SCD2())
    for recorded_by in ("this version", "an older one"):
        with pytest.raises(DefinitionError, match="holds versions of each key"):
            load(place, "id", recorded_by)
        none = {"incremental_assets.rows_of_key": ""}
        DeltaTable(str(place.target)).alter.set_table_properties(none, raise_if_not_exists=False)

    place.target = place.folder / "plain"
    emails = ["c@x", "d@x", "e@x", "f@x"]
    plain = pl.DataFrame({"id": [1, 1, 2, 2], "email": emails, "at": [NOON] * 4})
    plain.write_delta(str(place.target))
    with pytest.raises(DefinitionError, match="holds rows without versions of each key"):
        load(place, "id", "plain", write=SCD2())
    load(place, "id", "plain")

    assert place.rows("id", "email") == [(1, "b@x"), (2, "e@x"), (2, "f@x")]
    land(place, (2, "g@x"))
    load(place, "id", "plain")
    assert place.rows("id", "email") == [(1, "b@x"), (2, "g@x")]
    assert place.rows("email", path=place.folder / "target") == [("a@x",), ("b@x",)]


def test_a_target_that_says_no_key_yet_takes_the_first_that_comes(place: Place) -> None:
    land(place, (1, "a@x"))
    load(place, ["id", "email"])
    # As an older version has merged it.
    says_none = {KEY: "[]"}
    DeltaTable(str(place.target)).alter.set_table_properties(says_none, raise_if_not_exists=False)
    land(place, (2, "b@x"))

    load(place, ["id", "email"])

    assert recorded(place) == '["id", "email"]'
    land(place, (3, "c@x"))
    load(place, ["email", "id"])
    assert place.rows("id") == [(1,), (2,), (3,)]
    with pytest.raises(DefinitionError, match="Nothing was loaded"):
        CDCLoader(place.spark, place.clock).process_cdc(
            place.source, place.target, place.watermarks, "id", "log"
        )
