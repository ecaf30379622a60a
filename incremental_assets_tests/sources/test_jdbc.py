"""What a table of a database may be defined as; no server is asked."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import psycopg
import pytest

from incremental_assets.errors import DefinitionError, SourceError
from incremental_assets.sources.database import Access, asking, evenly
from incremental_assets.sources.jdbc import Jdbc

URL = "jdbc:postgresql://127.0.0.1:5432/shop"
MARIA = "jdbc:mariadb://127.0.0.1/shop"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "postgresql://127.0.0.1/shop", "table": "a"}, "is no URL of a database"),
        ({"url": "jdbc:db2://127.0.0.1/shop", "table": "a"}, "is no URL of a database"),
        ({"url": "jdbc:postgresql://me:secret@h/shop", "table": "a"}, "names a user"),
        ({"url": URL + "?ssl=true&password=secret", "table": "a"}, "names a user or a password"),
        ({"url": "jdbc:mariadb://me:secret@h/shop", "table": "a"}, "names a user"),
        ({"url": "jdbc:mariadb://h1,h2/shop", "table": "a"}, "expected .*, one host"),
        ({"url": "jdbc:mariadb://h/shop?timezone=LOCAL", "table": "a"}, r"has \['timezone'\]"),
        ({"url": "jdbc:mariadb://h/shop?sslMode=on", "table": "a"}, "sslMode is one of disable"),
        ({"url": MARIA + "?sslMode=trust&sslMode=disable", "table": "a"}, "sslMode twice"),
        ({"url": MARIA + "?sslMode=trust#verify", "table": "a"}, "expected jdbc:mariadb://"),
        ({"url": MARIA + "?sslMode=disable&serverSslCert=/a", "table": "a"}, "without sslMode=v"),
        ({"url": MARIA + "?sslMode=trust&serverSslCert=/a", "table": "a"}, "without sslMode=v"),
        ({"url": MARIA + "?connectTimeout=0", "table": "a"}, "connectTimeout 1000 to 3600000"),
        ({"url": MARIA + "?connectTimeout=99999999999", "table": "a"}, "connectTimeout 1000 to"),
        ({"url": "jdbc:mariadb://h/a%3Fb", "table": "a"}, "expected jdbc:mariadb://"),
        ({}, "give a table or a query"),
        ({"table": "a", "query": "SELECT 1"}, "give a table or a query"),
        ({"table": 'a"; DROP TABLE b; --'}, "is not the name of a table"),
        ({"query": "SELECT 1; DROP TABLE a"}, "one SELECT, without ';'"),
        ({"table": "a", "credentials": "my-shop"}, "expected how two environment variables"),
        ({"table": "a", "partitions": 0}, "expected 1 or more"),
        ({"table": "a", "lag": timedelta(-1)}, "expected a timedelta"),
    ],
)
def test_what_cannot_be_read_is_refused_when_it_is_defined(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DefinitionError, match=message) as refused:
        Jdbc(**{"url": URL} | options)
    assert "secret" not in str(refused.value)


def test_a_password_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_USER", "me")
    monkeypatch.setenv("SHOP_PASSWORD", "secret")
    source = Jdbc(URL + "?sslmode=require", "public.Orders", credentials="SHOP")

    assert source.path == f"{URL}#public.Orders"
    assert str(source.relation) == '"public"."Orders"'
    assert source.access() == Access(source.url, "me", "secret")
    assert "secret" not in f"{source!r} {source.access()!r}"


def test_a_server_that_does_not_answer_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DATABASE_USER", "me")
    with pytest.raises(
        SourceError, match=r"127\.0\.0\.1:1/shop#a: the database answers: .*refused"
    ):
        Jdbc("jdbc:postgresql://127.0.0.1:1/shop", "a").fix()


def test_both_drivers_of_postgresql_get_the_certificate_and_key_of_the_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: dict[str, Any] = {}

    def connect(**options: Any) -> None:
        asked.update(options)
        raise psycopg.OperationalError("no server")

    monkeypatch.setattr(psycopg, "connect", connect)
    monkeypatch.setenv("DATABASE_USER", "me")
    source = Jdbc(URL + "?sslmode=verify-full&sslcert=/me.crt&sslkey=/me.pk8", "a")

    with pytest.raises(SourceError, match="no server"):
        source.fix()

    assert (asked["sslcert"], asked["sslkey"]) == ("/me.crt", "/me.pk8")
    assert source.dialect.spark_url(source.url) == source.url


def test_both_drivers_of_mariadb_take_the_url_alike() -> None:
    source = Jdbc("jdbc:mariadb://h/my%20shop?sslMode=verify-ca&serverSslCert=/a%2Bb+c.pem", "a")

    assert source.dialect.spark_url(source.url) == (
        "jdbc:mysql://h:3306/my shop?permitMysqlScheme=true&sslMode=verify-ca"
        "&connectTimeout=30000&serverSslCert=/a+b+c.pem"
    )


def test_a_file_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_USER", "me")
    url = "jdbc:mariadb://127.0.0.1:1/shop?sslMode=verify-full&serverSslCert=/nowhere.pem"
    with pytest.raises(SourceError, match=r"serverSslCert: .*No such file.*/nowhere\.pem"):
        Jdbc(url, "a").fix()
    with pytest.raises(SourceError, match=r"No such file.*/nowhere"), asking("a"):
        open("/nowhere").close()


@pytest.mark.parametrize(
    ("low", "high", "cuts"),
    [
        (0, 8, [2, 4, 6]),
        (0, 2, [1]),
        (5, 5, []),
        (None, None, []),
        (date(2017, 1, 1), date(2017, 1, 5), [date(2017, 1, n) for n in (2, 3, 4)]),
        (
            datetime(2017, 1, 1),
            datetime(2017, 1, 1, 4),
            [datetime(2017, 1, 1, n) for n in (1, 2, 3)],
        ),
    ],
)
def test_partitions_divide_what_lies_between_two_values(low: Any, high: Any, cuts: Any) -> None:
    assert evenly(low, high, 4) == cuts
