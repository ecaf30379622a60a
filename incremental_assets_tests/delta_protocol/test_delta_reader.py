"""Delta's own reader, where Spark lacks a part of Delta."""

from __future__ import annotations

import pytest

from incremental_assets.delta_protocol.reader import delta_reader
from incremental_assets.errors import SparkUnavailableError


def test_without_its_extension_delta_is_not_read() -> None:
    class Session:
        conf = {"spark.sql.extensions": "org.example.Other"}  # noqa: RUF012

    with pytest.raises(SparkUnavailableError, match=r"spark\.sql\.extensions=io\.delta"):
        delta_reader(Session())  # type: ignore[arg-type]
