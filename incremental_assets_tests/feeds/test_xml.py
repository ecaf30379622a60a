"""Landed XML documents: their elements as rows, in whatever encoding they are."""

from __future__ import annotations

import gzip
from pathlib import Path

from pyspark.sql import SparkSession

from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.xml_documents import Xml
from incremental_assets_tests.feeds.test_formats import FIRST, payloads, read

ORDERS = """<!-- <order id="no"/> --><s:orders xmlns="http://a" xmlns:s="http://s">
  <order id="007" s:kind="new"><name>  Ünï &amp; &#228; <![CDATA[<order>]]> </name>
    <price currency="EUR">9.50</price><line n="1"/><line n="2"><sku>A</sku></line>
    <big>12345678901234567890.120</big><none/><order><id>inner</id></order></order>
  <note><![CDATA[<order><id>no</id></order>]]></note><?pi <order> ?><orders><id>no</id></orders>
  <s:order a="x>y" b='/>'><s:id>8</s:id></s:order>
  <group><order>text</order><order id="9">mixed <b>bold</b> tail</order><order
  /></group></s:orders>"""
EXPECTED = [
    {
        "id": "007",
        "kind": "new",
        "name": "Ünï & ä <order>",
        "price": {"currency": "EUR", "_VALUE": "9.50"},
        "line": [{"n": "1"}, {"n": "2", "sku": "A"}],
        "big": "12345678901234567890.120",
        "none": None,
        "order": {"id": "inner"},
    },
    {"a": "x>y", "b": "/>", "id": "8"},
    "text",
    {"id": "9", "_VALUE": ["mixed", "tail"], "b": "bold"},
    None,
]
CAFE = "<o><order><n>café</n></order></o>"
FILES: dict[str, bytes] = {
    "a.xml": ORDERS.encode(),
    "b.xml.gz": gzip.compress(b"\xef\xbb\xbf" + CAFE.encode()),
    "c.xml": f'<?xml version="1.0" encoding="ISO-8859-1"?>{CAFE}'.encode("latin-1"),
    "d.xml": f'<?xml version="1.0" encoding="windows-1252"?>{CAFE}'.encode("cp1252"),
    "e.xml": f'<?xml version="1.0" encoding="UTF-16"?>{CAFE}'.encode("utf-16"),
    "f.xml": b"<orders xmlns='http://a'/>",
    "g.xml": b"",
    "h.xml": b"""<o><order xmlns="http://a" xmlns:x="http://b" id="1" x:kind="2"><!-- c --><id>3</id>
      <n>foo<!-- d --></n></order></o>""",
}


def test_elements_are_rows_with_all_that_they_hold(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / f"orders/{FIRST}"
    folder.mkdir(parents=True)
    for name, content in FILES.items():
        (folder / name).write_bytes(content)

    (found,) = read(spark, tmp_path, LandedFiles("orders", format=Xml("order")))

    by_file: dict[str, list[object]] = {}
    for row, payload in zip(found, payloads(found), strict=True):
        by_file.setdefault(row["_file"].rpartition("/")[2], []).append(payload)
    assert by_file.pop("a.xml") == EXPECTED
    assert by_file.pop("h.xml") == [
        {"xmlns": "http://a", "x": "http://b", "id": ["1", "3"], "kind": "2", "n": "foo"}
    ]
    assert by_file == {name: [{"n": "café"}] for name in FILES if name[0] in "bcde"}
