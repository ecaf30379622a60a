"""One frozen settings object; settings are read from the environment here and nowhere else.

Users and passwords of sources are no settings (`sources/credentials.py`); what Spark and Java
themselves read in the environment is passed on where Spark is started.
"""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from incremental_assets.choices import nearest, no_such
from incremental_assets.errors import SettingsError
from incremental_assets.locations import expanded, local_path, location, table_location

PREFIX = "INCREMENTAL_ASSETS_"
OWN_TABLES = "incremental_assets.retail"
LAYER = "{layer}"  # in the name of a schema: that of the table's layer
PROJECT_ROOT = Path(__file__).resolve().parent.parent
# What Kubernetes sets in every pod for a service whose name is, or begins, `incremental-assets`.
_OF_A_SERVICE = re.compile(r"([A-Z0-9_]+_)?(SERVICE_(HOST|PORT.*)|PORT(_\d+_(TCP|UDP|SCTP).*)?)")
# What PySpark can take apart: it quotes whatever it cannot, and that may be a token.
_CONNECT = re.compile(
    r"sc://(\[[^\s\[\]/;?#@]+\]|[^\s\[\]/;?#@:]+)(:[0-9]{1,5})?(/;?|/(;[^\s;=/?#]+=[^\s;=/?#]*)+)?"
)
_IS_CHECKOUT = (PROJECT_ROOT / "pyproject.toml").exists()


def _digits(value: object) -> object:
    """Pydantic alone would take `7.0` and `1_000`, too."""
    if isinstance(value, str) and not (value.strip().isascii() and value.strip().isdigit()):
        raise ValueError
    return value


Whole = Annotated[int, BeforeValidator(_digits)]


def _whole(default: int, unit: str, least: int, most: int) -> Any:
    expected = f"a whole number of {unit} from {least} to {most}"
    return Field(default, ge=least, le=most, description=expected)


def _location(value: str, info: ValidationInfo) -> str:
    return location(f"{PREFIX}{str(info.field_name).upper()}", value)


def _lake(value: str) -> str:
    lake = table_location(f"{PREFIX}LAKE", value)
    path = local_path(lake)
    if path is not None and path.exists() and not path.is_dir():
        raise SettingsError(
            f"{PREFIX}LAKE is {lake!r}, which is a file; expected a folder, which is created if "
            "there is none."
        )
    return lake


def _cache(value: Path) -> Path:
    return expanded(f"{PREFIX}CACHE", value).absolute()


def _day(value: object) -> object:
    """Pydantic alone would take a number for seconds since 1970."""
    return date.fromisoformat(value.strip()) if isinstance(value, str) else value


def _webhook(value: str) -> str:
    found = urlsplit(value)
    good = found.scheme in ("http", "https") and found.hostname and found.port != 0
    if value and (not good or "@" in found.netloc or not re.fullmatch(r"[!-~]+", value)):
        raise ValueError
    return value


def _connect_url(value: str | None) -> str | None:
    if value and not (_CONNECT.fullmatch(value) and urlsplit(value).port != 0):
        raise ValueError
    return value


class Settings(BaseSettings):
    """Where the lake, the landing and Spark are, and the limits of loads and alerts.

    Each setting is a variable: its alias, or else its name in capitals with the prefix
    INCREMENTAL_ASSETS_; its description is what the variable should hold.

    `lake` and `landing` are absolute local paths or URIs of an object store; neither ends in a
    slash. `start_date` is the first daily partition (UTC). `end_date` is the last that Dagster
    shows; None: the last day that is known, or today. A fact may land until `lateness_days` after
    its business day. `spark_remote` and `spark_master` point Spark elsewhere; both None means an
    embedded Spark, run by the Java of `java_home` or else of the PATH. `cache` holds the jars and
    the class-data archive (default: `default_cache`). `tables` is the package whose folders
    `bronze`, `silver` and `gold` define the tables; in Dagster their keys begin with `key_prefix`.
    Rows stay in quarantine for `quarantine_days`; 0: for ever. Files that no table refers to any
    more stay on disk for `vacuum_days`: whoever began to read or to write less than a day ago may
    still need them. A sensor ticks every `sensor_seconds`. Over a Connect server `tables_at_once`
    tables load at once; 0: as many as there are cores. Loads register their tables in `catalog`,
    "" for none, in the schema that `catalog_schema` names.

    Bronze and gold are fresh if they were published within `fresh_hours`; 0: no check. `webhook` is
    where alerts are posted, "" for nowhere. An alert is due for a day that is stale for
    `alert_stale_hours`, and for one of whose rows more than a percentage is in quarantine, or came
    late. What is left out of the repr may hold a token, and is never shown.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        frozen=True,
        hide_input_in_errors=True,
        loc_by_alias=False,
        str_strip_whitespace=True,
        validate_by_name=True,
    )

    lake: Annotated[str, AfterValidator(_lake)] = "./lake"
    landing: Annotated[str, AfterValidator(_location)] = "./landing"
    start_date: Annotated[date, BeforeValidator(_day)] = Field(
        date(2017, 1, 1), description="a day such as 2017-01-01"
    )
    end_date: Annotated[date | None, BeforeValidator(_day)] = Field(
        None, description="a day such as 2017-12-31"
    )
    lateness_days: Whole = _whole(7, "days", 0, 3650)
    cache: Annotated[Path, AfterValidator(_cache)] = Field(
        default_factory=lambda: default_cache(os.environ)
    )
    spark_master: str | None = Field(
        None,
        validation_alias="SPARK_MASTER",
        min_length=1,
        description="a cluster, such as spark://host:7077 or local[4]",
    )
    spark_remote: Annotated[str | None, AfterValidator(_connect_url)] = Field(
        None,
        validation_alias="SPARK_REMOTE",
        repr=False,
        min_length=1,
        description="a Spark Connect server, such as sc://host:15002 or sc://host:15002/;token=…, "
        "in whose values %3D is =, %2F /, %3F ?, %23 # and %3B ;",
    )
    driver_memory: str = Field(
        "2g",
        pattern=r"^[1-9][0-9]*[kmgtKMGT]$",
        description="a whole number and a unit, such as 2g or 512m",
    )
    dagster_home: Path | None = Field(None, validation_alias="DAGSTER_HOME")
    java_home: Path | None = Field(None, validation_alias="JAVA_HOME")
    tables: str = Field(
        OWN_TABLES,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$",
        description="the name of a Python package that can be imported, such as shop.tables",
    )
    key_prefix: str = Field(
        "",
        pattern=r"^([A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*)?$",
        description="names of letters, digits and '_', such as retail or retail/north",
    )
    quarantine_days: Whole = _whole(0, "days", 0, 3650)
    fresh_hours: Whole = _whole(36, "hours", 0, 87_600)
    webhook: Annotated[str, AfterValidator(_webhook)] = Field(
        "",
        repr=False,
        description="http:// or https:// with a host, in ASCII, without blanks and without a user "
        "name",
    )
    alert_stale_hours: Whole = _whole(6, "hours", 0, 87_600)
    alert_quarantine_percent: Whole = _whole(2, "percent", 0, 100)
    alert_late_percent: Whole = _whole(20, "percent", 0, 100)
    vacuum_days: Whole = _whole(7, "days", 1, 3650)
    sensor_seconds: Whole = _whole(30, "seconds", 1, 86_400)
    tables_at_once: Whole = _whole(0, "tables", 0, 1000)
    catalog: str = Field(
        "",
        pattern=r"^([A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)?$",
        description="the name of a catalog of Spark's, such as spark_catalog",
    )
    catalog_schema: str = Field(
        LAYER,
        pattern=r"^([A-Za-z0-9_-]|\{layer\})+$",
        description="the name of a schema, in which {layer} stands for the table's layer, such as "
        "retail_{layer}",
    )

    def __init__(self, **values: Any) -> None:
        """Raises SettingsError for a setting that is not there, or a value that it cannot have."""
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise SettingsError(" ".join(map(_message, error.errors()))) from None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Read every setting once; an empty variable is the same as none.

        Raises SettingsError that names the variable, what it held and what it should hold, and for
        one with the prefix that is none, the one that was meant.
        """
        env = os.environ if environment is None else environment
        unknown = [_unknown(name) for name in sorted(env) if env[name] and _is_unknown(name)]
        if unknown:
            raise SettingsError(" ".join(unknown))
        source = EnvSettingsSource(cls)
        # Under no other spelling: pydantic would take `incremental_assets_lake` as well.
        source.env_vars = {name.lower(): env[name] for name in _variables() if env.get(name)}
        values = source()
        return cls(**(values if "cache" in values else values | {"cache": default_cache(env)}))

    @classmethod
    def settings_customise_sources(
        cls, *_: Any, **sources: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """What is constructed by hand has defaults for the rest, whatever the environment holds."""
        return (sources["init_settings"],)

    def replace(self, **changes: Any) -> Settings:
        """A copy with other values, which are checked like the first.

        Raises SettingsError for a setting that is not there, or a value that it cannot have.
        """
        return Settings(**{**dict(self), **changes})

    @model_validator(mode="after")
    def _ends_after_it_starts(self) -> Settings:
        if self.end_date is not None and self.end_date < self.start_date:
            raise SettingsError(
                f"{PREFIX}END_DATE is {self.end_date}, before the first partition "
                f"{self.start_date}; expected a later day, or another {PREFIX}START_DATE."
            )
        return self

    @property
    def allowed_lateness(self) -> timedelta:
        """How long after its business day a fact may land."""
        return timedelta(days=self.lateness_days)


def default_cache(environment: Mapping[str, str], *, of_checkout: bool = _IS_CHECKOUT) -> Path:
    """The cache where none is set: in a checkout its `.cache`, else the user's own.

    That is `incremental_assets` in XDG_CACHE_HOME, or in `.cache` of the home directory. Raises
    SettingsError for a user without one.
    """
    if of_checkout:
        return PROJECT_ROOT / ".cache"
    caches = Path(environment.get("XDG_CACHE_HOME", ""))
    if not caches.is_absolute():  # the specification has such ignored
        caches = _home(environment) / ".cache"
    return caches / "incremental_assets"


def _home(environment: Mapping[str, str]) -> Path:
    try:
        return Path(environment.get("HOME") or Path.home())
    except RuntimeError as error:
        raise SettingsError(
            "The user who runs this has no home directory to keep the Delta jars in. Set "
            f"{PREFIX}CACHE to a folder that can be written."
        ) from error


def _variable(name: str) -> str:
    return str(Settings.model_fields[name].validation_alias or f"{PREFIX}{name.upper()}")


def _variables() -> list[str]:
    return [_variable(name) for name in Settings.model_fields]


def _is_unknown(variable: str) -> bool:
    """Whether a variable has the prefix, in whatever case, and is no setting."""
    own = variable.upper().startswith(PREFIX)
    return own and variable not in _variables() and not _OF_A_SERVICE.fullmatch(_after(variable))


def _unknown(variable: str) -> str:
    """The sentence that a variable is no setting: the nearest one, or where all of them are."""
    known = {_after(each): each for each in _variables()}
    near = nearest(_after(variable), known)
    meant = f"; did you mean {known[near]}?" if near else ". The README lists the settings."
    return f"{variable} is not a setting{meant}"


def _after(variable: str) -> str:
    return variable.upper().removeprefix(PREFIX)


def _message(error: ErrorDetails) -> str:
    name, value = str(error["loc"][0]), error["input"]
    field = Settings.model_fields.get(name)
    if field is None:
        return no_such("setting", name, list(Settings.model_fields))
    shown = field.repr or not str(value).strip()
    held = repr(value) if shown else "wrong (not shown here, for it may hold a token)"
    return f"{_variable(name)} is {held}; expected {field.description or 'text in UTF-8'}."


def user_name() -> str:
    """Who runs this program, for the ledger: a number where the machine has no name for it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container may run as anybody
        return f"user {os.getuid()}"
