"""What the project requires is a range, and what the lock files pin lies in it."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from incremental_assets.settings import PROJECT_ROOT

PYPROJECT = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text())
RUNTIME = [Requirement(line) for line in PYPROJECT["project"]["dependencies"]]
OPTIONAL = [
    Requirement(line)
    for lines in (
        *PYPROJECT["project"]["optional-dependencies"].values(),
        *PYPROJECT["dependency-groups"].values(),
    )
    for line in lines
]
PINNED = re.compile(r"^([\w.-]+)(?:\[[\w,-]+\])?==([^\s;\\]+)", re.MULTILINE)
# The jars that are fetched are those of this version.
EXACT = {"delta-spark"}


EVERYTHING, NO_TOOLS = "requirements-dev.lock", "requirements.lock"


def locked(file: str = EVERYTHING) -> dict[str, list[Version]]:
    """The versions of a lock file; a package may have one for each Python or platform."""
    found: dict[str, list[Version]] = {}
    for name, version in PINNED.findall((PROJECT_ROOT / file).read_text()):
        found.setdefault(canonicalize_name(name), []).append(Version(version))
    return found


def test_set_up_installs_what_the_demo_needs_and_no_tool_of_the_tests() -> None:
    everything, without_tools = locked(), locked(NO_TOOLS)
    groups = PYPROJECT["dependency-groups"] | PYPROJECT["project"]["optional-dependencies"]
    names = {group: {Requirement(line).name for line in lines} for group, lines in groups.items()}

    assert without_tools.items() <= everything.items()
    assert {required.name for required in RUNTIME} | names["demo"] | names["build"] <= set(
        without_tools
    )
    assert names["dev"] & set(without_tools) <= {"packaging"}  # which Dagster needs, too


@pytest.mark.parametrize("required", [*RUNTIME, *OPTIONAL], ids=str)
def test_what_the_lock_file_pins_lies_in_the_range(required: Requirement) -> None:
    pinned = locked().get(canonicalize_name(required.name), [])

    assert pinned, f"{required.name} is not in {EVERYTHING}: run `make lock`"
    outside = [str(version) for version in pinned if version not in required.specifier]
    assert not outside, f"{EVERYTHING} pins {required.name} {outside}; expected {required}"


@pytest.mark.parametrize("required", RUNTIME, ids=str)
def test_what_is_needed_at_run_time_is_a_range(required: Requirement) -> None:
    kinds = {part.operator for part in required.specifier}

    assert ("==" in kinds) == (required.name in EXACT)
    assert kinds & {">=", "=="}, f"{required} has no lower bound"
