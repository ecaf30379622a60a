"""Landed files of each format: the same days, whichever format they land in."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal as Exact
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyarrow import orc
from pyspark.sql import SparkSession

from incremental_assets.errors import SourceError
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.types import Decimal, Instant, Integer, Text
from incremental_assets.sources.csv_format import Csv
from incremental_assets.sources.json_documents import LARGEST, read_documents
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.sources.stored_files import DataFiles
from incremental_assets.table import SameDay, Table
from incremental_assets.testing import Lake
from incremental_assets.writes import Append, Merge

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


WAYS: dict[str, tuple[Any, str, Callable[[Path, Rows], None]]] = {
    "JSON lines": ("json", "json", as_lines),
    "JSON documents": ("json_document", "json", as_document),
    "packed documents": ("json_document", "json.gz", as_packed_document),
    "CSV": ("csv", "csv", as_csv),
    "CSV of other signs": (SEMICOLONS, "txt", as_semicolons),
    "CSV without a header": (NO_HEADER, "tsv", without_header),
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


@pytest.mark.parametrize("way", WAYS)
def test_days_of_each_format_give_the_same_rows(
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
    for form, write in (
        ("avro", as_avro),
        ("orc", as_orc),
        ("csv", as_csv),
        ("parquet", as_parquet),
    ):
        lake = Lake(spark, tmp_path / form)
        lake.settings = lake.settings.replace(start_date=FIRST)
        bronze = Table(
            "bronze/sales", "", reads=(LandedFiles("sales", format=form),), write=Append()
        )
        folder = tmp_path / form / f"landing/sales/{FIRST}"
        folder.mkdir(parents=True)
        write(folder / f"a.{form}", [of(1, FIRST)])
        write(folder / f"b.{form}", [of(2, FIRST) | {"more": "x"}])
        (folder / f"empty.{form}").touch()

        lake.load(bronze, FIRST)

        found = [json.loads(text) for text in lake.rows(bronze, "payload")["payload"]]
        assert sorted((int(row["id"]), row.get("more")) for row in found) == [(1, None), (2, "x")]


KEPT: dict[str, tuple[Any, bytes, list[Any]]] = {
    "a record of empty fields": (
        Csv(delimiter="\t"),
        b"id\tname\n1\tx\n\t\n2\ty\n",
        [{"id": "1", "name": "x"}, {"id": None, "name": None}, {"id": "2", "name": "y"}],
    ),
    "a doubled quote of another kind": (
        Csv(quote="'"),
        b"id,name\n1,'it''s'\n2,5\"\n",
        [{"id": "1", "name": "it's"}, {"id": "2", "name": '5"'}],
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
        b"id,b\n1,q\n2,C:\\\n",
        [{"id": "1", "b": "q"}, {"id": "2", "b": "C:\\"}],
    ),
}


def test_values_that_are_easily_lost_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path)
    lake.settings = lake.settings.replace(start_date=FIRST)
    for number, (form, content, rows) in enumerate(KEPT.values()):
        feed = LandedFiles(f"feed{number}", format=form)
        bronze = Table(f"bronze/feed{number}", "", reads=(feed,), write=Append())
        folder = tmp_path / f"landing/feed{number}/{FIRST}"
        folder.mkdir(parents=True)
        (folder / "a.txt").write_bytes(content)

        lake.load(bronze, FIRST)

        found = lake.rows(bronze, "payload", "_raw")
        texts = found["payload"].to_list() if len(found) else []
        assert [json.loads(text, parse_float=Exact) for text in texts] == rows
        assert not len(found) or found["_raw"].null_count() == len(found)


def test_rows_of_a_file_do_not_depend_on_the_files_beside_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    shops = {"7": [{"x": 9}], "north": [{"x": "007", "more": 1.5}]}
    for form in ("avro", "csv", "parquet"):
        lake = Lake(spark, tmp_path / form)
        lake.settings = lake.settings.replace(start_date=FIRST)
        feed = LandedFiles("sales", format=form, layout="shop=*/%Y-%m-%d/")
        bronze = Table("bronze/sales", "", reads=(feed,), write=Append())
        for shop, rows in shops.items():
            folder = tmp_path / form / f"landing/sales/shop={shop}/{FIRST}"
            folder.mkdir(parents=True)
            frame = pl.DataFrame(rows)
            getattr(frame, f"write_{form}")(folder / f"a.{form}")

        lake.load(bronze, FIRST)

        found = sorted(lake.rows(bronze, "payload")["payload"])
        first = '{"shop":"7","x":"9"}' if form == "csv" else '{"shop":"7","x":9}'
        more = '"1.5"' if form == "csv" else "1.5"
        assert found == sorted([f'{{"more":{more},"shop":"north","x":"007"}}', first])


def test_a_document_that_would_take_all_memory_is_refused_before_it_is_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name, size in (("a.json", LARGEST + 1), ("a.json.gz", LARGEST // 8 + 1)):
        data = DataFiles(str(tmp_path), (SourceFile(name, size),))
        with pytest.raises(SourceError, match=r"jq -c '\.\[\]'"):
            read_documents(spark, data)


def cut_avro() -> bytes:
    file = io.BytesIO()
    pl.DataFrame({"id": [1]}).write_avro(file)
    return file.getvalue()[:-1]


NOT_THAT: dict[str, tuple[Any, str, bytes, str]] = {
    "parquet": ("parquet", "a.parquet", b"id,name\n1,x\n", "does not begin and end as a Parquet"),
    "orc": ("orc", "a.orc", b"id,name\n1,x\n", "does not begin as a file of orc does"),
    "avro": ("avro", "a.avro", b"id,name\n1,x\n", "does not begin as a file of avro does"),
    "avro without its last byte": ("avro", "a.avro", cut_avro(), "so it was cut off"),
    "cut avro": ("avro", "a.avro", b"Obj\x01\x04\x16avro.sch", "cannot be read as Avro"),
    "two documents": (
        "json_document",
        "a.json",
        b'[{"id":1}]\n[{"id":2}]',
        "not one JSON document",
    ),
    "a cut document": ("json_document", "a.json", b'[{"id":1},{"id"', "not one JSON document"),
    "lines as a document": ("json_document", "a.json", b'{"id":1}\n{"id":2}\n', "not one JSON doc"),
    "other signs": (
        Csv(delimiter=";"),
        "a.csv",
        b"id,name\n1,x\n",
        "has no semicolons between the names",
    ),
    "too few columns": (NO_HEADER, "a.tsv", b"1\tx\n", "has 2 fields between '\\t', and 4 columns"),
    "a tab in a text": (
        "json_document",
        "a.json",
        b'[{"id":1},{"t":"a\tb"}]',
        "not one JSON document",
    ),
    "a field twice": ("json_document", "a.json", b'[{"id":1,"id":2}]', "with each field once"),
    "an open quote": (
        "csv",
        "a.csv",
        b'id,size,name\n1,"5" disk,"x\n2,y,z\n3,u,v\n',
        "a quote in the record that begins on line 2 is never closed",
    ),
    "two line ends of tabs": (
        Csv(delimiter="\t"),
        "a.csv",
        b"id\tz\n1\t2\r\n",
        "its lines end in more than one",
    ),
    "two line ends": ("csv", "a.csv", b'id,z\n1,"x"\r\n2,b\r\n', "its lines end in more than one"),
    "a line end in a header": (
        "csv",
        "a.csv",
        b'id,"na\nme",z\r\n1,x,a\r\n',
        "its lines end in more than one way",
    ),
    "a header too many": (
        Csv(columns=("id", "name")),
        "a.csv",
        b"ID,name\n1,x\n",
        "is a header, and",
    ),
    "a name twice": ("csv", "a.csv", b",_c0\n1,x\n", "has the name '_c0' twice"),
    "a byte order mark": (
        Csv(encoding="utf-16-le"),
        "a.csv",
        "\ufeffid,name\n1,x\n".encode("utf-16-le"),
        "begins with a byte order mark",
    ),
    "another encoding": ("csv", "a.csv", b"id,name\n1,\xfc\n", "is not UTF-8"),
}


@pytest.mark.parametrize("case", NOT_THAT)
def test_a_file_of_another_format_fails_the_load_and_stays_pending(
    case: str, spark: SparkSession, tmp_path: Path
) -> None:
    form, name, content, message = NOT_THAT[case]
    lake = Lake(spark, tmp_path)
    lake.settings = lake.settings.replace(start_date=FIRST)
    bronze = Table("bronze/sales", "", reads=(LandedFiles("sales", format=form),), write=Append())
    file = tmp_path / f"landing/sales/{FIRST}" / name
    file.parent.mkdir(parents=True)
    file.write_bytes(content)

    with pytest.raises(SourceError) as refused:
        lake.load(bronze, FIRST)

    assert message in str(refused.value)
    assert name in str(refused.value)
    assert lake.rows(bronze).is_empty()
    lakehouse = lake.lakehouse(bronze)
    plan = lakehouse.plan(bronze, [FIRST], lakehouse.settle(bronze))
    files = [f.path for work in plan.work for day in work.days.values() for f in day.files]
    assert files == [f"sales/{FIRST}/{name}"]
