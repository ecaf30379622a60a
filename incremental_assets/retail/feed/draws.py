"""Choices that are the same on every machine: each is read off a hash of a row's own key.

So a day's bytes depend on the data and the shares alone: not on the range of days that is asked
for, not on a clock, and not on a random generator that runs from day to day.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from hashlib import blake2b

from incremental_assets.errors import DemoFeedError


@dataclass(frozen=True)
class Shares:
    """How much goes wrong: each a share of the rows, from 0 to 1.

    late: lands one to three days late. duplicate: is sent twice. bad: breaks the contract. The
    three are drawn independently, except that a bad row is sent only once.
    """

    late: float = 0.01
    duplicate: float = 0.002
    bad: float = 0.001

    def __post_init__(self) -> None:
        for name in ("late", "duplicate", "bad"):
            share = getattr(self, name)
            if not 0 <= share <= 1:
                msg = f"The share of {name} rows is {share}; give a number from 0 to 1."
                raise DemoFeedError(msg)


def draw(key: str) -> tuple[int, ...]:
    """Return eight 32-bit numbers that only the key decides."""
    return struct.unpack("<8I", blake2b(key.encode(), digest_size=32).digest())


def chosen(drawn: int, share: float) -> bool:
    """Whether a drawn number falls into a share; a larger share chooses all of a smaller one's."""
    return drawn < share * 2**32
