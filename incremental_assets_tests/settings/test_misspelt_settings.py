"""Variables that are no setting, and values that are no place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from incremental_assets.errors import SettingsError
from incremental_assets.settings import Settings


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("INCREMENTAL_ASSETS_LAEK", "; did you mean INCREMENTAL_ASSETS_LAKE?"),
        ("INCREMENTAL_ASSETS_SENSOR_SECOND", "; did you mean INCREMENTAL_ASSETS_SENSOR_SECONDS?"),
        ("incremental_assets_lake", "; did you mean INCREMENTAL_ASSETS_LAKE?"),
        ("Incremental_Assets_Lake", "; did you mean INCREMENTAL_ASSETS_LAKE?"),
        ("INCREMENTAL_ASSETS_SPARK_REMOTE", "; did you mean SPARK_REMOTE?"),
        ("INCREMENTAL_ASSETS_XYZ", ". The README lists the settings."),
    ],
)
def test_a_variable_with_the_prefix_that_is_no_setting_is_named(name: str, message: str) -> None:
    with pytest.raises(SettingsError) as refused:
        Settings.from_environment({name: "x", "INCREMENTAL_ASSETS_LANDING": "/landing"})

    assert str(refused.value) == f"{name} is not a setting{message}"


def test_other_variables_are_none_of_our_business(here: Path) -> None:
    others = {
        "spark_remote": "sc://lower",
        "DAGSTER_HOEM": "/dagster",
        "INCREMENTAL_ASSETS_LAEK": "",
        "INCREMENTAL_ASSETS_SERVICE_HOST": "10.0.0.1",  # of Kubernetes, for a service so named
        "INCREMENTAL_ASSETS_SERVICE_PORT_GRPC": "4000",
        "INCREMENTAL_ASSETS_PORT": "tcp://10.0.0.1:4000",
        "INCREMENTAL_ASSETS_PORT_4000_TCP_ADDR": "10.0.0.1",
    }

    assert Settings.from_environment(others) == Settings()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("SPARK_REMOTE", "a Spark Connect server, such as sc://host:15002."),
        ("SPARK_MASTER", "a cluster, such as spark://host:7077 or local[4]."),
        ("INCREMENTAL_ASSETS_LAKE", "a path, or the URI of an object store."),
        ("INCREMENTAL_ASSETS_LANDING", "a path, or the URI of an object store."),
    ],
)
def test_a_blank_is_no_place(name: str, expected: str) -> None:
    with pytest.raises(SettingsError) as refused:
        Settings.from_environment({name: " "})

    assert re.fullmatch(rf"{name} is '\s?'; expected {re.escape(expected)}", str(refused.value))
