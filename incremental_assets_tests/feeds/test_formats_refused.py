"""Files that are not of the format that their feed declares."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from incremental_assets.errors import SourceError
from incremental_assets.sources.csv_format import Csv
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.xml_documents import Xml
from incremental_assets.table import Table
from incremental_assets.testing import Lake
from incremental_assets.writes import Append
from incremental_assets_tests.feeds.test_formats import FIRST, NO_HEADER, read


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
    "too few columns": (
        NO_HEADER,
        "a.tsv",
        b"1\tx\n",
        "has 2 fields between '\\t', and there are names for 4",
    ),
    "a tab in a text": (
        "json_document",
        "a.json",
        b'[{"id":1},{"t":"a\tb"}]',
        "not one JSON document",
    ),
    "an XML document without an end": (
        Xml("order"),
        "a.xml",
        b"<orders><order><id>1</id></order>",
        "no element found: line 1",
    ),
    "an entity of XML": (
        Xml("order"),
        "a.xml",
        b'<!DOCTYPE o [<!ENTITY x SYSTEM "file:///etc/passwd">]><o><order>&x;</order></o>',
        "it has a DOCTYPE, which is not resolved",
    ),
    "a field twice": ("json_document", "a.json", b'[{"id":1,"id":2}]', "with each field once"),
    "an open quote": (
        "csv",
        "a.csv",
        b'id,size,name\n1,"5" disk,"x\n2,y,z\n3,u,v\n',
        "a quote in the record that begins on line 2 is never closed",
    ),
    "an open quote behind an escape": (
        Csv(escape="\\"),
        "a.csv",
        b'id,name,z\n1\\,"x\n2,y,z\n',
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
def test_a_file_of_another_format_is_refused_by_its_name(
    case: str, spark: SparkSession, tmp_path: Path
) -> None:
    form, name, content, message = NOT_THAT[case]
    file = tmp_path / f"sales/{FIRST}" / name
    file.parent.mkdir(parents=True)
    file.write_bytes(content)

    with pytest.raises((SourceError, PySparkException)) as refused:
        read(spark, tmp_path, LandedFiles("sales", format=form))

    assert message in str(refused.value)
    assert name in str(refused.value)


@pytest.mark.parametrize("case", ["orc", "a cut document"])
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
