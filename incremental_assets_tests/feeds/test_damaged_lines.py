"""Lines that are not exactly one JSON object: none is lost, none is read in part, all are counted."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest

from incremental_assets.days import parse_day, parse_days
from incremental_assets.maintenance import maintain
from incremental_assets.operations.quarantined import (
    QuarantineFilter,
    drop,
    in_quarantine,
    quarantined_rows,
)
from incremental_assets.writes import Merge
from incremental_assets_tests.feeds import test_snapshots as copies
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.test_rules import DAY, booking, bookings, landed
from incremental_assets_tests.feeds.world import Lake
from incremental_assets_tests.thorough import thorough

NEXT = "2017-01-06"
A, B = (json.dumps(booking(name, "1")).encode() for name in "ab")
NOT_ONE = (
    A + B,
    A + b" " + B,
    A + b"," + B,
    A + b",",
    A + b"}",
    A + b"]",
    A + b"] " + B,
    A + b"],[" + B,
    A + b"," + B + b"]",
    A + b',"x":2}',
    A + b",null",
    A + b" text",
    A + b"\x00",
    A + b" // text",
    b'{"id": {"x": 1}} }',
    b'17 {"id": "a"}',
    b'"a"}',
    b"[1]}",
    b'{"id": "a", "id": "b"}',
    b'{"id": NaN}',
    b'{"id": "a"',
    b"}",
    b'{"id": "caf\xe9"}',  # latin-1
    b'\xef\xbb\xbf{"id": "\xf0',  # a character of four bytes, cut off
    b"\x89PNG\x1a\x00\xff\xd8",
    b"base64:aGVsbG8=",
    b"base64:",
)
# JSON, but no object.
NO_OBJECT = (b"null", b"17", b'"a"', b"[]", b"[" + A + b"]")
ONE = (
    b'{"id": "}{", "train": "]}, [1] \\" {"}',
    b'\t {"id": "spaces"} \t',
    b'{"id": "carriage return"}\r',
    b'{"id": "deep", "x": [{"y": {"z": []}} ]}',
    b'{"id": "gr\xc3\xb6\xc3\x9fe \xf0\x9f\x99\x82 \\ud83d\\ude42"}',
    b'{"id": "base64:aGVsbG8="}',
    b'{"id": "big", "x": 12345678901234567890123456789012345678}',
)


def land(lake: Lake, name: str, day: str, file: str, *lines: bytes) -> Path:
    path = lake.land(name, day, file, [])
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def landed_bytes(kept: str) -> bytes:
    """A line as it landed, from how quarantine keeps it."""
    begins = "base64:"
    return base64.b64decode(kept.removeprefix(begins)) if kept.startswith(begins) else kept.encode()


def test_what_is_not_exactly_one_object_is_quarantined_as_it_landed(lake: Lakes) -> None:
    station = lake(landed("bookings"), replace(bookings(), day=None, rules=()))
    land(station, "bookings", DAY, "1.jsonl", *ONE, b"", *NOT_ONE, b" \t ", *NO_OBJECT)

    results = station.load(DAY)

    bronze, silver = (next(iter(r.days.values())).entries[-1] for r in results.values())
    bad = [line.removeprefix(b"\xef\xbb\xbf") for line in (*NOT_ONE, *NO_OBJECT)]
    assert bronze.rows_read == silver.rows_read == len(ONE) + len(bad)
    assert (silver.rows_inserted, silver.rows_quarantined) == (len(ONE), len(bad))
    found = quarantined_rows(
        station.settings, station.tables["silver/bookings"], QuarantineFilter()
    )
    assert set(map(tuple, found["reasons"].to_list())) == {("line_unreadable",)}
    unread = [line for line in bad if line not in NO_OBJECT]
    kept = [landed_bytes(row) for row in found["row"].to_list()]
    assert sorted(row for row in kept if row in unread) == sorted(unread)
    assert len(kept) == len(bad)
    expected = {json.loads(line)["id"] for line in ONE}
    assert {row[0] for row in station.rows("silver/bookings", "id")} == expected


@thorough("feeds/test_snapshots.py: a damaged snapshot")
def test_rows_of_a_damaged_line_are_not_taken_for_deleted(lake: Lakes) -> None:
    shop = lake(*copies.tables(Merge()))
    shop.land("products", "2017-01-05", "1.jsonl", copies.copy(a="A", b="B", c="C", d="D"))
    a, b, c, d = (json.dumps(row) for row in copies.copy(a="A2", b="B", c="C", d="D"))
    shop.land("products", "2017-01-06", "1.jsonl", [a, b + c, d])

    shop.load("2017-01-05...2017-01-06")

    found = shop.rows("silver/products", "sku", "name")
    assert found == [("a", "A2"), ("b", "B"), ("c", "C"), ("d", "D")]
    assert shop.reasons("silver/products") == [("line_unreadable",)]


@thorough("old_lakes/test_old_lakes.py, delta/test_legacy_text.py: older lakes, and the text alone")
def test_a_lake_that_kept_bytes_as_text_is_shown_replayed_repaired_and_dropped_from(
    lake: Lakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    zipped, last, silver = b"PK\x03\x04\xff\xfe", "2017-01-07", "silver/bookings"
    station = lake(landed("bookings"), bookings())
    with monkeypatch.context() as older:
        for module in ("sources.lines.decodable", "delta.quarantine.decodable_stored"):
            older.setattr(f"incremental_assets.{module}", lambda text: text, raising=False)
        for day in (DAY, NEXT, last):
            good = json.dumps(booking(day, "1", at=f"{day}T10:00")).encode()
            land(station, "bookings", day, "1.jsonl", good, zipped, b'{"id": "x", "version": "y"}')
        station.load(f"{DAY}...{last}")
    table = station.tables[silver]

    def rows() -> list[tuple[str, bytes]]:
        found = quarantined_rows(station.settings, table, QuarantineFilter()).select(
            "_day", "row", "reasons"
        )
        unread = (r for r in found.iter_rows() if "line_unreadable" in r[2])
        return [(str(day), landed_bytes(row)) for day, row, _ in unread]

    counts = in_quarantine(station.settings, [table], QuarantineFilter())
    assert set(counts["rows"]) == {1}
    assert rows() == [(DAY, zipped), (NEXT, zipped), (last, zipped)]
    kept = maintain(station.settings, [table], lambda: station.spark, station.now)
    assert [each.failed for each in kept.tables if each.failed] == []

    drop(
        station.lakehouse,
        table,
        QuarantineFilter(parse_days(last), "line_unreadable"),
        "an archive",
    )
    assert rows() == [(DAY, zipped), (NEXT, zipped)]
    station.lakehouse.replay(table, [parse_day(DAY)], "line_unreadable")
    assert rows() == [(DAY, zipped), (NEXT, zipped)]
    land(station, "bookings", NEXT, "1.jsonl", b'{"id": "repaired", "at": "2017-01-06T10:00"}')
    assert not any(result.failed for result in station.load(f"{DAY}...{last}").values())
    assert rows() == [(DAY, zipped)]
    assert [i for (i,) in station.rows(silver, "id")] == [DAY, last, "repaired"]
