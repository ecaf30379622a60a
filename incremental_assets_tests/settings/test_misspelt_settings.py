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
        # of services whose names only begin so, as those of a Helm release
        "INCREMENTAL_ASSETS_DAGSTER_WEBSERVER_SERVICE_HOST": "10.0.0.2",
        "INCREMENTAL_ASSETS_DAGSTER_WEBSERVER_SERVICE_PORT_HTTP": "80",
        "INCREMENTAL_ASSETS_POSTGRESQL_PORT": "tcp://10.0.0.3:5432",
        "INCREMENTAL_ASSETS_POSTGRESQL_PORT_5432_TCP_ADDR": "10.0.0.3",
    }

    assert Settings.from_environment(others) == Settings()


def test_no_setting_is_called_like_what_kubernetes_sets() -> None:
    assert not [name for name in Settings.model_fields if re.search(r"port|service", name)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "SPARK_REMOTE",
            str(Settings.model_fields["spark_remote"].description) + ".",
        ),
        ("SPARK_MASTER", "a cluster, such as spark://host:7077 or local[4]."),
        ("INCREMENTAL_ASSETS_LAKE", "a path, or the URI of an object store."),
        ("INCREMENTAL_ASSETS_LANDING", "a path, or the URI of an object store."),
    ],
)
def test_a_blank_is_no_place(name: str, expected: str) -> None:
    with pytest.raises(SettingsError) as refused:
        Settings.from_environment({name: " "})

    assert re.fullmatch(rf"{name} is '\s?'; expected {re.escape(expected)}", str(refused.value))
