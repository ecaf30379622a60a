"""Files that nobody needs go, by what the log says; what anybody may still need stays."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable

from incremental_assets.delta.delta_log import checkpoint_of, keep_log_short
from incremental_assets.delta.vacuum import (
    announce_removal,
    drop,
    first_complete_version,
    unreferenced,
    version_at,
    without_needed,
)
from incremental_assets.errors import LakeError
from incremental_assets.storage import StoredFile, files_below

NOW = datetime(2017, 2, 1, tzinfo=UTC)


def days_ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def touched(path: Path, moment: datetime) -> None:
    os.utime(path, (moment.timestamp(),) * 2)


class Table:
    """A table whose every version replaces the file before, each written so many days ago."""

    def __init__(self, root: Path, *ages: float) -> None:
        self.root = root
        self.files: list[str] = []
        for version, age in enumerate(ages):
            pl.DataFrame({"_batch": [version]}).write_delta(str(root), mode="overwrite")
            (path,) = DeltaTable(str(root)).get_add_actions(flatten=True)["path"].to_pylist()
            self.files.append(path)
            touched(root / path, days_ago(age))
            touched(root / "_delta_log" / f"{version:020d}.json", days_ago(age))

    @property
    def path(self) -> str:
        return str(self.root)

    def leave(self, name: str, age: float) -> None:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")
        touched(file, days_ago(age))

    def removable(self, since: datetime) -> list[str]:
        return [file.path for file in unreferenced(self.path, since)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "gold" / "table"


def test_every_version_since_the_retention_began_stays_readable(root: Path) -> None:
    table = Table(root, 30, 20, 9, 1)

    found = unreferenced(table.path, days_ago(7))
    drop(table.path, found)

    assert {file.path for file in found} == set(table.files[:2])
    assert version_at(table.path, days_ago(7)) == 2
    for version in (2, 3):
        read = pl.read_delta(table.path, version=version)
        assert read["_batch"].to_list() == [version]
    with pytest.raises(OSError, match=r"not found|No such file"):
        pl.read_delta(table.path, version=1)
    assert table.removable(days_ago(7)) == []


def test_a_file_stays_for_the_retention_from_when_it_was_replaced_and_not_from_when_it_was_written(
    root: Path,
) -> None:
    table = Table(root, 300, 6)

    assert table.removable(days_ago(7)) == []
    assert table.removable(days_ago(5)) == table.files[:1]


def test_what_a_killed_load_staged_goes_with_its_checksums_and_folders_once_it_is_old(
    root: Path,
) -> None:
    table = Table(root, 1)
    old = "batch-000001-aaaa/dt=2017-01-05"
    for name in ("part-0.parquet", ".part-0.parquet.crc"):
        table.leave(f"{old}/{name}", 9)
    table.leave("batch-000001-aaaa/_temporary/0/part-1.parquet", 9)
    table.leave("batch-000002-bbbb/dt=2017-01-05/part-0.parquet", 7.5)
    table.leave("_landing_day=2017-01-05/part-0.parquet", 9)

    found = unreferenced(table.path, days_ago(7))
    drop(table.path, found)

    assert len(found) == 4
    assert not (root / "batch-000001-aaaa").exists()
    assert not (root / "_landing_day=2017-01-05").exists()
    assert (root / "batch-000002-bbbb/dt=2017-01-05/part-0.parquet").exists()  # may be published


def test_a_file_that_a_load_moves_while_files_are_listed_is_no_error(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(root, 30, 20, 1)
    looks: list[str] = []

    def moved(path: str, **how: Any) -> list[StoredFile]:
        looks.append(path)
        if len(looks) < 3:
            raise FileNotFoundError("_temporary/0/part-1.parquet")
        return files_below(path, **how)

    monkeypatch.setattr("incremental_assets.delta.vacuum.files_below", moved)

    assert table.removable(days_ago(7)) == table.files[:1]


def test_what_is_no_data_file_of_the_table_is_never_touched(root: Path) -> None:
    table = Table(root, 1)
    others = (
        "_beside/part-0.parquet",
        "deletion_vector_1.bin",
        "notes.txt",
        "_delta_log/x.json",
        "copies/of_another/_delta_log/00000000000000000000.json",
        "copies/of_another/part-0.parquet",
        "copies/of_another/dt=2017-01-05/part-0.parquet",
    )
    for name in others:
        table.leave(name, 900)
    table.leave(f".{table.files[0]}.crc", 900)

    assert table.removable(days_ago(0)) == []


def test_a_log_that_was_cut_within_the_retention_cannot_tell_and_nothing_goes(root: Path) -> None:
    table = Table(root, 30, 20, 9, 1)
    DeltaTable(table.path, version=3).create_checkpoint()
    for version in range(3):
        (root / "_delta_log" / f"{version:020d}.json").unlink()

    with pytest.raises(LakeError, match=r"back to version 3 only.*copied or restored"):
        table.removable(days_ago(7))


def test_a_table_that_is_younger_than_the_retention_keeps_what_it_ever_had(root: Path) -> None:
    table = Table(root, 3, 2, 1)

    assert version_at(table.path, days_ago(7)) == 0
    assert table.removable(days_ago(7)) == []


def test_a_log_that_cannot_tell_removes_nothing(root: Path) -> None:
    table = Table(root, 30, 20, 1)
    (root / "_delta_log" / f"{1:020d}.json").write_text("{")

    with pytest.raises(
        LakeError, match=r"gold/table: its log does not show which files are needed"
    ):
        table.removable(days_ago(7))


def test_files_of_versions_that_somebody_reads_stay(root: Path) -> None:
    table = Table(root, 30, 20, 9, 1)
    found = unreferenced(table.path, days_ago(7))

    assert [f.path for f in without_needed(table.path, found, [1, 99])] == table.files[:1]


def test_readers_are_reported_which_versions_are_whole_and_never_less(root: Path) -> None:
    table = Table(root, 1)
    assert first_complete_version(table.path) == 0

    announce_removal(table.path, 4)
    announce_removal(table.path, 2)

    assert first_complete_version(table.path) == 4
    assert pl.read_delta(table.path).height == 1


def test_a_checkpoint_comes_after_enough_commits_and_old_commits_are_cut_with_it(
    root: Path,
) -> None:
    table = Table(root, *(50 - n for n in range(12)))

    assert keep_log_short(table.path, 20, cut=True) is None
    assert keep_log_short(table.path, 5, cut=False) == 11
    assert checkpoint_of(table.path) == 11
    assert (root / "_delta_log" / f"{0:020d}.json").exists()
    assert keep_log_short(table.path, 5, cut=True) is None
    for version in range(12, 18):
        pl.DataFrame({"_batch": [version]}).write_delta(table.path, mode="append")

    assert keep_log_short(table.path, 5, cut=True) == 17

    assert not (root / "_delta_log" / f"{0:020d}.json").exists()
    assert pl.read_delta(table.path)["_batch"].sort().to_list() == list(range(11, 18))
