"""What a table of a database may be defined as; no server is asked."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import pytest

from incremental_assets.errors import DefinitionError, SourceError
from incremental_assets.sources.database import Access, evenly
from incremental_assets.sources.jdbc import Jdbc

URL = "jdbc:postgresql://127.0.0.1:5432/shop"


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
        ({}, "give a table or a query"),
        ({"table": "a", "query": "SELECT 1"}, "give a table or a query"),
        ({"table": 'a"; DROP TABLE b; --'}, "is no name of a table"),
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
