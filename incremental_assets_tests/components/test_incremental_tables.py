"""The component in the defs folder of a Dagster project, as `dg` scaffolds and loads it."""

from __future__ import annotations

import re
import runpy
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster.components.testing import create_defs_folder_sandbox
from dagster.components.testing.utils import DefsFolderSandbox
from pyspark.sql import SparkSession

from incremental_assets.components import IncrementalTables
from incremental_assets.components.scaffold import ScaffoldError

# Dagster's own use of parts that are in preview.
pytestmark = pytest.mark.filterwarnings("ignore::dagster.PreviewWarning")
CORNER_SHOP = "incremental_assets_tests.end_to_end.corner_shop"
RETURNS = {"feed": "returns", "key": "return_id", "day": "returned_at"}


@pytest.fixture
def project() -> Iterator[DefsFolderSandbox]:
    with create_defs_folder_sandbox() as made:
        yield made


def keys(defs: dg.Definitions) -> set[str]:
    return {key.to_user_string() for key in defs.resolve_all_asset_keys()}


def write(project: DefsFolderSandbox, name: str, attributes: Mapping[str, Any]) -> None:
    lines = [f"type: {IncrementalTables.__module__}.IncrementalTables", "attributes:"]
    lines += [f"  {key}: {value}" for key, value in attributes.items()]
    folder = project.defs_folder_path / name
    folder.mkdir()
    (folder / "defs.yaml").write_text("\n".join(lines))


def test_what_is_scaffolded_is_two_tables_of_a_feed_and_a_test_that_passes(
    project: DefsFolderSandbox, spark: SparkSession, tmp_path: Path
) -> None:
    folder = project.scaffold_component(IncrementalTables, "retail", RETURNS)

    with project.load_component_and_build_defs(folder) as (_, defs):
        assert keys(defs) == {"bronze/returns", "silver/returns"}
        silver = defs.resolve_asset_graph().get(dg.AssetKey(["silver", "returns"]))
        assert silver.metadata["dagster/uri"] == f"{project.project_root}/lake/silver/returns"
        found = runpy.run_path(str(project.project_root / "tests/test_retail_returns.py"))
        test = found["test_a_row_that_lands_twice_is_in_silver_once"]
        test.__globals__["local_session"] = lambda: spark
        test(tmp_path)


def test_components_of_a_defs_folder_are_lakes_of_their_own(project: DefsFolderSandbox) -> None:
    write(
        project,
        "north",
        {
            "tables": CORNER_SHOP,
            "lake": "lakes/north",
            "start_date": "2017-01-05",
            "key_prefix": "[north]",
            "group_name": "north",
            "deps": "{bronze/orders: [exports/orders]}",
            "settings": "{fresh_hours: 0}",
        },
    )
    write(project, "south", {"tables": CORNER_SHOP, "lake": "s3://south/lake", "name_prefix": "s"})

    with project.build_all_defs() as defs:
        graph = defs.resolve_asset_graph()
        north = graph.get(dg.AssetKey(["north", "bronze", "orders"]))
        south = graph.get(dg.AssetKey(["bronze", "orders"]))
        jobs = {job.name for job in defs.get_repository_def().get_all_jobs()}

    assert north.metadata["dagster/uri"] == f"{project.project_root}/lakes/north/bronze/orders"
    assert south.metadata["dagster/uri"] == "s3://south/lake/bronze/orders"
    assert north.partitions_def.get_first_partition_key() == "2017-01-05"  # type: ignore[union-attr]
    assert (north.group_name, south.group_name) == ("north", "bronze")
    assert north.parent_keys == {dg.AssetKey(["exports", "orders"])}
    assert (north.freshness_policy is None, south.freshness_policy is None) == (True, False)
    assert {"north_load_days", "s_load_days"} <= jobs


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"tables": "no_such.package"}, "'no_such.package'.* cannot be imported"),
        ({"settings": "{lateness: 3}"}, r"no setting 'lateness'; did you mean lateness_days\?"),
        (
            {"lake": "here", "settings": "{lake: there}"},
            r"settings: lake is an attribute of its own; write it once, as lake: …",
        ),
        ({"settings": "{tables: a.b}"}, "settings: tables is an attribute of its own; write it on"),
        ({"settings": "{tables_at_once: -1}"}, "TABLES_AT_ONCE is -1; expected a whole number"),
        ({"lake": '""'}, "LAKE is ''; expected a path"),
        ({"landing": '" "'}, "LANDING is ''; expected a path"),
        ({"start_date": "soon"}, "START_DATE is 'soon'; expected a day such as"),
        ({"key_prefx": "[a]"}, "key_prefx"),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else "",
)
def test_an_attribute_that_cannot_be_used_is_named(
    project: DefsFolderSandbox, attributes: Mapping[str, Any], message: str
) -> None:
    write(project, "shop", {"tables": CORNER_SHOP, **attributes})

    with pytest.raises(Exception, match=r"shop\[0\]") as raised, project.build_all_defs():
        pass

    causes = traceback.format_exception(raised.value, limit=0)
    assert re.search(message, "".join(causes))


@pytest.mark.parametrize(
    ("folder", "names", "message"),
    [
        ("retail-lake", {}, "The folder 'retail-lake' cannot be imported by that name; expected"),
        ("2024lake", {}, "The folder '2024lake' cannot be imported by that name; expected letters"),
        ("shop/class", {}, "The folder 'class' cannot be imported by that name; expected letters"),
        ("shop", {"key": "id", "day": "id"}, "--key and --day are both 'id'; expected the field"),
        ("shop", {"key": "on_new_column"}, "--key is 'on_new_column', which is an argument of"),
        ("shop", {"key": "payload"}, "--key is 'payload', which is a column of each table"),
        ("shop", {"day": "dt"}, "--day is 'dt', which is a column of each table"),
    ],
)
def test_names_of_which_python_makes_no_tables_are_refused(
    project: DefsFolderSandbox, folder: str, names: Mapping[str, str], message: str
) -> None:
    with pytest.raises(ScaffoldError, match=message):
        project.scaffold_component(IncrementalTables, folder, {**RETURNS, **names})

    assert not (project.defs_folder_path / folder).exists()


def test_a_name_that_is_none_and_a_file_that_is_there_are_refused(
    project: DefsFolderSandbox,
) -> None:
    with pytest.raises(ScaffoldError, match="--feed is 'Returns'; expected letters in lower"):
        project.scaffold_component(IncrementalTables, "shop", {**RETURNS, "feed": "Returns"})
    assert not (project.defs_folder_path / "shop").exists()
    own = project.defs_folder_path / "retail" / "silver" / "returns.py"
    own.parent.mkdir(parents=True)
    own.write_text("# mine")

    with pytest.raises(ScaffoldError, match=r"silver/returns.py exists; remove it, or choose"):
        project.scaffold_component(IncrementalTables, "retail", RETURNS)

    assert own.read_text() == "# mine"
