"""What a contract makes of a payload, which new fields become columns, and what it refuses."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.errors import DefinitionError
from incremental_assets.quality.contract import MOST_NEW_COLUMNS, Contract
from incremental_assets.quality.types import Integer, Text


def landed(spark: SparkSession, *lines: str) -> DataFrame:
    rows = spark.createDataFrame(list(enumerate(lines)), "i int, line string")
    return rows.select("i", F.try_parse_json("line").alias("payload"))


def test_declared_fields_become_columns_and_the_others_are_kept_as_text(
    spark: SparkSession,
) -> None:
    rows = landed(
        spark,
        '{"id":"a","qty":2}',
        '{"id":5,"qty":"two","note":"hi","size":1.5,"gift":true,"tags":["x"],"at":{"b":1}}',
        '{"qty":null,"note":null}',
        '{"id":{"a":1},"qty":[2]}',
        '{"ID":"other case","QTY":1}',
        "not json",
        "[1,2]",
    )

    typed = Contract(id=Text(), qty=Integer()).apply(rows).orderBy("i").collect()

    assert [(row["id"], row["qty"], row["_unreadable"]) for row in typed] == [
        ("a", 2, []),
        ("5", None, ["qty"]),
        (None, None, []),
        (None, None, ["id", "qty"]),
        (None, None, ["id", "qty"]),
        (None, None, []),
        (None, None, []),
    ]
    assert [(row["_undeclared"], row["_absent"]) for row in typed] == [
        ([], []),
        (["at", "gift", "note", "size", "tags"], []),
        (["note"], ["id"]),
        ([], []),
        (["ID", "QTY"], ["id", "qty"]),
        (None, None),
        (None, None),
    ]


def test_a_value_in_a_field_of_another_case_makes_the_declared_one_unreadable(
    spark: SparkSession,
) -> None:
    rows = landed(
        spark,
        '{"id":"a","QTY":1}',
        '{"id":"a","qty":null,"Qty":1,"other":2}',
        '{"id":"a","qty":1,"QTY":2}',  # the declared one has a value
        '{"id":"a","QTY":null}',  # nothing is lost
        '{"id":{"a":1},"QTY":[1],"NOTE":"left out"}',
    )
    contract = Contract(id=Text(), qty=Integer(), note=Text(on_type_error="discard"))

    typed = contract.apply(rows).orderBy("i").collect()

    assert [row["_unreadable"] for row in typed] == [["qty"], ["qty"], [], [], ["id", "qty"]]
    assert not [name for name in typed[0].asDict() if name.startswith("_of_other")]


def test_an_undeclared_field_is_read_as_its_text(spark: SparkSession) -> None:
    line = (
        '{"note":"hi","size":1.5,"gift":true,"tags":["x"],"at":{"b":1},"none":null,"word":"null"}'
    )
    names = ["note", "size", "gift", "tags", "at", "none", "word", "missing"]
    rows = Contract(id=Text()).apply(landed(spark, line))

    (row,) = rows.select(*(Contract.undeclared(name, rows).alias(name) for name in names)).collect()

    assert tuple(row) == ("hi", "1.5", "true", '["x"]', '{"b":1}', None, "null", None)


def test_an_expected_field_is_read_with_the_declared_ones_and_the_others_are_asked_for(
    spark: SparkSession,
) -> None:
    lines = ('{"note":"hi","at":{"b":1},"none":null}', '{"id":"a","note":1.50}', "[1]", "no json")
    names = ["note", "at", "none", "missing", "other"]
    # What cannot be a column or is declared is not expected.
    expected = {*names} - {"other"} | {"id", "ID", "dt", "_batch", "a b"}
    rows = Contract(id=Text()).apply(landed(spark, *lines, '{"other":2,"NOTE":3}'), expected)
    plain = Contract(id=Text()).apply(landed(spark, *lines, '{"other":2,"NOTE":3}'))

    def texts(of: DataFrame) -> list[tuple[object, ...]]:
        columns = (Contract.undeclared(name, of).alias(name) for name in [*names, "NOTE"])
        return sorted(map(tuple, of.select("i", *columns).collect()))

    assert texts(rows) == texts(plain)
    assert [tuple(row) for row in rows.select("i", "_of_further").orderBy("i").collect()] == [
        (0, True),  # JSON null is no text, so there may be another field
        (1, False),
        (2, None),
        (3, None),
        (4, True),
    ]


def test_what_a_transform_does_to_all_texts_is_not_done_to_expected_fields(
    spark: SparkSession,
) -> None:
    rows = Contract(id=Text()).apply(landed(spark, '{"id":"a","note":" hi "}'), ["note", "size"])
    texts = [name for name, kind in rows.dtypes if kind == "string"]
    rows = rows.fillna("none").withColumns({name: F.trim(name) for name in texts})

    found = rows.select(Contract.undeclared("note", rows), Contract.undeclared("size", rows))

    assert [tuple(row) for row in found.collect()] == [(" hi ", None)]


def test_no_further_field_is_looked_for_where_none_becomes_a_column(spark: SparkSession) -> None:
    rows = Contract({"*": "discard", "x": "freeze"}, id=Text()).apply(
        landed(spark, '{"id":1,"x":2}')
    )

    assert [row["_of_further"] for row in rows.collect()] == [False]


def test_with_discard_undeclared_fields_stay_below() -> None:
    contract = Contract("discard", id=Text())

    assert contract.grown(["note"], ["id", "size"]) == []


@pytest.mark.parametrize(
    ("found", "known", "columns"),
    [
        pytest.param([], [], [], id="nothing new"),
        pytest.param(["b", "a", "b"], [], ["a", "b"], id="new ones by name"),
        pytest.param(["a"], ["z", "y"], ["z", "y", "a"], id="after those that the table has"),
        pytest.param([], ["id", "dt", "_batch", "z"], ["z"], id="known ones that are not declared"),
        pytest.param(["id", "ID", "Id"], [], [], id="declared, in any case"),
        pytest.param(["note", "Note", "NOTE"], [], ["NOTE"], id="a name in several cases"),
        pytest.param(["Note"], ["note"], ["note"], id="another case of a known one"),
        pytest.param(["dt", "DT"], [], [], id="reserved"),
        pytest.param(["_batch", "_x"], [], [], id="an underscore in front"),
        pytest.param(["a b", "a.b", "a,b", "ä", "1a", "", "a`", "a\n"], [], [], id="not storable"),
    ],
)
def test_a_new_field_grows_the_table_if_it_can_be_a_column(
    found: Sequence[str], known: Sequence[str], columns: Sequence[str]
) -> None:
    assert Contract(id=Text()).grown(found, known) == columns


def test_the_same_fields_grow_the_same_columns_in_whatever_order_they_are_found() -> None:
    contract = Contract(id=Text())

    assert contract.grown(["b", "A", "a", "c"], []) == contract.grown(["c", "a", "b", "A"], [])


def test_no_more_than_so_many_fields_become_columns() -> None:
    known = [f"k{n:03}" for n in range(MOST_NEW_COLUMNS - 2)]
    found = [f"f{n:03}" for n in range(10)]

    grown = Contract(id=Text()).grown(found, known)

    assert grown == [*known, "f000", "f001"]


@pytest.mark.parametrize("name", ["_batch", "a b", "a.b", "1a", "ä", "a`b", "", "dt", "DT", "a\n"])
def test_a_contract_column_that_cannot_be_stored_is_refused(name: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        Contract(**{name: Text()})

    assert f"Contract column {name!r}: use letters, digits and underscores" in str(raised.value)
    assert "none of ['dt', 'payload']" in str(raised.value)


def test_contract_columns_that_differ_only_in_case_are_refused() -> None:
    with pytest.raises(DefinitionError, match=r"differ only in case: \['QTY', 'qty'\]"):
        Contract(qty=Integer(), QTY=Integer())


def test_a_contract_cannot_be_changed() -> None:
    contract = Contract(qty=Integer())

    with pytest.raises(TypeError, match="does not support item assignment"):
        contract.columns["id"] = Text()  # type: ignore[index]
