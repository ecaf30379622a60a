"""The Dagster instance that stores the runs."""

from __future__ import annotations

import os
import re
from pathlib import Path

import dagster as dg

from incremental_assets.errors import SettingsError
from incremental_assets.settings import Settings

DEFAULT_HOME = ".dagster"
CONFIG = Path(__file__).with_name("dagster.yaml")
"""The settings of a new instance."""
_POSTGRES = "dagster_postgres"
_FIRST = "Error 1: "
_LONGEST = 300  # characters of an error: Dagster's list all settings that there are
# A setting of the project's former dagster.yaml, whose module no longer exists.
_FORMER_HISTORY = re.compile(
    r"^instance_class:\n(?:  +#.*\n)*  +module: incremental_assets\.orchestration\.history\n"
    r"  +class: Instance\n+",
    re.MULTILINE,
)


def open_instance(settings: Settings) -> dg.DagsterInstance:
    """The instance of DAGSTER_HOME; of `./.dagster` where that is not set.

    A new home gets the project's dagster.yaml; from an older one the former setting is removed.
    Raises SettingsError for a home that is not absolute or cannot be made, or whose dagster.yaml
    cannot be used.
    """
    home = settings.dagster_home or Path(DEFAULT_HOME).absolute()
    if not home.is_absolute():
        raise SettingsError(f"DAGSTER_HOME is {home}; Dagster takes an absolute path only.")
    try:
        home.mkdir(parents=True, exist_ok=True)
        config = home / "dagster.yaml"
        if not config.exists():
            config.write_text(CONFIG.read_text("utf-8"), encoding="utf-8")
        elif _FORMER_HISTORY.search(text := config.read_text("utf-8")):
            config.write_text(_FORMER_HISTORY.sub("", text), encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            f"DAGSTER_HOME {home} is not writable ({error.strerror}); set it to a folder that is."
        ) from error
    os.environ["DAGSTER_HOME"] = str(home)
    try:
        return dg.DagsterInstance.get()
    except Exception as error:  # of YAML, of a storage that is not installed or not reachable
        raise SettingsError(
            f"The Dagster instance of {config} cannot be opened: {_why(error)} Correct that file, "
            "or set DAGSTER_HOME to another folder."
        ) from error


def _why(error: Exception) -> str:
    """An error, in brief, with what it was raised from, and what to install if that is missing."""
    told = [_brief(each) for each in (error, error.__cause__) if each is not None]
    missing = " ".join(told)
    if f"import module {_POSTGRES}" in missing:
        return f"{_POSTGRES} is not installed: pip install 'incremental-assets[dagster-postgres]'."
    return " ".join(told)


def _brief(error: BaseException) -> str:
    found = " ".join(str(error).split())
    if isinstance(error, dg.DagsterInvalidConfigError) and _FIRST in found:
        found = found[found.index(_FIRST) :]  # after a description of all settings that there are
    rest = "…" if len(found) > _LONGEST else "." if not found.endswith(".") else ""
    return f"{type(error).__name__}: {found[:_LONGEST]}{rest}"
