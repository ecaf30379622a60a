"""The graph of assets as Dagster draws it: which box an arrow leads from, and which one to."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Box:
    """A group, or an asset in one; arrows go from the middle of a right side to that of a left one."""

    name: str
    x: float
    y: float
    width: float
    height: float

    @property
    def left(self) -> tuple[float, float]:
        return self.x, self.y + self.height / 2

    @property
    def right(self) -> tuple[float, float]:
        return self.x + self.width, self.y + self.height / 2

    def holds(self, other: Box) -> bool:
        return (
            self.x < other.x
            and self.y < other.y
            and other.x + other.width < self.x + self.width
            and other.y + other.height < self.y + self.height
        )


def arrows(boxes: Iterable[Sequence[Any]], paths: Iterable[str]) -> set[tuple[str, str]]:
    """From which asset to which the arrows lead, each by its group and name: `silver/sales`."""
    drawn = {Box(*box) for box in boxes if box[0]}  # what lies behind a group has no text
    name = {
        each: f"{group.name}/{each.name}" for group in drawn for each in drawn if group.holds(each)
    }
    found = set()
    for path in paths:
        numbers = [float(number) for number in re.findall(r"[\d.]+", path)]
        start = min(name, key=lambda box: math.dist(box.right, numbers[:2]))
        end = min(name, key=lambda box: math.dist(box.left, numbers[-2:]))
        found.add((name[start], name[end]))
    return found
