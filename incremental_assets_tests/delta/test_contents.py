"""How much a table holds, by its log."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import polars as pl
from deltalake import DeltaTable

from incremental_assets.delta.contents import Contents, contents_of

D5, D6 = date(2017, 1, 5), date(2017, 1, 6)


def written(path: Path, *days: date) -> DeltaTable:
    for day in days:
        pl.DataFrame({"dt": [day] * 3, "a": [1, 2, 3]}).write_delta(
            str(path), mode="append", delta_write_options={"partition_by": ["dt"]}
        )
    return DeltaTable(str(path))


def test_files_bytes_and_rows_are_counted_by_day_and_in_all(tmp_path: Path) -> None:
    table = written(tmp_path / "t", D5, D5, D6)

    found = contents_of(table)

    size = {day: sum(f.stat().st_size for f in tmp_path.glob(f"t/dt={day}/*")) for day in (D5, D6)}
    assert found.day(D5) == Contents(2, size[D5], 6)
    assert found.day(D6) == Contents(1, size[D6], 3)
    assert found.whole == Contents(3, size[D5] + size[D6], 9)
    assert found.day(date(2017, 1, 7)) == Contents()


def test_a_table_without_files_holds_nothing(tmp_path: Path) -> None:
    table = written(tmp_path / "t", D5)
    table.delete()

    assert contents_of(DeltaTable(str(tmp_path / "t"))).whole == Contents()


def test_rows_are_not_guessed_where_a_file_does_not_tell_them(tmp_path: Path) -> None:
    written(tmp_path / "t", D5, D5, D6)
    log = tmp_path / "t" / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    log.write_text("\n".join(map(json.dumps, actions)))

    found = contents_of(DeltaTable(str(tmp_path / "t")))

    assert (found.day(D5).rows, found.day(D6).rows, found.whole.rows) == (None, 3, None)
    assert found.day(D5).files == 2
