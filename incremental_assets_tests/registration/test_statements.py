"""Names in a catalog, and the SQL of a registration: whatever a table and a path are called."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from incremental_assets.errors import SettingsError
from incremental_assets.frames import literal
from incremental_assets.registration.statements import catalog_name, statements
from incremental_assets.settings import Settings
from incremental_assets_tests.scenarios.world import TABLES

SALES = TABLES["silver/sales"]


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        ("{layer}", "main.silver.sales"),
        ("retail_{layer}", "main.retail_silver.sales"),
        ("retail", "main.retail.silver_sales"),
    ],
)
def test_a_table_is_named_after_its_layer_so_that_no_two_have_one_name(
    settings: Settings, schema: str, name: str
) -> None:
    named = settings.replace(catalog="main", catalog_schema=schema)

    assert str(catalog_name(named, SALES)) == name
    assert len({str(catalog_name(named, table)) for table in TABLES.values()}) == len(TABLES)


@pytest.mark.parametrize("text", ["it's", 'a "b"', "back\\slash", "two\nlines", "ende\\'", "ü €"])
def test_a_text_is_a_literal_whatever_it_holds(text: str) -> None:
    (found,) = sqlglot.parse_one(f"SELECT {literal(text)}", dialect="databricks").expressions

    assert isinstance(found, exp.Literal)
    assert found.this == text


def test_the_statements_name_the_table_and_its_place_and_no_column(settings: Settings) -> None:
    named = settings.replace(lake="/data/the shop's", catalog="my-cat", catalog_schema="r_{layer}")

    schema, table = statements(named, SALES)

    assert schema == "CREATE SCHEMA IF NOT EXISTS `my-cat`.`r_silver`"
    assert table == (
        "CREATE TABLE IF NOT EXISTS `my-cat`.`r_silver`.`sales` USING DELTA COMMENT "
        "'One row per line of a basket, typed, the latest version of each.' "
        "LOCATION '/data/the shop\\'s/silver/sales'"
    )


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("CATALOG", "main.silver", "the name of a catalog of Spark's, such as spark_catalog"),
        ("CATALOG", "a`b", "the name of a catalog of Spark's, such as spark_catalog"),
        ("CATALOG", "-", "the name of a catalog of Spark's, such as spark_catalog"),
        ("CATALOG_SCHEMA", "retail_{table}", "the name of a schema, in which {layer} stands for"),
        ("CATALOG_SCHEMA", "retail silver", "such as retail_{layer}"),
        ("CATALOG_SCHEMA", "x`; DROP SCHEMA y", "such as retail_{layer}"),
    ],
)
def test_a_name_that_a_catalog_cannot_have_is_refused_with_its_variable(
    name: str, value: str, expected: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        Settings.from_environment({f"INCREMENTAL_ASSETS_{name}": value})

    assert str(refused.value).startswith(f"INCREMENTAL_ASSETS_{name} is {value!r}; expected ")
    assert expected in str(refused.value)
