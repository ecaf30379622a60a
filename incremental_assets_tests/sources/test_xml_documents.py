"""XML documents: what is refused before Spark reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from incremental_assets.errors import DefinitionError, SourceError
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.sources.xml_documents import Xml, require_document

ENTITY = '<!DOCTYPE o [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
BOMB = '<!DOCTYPE o [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>'

REFUSED: dict[str, str | bytes] = {
    "unclosed token": "<orders><order/></or",
    "no element found": "<orders><order/>",
    "mismatched tag": "<orders><order><id>1</di></order></orders>",
    "junk after document element": "<order/>\n<order/>",
    "duplicate attribute": '<orders><order id="1" id="2"/></orders>',
    "not well-formed": b"<orders><order>\xfc</order></orders>",
    "it has a DOCTYPE, which": f"{ENTITY}<o><order>&x;</order></o>",
    "a DOCTYPE": f"{BOMB}<o><order>&b;</order></o>",
    "DOCTYPE": '<!DOCTYPE o SYSTEM "http://127.0.0.1:9/o.dtd"><o><order/></o>',
    "undefined entity": "<orders><order>&x;</order></orders>",
    "it has no element order, but orders, Order": "<orders><Order/></orders>",
    "it has no element order, but orders.": "<orders><orders/></orders>",
    "it has no element order, but error": "<error>Internal Server Error</error>",
    "it has no element order, but Order": '<Order id="1"/>',
    "line 2: order has attributes that differ in their prefix alone": (
        '<o xmlns:x="u">\n<order id="1" x:id="2"/></o>'
    ),
    "line 1: kind has attributes": (
        '<o xmlns:x="u"><order><kind type="a" xmlns:type="u"/></order></o>'
    ),
    "line 2: a text follows a comment": ("<o><order><n>foo<!-- c -->\n<?pi d?>bar</n></order></o>"),
    "line 1: a text follows a comment or processing": (
        "<o><!-- of all --><order><n>a<b/><?pi d?>c</n></order></o>"
    ),
    "(?i)gzip": b"\x1f\x8b\x08",
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_no_document_with_rows_says_why(message: str, tmp_path: Path) -> None:
    content = REFUSED[message]
    name = "a.xml.gz" if message == "(?i)gzip" else "a.xml"
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)

    with pytest.raises(SourceError, match=r"cannot be read as XML.*Nothing was loaded") as refused:
        require_document(str(tmp_path), "order", SourceFile(name, 1))

    assert f"{tmp_path}/{name}" in str(refused.value)
    refused.match(message.replace("(?i)gzip", "(?i)(gzip|end-of-stream|cut)"))


TAKEN = (
    '<o xmlns="http://a" xmlns:xsi="http://b" xsi:schemaLocation="c"> <!-- no order --> </o>',
    "<o><order><!-- a --><n>foo<!-- b --></n>bar<!-- c --><m/>text</order><!-- d --></o>",
    '<o><order xmlns="http://a" xmlns:x="http://b" x:id="1" n="2"/><!-- e -->\n</o>',
    "<error><order/></error>",
)


def test_a_document_with_rows_or_an_empty_root_is_taken(tmp_path: Path) -> None:
    for content in TAKEN:
        (tmp_path / "a.xml").write_text(content)
        require_document(str(tmp_path), "order", SourceFile("a.xml", 1))


def test_a_file_that_is_gone_from_a_store_is_not_called_damaged() -> None:
    with pytest.raises(SourceError, match=r"a\.xml cannot be read: ") as refused:
        require_document("memory://xml", "order", SourceFile("a.xml", 1))

    assert "XML" not in str(refused.value)


@pytest.mark.parametrize("tag", ["", "<order>", "a b", "a:b", "1", None])
def test_a_row_tag_is_the_name_of_an_element(tag: str) -> None:
    with pytest.raises(DefinitionError, match="row_tag is the name"):
        Xml(tag)


def test_xml_by_its_name_alone_is_refused_with_what_it_needs() -> None:
    with pytest.raises(DefinitionError, match=r"format=Xml\(row_tag\)"):
        LandedFiles("orders", format="xml")  # type: ignore[arg-type]
