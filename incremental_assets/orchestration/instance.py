"""The Dagster instance that stores the runs."""

from __future__ import annotations

import os
import re
from pathlib import Path

import dagster as dg

from incremental_assets.errors import SettingsError
from incremental_assets.orchestration.launcher import LocalRunLauncher
from incremental_assets.settings import Settings

DEFAULT_HOME = ".dagster"
CONFIG = Path(__file__).with_name("dagster.yaml")
"""The settings of a new instance."""
_POSTGRES = "dagster_postgres"
_FIRST = "Error 1: "
_LONGEST = 300  # characters of an error: Dagster's list all settings that there are
# Dagster's errors show the value of a setting: none of one that may hold a password.
_SECRET = re.compile(
    r'(\S*(?:password|url|secret|token|key|credential)\S*)\. Value ".*?" (?=of type "<class)',
    re.IGNORECASE,
)
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
        return _opened()
    except Exception as error:  # of YAML, of a storage that is not installed or not reachable
        raise SettingsError(
            f"The Dagster instance of {config} cannot be opened: {_why(error)} Correct that file, "
            "or set DAGSTER_HOME to another folder."
        ) from error


def _opened() -> dg.DagsterInstance:
    """The instance, with this project's launcher if it has that: Dagster loads it with a run.

    The package of another launcher may be installed for the daemon alone.
    """
    instance = dg.DagsterInstance.get()
    launcher = instance.get_ref().run_launcher_data
    if launcher is not None and launcher.module_name == LocalRunLauncher.__module__:
        try:
            assert instance.run_launcher
        except Exception:
            instance.dispose()
            raise
    return instance


def _why(error: Exception) -> str:
    """An error, in brief, with what it was raised from, and what to install if that is missing."""
    found = [each for each in (error, error.__cause__) if each is not None]
    if any(f"import module {_POSTGRES}" in str(each) for each in found):
        return f"{_POSTGRES} is not installed: pip install 'incremental-assets[dagster-postgres]'."
    return " ".join(map(_brief, found))


def _brief(error: BaseException) -> str:
    found = _SECRET.sub(r"\1. Its value is ", " ".join(str(error).split()))
    if isinstance(error, dg.DagsterInvalidConfigError) and _FIRST in found:
        found = found[found.index(_FIRST) :]  # after a description of all settings that there are
    rest = "…" if len(found) > _LONGEST else "." if not found.endswith(".") else ""
    kind = "" if isinstance(error, SettingsError) else f"{type(error).__name__}: "
    return f"{kind}{found[:_LONGEST]}{rest}"
