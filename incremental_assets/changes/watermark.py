"""A watermark: how far a source has been read, as a value, as text, and how it moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, get_args

from incremental_assets.errors import WatermarkError

Nulls = Literal["raise", "include", "quarantine"]
NULLS: tuple[Nulls, ...] = get_args(Nulls)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a load found: the lowest and highest value of its good rows, how many, and its clock.

    Rows beyond the clock and the skew that is allowed are not among them.
    """

    lowest: Any
    highest: Any
    rows: int
    now: datetime


Advance = Callable[[Any, Seen], Any]


def furthest(before: Any, seen: Seen) -> Any:
    """The usual watermark: the highest value ever seen."""
    known = [value for value in (before, seen.highest) if value is not None]
    return max(known, default=None)


def checked(column: str, before: Any, after: Any, seen: Seen) -> Any:
    """A watermark that a user's function gave. Raises WatermarkError if it breaks a promise.

    It never claims more than was read, and never goes back. An instant without a zone is in UTC.
    """
    most = furthest(before, seen)
    if after is None and before is None:
        return None
    if isinstance(after, datetime) and after.tzinfo is None:
        after = after.replace(tzinfo=UTC)
    if after is None or most is None or not _is_between(before, after, most):
        raise WatermarkError(
            f"The watermark of {column} was {before} and the highest value read is {most}; its own "
            f"function gave {after} ({type(after).__name__}). It may be any such value from "
            f"{before} to {most}. Nothing was loaded; correct the function."
        )
    return after


def _is_between(before: Any, after: Any, most: Any) -> bool:
    """Whether it lies from one to the other, and is a value such as they are."""
    if isinstance(after, float):  # its text would be no watermark
        return False
    try:
        return (before is None or bool(before <= after)) and bool(after <= most)
    except TypeError:
        return False


def as_text(value: Any) -> str:
    """ISO 8601 in UTC with microseconds, or digits; "" for none."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        instant = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return instant.isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, Decimal):
        return str(int(value))
    return str(value)


def instant(text: str) -> datetime | None:
    """A watermark's text as an instant in UTC. Raises WatermarkError."""
    if not text:
        return None
    try:
        value = datetime.fromisoformat(text)
    except ValueError:
        raise WatermarkError(
            f"The watermark {text!r} is no instant such as 2024-05-01T00:00:00Z. Was the table "
            "loaded by a sequence before? Give it another table_name, or another watermark."
        ) from None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def instant_at(micros: int) -> datetime:
    """The instant so many microseconds after 1970, in UTC.

    Instants are collected as numbers: Spark would give them in this process's own time zone. It
    knows years before 1 and after 9999 as well; the first or the last instant is taken for these.
    """
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    except OverflowError:
        return (datetime.max if micros > 0 else datetime.min).replace(tzinfo=UTC)


def number(text: str) -> int | None:
    """A watermark's text as a whole number. Raises WatermarkError."""
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise WatermarkError(
            f"The watermark {text!r} is no whole number. Was the table loaded by a timestamp "
            "before? Give it another table_name, or another watermark."
        ) from None
