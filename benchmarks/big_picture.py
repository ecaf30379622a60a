"""The figures of `benchmarks.big` by size, and their picture: `python -m benchmarks.big_picture`.

`benchmarks/results/big.json` has the seconds of each size and contender with their machine and day;
`docs/pictures/speed-big.svg` is drawn from it, with both axes from zero.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from html import escape
from math import floor, log10

from benchmarks.report import RESULTS, machine
from incremental_assets.settings import PROJECT_ROOT

FIGURES = RESULTS / "big.json"
PICTURE = PROJECT_ROOT / "docs" / "pictures" / "speed-big.svg"
SMALLEST = 1_000_000
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 780, 420, 64, 210, 28, 84
COLOURS = ("#7a8aa0", "#c9a227", "#b8442f")
MILLION = 1_000_000


@dataclass(frozen=True)
class Size:
    """The median seconds of each contender for so many rows."""

    rows: int
    seconds: Mapping[str, float]
    machine: str
    day: str


def keep(rows: int, seconds: Mapping[str, float]) -> bool:
    """Replace the figures of this size and draw the picture; False for a size that only tries."""
    if rows < SMALLEST:
        return False
    facts = machine()
    where = f"{os.cpu_count()} cores, {facts['memory']}, {facts['Java']}"
    rounded = {who: round(each, 1) for who, each in seconds.items()}
    now = Size(rows, rounded, where.replace('"', ""), f"{datetime.now(UTC):%Y-%m-%d}")
    sizes = sorted((*(s for s in kept() if s.rows != rows), now), key=lambda size: size.rows)
    text = json.dumps([asdict(size) for size in sizes], indent=2, ensure_ascii=False)
    FIGURES.write_text(text + "\n", encoding="utf-8")
    PICTURE.write_text(svg(sizes), encoding="utf-8")
    return True


def kept() -> list[Size]:
    if not FIGURES.exists():
        return []
    return [Size(**size) for size in json.loads(FIGURES.read_text(encoding="utf-8"))]


def svg(sizes: Sequence[Size]) -> str:
    """The picture as text: a line for each contender, with its name at its end."""
    most_rows = max(size.rows for size in sizes)
    most_seconds = max(s for size in sizes for s in size.seconds.values())
    to_x = (WIDTH - LEFT - RIGHT) / most_rows
    to_y = (HEIGHT - TOP - BOTTOM) / most_seconds
    font = 'font-family="Helvetica, Arial, sans-serif" font-size="13"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {font}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        *_grid(most_rows, most_seconds, to_x, to_y),
        *(
            part
            for who, colour in zip(_contenders(sizes), COLOURS, strict=False)
            for part in _line(sizes, who, colour, to_x, to_y)
        ),
        *_caption(sizes),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _contenders(sizes: Sequence[Size]) -> list[str]:
    return list(dict.fromkeys(who for size in sizes for who in size.seconds))


def _grid(rows: int, seconds: float, to_x: float, to_y: float) -> Iterator[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for each in _ticks(seconds):
        y = bottom - each * to_y
        yield f'<path d="M{LEFT} {y:.1f} H{right}" stroke="#dddddd"/>'
        yield _text(LEFT - 8, y + 4, f"{each:g}", "end")
    for each in _ticks(rows / MILLION):
        x = LEFT + each * MILLION * to_x
        yield f'<path d="M{x:.1f} {bottom} v5" stroke="#888888"/>'
        yield _text(x, bottom + 20, f"{each:g}", "middle")
    yield f'<path d="M{LEFT} {TOP} V{bottom} H{right}" stroke="#888888" fill="none"/>'
    yield _text((LEFT + right) / 2, bottom + 40, "million events in a day", "middle")
    yield _text(LEFT - 8, TOP - 10, "seconds", "end")


def _ticks(most: float) -> list[float]:
    """Round numbers from zero to the most, five to eleven of them."""
    power: float = 10 ** (floor(log10(most)) - 1)
    step = next(power * part for part in (1, 2, 5, 10) if most / (power * part) <= 10)
    return [number * step for number in range(int(most / step + 1e-9) + 1)]


def _line(sizes: Sequence[Size], who: str, colour: str, to_x: float, to_y: float) -> Iterator[str]:
    bottom = HEIGHT - BOTTOM
    points = [
        (LEFT + size.rows * to_x, bottom - size.seconds[who] * to_y)
        for size in sizes
        if who in size.seconds
    ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>'
    for x, y in points:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>'
    last = next(size.seconds[who] for size in reversed(sizes) if who in size.seconds)
    x, y = points[-1]
    yield _text(x + 10, y + 4, f"{who}, {last:g} s", "start", colour)


def _caption(sizes: Sequence[Size]) -> Iterator[str]:
    machines = dict.fromkeys(f"{size.machine}, {size.day}" for size in sizes)
    for at, words in enumerate(reversed(machines)):
        y = HEIGHT - 12 - 16 * at
        yield _text(WIDTH / 2, y, words, "middle", "#666666")


def _text(x: float, y: float, words: str, anchor: str, fill: str = "#333333") -> str:
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}"'
    return f"<text {where}>{escape(words)}</text>"


if __name__ == "__main__":
    PICTURE.write_text(svg(kept()), encoding="utf-8")
