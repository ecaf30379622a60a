"""The package as another project installs it: a wheel, in an environment without the repository."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from incremental_assets.settings import PROJECT_ROOT, Settings
from incremental_assets_tests.pages import written
from incremental_assets_tests.thorough import thorough

NOT_CODE = {
    "incremental_assets/orchestration/dagster.yaml",
    "incremental_assets/py.typed",
    "incremental_assets/spark/jars.lock",
    "incremental_assets/spark/kafka.lock",
    "incremental_assets/spark/log4j2.properties",
}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=PROJECT_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_the_package_and_the_files_it_reads_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (about,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = archive.read(about).decode()

    assert {name.partition("/")[0] for name in names} == {"incremental_assets", about.split("/")[0]}
    found = {n for n in names if n.startswith("incremental_assets/") and not n.endswith(".py")}
    assert found == NOT_CODE
    assert re.findall(r"^Provides-Extra: ([\w-]+)", metadata, re.M) == [
        *("dagster-postgres", "demo", "kafka", "mariadb", "postgresql", "s3", "testing")
    ]
    assert re.findall(r"^Requires-Dist: pytest.*", metadata, re.M) == [
        "Requires-Dist: pytest; extra == 'testing'"
    ]


@dataclass(frozen=True)
class Project:
    """Somebody's project, with an environment of its own that the wheel was installed into."""

    folder: Path
    caches: Path
    java_home: Path | None

    def run(self, program: str, *words: str) -> str:
        """Run a program of the environment, in the project's folder; what it printed."""
        env = {
            **{n: v for n, v in os.environ.items() if not n.startswith(("PYTHON", "VIRTUAL"))},
            "PYTHONPATH": str(self.folder),
            "XDG_CACHE_HOME": str(self.caches),
            "INCREMENTAL_ASSETS_TABLES": "shop.tables",
            "INCREMENTAL_ASSETS_DRIVER_MEMORY": "1g",
        }
        if self.java_home is not None:
            env["JAVA_HOME"] = str(self.java_home)
        done = subprocess.run(
            [str(self.folder / "venv/bin" / program), *words],
            cwd=self.folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def project(wheel: Path, settings: Settings, tmp_path: Path) -> Project:
    """The files of the pages, and the jars as `setup` downloads them.

    What the wheel requires is that of these tests: it is not downloaded again.
    """
    theirs = Project(tmp_path / "theirs", tmp_path / "caches", settings.java_home)
    written("add-a-table", theirs.folder)
    written("testing", theirs.folder)
    home = theirs.folder / "venv"
    venv.create(home, with_pip=True)
    theirs.run("python", "-m", "pip", "install", "--no-deps", "--no-index", str(wheel))
    packages = next(home.glob("lib/python*/site-packages"))
    (packages / "required.pth").write_text(sysconfig.get_path("purelib"))
    cache = theirs.caches / "incremental_assets"
    cache.mkdir(parents=True)
    (cache / "jars").symlink_to(settings.cache / "jars")
    return theirs


@thorough(
    "test_wheel.py, settings/test_settings.py, testing/test_page.py, end_to_end/test_add_a_table.py: "
    "what the wheel holds, the cache, and a project of somebody else's over the code itself"
)
def test_another_project_installs_the_wheel_sets_up_tests_its_tables_and_loads_them(
    project: Project,
) -> None:
    where = project.run("python", "-c", "import incremental_assets as i; print(i.__file__)")
    assert where.startswith(str(project.folder / "venv"))

    made = json.loads(project.run("incremental-assets", "setup", "--json"))
    assert all(Path(jar).is_relative_to(project.caches) for jar in made["jars"])
    assert list((project.caches / "incremental_assets").glob("*.jsa"))

    tested = project.run("python", "-m", "pytest", "-p", "no:cacheprovider", "tests", "-k", "day")
    assert " passed" in tested

    landing = project.folder / "landing/returns/2017-01-05"
    landing.mkdir(parents=True)
    row = {"return_id": "a", "qty": 2, "returned_at": "2017-01-05T10:00:00Z"}
    (landing / "1.jsonl").write_text(json.dumps(row))
    project.run("incremental-assets", "run")
    gold = pl.read_delta(str(project.folder / "lake/gold/daily_returns"))
    assert gold["returned"].to_list() == [2]
    assert "LocalRunLauncher" in (project.folder / ".dagster/dagster.yaml").read_text()

    of_project = {"shop", "tests", "conftest.py", "__pycache__", "venv"}
    made_here = {path.name for path in project.folder.iterdir()} - of_project
    assert made_here == {"landing", "lake", ".dagster"}
    assert not list((project.folder / "venv").rglob(".cache"))
