"""Retrying what may fail only because of a concurrent writer."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")
_LONGEST_PAUSES = 10


def retried(
    attempt: Callable[[], _T], *, on: type[Exception], tries: int, pause_seconds: float = 0.0
) -> _T:
    """The result of `attempt`, which is called up to so many times while it raises `on`.

    The last of these errors is raised. Pauses grow up to ten times the first one and are random,
    so that those who got in each other's way do not do so again.
    """
    for number in range(1, tries):
        try:
            return attempt()
        except on:
            time.sleep(random.uniform(0.05, 1) * pause_seconds * min(number, _LONGEST_PAUSES))
    return attempt()
