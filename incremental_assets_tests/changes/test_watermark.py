"""The watermark that a function of one's own gives."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Any

import pytest

from incremental_assets.changes.watermark import Seen, checked
from incremental_assets.errors import WatermarkError

NOON = datetime(2024, 5, 10, 12, tzinfo=UTC)


def given(after: Any, highest: Any, before: Any = None) -> Any:
    return checked("at", before, after, Seen(highest, highest, 1, NOON))


@pytest.mark.parametrize(
    ("after", "highest", "before"),
    [
        (NOON, None, None),
        ("2024-05-10", NOON, None),
        (date(2024, 5, 10), NOON, NOON),
        ("7", 9, 5),
        (7.0, 9, 5),
        (None, 9, 5),
        (10, 9, 5),
        (4, 9, 5),
    ],
)
def test_what_is_no_such_watermark_is_refused(after: Any, highest: Any, before: Any) -> None:
    with pytest.raises(WatermarkError, match=re.escape(f"gave {after} ({type(after).__name__})")):
        given(after, highest, before)


def test_an_instant_without_a_zone_is_in_utc() -> None:
    assert given(NOON.replace(tzinfo=None), NOON) == NOON
