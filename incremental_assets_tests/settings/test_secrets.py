"""Settings that may hold a token: what is wrong with one is reported without showing it."""

from __future__ import annotations

import pytest
from pyspark.sql.connect.client import DefaultChannelBuilder

from incremental_assets.errors import SettingsError
from incremental_assets.settings import Settings


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("ftp://hooks.example.com/t0k3n", id="no http"),
        pytest.param("hooks.example.com/t0k3n", id="no scheme"),
        pytest.param("https:///t0k3n", id="no host"),
        pytest.param("https://me:t0k3n@hooks.example.com/", id="a user"),
        pytest.param("https://hooks.example.com/t0k3n and more", id="a blank"),
        pytest.param("https://hooks.example.com/t0k3n\nX: y", id="a line break"),
        pytest.param("https://hooks.example.com/t0k3n/ä", id="no ASCII"),
        pytest.param("https://hooks.example.com:port/t0k3n", id="no port"),
        pytest.param("https://[::1/t0k3n", id="half a bracket"),
    ],
)
def test_a_webhook_that_cannot_be_is_refused_without_showing_it(value: str) -> None:
    with pytest.raises(SettingsError, match=r"^INCREMENTAL_ASSETS_WEBHOOK is wrong") as raised:
        Settings.from_environment({"INCREMENTAL_ASSETS_WEBHOOK": value})

    assert "t0k3n" not in str(raised.value)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("sc://host:15002;token=t0k3n", id="no slash before the parameters"),
        pytest.param("sc://host:15002/;token=t0k3n==", id="a padded token"),
        pytest.param("sc://host:15002/;token=t0k3n/t0k3n", id="a slash in a token"),
        pytest.param("sc://host:15002/;token=t0k3n;", id="a semicolon at the end"),
        pytest.param("sc://host:15002/;t0k3n", id="no name"),
        pytest.param("sc://host:15002/path;token=t0k3n", id="a path"),
        pytest.param("sc://t0k3n@host:15002", id="a user"),
        pytest.param("sc://host:t0k3n", id="no port"),
        pytest.param("sc://host:65536/;token=t0k3n", id="no such port"),
        pytest.param("sc://:15002/;token=t0k3n", id="no host"),
        pytest.param("http://host:15002/;token=t0k3n", id="another scheme"),
    ],
)
def test_a_connect_server_that_cannot_be_is_refused_without_showing_it(value: str) -> None:
    with pytest.raises(SettingsError, match=r"^SPARK_REMOTE is wrong .*%3D") as raised:
        Settings.from_environment({"SPARK_REMOTE": value})

    assert "t0k3n" not in str(raised.value)


@pytest.mark.parametrize(
    "value",
    [
        *("sc://host", "sc://my_host:15002/", "sc://[::1]:15002", "sc://host/;"),
        *("sc://host:15002/;token=a%3D%3D;use_ssl=true", "sc://host/;x-key="),
    ],
)
def test_a_connect_server_is_given_as_pyspark_reads_it(value: str) -> None:
    assert DefaultChannelBuilder(value).host
    assert Settings.from_environment({"SPARK_REMOTE": value}).spark_remote == value


def test_what_may_hold_a_token_is_not_shown_with_the_settings() -> None:
    settings = Settings.from_environment(
        {
            "INCREMENTAL_ASSETS_WEBHOOK": "https://hooks.example.com/t0k3n",
            "SPARK_REMOTE": "sc://host:15002/;token=t0k3n",
        }
    )

    assert "t0k3n" in settings.webhook
    assert "t0k3n" in (settings.spark_remote or "")
    assert "t0k3n" not in f"{settings!r} {settings}"


@pytest.mark.parametrize(
    ("name", "value"),
    [("webhook", "ftp://t0k3n"), ("spark_remote", "sc://host/;token=t0k3n\udcff")],
)
def test_no_error_shows_what_may_hold_a_token(name: str, value: str) -> None:
    variable = {"webhook": "INCREMENTAL_ASSETS_WEBHOOK"}.get(name, name.upper())

    with pytest.raises(SettingsError, match=f"^{variable} is wrong") as of_environment:
        Settings.from_environment({variable: value})
    with pytest.raises(SettingsError, match=f"^{variable} is wrong") as of_constructor:
        Settings(**{name: value})

    assert "t0k3n" not in f"{of_environment.value} {of_constructor.value}"
