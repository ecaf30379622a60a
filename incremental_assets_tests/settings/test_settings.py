"""The environment is read once, with a default for each setting and a message for each mistake."""

from __future__ import annotations

import pickle
from datetime import date, timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from incremental_assets.errors import SettingsError
from incremental_assets.locations import local_path
from incremental_assets.settings import PROJECT_ROOT, Settings, default_cache


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_empty_environment_gives_every_default(here: Path) -> None:
    settings = Settings.from_environment({})

    assert settings == Settings(
        lake=str(here / "lake"),
        landing=str(here / "landing"),
        start_date=date(2017, 1, 1),
        lateness_days=7,
        cache=PROJECT_ROOT / ".cache",
        spark_master=None,
        spark_remote=None,
        driver_memory="2g",
        dagster_home=None,
        java_home=None,
        vacuum_days=7,
    )


def test_an_empty_variable_is_the_same_as_none(here: Path) -> None:
    names = ("LAKE", "LANDING", "START_DATE", "LATENESS_DAYS", "CACHE", "DRIVER_MEMORY")
    names += ("VACUUM_DAYS",)
    environment = {f"INCREMENTAL_ASSETS_{name}": "" for name in names}
    foreign = dict.fromkeys(("SPARK_MASTER", "SPARK_REMOTE", "DAGSTER_HOME", "JAVA_HOME"), "")

    assert Settings.from_environment(environment | foreign) == Settings.from_environment({})


@pytest.mark.parametrize(
    ("environment", "cache"),
    [
        ({"HOME": "/home/ann"}, "/home/ann/.cache/incremental_assets"),
        ({"HOME": "/home/ann", "XDG_CACHE_HOME": "/big"}, "/big/incremental_assets"),
        ({"HOME": "/home/ann", "XDG_CACHE_HOME": "big"}, "/home/ann/.cache/incremental_assets"),
    ],
)
def test_an_installed_package_has_its_cache_in_that_of_the_user(
    environment: dict[str, str], cache: str
) -> None:
    assert default_cache(environment, of_checkout=False) == Path(cache)


def test_a_user_without_a_home_is_told_which_variable_to_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # as for a user without one

    with pytest.raises(SettingsError, match="INCREMENTAL_ASSETS_CACHE to a folder"):
        default_cache({}, of_checkout=False)


def test_every_variable_reaches_its_setting() -> None:
    settings = Settings.from_environment(
        {
            "INCREMENTAL_ASSETS_LAKE": "/data/lake",
            "INCREMENTAL_ASSETS_LANDING": "/data/landing",
            "INCREMENTAL_ASSETS_START_DATE": "2016-02-29",
            "INCREMENTAL_ASSETS_END_DATE": "2016-12-31",
            "INCREMENTAL_ASSETS_LATENESS_DAYS": "0",
            "INCREMENTAL_ASSETS_VACUUM_DAYS": "30",
            "INCREMENTAL_ASSETS_CACHE": "/data/cache",
            "INCREMENTAL_ASSETS_DRIVER_MEMORY": "512m",
            "INCREMENTAL_ASSETS_FRESH_HOURS": "48",
            "INCREMENTAL_ASSETS_WEBHOOK": "https://hooks.example.com/services/T0/B1",
            "INCREMENTAL_ASSETS_ALERT_STALE_HOURS": "1",
            "INCREMENTAL_ASSETS_ALERT_QUARANTINE_PERCENT": "5",
            "INCREMENTAL_ASSETS_ALERT_LATE_PERCENT": "100",
            "INCREMENTAL_ASSETS_SENSOR_SECONDS": "300",
            "INCREMENTAL_ASSETS_TABLES_AT_ONCE": "3",
            "INCREMENTAL_ASSETS_KEY_PREFIX": "retail/north",
            "SPARK_MASTER": "local[1]",
            "SPARK_REMOTE": "sc://host:15002",
            "DAGSTER_HOME": "/data/dagster",
            "JAVA_HOME": "/data/java",
        }
    )

    assert settings == Settings(
        lake="/data/lake",
        landing="/data/landing",
        start_date=date(2016, 2, 29),
        end_date=date(2016, 12, 31),
        lateness_days=0,
        cache=Path("/data/cache"),
        spark_master="local[1]",
        spark_remote="sc://host:15002",
        driver_memory="512m",
        fresh_hours=48,
        webhook="https://hooks.example.com/services/T0/B1",
        alert_stale_hours=1,
        alert_quarantine_percent=5,
        alert_late_percent=100,
        dagster_home=Path("/data/dagster"),
        java_home=Path("/data/java"),
        vacuum_days=30,
        sensor_seconds=300,
        tables_at_once=3,
        key_prefix="retail/north",
    )


def test_without_an_argument_the_process_environment_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("INCREMENTAL_ASSETS_LAKE", "/somewhere/else")

    assert Settings.from_environment().lake == "/somewhere/else"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param("lake", "{here}/lake", id="relative"),
        pytest.param("./a/../lake/", "{here}/lake", id="dots and a slash at the end"),
        pytest.param("  lake ", "{here}/lake", id="blanks around it"),
        pytest.param("my lake", "{here}/my lake", id="a blank inside"),
        pytest.param("~/lake", "{home}/lake", id="home"),
        pytest.param("/abs/lake/", "/abs/lake", id="absolute"),
        pytest.param("file:///abs/lake/", "/abs/lake", id="file URI"),
        pytest.param("s3://bucket/lake", "s3://bucket/lake", id="object store"),
        pytest.param("s3://bucket/lake//", "s3://bucket/lake", id="object store with slashes"),
        pytest.param(
            "abfss://c@a.dfs.core.windows.net/x/", "abfss://c@a.dfs.core.windows.net/x", id="abfss"
        ),
        pytest.param("gs://bucket/lake", "gs://bucket/lake", id="gs"),
        pytest.param("hdfs://host:9000/lake", "hdfs://host:9000/lake", id="hdfs"),
        pytest.param("hdfs:///lake", "hdfs:///lake", id="hdfs of the default host"),
    ],
)
def test_a_local_path_becomes_absolute_and_a_uri_stays(
    here: Path, monkeypatch: pytest.MonkeyPatch, given: str, expected: str
) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    names = ("INCREMENTAL_ASSETS_LAKE", "INCREMENTAL_ASSETS_LANDING")

    settings = Settings.from_environment(dict.fromkeys(names, given))

    wanted = expected.format(here=here, home="/home/somebody")
    assert (settings.lake, settings.landing) == (wanted, wanted)


def test_a_cache_is_a_path_of_this_machine(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")

    cache = Settings.from_environment({"INCREMENTAL_ASSETS_CACHE": "~/c"}).cache

    assert cache == Path("/home/somebody/c")
    assert Settings.from_environment({"INCREMENTAL_ASSETS_CACHE": "c"}).cache == here / "c"


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/data/lake", Path("/data/lake")),
        ("file:///data/lake", Path("/data/lake")),
        ("file://localhost/data/lake", Path("/data/lake")),
        ("file:/data/lake", Path("/data/lake")),
        ("file:///data/a?b#c", Path("/data/a?b#c")),
        ("file://", Path("/")),
        ("s3://bucket/lake", None),
        ("memory://lake", None),
    ],
)
def test_only_a_path_on_this_disk_has_a_local_path(location: str, path: Path | None) -> None:
    assert local_path(location) == path


_A_DAY = "expected a day such as 2017-01-01"
_A_NUMBER = "expected a whole number of days from 0 to 3650"
_A_FILE_URI = "a file URI is absolute"
_A_SCHEME = "expected a path, or a URI of s3://, s3a://, gs://, abfs://, abfss:// or hdfs://"
_A_SIZE = "expected a whole number and a unit, such as 2g or 512m"
_A_PLACE = "Give a plain path or URI"
_A_BUCKET = "which names no bucket: expected s3://bucket/lake"
_A_HOME = "Give an absolute path"


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        pytest.param("LAKE", "/data/`lake`", _A_PLACE, id="back quote"),
        pytest.param("LAKE", "ftp://x/y", _A_SCHEME, id="FTP"),
        pytest.param("LAKE", "memory://lake", _A_SCHEME, id="memory of one process"),
        pytest.param("LANDING", "https://x/y", _A_SCHEME, id="HTTPS"),
        pytest.param("DRIVER_MEMORY", "lots", _A_SIZE, id="memory in words"),
        pytest.param("DRIVER_MEMORY", "2", _A_SIZE, id="memory without a unit"),
        pytest.param("DRIVER_MEMORY", "0g", _A_SIZE, id="no memory"),
        pytest.param("DRIVER_MEMORY", "1.5g", _A_SIZE, id="half a unit"),
        pytest.param("LAKE", "/data/[lake]", "Choose another folder", id="a sign of delta-rs"),
        pytest.param("LAKE", "/data/lake%20x", "path holds '%20'", id="what delta-rs decodes"),
        pytest.param("LAKE", "file://server/lake", _A_FILE_URI, id="another machine"),
        pytest.param("LANDING", "file:landing", _A_FILE_URI, id="a relative file URI"),
        pytest.param("LANDING", "/data/new\nline", _A_PLACE, id="line break"),
        pytest.param("LANDING", "s3://bucket/\x00", _A_PLACE, id="null byte"),
        pytest.param("LAKE", "s3://", _A_BUCKET, id="no bucket"),
        pytest.param("LANDING", "s3:///landing", _A_BUCKET, id="a path alone"),
        pytest.param("LAKE", "gs://", "expected gs://bucket/lake", id="no bucket of another store"),
        pytest.param("LAKE", "hdfs://", "expected hdfs://host/lake", id="no host"),
        pytest.param("LANDING", "~nobodyx/x", _A_HOME, id="the home of nobody"),
        pytest.param("CACHE", "~nobodyx/x", _A_HOME, id="a cache in the home of nobody"),
        pytest.param("START_DATE", "yesterday", _A_DAY, id="no day"),
        pytest.param("START_DATE", "2017-02-30", _A_DAY, id="no such day"),
        pytest.param("START_DATE", "2017-01-01T00:00", _A_DAY, id="a time"),
        pytest.param("LATENESS_DAYS", "-1", _A_NUMBER, id="negative"),
        pytest.param("LATENESS_DAYS", "1.5", _A_NUMBER, id="a fraction"),
        pytest.param("LATENESS_DAYS", "a week", _A_NUMBER, id="words"),
        pytest.param("LATENESS_DAYS", "3651", _A_NUMBER, id="too many"),
        pytest.param("VACUUM_DAYS", "0", "of days from 1 to 3650", id="files that are still read"),
        pytest.param("VACUUM_DAYS", "12h", "of days from 1 to 3650", id="hours"),
        pytest.param("SENSOR_SECONDS", "0", "a whole number of seconds from 1", id="no time"),
        pytest.param("LATENESS_DAYS", "٧", _A_NUMBER, id="a digit of another script"),
        pytest.param("START_DATE", "1483228800", _A_DAY, id="seconds since 1970"),
        pytest.param("TABLES", "shop-tables", "the name of a Python package", id="no package"),
        pytest.param("LANDING", "/data/\udcff", "text in UTF-8", id="Latin-1"),
    ],
)
def test_a_bad_value_is_named_with_its_variable_and_what_it_should_be(
    name: str, value: str, remedy: str
) -> None:
    variable = f"INCREMENTAL_ASSETS_{name}"

    with pytest.raises(SettingsError) as raised:
        Settings.from_environment({variable: value})

    message = str(raised.value)
    assert message.startswith(variable)
    assert repr(value) in message
    assert remedy in message


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("FRESH_HOURS", "1.5", "a whole number of hours from 0 to 87600"),
        ("ALERT_STALE_HOURS", "87601", "a whole number of hours from 0 to 87600"),
        ("ALERT_LATE_PERCENT", "101", "a whole number of percent from 0 to 100"),
        ("ALERT_QUARANTINE_PERCENT", "0.02", "a whole number of percent from 0 to 100"),
        ("LATENESS_DAYS", "7.0", "a whole number of days from 0 to 3650"),
        ("LATENESS_DAYS", "1_0", "a whole number of days from 0 to 3650"),
        ("LATENESS_DAYS", "-0", "a whole number of days from 0 to 3650"),
    ],
)
def test_hours_and_percents_are_whole_numbers(name: str, value: str, expected: str) -> None:
    with pytest.raises(SettingsError, match=expected):
        Settings.from_environment({f"INCREMENTAL_ASSETS_{name}": value})


def test_all_that_is_wrong_is_named_at_once_in_one_line() -> None:
    with pytest.raises(SettingsError) as raised:
        Settings.from_environment(
            {"INCREMENTAL_ASSETS_START_DATE": "soon", "INCREMENTAL_ASSETS_SENSOR_SECONDS": "0"}
        )

    assert str(raised.value) == (
        "INCREMENTAL_ASSETS_START_DATE is 'soon'; expected a day such as 2017-01-01. "
        "INCREMENTAL_ASSETS_SENSOR_SECONDS is '0'; expected a whole number of seconds from 1 to 86400."
    )


def test_an_environment_that_is_given_is_the_only_one(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INCREMENTAL_ASSETS_LAKE", "/somewhere/else")
    monkeypatch.setenv("SPARK_REMOTE", "sc://elsewhere")
    (here / ".env").write_text("INCREMENTAL_ASSETS_LAKE=/elsewhere")

    given = Settings.from_environment({"SPARK_MASTER": "local[1]"})

    assert given == Settings(lake=str(here / "lake"), spark_master="local[1]")
    assert (given.lake, given.spark_remote) == (str(here / "lake"), None)


def test_settings_cannot_be_changed_but_copied_with_other_values_that_are_checked() -> None:
    settings = Settings.from_environment({"SPARK_REMOTE": "sc://host"})

    with pytest.raises(ValidationError, match="frozen"):
        settings.lake = "/other"  # type: ignore[misc]
    assert settings.replace(lake="/other/") == settings.replace(lake="/other")
    assert settings.replace(lake="/other").spark_remote == "sc://host"
    with pytest.raises(SettingsError, match="VACUUM_DAYS is 0; expected a whole number of days"):
        settings.replace(vacuum_days=0)
    with pytest.raises(SettingsError, match=r"no setting 'lakes'; did you mean lake\?"):
        settings.replace(lakes="/other")
    with pytest.raises(SettingsError, match="LATENESS_DAYS is -1; expected a whole number of days"):
        Settings(lateness_days=-1)


def test_equal_settings_are_one_key_also_after_they_were_pickled() -> None:
    settings = Settings.from_environment({"SPARK_REMOTE": "sc://host"})

    assert {settings: 1}[pickle.loads(pickle.dumps(settings))] == 1


def test_the_largest_lateness_is_ten_years() -> None:
    settings = Settings.from_environment({"INCREMENTAL_ASSETS_LATENESS_DAYS": "3650"})

    assert settings.allowed_lateness == timedelta(days=3650)


def test_a_lake_that_is_a_file_is_refused_by_every_command(here: Path) -> None:
    (here / "lake").write_text("x")

    with pytest.raises(SettingsError, match=r"LAKE is '.*/lake', which is a file; expected a fol"):
        Settings.from_environment({"INCREMENTAL_ASSETS_LAKE": str(here / "lake")})
