"""Finding the tables of a package: in which order, and what is refused."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from incremental_assets.catalog import table_named, tables, tables_of
from incremental_assets.errors import DefinitionError, SettingsError
from incremental_assets.retail.silver.sales import SALES
from incremental_assets.table_names import table_names

HEAD = """
from incremental_assets.writes import Append, Merge
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.rules import quarantine, references
from incremental_assets.quality.types import Text
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.table import SameDay, Table
"""


class Package:
    """A package of tables, written file by file."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.folder = folder / name
        self.write("__init__.py", "")
        for layer in ("bronze", "silver"):
            self.write(f"{layer}/__init__.py", "")

    def table(self, name: str, reads: str) -> None:
        """A bronze table and the silver table over it, one of whose rules reads another."""
        bronze = f'Table(name="bronze/{name}", description="", reads=(LandedFiles("{name}"),), '
        self.write(f"bronze/{name}.py", f"{HEAD}\nT = {bronze}write=Append())\n")
        silver = f"""
            from {self.name}.bronze.{name} import T as LANDED
            {HEAD.strip()}
            T = Table(
                name="silver/{name}", description="", reads=(SameDay(LANDED),), key=("id",),
                schema=Contract(id=Text()), rules=quarantine(references("id", "{reads}")),
                write=Merge(),
            )
        """
        lines = [line.strip() for line in silver.splitlines()]
        self.write(f"silver/{name}.py", "\n".join(lines))

    def write(self, name: str, text: str) -> None:
        """A file of the package."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")


@pytest.fixture
def package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Package:
    monkeypatch.syspath_prepend(str(tmp_path))
    return Package(tmp_path, f"shop_{abs(hash(request.node.name))}")


def test_a_table_that_a_rule_reads_comes_first(package: Package) -> None:
    package.table("arrivals", "silver/stations")
    package.table("stations", "silver/stations")  # its own rows, as they were before

    names = [table.name for table in tables_of(package.name)]

    assert names.index("silver/stations") < names.index("silver/arrivals")


def test_a_rule_that_reads_a_table_that_is_not_there_is_refused(package: Package) -> None:
    package.table("arrivals", "silver/station")

    with pytest.raises(DefinitionError, match=r"silver/arrivals: .*'silver/station', which is no"):
        tables_of(package.name)


def test_rules_whose_tables_read_each_other_are_refused(package: Package) -> None:
    package.table("arrivals", "silver/stations")
    package.table("stations", "silver/arrivals")

    with pytest.raises(DefinitionError, match="silver/arrivals → silver/stations → silver/arr"):
        tables_of(package.name)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('os.environ["SHOP_URL"]', r"bronze/orders\.py, line 2: KeyError: 'SHOP_URL'$"),
        ("from incremental_assets import at_leest", r"orders\.py, line 2: ImportError: .*at_leest"),
        ("T = Table(", r"bronze/orders\.py, line 2: SyntaxError: "),
        ("T = Csv(delimeter=';')", r"orders\.py, line 2: TypeError: .*'delimeter'"),
    ],
)
def test_what_a_tables_file_raises_is_reported_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, message: str
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"shop_{abs(hash(line))}"
    for file, text in (
        ("__init__.py", ""),
        ("bronze/__init__.py", ""),
        ("bronze/orders.py", f"import os; from incremental_assets import Csv\n{line}\n"),
    ):
        path = tmp_path / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    with pytest.raises(DefinitionError, match=message):
        tables_of(name)


BRONZE = (
    'Table(name="bronze/orders", description="", reads=(LandedFiles("orders"),), write=Append())'
)


def test_a_table_may_import_all_that_tables_are_written_with(package: Package) -> None:
    package.write("bronze/orders.py", f"from incremental_assets import *\nT = {BRONZE}")

    assert [table.name for table in tables_of(package.name)] == ["bronze/orders"]


WITHOUT_A_KEY = "write=Append(), schema=Contract(id=Text())"


@pytest.mark.parametrize(
    ("files", "named", "message"),
    [
        (
            {"__init__.py": "x = 1\nx = = 2"},
            "",
            r"cannot be imported: /.*__init__\.py, line 2: SyntaxError: invalid syntax\.$",
        ),
        (
            {"__init__.py": "import os\nos.environ['SHOP_URL']"},
            "",
            r"cannot be imported: /.*__init__\.py, line 2: KeyError: 'SHOP_URL'\.$",
        ),
        (
            {"tables.py": ""},
            ".tables",
            r"\.tables', which is a module \(.*tables\.py\); expected a",
        ),
        ({}, ".tables", r"\.tables', which .* names, cannot be imported\. Install it"),
        (
            {"gold.py": ""},
            "",
            r"\.gold is a file \(.*gold\.py\); a layer is a package, in which a module defines one",
        ),
    ],
    ids=["no Python", "raises", "a module", "none", "a layer that is a file"],
)
def test_a_package_that_is_none_is_refused_before_and_after_its_tables_are_imported(
    package: Package, files: dict[str, str], named: str, message: str
) -> None:
    for name, text in files.items():
        package.write(name, text)

    for look in (table_names, tables_of):
        with pytest.raises(SettingsError, match=message):
            look(package.name + named)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"bronze/orders.py": f"{HEAD}\nT = {BRONZE}\nU = {BRONZE}"},
            r"bronze\.orders defines more than one Table named 'bronze/orders'; keep one",
        ),
        (
            {
                "bronze/orders.py": f"{HEAD}\nT = {BRONZE}",
                "silver/orders.py": f"{HEAD}\nT = {BRONZE}\n"
                f'S = Table(name="silver/orders", description="", reads=(SameDay(T),), '
                f"{WITHOUT_A_KEY})",
            },
            r"silver/orders reads another Table named 'bronze/orders' than the one of that name's",
        ),
    ],
    ids=["in a module", "in two modules"],
)
def test_two_tables_of_one_name_are_refused(
    package: Package, files: dict[str, str], message: str
) -> None:
    for name, text in files.items():
        package.write(name, text)

    with pytest.raises(DefinitionError, match=message):
        tables_of(package.name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("silver/sale", r"did you mean silver/sales\?$"),
        ("Silver/sales", r"did you mean silver/sales\?$"),
        ("customer_orders", r"did you mean gold/customer_orders\?$"),
        ("xyz", r"'xyz'; expected one of bronze/"),
    ],
)
def test_an_unknown_table_is_reported_the_name_that_comes_near(name: str, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        table_named(tables(), name)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"key": "order_id"}, r"key is 'order_id'; expected a tuple of columns: \('order_id',\)"),
        ({"version_by": "at"}, r"version_by is 'at'; expected a tuple of columns: \('at',\)"),
        ({"allowed_lateness": 7}, "allowed_lateness is 7; expected a timedelta"),
        ({"code_version": 2}, "code_version is 2; expected text, such as '2'"),
        ({"owners": "team:sales"}, r"owners is 'team:sales'; expected a tuple: \('team:sales',\)"),
        ({"owners": ("data team",)}, "owners has 'data team'; expected an e-mail address or 'team"),
        ({"owners": ("team:",)}, "owners has 'team:'; expected an e-mail address or 'team:"),
        ({"owners": ("a@b",)}, "owners has 'a@b'; expected an e-mail address or 'team:"),
    ],
)
def test_a_value_of_another_kind_is_refused_by_its_name(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(DefinitionError, match=message):
        replace(SALES, **given)
