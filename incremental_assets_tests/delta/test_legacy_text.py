"""A quarantine of an older lake, in which bytes lie where text should be."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction

from incremental_assets.decodable import landed_bytes
from incremental_assets.delta.legacy_text import read_decoded, rewrite_as_utf8
from incremental_assets.delta.quarantine import OutdatedRows, Quarantine
from incremental_assets.errors import LakeError
from incremental_assets.query import query

ZIP = b"PK\x03\x04\xff\xfe"
DAY, NEXT = date(2017, 1, 5), date(2017, 1, 6)
COLUMNS = ("_batch", "_day", "row")


def texts(*rows: bytes) -> pa.Array:
    """Bytes as a column of text, as Spark wrote them."""
    return pa.Array.from_buffers(pa.string(), len(rows), pa.array(rows, pa.binary()).buffers())


def add(path: str, day: date, name: str, batch: int, *rows: bytes) -> None:
    """A file of rows that were quarantined, the first one for a line that cannot be read."""
    seen = [datetime(2017, 1, 5, tzinfo=UTC)] * len(rows)
    reasons = [["line_unreadable"], *[["qty_unreadable"]] * (len(rows) - 1)]
    content = pa.table(
        {
            "_batch": pa.array([batch] * len(rows), pa.int64()),
            "row": texts(*rows),
            "first_seen": pa.array(seen, pa.timestamp("us", "UTC")),
            "reasons": pa.array(reasons, pa.list_(pa.string())),
        }
    )
    if not DeltaTable.is_deltatable(path):
        whole = content.append_column("_day", pa.array([day] * len(rows)))
        DeltaTable.create(path, Schema.from_arrow(whole.schema), partition_by=["_day"])
    file = Path(path) / f"batch-{batch:06d}-0" / f"_day={day}" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(content, file)
    table = DeltaTable(path)
    inside = str(file.relative_to(path))
    statistics = f'{{"numRecords":{len(rows)}}}'
    action = AddAction(inside, file.stat().st_size, {"_day": str(day)}, 0, True, statistics)
    table.create_write_transaction([action], "append", table.schema(), partition_by=["_day"])


@pytest.fixture
def path(tmp_path: Path) -> str:
    made = f"{tmp_path}/a lake/quarantine"
    add(made, DAY, "1.parquet", 1, ZIP, b"bad")
    add(made, DAY, "2.parquet", 2, b"text", b"worse")
    add(made, NEXT, "3.parquet", 2, ZIP + b"2")
    with pytest.raises(DeltaError, match=r"(?i)utf-8"):
        query(DeltaTable(made))
    return made


def kept(path: str) -> list[tuple[int, date, bytes]]:
    found = query(DeltaTable(path), ", ".join(COLUMNS))
    return sorted((batch, day, landed_bytes(row)) for batch, day, row in found.iter_rows())


FIRST = [(1, DAY, ZIP), (1, DAY, b"bad")]
SECOND = [(2, DAY, b"text"), (2, DAY, b"worse")]
LAST = [(2, NEXT, ZIP + b"2")]
DROPS: dict[str, tuple[Callable[[Quarantine], None], list[tuple[int, date, bytes]]]] = {
    "superseded": (lambda q: q.drop([OutdatedRows(DAY, 1, 2)]), [*SECOND, *LAST]),
    "abandoned": (lambda q: q.abandon(2, print), FIRST),
    "dropped": (
        lambda q: q.drop([OutdatedRows(DAY, 0, 9, "line_unreadable")]),
        [FIRST[1], SECOND[1], *LAST],
    ),
    "expired": (lambda q: q.expire(datetime(2017, 1, 6, tzinfo=UTC)), []),
}


@pytest.mark.parametrize("how", DROPS)
def test_rows_are_dropped_and_the_others_stay_byte_for_byte(path: str, how: str) -> None:
    drop, left = DROPS[how]

    drop(Quarantine(path, "silver/sales"))

    assert kept(path) == sorted(left)


def test_rows_are_read_where_they_lie_without_a_commit(path: str) -> None:
    version = DeltaTable(path).version()

    found = read_decoded(path, [*COLUMNS, "reasons"])

    assert sorted(map(landed_bytes, found["row"])) == sorted(r[2] for r in FIRST + SECOND + LAST)
    assert set(found["_day"]) == {DAY, NEXT}
    assert f"base64:{b64encode(ZIP).decode()}" in found["row"].to_list()
    assert DeltaTable(path).version() == version


def test_only_files_that_hold_bytes_are_rewritten_and_once(path: str) -> None:
    before = set(DeltaTable(path).file_uris())

    assert rewrite_as_utf8(path) == 2

    version, left = DeltaTable(path).version(), set(DeltaTable(path).file_uris())
    assert len(before & left) == 1
    assert rewrite_as_utf8(path) == 0
    assert DeltaTable(path).version() == version
    assert kept(path) == sorted(FIRST + SECOND + LAST)


def test_a_missing_file_is_an_error_with_a_remedy(path: str) -> None:
    for file in Path(path).rglob("1.parquet"):
        file.unlink()

    with pytest.raises(LakeError, match=r"1\.parquet cannot be read"):
        read_decoded(path, COLUMNS)
