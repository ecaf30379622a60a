"""A number with its noun, for messages."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 day`, `2 days`, `1,000 days`; `plural` is given where it is not the noun and an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def are(number: int) -> str:
    """The verb of so many of something: `is` of one, else `are`."""
    return "is" if number == 1 else "are"
