"""The examples of docs/existing-project.md, over the tables of docs/add-a-table.md."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator

import dagster as dg
import pytest
from dagster.components.testing import create_defs_folder_sandbox

from incremental_assets.settings import PREFIX, PROJECT_ROOT

# Dagster's own use of parts that are in preview.
pytestmark = pytest.mark.filterwarnings("ignore::dagster.PreviewWarning")
_FILE = re.compile(r"`(shop/\S+\.py)`.*?^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TABLES = {"bronze/returns", "silver/returns", "gold/daily_returns"}


def page(name: str) -> str:
    return (PROJECT_ROOT / "docs" / name).read_text("utf-8")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The files of both pages as a package that can be imported."""
    root = tmp_path_factory.mktemp("theirs")
    for text in (page("add-a-table.md"), page("existing-project.md")):
        for name, code in _FILE.findall(text):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(code)
    with pytest.MonkeyPatch.context() as environment:
        environment.syspath_prepend(root)
        environment.setenv(f"{PREFIX}LAKE", str(root / "lake"))
        environment.setenv(f"{PREFIX}LANDING", str(root / "landing"))
        yield
        for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
            del sys.modules[name]


def parents(defs: dg.Definitions) -> dict[str, set[str]]:
    dg.Definitions.validate_loadable(defs)
    return {
        node.key.to_user_string(): {parent.to_user_string() for parent in node.parent_keys}
        for node in defs.resolve_asset_graph().asset_nodes
    }


@pytest.mark.usefixtures("shop")
def test_tables_stand_between_assets_of_the_project() -> None:
    found = parents(importlib.import_module("shop.definitions").defs)

    assert found.keys() == {f"retail/{n}" for n in TABLES} | {"returns_export", "returns_report"}
    assert found["retail/bronze/returns"] == {"returns_export"}
    assert found["returns_report"] == {"retail/gold/daily_returns"}


@pytest.mark.usefixtures("shop")
def test_tables_and_their_job_are_used_without_sensors() -> None:
    defs: dg.Definitions = importlib.import_module("shop.without_sensors").defs

    assert parents(defs).keys() == {f"retail/{name}" for name in TABLES}
    assert {job.name for job in defs.jobs or ()} == {"retail_load_days"}
    assert not defs.sensors


@pytest.mark.usefixtures("shop")
def test_tables_and_the_sensors_that_load_them_are_used_without_the_other_jobs() -> None:
    defs: dg.Definitions = importlib.import_module("shop.sensors_alone").defs

    assert parents(defs).keys() == {f"retail/{name}" for name in TABLES}
    assert {sensor.name for sensor in defs.sensors or ()} == {
        "retail_new_in_returns",
        "retail_stale_days",
    }
    assert not [*(defs.jobs or ()), *(defs.schedules or ())]
    assert {job.name for sensor in defs.sensors or () for job in sensor.jobs} == {
        "retail_load_days"
    }
    assert defs.resolve_job_def("retail_load_days").executor_def is not None


@pytest.mark.usefixtures("shop")
def test_two_lakes_have_the_same_tables_under_two_prefixes() -> None:
    found = parents(importlib.import_module("shop.two_lakes").defs)

    assert found.keys() == {f"{country}/{name}" for country in ("at", "fr") for name in TABLES}


@pytest.mark.usefixtures("shop")
def test_reports_have_the_prefix_of_the_tables_that_they_read() -> None:
    found = parents(importlib.import_module("shop.with_reports").defs)

    assert found["retail/reports/daily_sales"] == {"retail/gold/daily_product_sales"}
    assert found["retail/reports/pipeline_health"] == found.keys() - {
        "retail/reports/pipeline_health"
    }


@pytest.mark.usefixtures("shop")
def test_the_attributes_of_the_component_make_the_same_tables() -> None:
    (attributes,) = _YAML.findall(page("existing-project.md"))

    with create_defs_folder_sandbox() as project:
        folder = project.defs_folder_path / "retail"
        folder.mkdir()
        (folder / "defs.yaml").write_text(attributes)
        with project.build_all_defs() as defs:
            found = parents(defs)

    assert found["retail/bronze/returns"] == {"exports/returns"}
    assert {f"retail/{name}" for name in TABLES} <= found.keys()
