"""The commands of `dg` that the documentation names, in a project of one's own and in this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from incremental_assets.settings import PROJECT_ROOT
from incremental_assets_tests.end_to_end.shop import Shop
from incremental_assets_tests.scenarios.world import sales
from incremental_assets_tests.thorough import thorough

DG = Path(sys.executable).parent / "dg"
DAY = "2017-01-05"
OWN = {
    "pyproject.toml": """
[project]
name = "shop"
version = "0.1.0"

[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "shop"
""",
    "src/shop/__init__.py": "",
    "src/shop/definitions.py": """
from pathlib import Path

import dagster as dg

defs = dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
""",
    "src/shop/defs/__init__.py": "",
}
SCAFFOLDED = {
    "src/shop/defs/retail/defs.yaml",
    "src/shop/defs/retail/bronze/returns.py",
    "src/shop/defs/retail/silver/returns.py",
    "tests/test_retail_returns.py",
}


def run(folder: Path, *words: str, **env: str) -> str:
    """Run `dg …` in the folder of a project; what it printed."""
    assert DG.exists(), f"{DG} is missing: install requirements-dev.lock (make tools)"
    done = subprocess.run(
        [str(DG), *words],
        cwd=folder,
        env={**os.environ, "DAGSTER_DISABLE_TELEMETRY": "1", **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_component_is_scaffolded_and_its_definitions_are_checked_and_listed(
    tmp_path: Path,
) -> None:
    for name, text in OWN.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    paths = {"PYTHONPATH": f"{tmp_path / 'src'}:{PROJECT_ROOT}", "HOME": str(tmp_path / "home")}
    component = "incremental_assets.components.IncrementalTables"
    feed = ("--feed", "returns", "--key", "return_id", "--day", "returned_at")

    run(tmp_path, "scaffold", "defs", component, "retail", *feed, **paths)
    checked = run(tmp_path, "check", "defs", **paths)
    listed = json.loads(run(tmp_path, "list", "defs", "--json", **paths))

    assert {name for name in SCAFFOLDED if (tmp_path / name).is_file()} == SCAFFOLDED
    assert "All definitions loaded successfully" in checked
    assert {each["asset_key"] for each in listed["assets"]} == {"bronze/returns", "silver/returns"}
    assert {job["name"] for job in listed["jobs"]} >= {"load_days", "load_due"}
    assert {sensor["name"] for sensor in listed["sensors"]} >= {"new_in_returns", "stale_days"}


@thorough(
    "end_to_end/test_dg.py, end_to_end/test_command_line.py: `dg` finds definitions, and a day is "
    "loaded by the other command lines"
)
def test_dg_launches_a_day_of_some_tables_of_this_project(
    warm_shop: Shop, spark: SparkSession
) -> None:
    world = warm_shop.world(spark)
    world.land("events", DAY, "till.jsonl", sales("a", DAY, 7))
    some = 'key:"bronze/events" or key:"silver/sales"'

    env = {**warm_shop.env, "HOME": str(warm_shop.home)}
    run(PROJECT_ROOT, "launch", "--assets", some, "--partition", DAY, **env)

    assert len(world.orders()) == 7
    with warm_shop.instance() as instance:
        (launched,) = instance.get_runs()
        assert launched.is_success
        assert launched.tags["dagster/partition"] == DAY
