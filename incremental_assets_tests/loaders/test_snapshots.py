"""Full copies: what differs from the copy before, and what is held back."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import DataFrame

from incremental_assets.changes import snapshot_changes as snapshot_module
from incremental_assets.delta import staged_write
from incremental_assets.delta.stage import folder_of
from incremental_assets.engine import target_steps as load_module
from incremental_assets.errors import LakeError, SnapshotError, SourceError
from incremental_assets.loaders import DeltaDiffLoader, DetectedChanges, Target
from incremental_assets.quality.rules import at_least, quarantine
from incremental_assets.testing import Killed
from incremental_assets.writes import SCD2, Merge, WriteStrategy
from incremental_assets_tests.loaders.conftest import Place
from incremental_assets_tests.thorough import thorough

SCHEMA = {"sku": pl.String, "name": pl.String, "price": pl.Int64, "checked": pl.Int64}
Product = tuple[str | None, str | None, int | None]
FIRST: Sequence[Product] = (("a", "Apple", 1), ("b", "Bread", 2), ("c", "", 3), ("d", None, 4))


def rows(products: Sequence[Product], checked: int = 1) -> list[Mapping[str, Any]]:
    return [{"sku": s, "name": n, "price": p, "checked": checked} for s, n, p in products]


def copy(place: Place, products: Sequence[Product], checked: int = 1, **options: Any) -> Any:
    for old in place.source.glob("*") if place.source.exists() else ():
        old.unlink()
    place.land(rows(products, checked), SCHEMA)
    return detect(place, **options)


def detect(place: Place, **options: Any) -> DetectedChanges:
    return DeltaDiffLoader(place.spark, place.clock).detect_changes(
        place.source,
        place.target,
        place.snapshot,
        primary_key="sku",
        table_name="products",
        **options,
    )


def skus(frame: DataFrame) -> list[Any]:
    return sorted(row["sku"] for row in frame.collect())


def kinds(found: DetectedChanges) -> tuple[list[Any], list[Any], list[Any]]:
    return skus(found["inserts"]), skus(found["updates"]), skus(found["deletes"])


@thorough("loaders/test_snapshots.py: inserts, updates and deletes of a large one; the other tests")
@pytest.mark.parametrize("large_from", [0, snapshot_module.LARGE_BYTES])
def test_what_differs_is_the_same_in_a_large_snapshot(
    place: Place, monkeypatch: pytest.MonkeyPatch, large_from: int
) -> None:
    """In a large one the keys that differ are broadcast; rows are compared by their stored hash."""
    monkeypatch.setattr(snapshot_module, "LARGE_BYTES", large_from)
    copy(place, FIRST)
    changed = (("a", "Apple", 9), ("b", "Bread", 2), ("c", None, 3), ("e", "Egg", 5))

    found = copy(place, changed, max_deleted_share=0.3)
    again = copy(place, tuple(reversed(changed)))

    assert kinds(found) == (["e"], ["a", "c"], ["d"])
    assert kinds(again) == ([], [], [])
    assert place.rows("sku", "name", "price") == sorted(changed, key=str)
    assert place.rows("sku", path=place.snapshot) == [("a",), ("b",), ("c",), ("e",)]


def test_inserts_updates_and_deletes_are_reported_apart(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As in a large snapshot: its rows are compared by their hash, the others as they are.

    And a snapshot that was lost or restored from a backup is refused: it would lack deletes.
    """
    monkeypatch.setattr(snapshot_module, "LARGE_BYTES", 0)
    first = copy(place, FIRST, checked=1, ignore="checked")
    assert kinds(first) == (["a", "b", "c", "d"], [], [])
    assert place.rows("sku", "name", "price") == sorted(FIRST, key=str)
    assert place.rows("sku", path=place.snapshot) == [("a",), ("b",), ("c",), ("d",)]
    assert first["result"].records_inserted == 4

    log = place.snapshot / "_delta_log"
    backup = shutil.copytree(log, tmp_path / "backup")
    before = place.version()
    equal = copy(place, tuple(reversed(FIRST)), checked=2, ignore="checked")
    assert kinds(equal) == ([], [], [])
    assert place.version() == before

    changed = (("a", "Apple", 9), ("b", "Bread", 2), ("c", "", 3), ("e", "Egg", 5))
    found = copy(place, changed, ignore="checked", max_deleted_share=0.3)
    assert kinds(found) == (["e"], ["a"], ["d"])
    deleted = found["deletes"].collect()[0]
    assert (deleted["name"], deleted["price"]) == (None, 4)
    assert place.rows("sku", "price") == [("a", 9), ("b", 2), ("c", 3), ("e", 5)]
    result = found["result"]
    assert (result.records_inserted, result.records_updated, result.records_deleted) == (1, 1, 1)

    shutil.rmtree(log)
    with pytest.raises(LakeError, match=r"is missing or of another target.*restore that folder"):
        copy(place, FIRST, ignore="checked")
    shutil.copytree(backup, log)
    with pytest.raises(LakeError, match=r"is of batch 1, and the target .* holds one of batch \d"):
        copy(place, FIRST, ignore="checked")


def test_what_is_wrong_with_a_copy_deletes_nothing(place: Place) -> None:
    """Half of it, a key twice, no copy at all, a row without a key."""
    copy(place, FIRST)

    with pytest.raises(SnapshotError, match=r"2 of 4 rows \(50.0%\)"):
        copy(place, FIRST[:2])
    with pytest.raises(SourceError, match="more than once: a"):
        copy(place, (*FIRST, ("a", "again", 7)))
    for file in place.source.iterdir():
        file.unlink()
    assert kinds(detect(place)) == ([], [], [])
    assert len(place.rows("sku")) == 4

    keyless = (*FIRST[:3], (None, "who", 7))
    found = copy(place, keyless, max_deleted_share=1.0)
    assert kinds(found) == ([], [], [])
    assert found["result"].records_quarantined == 1
    assert place.rows("sku") == [("a",), ("b",), ("c",), ("d",)]

    assert kinds(copy(place, FIRST[:2], max_deleted_share=0.5)) == ([], [], ["c", "d"])


def test_rows_that_differ_are_never_taken_for_equal(place: Place) -> None:
    """Null and an empty text; a value in another column; a separator in a text.

    The columns begin with an underscore, as those of the project do, and are the source's own.
    """

    def take(*products: Product, **more: Any) -> DetectedChanges:
        place.source.mkdir(exist_ok=True)
        names = ["_sku", "_v", "price"]
        frame = pl.DataFrame(products, schema=names, orient="row")
        frame.with_columns(**more).write_parquet(place.source / "all.parquet")
        return DeltaDiffLoader(place.spark, place.clock).detect_changes(
            place.source, place.target, place.snapshot, "_sku", "products"
        )

    take(("a", None, 1), ("b", "1", None), ("c", "b,c", 1), ("d", "same", 1))
    changed: Sequence[Product] = (("a", "", 1), ("b", None, 1), ("c", "b", 1), ("d", "same", 1))
    found = take(*changed)

    assert sorted(row["_sku"] for row in found["updates"].collect()) == ["a", "b", "c"]
    assert (found["result"].records_loaded, found["result"].records_deleted) == (3, 0)
    assert place.rows("_sku", "_v", "price") == sorted(changed, key=str)
    with pytest.raises(SourceError, match="'_wins'"):
        take(*changed, _wins=pl.lit(1))


@thorough(
    "feeds/test_snapshots.py, loaders/test_snapshots.py: a table that is overwritten, copies in files"
)
def test_copies_in_a_delta_table_are_its_versions(place: Place) -> None:
    def overwrite(products: Sequence[Product]) -> DetectedChanges:
        frame = pl.DataFrame(rows(products), schema=SCHEMA, orient="row")
        frame.write_delta(str(place.source), mode="overwrite")
        return detect(place)

    assert kinds(overwrite(FIRST)) == (["a", "b", "c", "d"], [], [])
    assert kinds(overwrite((*FIRST[:3], ("d", "Dill", 4)))) == ([], ["d"], [])
    assert kinds(detect(place)) == ([], [], [])


DAY = timedelta(days=1)
T1 = datetime(2024, 5, 1, tzinfo=UTC)


def take(place: Place, products: Sequence[Product], at: datetime | None, share: float = 1.0) -> int:
    """A copy of that moment for a history; how many rows of it were quarantined."""
    found = copy(
        place,
        products,
        write=SCD2(),
        snapshot_at=at,
        max_deleted_share=share,
        rules=quarantine(at_least("price", 0)),
    )
    aside: int = found["result"].records_quarantined
    return aside


def history(place: Place) -> Target:
    return DeltaDiffLoader(place.spark, place.clock).target(
        place.source, place.target, place.snapshot, "sku", "products", write=SCD2()
    )


@thorough("feeds/test_snapshots.py, loaders/test_snapshots.py: late snapshots in the lake")
def test_a_copy_that_comes_late_is_put_in_its_place_and_its_bad_rows_delete_nothing(
    place: Place,
) -> None:
    one = (("a", "A", 1), ("b", "B", 1), ("c", "C", 1), ("e", "E", 1), ("f", "F", 1))
    two = (("a", "X", 1), ("b", "B", 2), ("d", "D", 1), ("e", "E", 1), ("f", "F", -1))
    three = (("a", "X", 1), (None, "B", 2))  # the row without a key may be any
    four = (("a", "A", 1), ("b", "B", 2), ("c", "C", 1), ("e", "E", 1), ("f", "F", 1))
    t2, t3, t4 = T1 + DAY, T1 + 2 * DAY, T1 + 3 * DAY
    take(place, one, T1)
    take(place, four, t4)
    with pytest.raises(SnapshotError, match="3 of 5"):
        take(place, one[:2], t2, share=0.1)

    assert take(place, two, t2) == 1
    assert take(place, three, t3) == 1

    assert history(place).plan().status == "unknown"  # it is not the last one
    last = [
        ("a", "A", 1, t4, None, True),
        ("b", "B", 2, t2, None, True),
        ("c", "C", 1, t4, None, True),
        ("e", "E", 1, T1, None, True),
        ("f", "F", 1, T1, None, True),
    ]
    assert versions(place) == sorted(
        [
            *last,
            ("a", "A", 1, T1, t2, False),
            ("a", "X", 1, t2, t4, False),
            ("b", "B", 1, T1, t2, False),
            ("c", "C", 1, T1, t2, False),
            ("d", "D", 1, t2, t4, False),
        ],
        key=str,
    )
    place.now = T1  # a clock that goes back makes no copy late
    take(place, (("a", "A", 9), *four[1:]), None)
    assert [row[:3] for row in versions(place) if row[5]] == [
        ("a", "A", 9),
        *(row[:3] for row in last[1:]),
    ]


def versions(place: Place) -> list[tuple[Any, ...]]:
    return place.rows("sku", "name", "price", "valid_from", "valid_to", "is_current")


def _killed(*_: object, **__: object) -> None:
    raise Killed


@pytest.mark.parametrize(
    ("where", "write"),
    [
        pytest.param(
            *("prepare", SCD2()),
            marks=thorough(
                "loaders/test_snapshots.py: a load that dies when its snapshot is there"
            ),
        ),
        ("publish", Merge()),
    ],
)
def test_a_load_that_dies_and_runs_on_another_copy_misses_nothing(
    place: Place, where: str, write: WriteStrategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy(place, FIRST, write=write)
    with monkeypatch.context() as dying, pytest.raises(Killed):
        module = staged_write if where == "prepare" else load_module
        dying.setattr(module, "publish", _killed)
        place.now += DAY
        copy(place, (*FIRST, ("x", "only in this copy", 1)), write=write)

    place.now += DAY
    copy(place, FIRST, write=write, max_deleted_share=1.0)

    shown = place.rows("sku", "name", "price")
    if write.keeps_versions:
        frame = place.rows("sku", "is_current")
        shown = [s for s, (_, current) in zip(shown, frame, strict=True) if s[0] != "x" or current]
    assert shown == sorted(FIRST, key=str)
    left = [] if where == "publish" else list(place.snapshot.glob(f"{folder_of('products', 2)}-*"))
    assert left == []


def test_a_snapshot_that_is_lost_after_a_load_died_is_refused_and_not_begun_anew(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy(place, FIRST)
    with monkeypatch.context() as dying, pytest.raises(Killed):
        dying.setattr(load_module, "publish", _killed)
        place.now += DAY
        copy(place, FIRST[1:], max_deleted_share=1.0)
    shutil.rmtree(place.snapshot / "_delta_log")

    with pytest.raises(LakeError, match="is missing or of another target"):
        copy(place, FIRST[1:], max_deleted_share=1.0)
