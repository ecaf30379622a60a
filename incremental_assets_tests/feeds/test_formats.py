"""Landed files of each format: the same days, whichever format they land in."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal as Exact
from functools import reduce
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import polars as pl
import pyarrow as pa
import pytest
from pyarrow import orc
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from incremental_assets.errors import SourceError
from incremental_assets.frames import Frames
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.types import Decimal, Instant, Integer, Text
from incremental_assets.sources.archives import UnpackFolder
from incremental_assets.sources.csv_format import Csv
from incremental_assets.sources.json_documents import LARGEST, read_documents
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.sources.stored_files import DataFiles, FileFormat
from incremental_assets.sources.xml_documents import Xml
from incremental_assets.table import SameDay, Table
from incremental_assets.testing import Lake
from incremental_assets.writes import Append, Merge
from incremental_assets_tests.thorough import thorough

Rows = Sequence[Mapping[str, Any]]
FIRST, SECOND = date(2024, 5, 1), date(2024, 5, 2)
SCHEMA = Contract(id=Integer(), name=Text(), amount=Decimal(), at=Instant())
SEMICOLONS = Csv(delimiter=";", quote="'", escape="\\", encoding="windows-1252")
NO_HEADER = Csv(delimiter="\t", columns=("id", "name", "amount", "at"))


def of(number: int, day: date, amount: float = 1.5, name: str = "") -> dict[str, Any]:
    at = datetime(day.year, day.month, day.day, 12, number % 60, tzinfo=UTC)
    return {"id": number, "name": name or f"nümber {number}", "amount": amount, "at": at}


def as_csv(path: Path, rows: Rows) -> None:
    pl.DataFrame(list(rows)).write_csv(path)


def as_semicolons(path: Path, rows: Rows) -> None:
    lines = ["id;name;amount;at"]
    for row in rows:
        name = "'" + row["name"].replace("'", "\\'") + "'"
        lines.append(f"{row['id']};{name};{row['amount']};{row['at'].isoformat()}")
    path.write_text("\r\n".join(lines) + "\r\n", encoding="cp1252")


def without_header(path: Path, rows: Rows) -> None:
    pl.DataFrame(list(rows)).write_csv(path, include_header=False, separator="\t")


def as_lines(path: Path, rows: Rows) -> None:
    path.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows))


def as_document(path: Path, rows: Rows) -> None:
    text = json.dumps(list(rows), default=str, indent=2, ensure_ascii=False)
    path.write_text("\ufeff" + text + "\n\n", encoding="utf-8")


def as_packed_document(path: Path, rows: Rows) -> None:
    path.write_bytes(gzip.compress(json.dumps(list(rows), default=str).encode()))


def as_parquet(path: Path, rows: Rows) -> None:
    pl.DataFrame(list(rows)).write_parquet(path)


def as_orc(path: Path, rows: Rows) -> None:
    orc.write_table(pa.Table.from_pylist(list(rows)), path)


def as_avro(path: Path, rows: Rows) -> None:
    pl.DataFrame(list(rows)).with_columns(pl.col("at").dt.replace_time_zone(None)).write_avro(path)


def as_zipped_csv(path: Path, rows: Rows) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.csv", pl.DataFrame(list(rows)).write_csv())


def as_xml(path: Path, rows: Rows) -> None:
    fields = ("".join(f"<{k}>{escape(str(v))}</{k}>" for k, v in row.items()) for row in rows)
    orders = "\n".join(f"<order>{each}</order>" for each in fields)
    path.write_text(f"<?xml version='1.0'?>\n<orders>{orders}</orders>", encoding="utf-8")


WAYS: dict[str, tuple[Any, str, Callable[[Path, Rows], None]]] = {
    "JSON lines": ("json", "json", as_lines),
    "JSON documents": ("json_document", "json", as_document),
    "packed documents": ("json_document", "json.gz", as_packed_document),
    "CSV": ("csv", "csv", as_csv),
    "CSV in archives": ("csv", "zip", as_zipped_csv),
    "CSV of other signs": (SEMICOLONS, "txt", as_semicolons),
    "CSV without a header": (NO_HEADER, "tsv", without_header),
    "XML": (Xml("order"), "xml", as_xml),
    "Parquet": ("parquet", "parquet", as_parquet),
    "ORC": ("orc", "orc", as_orc),
    "Avro": ("avro", "avro", as_avro),
}


def tables(feed: LandedFiles, **options: Any) -> tuple[Table, Table]:
    bronze = Table(
        "bronze/orders",
        "",
        reads=(feed,),
        day="at",
        allowed_lateness="default",
        write=Append(),
        **options,
    )
    silver = Table(
        "silver/orders",
        "",
        reads=(SameDay(bronze),),
        key=("id",),
        version_by=("at",),
        day="at",
        allowed_lateness="default",
        schema=SCHEMA,
        write=Merge(),
    )
    return bronze, silver


def read(spark: SparkSession, landing: Path, *feeds: LandedFiles) -> list[list[Row]]:
    """The rows of each feed's first day, as they land: all are read by one job."""
    with Frames.over(spark) as frames:
        files = [feed.files(str(landing), FIRST) for feed in feeds]
        rows = [
            feed.rows(
                frames, str(landing), some, UnpackFolder(f"{landing}/lake", f"bronze/{number}", 1)
            ).withColumn("feed", F.lit(number))
            for number, (feed, some) in enumerate(zip(feeds, files, strict=True))
        ]
        every = reduce(DataFrame.unionByName, rows)
        typed = SCHEMA.apply(every.withColumn("json", F.to_json("payload"))).collect()
    return [[row for row in typed if row["feed"] == number] for number in range(len(feeds))]


def payloads(rows: Iterable[Row]) -> list[Any]:
    return [json.loads(row["json"], parse_float=Exact) for row in rows]


def test_files_of_each_format_give_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    rows = [of(1, FIRST), of(2, FIRST, 2.5, "'quoted'")]
    feeds = []
    for number, (form, ending, write) in enumerate(WAYS.values()):
        folder = tmp_path / f"orders{number}/{FIRST}"
        folder.mkdir(parents=True)
        write(folder / f"a.{ending}", rows)
        feeds.append(LandedFiles(f"orders{number}", format=form))

    found = read(spark, tmp_path, *feeds)

    expected = [(1, "nümber 1", Exact("1.5"), rows[0]["at"], None)]
    expected += [(2, "'quoted'", Exact("2.5"), rows[1]["at"], None)]
    for way, (number, those) in zip(WAYS, enumerate(found), strict=True):
        columns = [
            (r["id"], r["name"], r["amount"], r["at"].astimezone(UTC), r["_raw"]) for r in those
        ]
        assert columns == expected, way
        assert {r["_file"] for r in those} == {f"orders{number}/{FIRST}/a.{WAYS[way][1]}"}


OTHERS = thorough("feeds/test_formats.py: files of each format, and the days of one")


@pytest.mark.parametrize(
    "way",
    [way if way == "CSV of other signs" else pytest.param(way, marks=OTHERS) for way in WAYS],
)
def test_days_of_each_format_are_loaded_once_and_repaired(
    way: str, spark: SparkSession, tmp_path: Path
) -> None:
    form, ending, write = WAYS[way]
    layout = f"%Y/%m/orders_%d*.{ending}"
    bronze, silver = both = tables(LandedFiles("orders", format=form, layout=layout))
    lake = Lake(spark, tmp_path)
    lake.settings = lake.settings.replace(start_date=FIRST)
    folder = tmp_path / "landing/orders/2024/05"
    folder.mkdir(parents=True)

    def land(name: str, *rows: Mapping[str, Any]) -> None:
        write(folder / f"{name}.{ending}", rows)

    def loaded() -> list[tuple[Any, ...]]:
        lake.run(both)
        return sorted(lake.rows(silver, "id", "name", "amount", "dt").rows())

    def row(number: int, day: date, amount: str = "1.5", name: str = "") -> tuple[Any, ...]:
        return number, name or f"nümber {number}", Exact(amount), day

    land("orders_01", of(1, FIRST), of(2, FIRST))
    land("orders_02_a", of(3, SECOND), of(4, FIRST))  # the last one late
    before = [row(1, FIRST), row(2, FIRST), row(3, SECOND), row(4, FIRST)]
    assert loaded() == before
    landed = lake.rows(bronze, "_landing_day", "_file", "_raw").sort("_file")
    assert sorted(landed["_landing_day"].to_list()) == [FIRST, FIRST, SECOND, SECOND]
    assert landed["_raw"].null_count() == 4
    assert set(landed["_file"]) == {
        f"orders/2024/05/orders_01.{ending}",
        f"orders/2024/05/orders_02_a.{ending}",
    }

    versions = [len(lake.log)]
    assert loaded() == before
    assert len(lake.log) == versions[0]

    land("orders_01", of(1, FIRST, 2.5, "'quoted'"))  # repaired, and one row less
    land("orders_02_b", of(5, SECOND))
    after = [row(1, FIRST, "2.5", "'quoted'"), row(3, SECOND), row(4, FIRST), row(5, SECOND)]
    assert loaded() == after


def test_columns_come_and_go_between_files(spark: SparkSession, tmp_path: Path) -> None:
    forms: tuple[FileFormat, ...] = ("avro", "orc", "csv", "parquet")
    for form, write in zip(forms, (as_avro, as_orc, as_csv, as_parquet), strict=True):
        folder = tmp_path / f"{form}/{FIRST}"
        folder.mkdir(parents=True)
        write(folder / f"a.{form}", [of(1, FIRST)])
        write(folder / f"b.{form}", [of(2, FIRST) | {"more": "x"}])
        (folder / f"empty.{form}").touch()

    for found in read(spark, tmp_path, *(LandedFiles(form, format=form) for form in forms)):
        rows = [(int(row["id"]), row.get("more")) for row in payloads(found)]
        assert sorted(rows) == [(1, None), (2, "x")]


KEPT: dict[str, tuple[Any, bytes, list[Any]]] = {
    "a record of empty fields": (
        Csv(delimiter="\t"),
        b"id\tname\n1\tx\n\t\n2\ty\n",
        [{"id": "1", "name": "x"}, {"id": None, "name": None}, {"id": "2", "name": "y"}],
    ),
    "a record of empty fields of Hive": (
        Csv(delimiter="\x01"),
        b"id\x01name\n\x01\n2\x01y\n",
        [{"id": None, "name": None}, {"id": "2", "name": "y"}],
    ),
    "a doubled quote of another kind": (
        Csv(quote="'"),
        b"id,name\n1,'it''s'\n2,5\"\n",
        [{"id": "1", "name": "it's"}, {"id": "2", "name": '5"'}],
    ),
    "line ends of Windows inside of quotes": (
        "csv",
        b'id,b\r\n1,"x\r\ny"\r\n2,"x\ny"\r\n3,"x\ry"\r\n4,"\r\n"',
        [
            {"id": "1", "b": "x\r\ny"},
            {"id": "2", "b": "x\ny"},
            {"id": "3", "b": "x\ry"},
            {"id": "4", "b": "\r\n"},
        ],
    ),
    "line ends of old Macs": (
        "csv",
        b'id,b\r1,"x\r\ny"\r2,"x\ny"\r',
        [{"id": "1", "b": "x\r\ny"}, {"id": "2", "b": "x\ny"}],
    ),
    "a name like that of a format": ("csv", b"ORCID,b\n1,2\n", [{"ORCID": "1", "b": "2"}]),
    "the digits of a number": (
        "json_document",
        b'[{"b":12345678901234567890.123456789,"e":0.1234567890123456789}]',
        [{"b": Exact("12345678901234567890.123456789"), "e": Exact("0.1234567890123456789")}],
    ),
    "what is no object": (
        "json_document",
        b'["{\\"a\\":1}", "null", null, 5, [1]]',
        ['{"a":1}', "null", None, 5, [1]],
    ),
    "one object": ("json_document", b'  {"a": {"b": [1]}}\r\n', [{"a": {"b": [1]}}]),
    "no row": ("json_document", b"[]", []),
    "a last backslash": (
        Csv(escape="\\"),
        b'id,b\n1,"q"\n2,C:\\\n3,"a\\\\"\n4,D:\\',
        [
            {"id": "1", "b": "q"},
            {"id": "2", "b": "C:\\"},
            {"id": "3", "b": "a\\"},
            {"id": "4", "b": "D:\\"},
        ],
    ),
}


def test_values_that_are_easily_lost_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    feeds = []
    for number, (form, content, _) in enumerate(KEPT.values()):
        folder = tmp_path / f"feed{number}/{FIRST}"
        folder.mkdir(parents=True)
        (folder / "a.txt").write_bytes(content)
        feeds.append(LandedFiles(f"feed{number}", format=form))

    found = read(spark, tmp_path, *feeds)

    assert dict(zip(KEPT, map(payloads, found), strict=True)) == {
        case: rows for case, (_, _, rows) in KEPT.items()
    }
    assert {row["_raw"] for rows in found for row in rows} == {None}


def test_rows_of_a_file_do_not_depend_on_the_files_next_to_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    shops: dict[str, list[dict[str, Any]]] = {"7": [{"x": 9}], "north": [{"x": "007", "more": 1.5}]}
    forms: tuple[FileFormat, ...] = ("avro", "csv", "parquet")
    for form in forms:
        for shop, rows in shops.items():
            till = "/till=1" if shop == "north" else ""
            folder = tmp_path / f"{form}/shop={shop}/{FIRST}{till}"
            folder.mkdir(parents=True)
            getattr(pl.DataFrame(rows), f"write_{form}")(folder / f"a.{form}")

    feeds = [LandedFiles(form, format=form, layout="shop=*/%Y-%m-%d/") for form in forms]
    found = dict(zip(forms, read(spark, tmp_path, *feeds), strict=True))

    for form, landed in found.items():
        first = '{"shop":"7","x":"9"}' if form == "csv" else '{"shop":"7","x":9}'
        more = '"1.5"' if form == "csv" else "1.5"
        north = f'{{"more":{more},"shop":"north","till":"1","x":"007"}}'
        assert sorted(row["json"] for row in landed) == sorted([north, first])


def test_a_document_that_would_take_all_memory_is_refused_before_it_is_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    packed = [(f"a.json.{ending}", LARGEST // 8 + 1) for ending in ("gz", "GZ", "zstd")]
    for name, size in (("a.json", LARGEST + 1), *packed):
        data = DataFiles(str(tmp_path), (SourceFile(name, size),))
        with pytest.raises(SourceError, match=r"jq -c '\.\[\]'"):
            read_documents(spark, data)
