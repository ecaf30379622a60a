"""Tables of the lake over snapshots: a catalogue that lands whole every day."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import functions as F

from incremental_assets.changes import SnapshotDiff
from incremental_assets.engine import snapshot_base, snapshot_diff
from incremental_assets.errors import SourceError
from incremental_assets.operations.accept import accept
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.rules import fail, rows_delivered
from incremental_assets.quality.types import Decimal, Text
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.stored import Stored
from incremental_assets.table import SameDay, Table, TableInput
from incremental_assets.verifying import verify
from incremental_assets.writes import SCD2, Append, Merge
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.world import Lake, states
from incremental_assets_tests.thorough import thorough

COLUMNS = ("sku", "name", "valid_from", "valid_to")


def tables(write: Merge | SCD2, *reads: TableInput, **changes: Any) -> tuple[Table, Table]:
    bronze = Table(
        name="bronze/products",
        description="What changes in the catalogue.",
        reads=reads or (LandedFiles("products"),),
        changes=SnapshotDiff(("sku",), **{"max_deleted_share": 0.5, **changes}),
        rules=fail(rows_delivered()),
        write=Append(),
    )
    silver = Table(
        name="silver/products",
        description="The products.",
        reads=(SameDay(bronze),),
        key=("sku",),
        schema=Contract(sku=Text(required=True), name=Text(), price=Decimal()),
        write=write,
    )
    return bronze, silver


def copy(**names: str) -> list[dict[str, Any]]:
    return [{"sku": sku, "name": name, "price": 1.5} for sku, name in names.items()]


def changes(lake: Lake) -> list[tuple[Any, ...]]:
    """Landing day, operation and key of what bronze holds."""
    return lake.bronze("bronze/products", "sku")


def operations(lake: Lake, name: str = "bronze/products") -> list[tuple[str, str, str]]:
    """Landing day, operation and key of what bronze holds."""
    rows = lake.spark.read.format("delta").load(lake.path(name))
    found = rows.selectExpr("CAST(_landing_day AS string)", "_operation", "_key").collect()
    return sorted((r[0][-2:], r[1], str(r[2])) for r in found)


def test_only_what_differs_from_the_snapshot_before_is_kept(lake: Lakes) -> None:
    shop = lake(*tables(SCD2()))
    shop.land("products", "2017-01-05", "1.jsonl", copy(a="A", b="B", c="C", d="D"))
    shop.land("products", "2017-01-06", "1.jsonl", copy(a="A", b="B2", d="D", e="E"))
    shop.land("products", "2017-01-07", "1.jsonl", copy(a="A", b="B2", d="D", e="E"))

    results = shop.load("2017-01-05...2017-01-07")

    assert operations(shop)[4:] == [
        ("06", "delete", '["c"]'),
        ("06", "insert", '["e"]'),
        ("06", "update", '["b"]'),
    ]
    assert not Path(shop.path("bronze/products"), "_base").exists()  # so few need none
    day = list(results["bronze/products"].days.values())[1].entries[0]
    assert (day.rows_read, day.rows_inserted, day.rows_updated, day.rows_deleted) == (4, 1, 1, 1)
    assert shop.rows("silver/products", *COLUMNS) == [
        ("a", "A", "01-05 00:00", None),
        ("b", "B", "01-05 00:00", "01-06 00:00"),
        ("b", "B2", "01-06 00:00", None),
        ("c", "C", "01-05 00:00", "01-06 00:00"),
        ("d", "D", "01-05 00:00", None),
        ("e", "E", "01-06 00:00", None),
    ]


def test_order_of_columns_and_null_columns_are_no_change_and_ignored_ones_neither(
    lake: Lakes,
) -> None:
    shop = lake(*tables(Merge(), ignore=("seen",)))
    shop.land("products", "2017-01-05", "1.jsonl", [{"sku": "a", "name": "A", "seen": 1}])
    again = [{"seen": 2, "name": "A", "price": None, "sku": "a"}]
    shop.land("products", "2017-01-06", "1.jsonl", again)

    shop.load("2017-01-05...2017-01-06", "bronze/products")

    assert changes(shop) == [("2017-01-05", "a")]


def test_a_snapshot_that_would_delete_too_much_is_held_and_the_next_one_is_compared_without_it(
    lake: Lakes,
) -> None:
    shop = lake(tables(Merge())[0])
    shop.land("products", "2017-01-05", "1.jsonl", copy(a="A", b="B", c="C"))
    half = shop.land("products", "2017-01-06", "1.jsonl", copy(a="A"))
    shop.land("products", "2017-01-07", "1.jsonl", copy(a="A", b="B", d="D"))
    # Nor does an empty one delete, or none.
    empty = shop.land("products", "2017-01-08", "1.jsonl", [])

    results = shop.load("2017-01-05...2017-01-10")

    found = states(results, "bronze/products")
    assert found == ["committed", "held", "committed", "held", "idle", "idle"]
    reason = next(iter(results["bronze/products"].failed.values())).reason
    assert "would delete 2 of 3 rows (66.7%), and at most 50.0%" in reason
    changed = [("07", "delete", '["c"]'), ("07", "insert", '["d"]')]
    assert operations(shop)[3:] == changed
    assert shop.pending_days("bronze/products") == []  # the same half copy is not asked for again

    half.write_text(half.read_text() + '{"sku": "c", "name": "C", "price": 1.5}\n')
    shop.load("2017-01-06")
    assert operations(shop)[3:] == [
        ("06", "delete", '["b"]'),
        ("07", "delete", '["c"]'),
        ("07", "insert", '["b"]'),
        ("07", "insert", '["d"]'),
    ]

    # The hold ends with the file. An empty one that is accepted deletes nothing, and is no state.
    there = operations(shop)
    empty.unlink()
    shop.land("products", "2017-01-09", "1.jsonl", [])
    assert shop.pending_days("bronze/products") == ["2017-01-08", "2017-01-09"]
    gone = shop.load("2017-01-08...2017-01-09", "bronze/products")
    assert states(gone, "bronze/products") == ["committed", "held"]
    accept(shop.lakehouse, shop.tables["bronze/products"], date(2017, 1, 9), "closed that day")
    assert states(shop.load("2017-01-09"), "bronze/products") == ["committed"]
    assert (operations(shop), shop.pending_days("bronze/products")) == (there, [])
    shop.land("products", "2017-01-08", "1.jsonl", copy(a="A", b="B", d="D", e="E"))
    shop.load("2017-01-08")
    assert operations(shop) == [*there, ("08", "insert", '["e"]')]


def skus(*of: Any) -> list[dict[str, Any]]:
    return [{"sku": sku, "name": "N", "price": 1.5} for sku in of]


def test_a_number_and_its_text_are_one_key(lake: Lakes) -> None:
    shop = lake(*tables(SCD2()))
    shop.land("products", "2017-01-05", "1.jsonl", skus("a", "b", "c", 9))
    shop.land("products", "2017-01-06", "1.jsonl", skus("a", "b", "c", 9, "9"))
    shop.land("products", "2017-01-07", "1.jsonl", skus("a", "b", "c", "9"))

    shop.load("2017-01-05")
    with pytest.raises(SourceError, match=r'more than once: \["9"\]'):
        shop.load("2017-01-06")
    shop.load("2017-01-07")

    assert operations(shop)[4:] == [("07", "update", '["9"]')]
    assert [row[0] for row in shop.rows("silver/products", *COLUMNS) if row[3] is None] == [
        *("9", "a", "b", "c")
    ]


def test_a_key_is_the_text_that_a_typed_table_has(lake: Lakes) -> None:
    shop = lake(*tables(Merge()))
    one = '{"sku": %s, "name": "N", "price": 1}'
    numbers = ["7", "9.50", "-0.0", "1e2", "12345678901234567890123", "true", '"01"', '"a\\"[{"']
    shop.land("products", "2017-01-05", "1.jsonl", [one % sku for sku in (*numbers, '{"a": 1}')])

    shop.load("2017-01-05")

    typed = [sku for (sku,) in shop.rows("silver/products", "sku")]
    assert len(typed) == len(numbers)
    found = sorted(json.loads(key)[0] for _, _, key in operations(shop) if key != '[{"a":1}]')
    assert found == sorted(typed)


@pytest.mark.parametrize(
    "most_files", [1000, pytest.param(0, marks=thorough("feeds/test_snapshots.py: without a base"))]
)
def test_keys_that_an_older_version_stored_as_numbers_are_the_same_keys(
    lake: Lakes, monkeypatch: pytest.MonkeyPatch, most_files: int
) -> None:
    monkeypatch.setattr(snapshot_base, "MOST_FILES", most_files)
    shop = lake(*tables(SCD2()))
    shop.land("products", "2017-01-05", "1.jsonl", skus(1, 2, True, "a", 9, 6))
    shop.land("products", "2017-01-06", "1.jsonl", skus(1, 2, True, "a", 9, 6, 4))
    shop.land("products", "2017-01-07", "1.jsonl", skus(1, 2, True, "a", 9, "9", "6"))
    shop.land("products", "2017-01-08", "1.jsonl", skus(1, 2, True, "a", "9", "6"))
    with monkeypatch.context() as before:
        before.setattr(snapshot_diff, "_part", F.to_json)
        shop.load("2017-01-05...2017-01-08")
    assert operations(shop)[-5:] == [
        ("07", "delete", "[4]"),
        ("07", "delete", "[6]"),
        ("07", "insert", '["6"]'),
        ("07", "insert", '["9"]'),
        ("08", "delete", "[9]"),
    ]
    there = operations(shop)
    shop.land("products", "2017-01-09", "1.jsonl", skus(1, 2, True, "a", "9", 5))
    shop.land("products", "2017-01-10", "1.jsonl", skus(1, "2", True, "a", "9", 5))

    shop.load("2017-01-09...2017-01-10")

    assert [each for each in operations(shop) if each not in there] == [
        ("09", "delete", '["6"]'),  # silver has it: of one day, the row wins over the delete
        ("09", "insert", '["5"]'),
        ("09", "insert", '["9"]'),  # silver lacks it: the delete was a mistake
        ("10", "update", '["2"]'),
    ]
    current = [row[0] for row in shop.rows("silver/products", *COLUMNS) if row[3] is None]
    assert current == ["1", "2", "5", "9", "a", "true"]


def test_keys_that_an_older_version_stored_as_numbers_are_verified(
    lake: Lakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = lake(tables(Merge())[0])
    shop.land("products", "2017-01-05", "1.jsonl", skus(1, "a"))
    with monkeypatch.context() as before:
        before.setattr(snapshot_diff, "_part", F.to_json)
        shop.load("2017-01-05")
    assert operations(shop) == [("05", "insert", '["a"]'), ("05", "insert", "[1]")]

    found = verify(shop.lakehouse, shop.tables["bronze/products"], None)

    assert found.equal, found.rows.examples


def test_a_snapshot_with_a_key_twice_is_refused_and_nothing_is_loaded(lake: Lakes) -> None:
    shop = lake(*tables(Merge()))
    shop.land("products", "2017-01-05", "1.jsonl", [*copy(a="A"), *copy(a="B", c="C")])

    with pytest.raises(SourceError, match=r'more than once: \["a"\]'):
        shop.load("2017-01-05")
    assert changes(shop) == []


def test_rows_without_a_key_are_kept_and_quarantined_and_delete_nothing(lake: Lakes) -> None:
    shop = lake(*tables(Merge()))
    shop.land("products", "2017-01-05", "1.jsonl", copy(a="A", b="B"))
    shop.land("products", "2017-01-06", "1.jsonl", [*copy(a="A"), {"name": "B"}, "{half"])
    shop.land("products", "2017-01-07", "1.jsonl", copy(a="A"))

    shop.load("2017-01-05...2017-01-07")

    assert operations(shop)[2:] == [
        ("06", "carried", '["b"]'),
        ("06", "insert", "None"),
        ("06", "insert", "None"),
        ("07", "delete", '["b"]'),
    ]
    assert shop.reasons("silver/products") == [("line_unreadable",), ("sku_null",)]
    assert any("nothing is deleted" in line for line in shop.logged)
    assert [sku for (sku,) in shop.rows("silver/products", "sku")] == ["a"]


def with_damage(seed: int) -> dict[str, list[dict[str, Any] | str]]:
    """Six copies in which products come, change and go; some hold a line that is cut in half."""
    rng = random.Random(seed)
    days: dict[str, list[dict[str, Any] | str]] = {}
    for day in range(3, 9):
        there = {sku: rng.choice("XY") for sku in "abcdefgh" if rng.random() < 0.6}
        days[f"2017-01-{day:02d}"] = [*copy(keep="K", **there)]
        if day in (5, 6) or rng.random() < 0.2:
            days[f"2017-01-{day:02d}"].append('{"sku": "a')
    return days


# The first damaged copy before the second, and after it; the last copy whole, and damaged.
@thorough("feeds/test_snapshots.py: one damaged snapshot that comes late and is repaired")
@pytest.mark.parametrize("seed", [1, 3])
def test_snapshots_in_any_order_damaged_and_repaired_ones_end_in_the_same_products(
    lake: Lakes, seed: int
) -> None:
    whole = lake(*tables(SCD2(), max_deleted_share=1.0))
    days = with_damage(seed)
    for day, rows in days.items():
        whole.land("products", day, "1.jsonl", rows)
    whole.load("2017-01-03...2017-01-08")

    parts = whole.another("parts")
    second = parts.source("products") / "2017-01-04" / "1.jsonl"
    right = second.read_text()
    parts.land("products", "2017-01-04", "1.jsonl", copy(keep="K", z="wrong"))
    shuffled = random.Random(seed + 100).sample(sorted(days), k=len(days))
    for day in shuffled:
        parts.load(day, *(("bronze/products",) if seed == 1 else ()))
    second.write_text(right)
    parts.load("2017-01-04")
    parts.load_stale()

    assert operations(parts) == operations(whole), shuffled
    assert parts.rows("silver/products", *COLUMNS) == whole.rows("silver/products", *COLUMNS)
    assert len(parts.reasons("silver/products")) == sum(
        isinstance(row, str) for rows in days.values() for row in rows
    )
    if seed == 1:  # the last copy is whole: all of it is there, and no more
        rows = parts.rows("silver/products", *COLUMNS)
        now = sorted((sku, name) for sku, name, _, end in rows if not end)
        last = days["2017-01-08"]
        assert now == sorted((r["sku"], r["name"]) for r in last if isinstance(r, dict))


@thorough("feeds/test_snapshots.py: damaged, late and repaired ones, each alone")
def test_a_damaged_snapshot_that_comes_late_and_is_repaired_deletes_what_it_lacks(
    lake: Lakes,
) -> None:
    shop = lake(*tables(SCD2()))
    shop.land("products", "2017-01-05", "1.jsonl", copy(a="A", b="B", c="C"))
    shop.land("products", "2017-01-07", "1.jsonl", [*copy(a="A"), "{half"])
    shop.load("2017-01-05...2017-01-07", "bronze/products")
    damaged = shop.land("products", "2017-01-06", "1.jsonl", [*copy(a="A2", b="B"), "{half"])
    shop.load("2017-01-05...2017-01-07")
    assert operations(shop)[3:] == [
        ("06", "carried", '["c"]'),
        ("06", "insert", "None"),
        ("06", "update", '["a"]'),
        ("07", "carried", '["b"]'),
        ("07", "carried", '["c"]'),
        ("07", "insert", "None"),
        ("07", "update", '["a"]'),
    ]

    damaged.write_text("".join(json.dumps(row) + "\n" for row in copy(a="A2", b="B")))
    shop.load("2017-01-06")
    shop.load_stale()

    assert operations(shop)[3:] == [
        ("06", "delete", '["c"]'),
        ("06", "update", '["a"]'),
        ("07", "carried", '["b"]'),
        ("07", "insert", "None"),
        ("07", "update", '["a"]'),
    ]
    assert shop.rows("silver/products", *COLUMNS) == [
        ("a", "A", "01-05 00:00", "01-06 00:00"),
        ("a", "A", "01-07 00:00", None),
        ("a", "A2", "01-06 00:00", "01-07 00:00"),
        ("b", "B", "01-05 00:00", None),
        ("c", "C", "01-05 00:00", "01-06 00:00"),
    ]


def test_a_table_that_is_overwritten_is_compared_on_the_day_of_the_load(lake: Lakes) -> None:
    shop = lake(replace(tables(Merge(), Stored("catalogue"))[0], rules=()))

    def put(**names: str) -> None:
        shop.put_delta("catalogue", pl.DataFrame(copy(**names)))

    put(a="A", b="B")
    shop.load("2017-01-10")
    assert states(shop.load("2017-01-10"), "bronze/products") == ["idle"]
    put(a="A2", b="B")
    shop.load("2017-01-10")  # a second copy of the day takes the first one's place
    assert operations(shop) == [("10", "insert", '["a"]'), ("10", "insert", '["b"]')]
    shop.now = datetime(2017, 1, 11, 3, tzinfo=UTC)
    put(a="A2", c="C")
    shop.load("2017-01-11")

    assert operations(shop)[2:] == [("11", "delete", '["b"]'), ("11", "insert", '["c"]')]
