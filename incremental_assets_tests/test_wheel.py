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

DAY = "2017-01-05"
RETURNED = json.dumps({"return_id": "a", "qty": 2, "returned_at": f"{DAY}T10:00:00Z"})
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
            timeout=1800,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def pip(self, *words: str) -> None:
        """Run this environment's pip for that of the project, which has none: to make one takes
        longer than all that is installed by it here."""
        python = str(self.folder / "venv/bin/python")
        pip = [sys.executable, "-m", "pip", "--python", python, "--quiet"]
        done = subprocess.run([*pip, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def borrow_requirements(self) -> None:
        """What the wheel requires is that of these tests: it is not downloaded again."""
        packages = next((self.folder / "venv").glob("lib/python*/site-packages"))
        (packages / "required.pth").write_text(sysconfig.get_path("purelib"))


@pytest.fixture
def project(wheel: Path, settings: Settings, tmp_path: Path) -> Project:
    """The files of the pages, and an environment that has the wheel and nothing else."""
    theirs = Project(tmp_path / "theirs", tmp_path / "caches", settings.java_home)
    written("add-a-table", theirs.folder)
    written("testing", theirs.folder)
    venv.create(theirs.folder / "venv")
    theirs.pip("install", "--no-deps", "--no-index", str(wheel))
    theirs.caches.mkdir()
    return theirs


def locked(lock: str, *names: str) -> str:
    """A lock file, or its requirements of these names."""
    text = (PROJECT_ROOT / lock).read_text()
    blocks = re.findall(r"^\S.*(?:\n[ \t].*)*\n", text, re.M)
    return "".join(block for block in blocks if not names or re.split(r"\W", block)[0] in names)


def index_answers(folder: Path) -> bool:
    """Whether packages can be downloaded here, tried with a small one of the lock."""
    small = folder / "small.txt"
    small.write_text(locked("requirements.lock", "click"))
    pip = [sys.executable, "-m", "pip", "--retries", "0", "--timeout", "20", "--no-cache-dir"]
    words = ["download", "--quiet", "--no-deps", "--require-hashes", "-r", str(small)]
    done = subprocess.run([*pip, *words, "-d", str(folder)], capture_output=True, check=False)
    return done.returncode == 0


def test_the_wheel_is_installed_into_an_environment_of_its_own_and_plans_the_projects_tables(
    project: Project,
) -> None:
    project.borrow_requirements()
    landing = project.folder / "landing/returns" / DAY
    landing.mkdir(parents=True)
    (landing / "1.jsonl").write_text(RETURNED)

    where = project.run("python", "-c", "import incremental_assets as i; print(i.__file__)")
    helped = project.run("incremental-assets", "--help")
    planned = json.loads(project.run("incremental-assets", "plan", "--json"))

    assert where.startswith(str(project.folder / "venv"))
    assert "Usage: incremental-assets" in helped
    assert {(each["table"], each["day"]) for each in planned} == {
        (name, DAY) for name in ("bronze/returns", "silver/returns", "gold/daily_returns")
    }


@thorough(
    "test_wheel.py, settings/test_settings.py, testing/test_page.py, end_to_end/test_add_a_table.py: "
    "what the wheel holds, the cache, and a project of somebody else's over the code itself"
)
def test_another_project_installs_the_wheel_sets_up_tests_its_tables_and_loads_them(
    project: Project, settings: Settings, tmp_path: Path
) -> None:
    if index_answers(tmp_path):
        lock = tmp_path / "lock.txt"
        of_tests = locked("requirements-dev.lock", "iniconfig", "pytest")
        lock.write_text(locked("requirements.lock") + of_tests)
        project.pip("install", "--no-deps", "--require-hashes", "-r", str(lock))
        project.pip("check")
    else:
        project.borrow_requirements()
    cache = project.caches / "incremental_assets"
    cache.mkdir()
    (cache / "jars").symlink_to(settings.cache / "jars")
    where = project.run("python", "-c", "import incremental_assets as i; print(i.__file__)")
    assert where.startswith(str(project.folder / "venv"))

    made = json.loads(project.run("incremental-assets", "setup", "--json"))
    assert all(Path(jar).is_relative_to(project.caches) for jar in made["jars"])
    assert list((project.caches / "incremental_assets").glob("*.jsa"))

    tested = project.run("python", "-m", "pytest", "-p", "no:cacheprovider", "tests", "-k", "day")
    assert " passed" in tested

    landing = project.folder / "landing/returns" / DAY
    landing.mkdir(parents=True)
    (landing / "1.jsonl").write_text(RETURNED)
    project.run("incremental-assets", "run")
    gold = pl.read_delta(str(project.folder / "lake/gold/daily_returns"))
    assert gold["returned"].to_list() == [2]
    assert "LocalRunLauncher" in (project.folder / ".dagster/dagster.yaml").read_text()

    of_project = {"shop", "tests", "conftest.py", "__pycache__", "venv"}
    made_here = {path.name for path in project.folder.iterdir()} - of_project
    assert made_here == {"landing", "lake", ".dagster"}
    assert not list((project.folder / "venv").rglob(".cache"))
