"""The kinds of databases that are known, each by the scheme of its JDBC URL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlsplit

from incremental_assets.errors import DefinitionError
from incremental_assets.sources.dialect import Dialect
from incremental_assets.sources.mariadb import MariaDb
from incremental_assets.sources.postgresql import PostgreSql

_DIALECTS: Mapping[str, Dialect] = {"postgresql": PostgreSql(), "mariadb": MariaDb()}
_SECRET = re.compile(r"user|.*(password|secret|token).*", re.IGNORECASE)


def dialect_of(url: str) -> Dialect:
    """The kind of database that a JDBC URL names."""
    return _DIALECTS[_kind(url)]


def _kind(url: str) -> str:
    return url.removeprefix("jdbc:").partition(":")[0]


def require_url(url: str) -> None:
    """Raise DefinitionError for a URL that is of no known database, or holds a secret."""
    if not url.startswith("jdbc:") or _kind(url) not in _DIALECTS:
        known = ", ".join(f"jdbc:{kind}:" for kind in _DIALECTS)
        shown = url.partition("?")[0].rpartition("@")[2]
        raise DefinitionError(f"Jdbc: {shown!r} is no URL of a database; expected {known}//…")
    parts = urlsplit(url.removeprefix("jdbc:"))
    given = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    if "@" in parts.netloc or any(map(_SECRET.fullmatch, given)):
        raise DefinitionError(
            "Jdbc: the URL names a user or a password. Take them out: they come from the "
            "environment, from DATABASE_USER and DATABASE_PASSWORD, or those of credentials=…"
        )
    _DIALECTS[_kind(url)].require_url(url)
