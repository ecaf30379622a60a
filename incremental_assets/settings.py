"""One frozen settings object; the environment is read here and nowhere else."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from incremental_assets.errors import SettingsError
from incremental_assets.locations import local_path, location, table_location

PREFIX = "INCREMENTAL_ASSETS_"
OWN_TABLES = "incremental_assets.retail"
_PACKAGE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_MEMORY = re.compile(r"[1-9][0-9]*[kmgtKMGT]")
PROJECT_ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the lake, the landing and Spark are, and the limits of loads and alerts.

    `lake` and `landing` are absolute local paths or URIs of an object store; neither ends in a
    slash. `start_date` is the first daily partition (UTC). `allowed_lateness` is how long after its
    business day a fact may land. `spark_remote` and `spark_master` point Spark elsewhere; both
    None means an embedded Spark, run by the Java of `java_home` or else of the PATH. `cache`
    holds the jars and the class-data archive. `tables` is the package whose folders `bronze`,
    `silver` and `gold` define the tables. Rows stay in quarantine for `quarantine_days`; 0: for
    ever. Files that no table refers to any more stay on disk for `vacuum_days`, at least one. A
    sensor ticks every `sensor_seconds`.

    Bronze and gold are fresh if they were published within `fresh_within`; zero: no check.
    `webhook` is where alerts are posted, "" for nowhere; its address may hold a token, so it is
    never shown. An alert is due for a day that is stale for `alert_stale_after`, and for one of
    whose rows more than a share (0 to 1) is in quarantine, or came late.
    """

    lake: str
    landing: str
    start_date: date
    allowed_lateness: timedelta
    cache: Path
    spark_master: str | None = None
    spark_remote: str | None = field(default=None, repr=False)  # it may hold a token
    driver_memory: str = "2g"
    dagster_home: Path | None = None
    java_home: Path | None = None
    tables: str = OWN_TABLES
    quarantine_days: int = 0
    fresh_within: timedelta = timedelta(hours=36)
    webhook: str = field(default="", repr=False)
    alert_stale_after: timedelta = timedelta(hours=6)
    alert_quarantined: float = 0.02
    alert_late: float = 0.2
    vacuum_days: int = 7
    sensor_seconds: int = 30

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Read every setting once, each with its default.

        Raises SettingsError that names the variable, what it held and what it should hold.
        """
        env = os.environ if environment is None else environment
        return cls(
            lake=_lake(env),
            landing=_location(env, "LANDING", "./landing"),
            start_date=_date(env, "START_DATE", "2017-01-01"),
            allowed_lateness=timedelta(days=_whole_number(env, "LATENESS_DAYS", "7")),
            cache=Path(env.get(f"{PREFIX}CACHE") or PROJECT_ROOT / ".cache").absolute(),
            spark_master=env.get("SPARK_MASTER") or None,
            spark_remote=env.get("SPARK_REMOTE") or None,
            driver_memory=_driver_memory(env),
            dagster_home=_folder(env, "DAGSTER_HOME"),
            java_home=_folder(env, "JAVA_HOME"),
            tables=_package(env, "TABLES"),
            quarantine_days=_whole_number(env, "QUARANTINE_DAYS", "0"),
            fresh_within=timedelta(hours=_whole_number(env, "FRESH_HOURS", "36", "hours", 87_600)),
            webhook=_webhook(env),
            alert_stale_after=timedelta(
                hours=_whole_number(env, "ALERT_STALE_HOURS", "6", "hours", 87_600)
            ),
            alert_quarantined=_percent(env, "ALERT_QUARANTINE_PERCENT", "2"),
            alert_late=_percent(env, "ALERT_LATE_PERCENT", "20"),
            vacuum_days=_vacuum_days(env),
            sensor_seconds=_whole_number(env, "SENSOR_SECONDS", "30", "seconds", 86_400, 1),
        )


def user_name() -> str:
    """Who runs this program, for the ledger: a number where the machine has no name for it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container may run as anybody
        return f"user {os.getuid()}"


def _location(env: Mapping[str, str], name: str, default: str) -> str:
    return location(PREFIX + name, (env.get(PREFIX + name) or default).strip())


def _lake(env: Mapping[str, str]) -> str:
    lake = table_location(f"{PREFIX}LAKE", _location(env, "LAKE", "./lake"))
    path = local_path(lake)
    if path is not None and path.exists() and not path.is_dir():
        raise SettingsError(
            f"{PREFIX}LAKE is {lake!r}, which is a file; expected a folder, which is made where "
            "there is none."
        )
    return lake


def _package(env: Mapping[str, str], name: str) -> str:
    value = (env.get(PREFIX + name) or OWN_TABLES).strip()
    if not _PACKAGE.fullmatch(value):
        raise SettingsError(
            f"{PREFIX}{name} is {value!r}; expected the name of a Python package that can be "
            "imported, such as shop.tables."
        )
    return value


def _folder(env: Mapping[str, str], name: str) -> Path | None:
    return Path(env[name]) if env.get(name) else None


def _date(env: Mapping[str, str], name: str, default: str) -> date:
    value = (env.get(PREFIX + name) or default).strip()
    try:
        return date.fromisoformat(value)
    except ValueError:
        raise SettingsError(
            f"{PREFIX}{name} is {value!r}; expected a day such as 2017-01-01."
        ) from None


def _driver_memory(env: Mapping[str, str]) -> str:
    value = (env.get(f"{PREFIX}DRIVER_MEMORY") or "2g").strip()
    if not _MEMORY.fullmatch(value):
        raise SettingsError(
            f"{PREFIX}DRIVER_MEMORY is {value!r}; expected a whole number and a unit, such as 2g "
            "or 512m."
        )
    return value


def _vacuum_days(env: Mapping[str, str]) -> int:
    days = _whole_number(env, "VACUUM_DAYS", "7")
    if not days:
        raise SettingsError(
            f"{PREFIX}VACUUM_DAYS is '0'; expected at least 1: whoever began to read less than a "
            "day ago may still need files that were replaced since, and whoever began to write may "
            "still publish what is staged."
        )
    return days


def _whole_number(
    env: Mapping[str, str],
    name: str,
    default: str,
    unit: str = "days",
    most: int = 3650,
    least: int = 0,
) -> int:
    value = (env.get(PREFIX + name) or default).strip()
    if not value.isascii() or not value.isdigit() or not least <= int(value) <= most:
        raise SettingsError(
            f"{PREFIX}{name} is {value!r}; expected a whole number of {unit} from {least} to "
            f"{most}."
        )
    return int(value)


def _percent(env: Mapping[str, str], name: str, default: str) -> float:
    return _whole_number(env, name, default, "percent", 100) / 100


def _webhook(env: Mapping[str, str]) -> str:
    """The address that alerts are posted to; "" for none. It is a secret: no message shows it."""
    value = (env.get(f"{PREFIX}WEBHOOK") or "").strip()
    if not value:
        return ""
    try:
        found = urlsplit(value)
        good = found.scheme in ("http", "https") and found.hostname and found.port != 0
    except ValueError:  # brackets or a port that cannot be
        good = False
    if not good or "@" in found.netloc or not re.fullmatch(r"[!-~]+", value):
        raise SettingsError(
            f"{PREFIX}WEBHOOK is no address that alerts can be posted to (it is not shown here, "
            "for it may hold a token); expected http:// or https:// with a host, in ASCII, without "
            "blanks and without a user name."
        )
    return value
