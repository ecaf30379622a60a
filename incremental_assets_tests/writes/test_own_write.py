"""A write of one's own, as docs/add-a-write.md has it: any table of the lake may be written by it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import polars as pl
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from incremental_assets import (
    ChangeSet,
    Contract,
    Destination,
    Frames,
    LandedFiles,
    ReplaceDay,
    SameDay,
    StagedWrite,
    Table,
    Text,
    WriteStrategy,
)
from incremental_assets.changes import ChangeLog
from incremental_assets.delta.columns import PARTIAL
from incremental_assets.delta.merge import merge
from incremental_assets.errors import DefinitionError
from incremental_assets.settings import PROJECT_ROOT
from incremental_assets.testing import Lake, LandedBatch, any_order, assert_any_order, lake
from incremental_assets.verifying import Verified, verify
from incremental_assets.writes import Append, DeleteInsert, OverwriteDays, RecomputeKeys
from incremental_assets.writes.strategy import require_completed

__all__ = ["lake"]
PAGE = PROJECT_ROOT / "docs/add-a-write.md"
DAY, NEXT = "2024-05-10", "2024-05-11"


@pytest.fixture(scope="module")
def page() -> SimpleNamespace:
    """What the first example of the page defines."""
    block = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)[0]
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(block, str(PAGE), "exec", dont_inherit=True), names)
    return SimpleNamespace(**names)


def scan(ticket: str, gate: str, time: str) -> dict[str, str]:
    at = {"show_at": f"{DAY}T20:00:00Z", "scanned_at": f"{DAY}T{time}:00Z"}
    return {"ticket_id": ticket, "gate": gate, **at}


def gates(lake: Lake, table: Table) -> list[tuple[str, str]]:
    return sorted(lake.rows(table, "ticket_id", "gate").rows())


def verified(lake: Lake, table: Table) -> Verified:
    return verify(lake.lakehouse(table), table)


def test_late_and_repeated_loads_end_as_a_full_rebuild_does(
    lake: Lake, page: SimpleNamespace
) -> None:
    lake.land("scans", DAY, [scan("a", "west", "19:10"), scan("b", "east", "19:20")])
    lake.run(page.BY_GATE)
    late = [scan("a", "north", "19:30"), scan("b", "south", "19:05"), scan("c", "east", "19:15")]
    lake.land("scans", NEXT, late)
    lake.run(page.BY_GATE)
    lake.run(page.BY_GATE)

    first = [("a", "west"), ("b", "south"), ("c", "east")]
    assert gates(lake, page.ADMISSIONS) == gates(lake, page.BY_GATE) == first
    for table in (page.ADMISSIONS, page.BY_GATE):
        found = verified(lake, table)
        assert found.equal, found
        assert found.rows.rows == 3


def test_a_repaired_day_has_what_its_files_have_now(lake: Lake, page: SimpleNamespace) -> None:
    lake.land("scans", DAY, [scan("a", "west", "19:10"), scan("b", "east", "19:20")], "all.jsonl")
    lake.run(page.BY_GATE)
    lake.land("scans", DAY, [scan("a", "north", "19:30")], "all.jsonl")
    lake.run(page.BY_GATE)

    assert gates(lake, page.ADMISSIONS) == gates(lake, page.BY_GATE) == [("a", "north")]
    assert verified(lake, page.ADMISSIONS).equal


def test_the_write_of_a_gold_table_stages_its_days(lake: Lake, page: SimpleNamespace) -> None:
    tickets = [scan(f"{n}", gate, "19:10") for n, gate in enumerate(("west", "east", "north") * 20)]
    lake.land("scans", DAY, tickets)
    lake.run(page.BY_GATE)

    files = DeltaTable(f"{lake.settings.lake}/gold/admissions_by_gate").file_uris()
    assert len(files) == 1
    assert pl.read_parquet(files[0])["gate"].is_sorted()


def test_scans_end_the_same_backwards_and_twice(
    lake: Lake, page: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(any_order, "orders", lambda *_: [(1, 0, 1)])
    batches = [
        LandedBatch("scans", DAY, [scan("a", "west", "19:10"), scan("b", "east", "19:20")]),
        LandedBatch("scans", NEXT, [scan("a", "north", "19:10"), scan("b", "south", "19:05")]),
    ]

    assert_any_order(lake, [page.ADMISSIONS, page.BY_GATE], batches)


@dataclass(frozen=True)
class _LooksEverywhere(WriteStrategy):
    """Looks keys up in all files, also in those of days that are rebuilt; rows win, or none does."""

    wins: bool

    by_key: ClassVar[bool] = True

    def stage(self, frames: Frames, to: Destination, changes: ChangeSet) -> StagedWrite:
        rows = to.as_written(changes)
        if not DeltaTable(to.path).file_uris():
            return to.stage(rows)
        write, _ = merge(frames, rows, to.path, to.folder, to.key, F.lit(self.wins))
        return write


@pytest.mark.parametrize("wins", [True, False])
def test_a_write_that_looks_into_days_that_are_rebuilt_publishes_nothing(
    lake: Lake, page: SimpleNamespace, wins: bool
) -> None:
    table = replace(page.ADMISSIONS, write=_LooksEverywhere(wins))
    lake.land("scans", DAY, [scan("a", "west", "19:10"), scan("b", "east", "19:20")], "all.jsonl")
    lake.run(table)
    lake.land("scans", DAY, [scan("a", "north", "19:30")], "all.jsonl")

    with pytest.raises(
        DefinitionError, match=r"admissions: _LooksEverywhere.* looked keys up in files of"
    ):
        lake.run(table)

    assert gates(lake, table) == [("a", "west"), ("b", "east")]


class _KeepsBeside(ReplaceDay):
    """Stages rows for a side table, which gold has not."""

    def stage(self, frames: Frames, to: Destination, changes: ChangeSet) -> StagedWrite:
        beside = to.side(changes.rows.withColumn("_deleted", F.lit(False)), changes.own)
        return replace(super().stage(frames, to, changes), side=(beside,))


def test_a_gold_table_keeps_nothing_beside_it(lake: Lake, page: SimpleNamespace) -> None:
    table = replace(page.BY_GATE, write=_KeepsBeside())
    lake.land("scans", DAY, [scan("a", "west", "19:10")])

    with pytest.raises(DefinitionError, match=r"_KeepsBeside\(\) keeps rows beside the table"):
        lake.run(table)

    assert gates(lake, page.ADMISSIONS) == [("a", "west")]
    assert not DeltaTable(f"{lake.settings.lake}/gold/admissions_by_gate").file_uris()


@pytest.mark.parametrize("stage", ["stage", "stage_new", "merge"])
def test_rows_that_a_source_deletes_are_not_staged(
    spark: SparkSession, tmp_path: Path, stage: str
) -> None:
    path = str(tmp_path / "orders")
    pl.DataFrame({"_batch": [1, 1], "id": [1, 2]}).write_delta(path)
    rows = spark.range(2, 5).withColumn("_deleted", F.col("id") != 3)
    changes = ChangeSet(rows, {"id": LongType()}, deletes=True)
    to = Destination("orders", path, 2, ("id",))
    written = to.as_written(changes)

    with Frames.over(spark) as frames:
        write = (
            to.merge(frames, written, "true") if stage == "merge" else getattr(to, stage)(written)
        )

    assert write.rows_inserted == 1
    # Of the rows that are staged, one is the neighbour of the row that is deleted.
    assert sum(file.rows for file in write.staged.files) == (2 if stage == "merge" else 1)
    assert write.deleted == (1 if stage == "merge" else 0)
    columns = {
        name
        for f in write.staged.files
        for name in pl.read_parquet_schema(tmp_path / "orders" / f.path)
    }
    assert columns == {"_batch", "id"}


class _Changes(WriteStrategy):
    """The rows of a log, or of a gold table's keys, as they come."""

    by_key: ClassVar[bool] = True
    applies_deletes: ClassVar[bool] = True

    def stage(self, frames: Frames, to: Destination, changes: ChangeSet) -> StagedWrite:
        return to.merge(frames, to.as_written(changes), "true")

    def rebuild(self, *_: Any) -> StagedWrite:  # type: ignore[override]
        raise NotImplementedError


class _OfKeys(_Changes):
    """The computed rows of the keys that changed."""

    recomputes_keys: ClassVar[bool] = True

    def stage(self, frames: Frames, to: Destination, changes: ChangeSet) -> StagedWrite:
        with pytest.raises(DefinitionError, match="have no order"):
            _ = to.earlier
        return super().stage(frames, to, changes)


def test_what_a_log_deletes_leaves_a_table_of_a_write_of_ones_own(lake: Lake) -> None:
    silver = Table(
        "silver/users",
        "",
        reads=(SameDay(LOG),),
        key=("id",),
        schema=Contract(id=Text(required=True), city=Text()),
        write=_Changes(),
    )
    per_city = Table(
        "gold/per_city",
        "",
        reads=(SameDay(silver),),
        key=("city",),
        write=_OfKeys(),
        transform=lambda users: users.groupBy("city", "dt").agg(F.count("id").alias("users")),
    )

    def land(day: str, *events: tuple[str, int, str, str | None]) -> None:
        names = ("operation", "sequence_num", "id", "city")
        lake.land("log", day, [dict(zip(names, event, strict=True)) for event in events])
        lake.run(per_city)

    land(DAY, ("I", 1, "a", "Rome"), ("I", 2, "b", "Oslo"), ("D", 3, "c", None))
    land(NEXT, ("D", 4, "a", None), ("I", 5, "d", "Oslo"))

    assert sorted(lake.rows(silver, "id", "city").rows()) == [("b", "Oslo"), ("d", "Oslo")]
    assert lake.rows(per_city, "city", "users").rows() == [("Oslo", 1), ("Oslo", 1)]


def test_in_gold_no_row_is_earlier() -> None:
    with pytest.raises(DefinitionError, match="rows of a gold table have no order"):
        _ = Destination("gold/x", "x", 1, ("id",)).earlier


class _Of(WriteStrategy):
    """Declares what a test gives it, and writes nothing."""

    def stage(self, frames: Frames, to: Destination, changes: ChangeSet) -> StagedWrite:
        raise NotImplementedError


class _ByKey(_Of):
    by_key: ClassVar[bool] = True


class _ByKeyRebuilt(_ByKey):
    def rebuild(self, *_: Any) -> StagedWrite:  # type: ignore[override]
        raise NotImplementedError


class _Latest(_Of):
    keeps_latest: ClassVar[bool] = True


class _AppendsAll(_Of):
    appends: ClassVar[bool] = True


LOG = Table("bronze/log", "", reads=(LandedFiles("log"),), write=Append(), changes=ChangeLog())


@pytest.mark.parametrize(
    ("table", "changed", "message"),
    [
        (
            "SCANS",
            {"write": _AppendsAll()},
            r"keeps what arrived; use Append\(\)\. A write of your",
        ),
        (
            "ADMISSIONS",
            {"write": _Of()},
            r"_Of\(\) declares neither that all rows stay \(`appends`\)",
        ),
        ("ADMISSIONS", {"write": RecomputeKeys()}, r"RecomputeKeys\(\) recomputes keys"),
        ("ADMISSIONS", {"write": DeleteInsert()}, r"depend on which rows come in one load"),
        ("ADMISSIONS", {"write": ReplaceDay()}, r"ReplaceDay\(\) replaces days whole"),
        ("ADMISSIONS", {"write": _AppendsAll()}, r"_AppendsAll\(\) keeps every row"),
        ("ADMISSIONS", {"write": _ByKey(), "day": None}, r"_ByKey\(\) has no `rebuild`"),
        (
            "ADMISSIONS",
            {
                "reads": (SameDay(LOG),),
                "write": _ByKeyRebuilt(),
                "day": None,
                "version_by": (),
            },
            r"_ByKeyRebuilt\(\) cannot delete \(`applies_deletes`\)",
        ),
        ("BY_GATE", {"write": _ByKey()}, r"by `replaced_partition`, `recomputes_keys` or"),
        ("BY_GATE", {"write": _Latest()}, r"finds rows by a key, and does not say so"),
        ("BY_GATE", {"write": OverwriteDays()}, r"a gold table is rebuilt by day"),
        ("BY_GATE", {"write": ReplaceDay("gate")}, r"replaces partitions of 'gate'"),
    ],
)
def test_what_a_write_lacks_for_a_layer_is_said_where_the_table_is_defined(
    page: SimpleNamespace, table: str, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(DefinitionError, match=message):
        replace(getattr(page, table), **changed)


def test_a_key_on_any_day_needs_a_write_that_rebuilds_it(page: SimpleNamespace) -> None:
    table = replace(page.ADMISSIONS, write=_ByKeyRebuilt(), day=None)

    assert table.write.rebuilds_keys


def test_rows_that_lack_columns_are_refused_by_a_write_that_does_not_complete_them() -> None:
    lacking: Any = ChangeSet(None, {"id": None, PARTIAL: None})  # type: ignore[arg-type, dict-item]

    with pytest.raises(DefinitionError, match=r"orders: .* _ByKey\(\) does not complete them"):
        require_completed(_ByKey(), "orders", lacking)
