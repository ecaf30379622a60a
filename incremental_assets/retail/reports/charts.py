"""Charts as SVG: columns, lines and rankings, drawn without a library.

A chart is text that stands in a page as it is, in the colours that `STYLE` gives its classes;
`standalone` makes a picture of it that needs no page. All text in it is escaped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from incremental_assets.screen import printable

OUTLIER = 3  # times the second largest; a larger value would flatten all others
SERIES = 7  # as many colours as can be distinguished
_WIDTH, _HEIGHT = 640, 270
_LEFT, _RIGHT, _FOOT = 54, 14, 30
_CHAR = 6.4  # pixels of a character of 12 pixels, on the wide side
_ROW, _NAME = 24, 236  # of a ranking: pixels of a row, and of the names

# Okabe and Ito's colours, which people with any colour vision can distinguish. Those of the dark
# scheme are lighter: each has a contrast of at least 3 to 1 to its paper.
LIGHT = (
    "--paper:#ffffff;--ink:#1b1f24;--soft:#57606a;--grid:#d8dee4;"
    "--c0:#0072b2;--c1:#c07d00;--c2:#009e73;--c3:#b85f91;--c4:#3c90c4;--c5:#d55e00;--c6:#79808a"
)
DARK = (
    "--paper:#161b22;--ink:#e6edf3;--soft:#9aa4af;--grid:#30363d;"
    "--c0:#56b4e9;--c1:#e69f00;--c2:#2bc79a;--c3:#e59ac3;--c4:#f0e442;--c5:#ff7f41;--c6:#8b949e"
)
STYLE = (
    "svg text{font:12px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;"
    "fill:var(--soft)}"
    "svg text.title{font-size:15px;font-weight:600;fill:var(--ink)}"
    "svg text.ink{fill:var(--ink)}svg text.bad{fill:var(--c5);font-weight:600}"
    "svg .grid{stroke:var(--grid);stroke-width:1}svg .cut{stroke:var(--paper);stroke-width:3}"
    + "".join(
        f"svg .f{i}{{fill:var(--c{i})}}svg .l{i}{{stroke:var(--c{i});fill:none}}"
        for i in range(SERIES)
    )
)
_DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 4", "12 4", "1 4")


@dataclass(frozen=True, slots=True)
class Series:
    """A value for each label of a chart; None where there is none. Its colour is its number's."""

    name: str
    values: Sequence[float | None]


def columns(
    title: str,
    labels: Sequence[str],
    series: Sequence[Series],
    *,
    notes: Mapping[str, str] | None = None,
    unit: str = "",
) -> str:
    """A column for each label, of the series on top of each other.

    No value is below 0. A column far above all others is cut, for their sake, and labelled.
    `notes` are written where a label has no value: why there is none.
    """
    totals = [_sum([each.values[at] for each in series]) for at in range(len(labels))]
    top = visible_top([total for total in totals if total is not None])
    frame = _Frame(title, labels, top, [each.name for each in series])
    body: list[str] = []
    for at, (label, total) in enumerate(zip(labels, totals, strict=True)):
        if total is None:
            if note := (notes or {}).get(label):
                body.append(frame.note(at, note))
            continue
        height, found = 0.0, [(i, each.values[at] or 0.0) for i, each in enumerate(series)]
        scale = min(1.0, frame.top / total) if total else 1.0
        for i, value in found:
            if value:
                what = f"{label}: {full(value)}{unit}"
                named = f"{series[i].name}, {what}" if len(series) > 1 else what
                body.append(frame.column(at, height * scale, (height + value) * scale, i, named))
                height += value
        if total > frame.top:
            body.append(frame.cut(at, short(total)))
    return frame.svg(body, _described(labels, totals, unit))


def lines(title: str, labels: Sequence[str], series: Sequence[Series], *, unit: str = "") -> str:
    """A line for each series, with a gap where it has no value, and a dot for each value.

    No value is below 0. Lines are cut at the top as columns are.
    """
    every = [value for each in series for value in each.values if value is not None]
    frame = _Frame(title, labels, visible_top(every), [each.name for each in series])
    body: list[str] = []
    for i, each in enumerate(series):
        # Each line is thinner than those before it: lines on one another can all be seen.
        body += frame.line(i, each.values, 2 + 1.5 * (len(series) - 1 - i))
        for at, value in enumerate(each.values):
            if value is not None:
                body.append(frame.dot(at, value, i, f"{each.name}, {labels[at]}: {full(value)}"))
                if value > frame.top:
                    body.append(frame.over(at, short(value)))
    last = [
        f"{each.name}: {_described(labels, each.values, unit)}"
        for each in series
        if any(value is not None for value in each.values)
    ]
    return frame.svg(body, " ".join(last))


def ranking(title: str, rows: Sequence[tuple[str, float]], *, unit: str = "") -> str:
    """A bar for each name, with its value behind it, in the order of the rows.

    A long name is shortened; as a tooltip it is there in full.
    """
    top = visible_top([value for _, value in rows])
    room = _WIDTH - _NAME - 88
    height = 40 + _ROW * max(len(rows), 1) + 6
    body = [_text(12, 24, title, "title")]
    if not rows:
        body.append(_text(12, 54, "nothing to show"))
    for at, (name, value) in enumerate(rows):
        y = 40 + _ROW * at
        shown = min(value, top)
        long = max(room * shown / top, 1.0) if top and value else 0.0
        words = f"{full(value)}{unit}"
        body += [
            f"<g><title>{clean(f'{name}: {words}')}</title>",
            _text(_NAME, y + 15, shortened(name, int((_NAME - 10) / _CHAR)), "ink", "end"),
            f'<rect class="f0" x="{_NAME + 8}" y="{y + 3}" width="{long:.1f}" height="16" rx="2"/>',
            _text(_NAME + 14 + long, y + 15, words),
            "</g>",
        ]
        if value > top:
            body.append(_cut(_NAME + 8 + long - 14, y + 11, upright=True))
    words = "; ".join(f"{name}: {full(value)}{unit}" for name, value in rows) or "nothing to show"
    return _svg(title, words, height, body)


def standalone(svg: str) -> str:
    """A picture that needs no page: with its colours, its paper and its namespace."""
    head, _, rest = svg.partition(">")
    opened = head.replace("<svg", f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}"', 1)
    paper = '<rect width="100%" height="100%" fill="var(--paper)"/>'
    return f"{opened}><style>svg{{{LIGHT}}}{STYLE}</style>{paper}{rest}"


def clean(text: object) -> str:
    """Text for HTML and SVG: on one line, with control characters shown and markup escaped."""
    return escape(
        printable(" ".join(str(text).split())).replace("\ufffe", "").replace("\uffff", "")
    )


def shortened(text: str, most: int) -> str:
    """The text, or its beginning and an ellipsis: at most so many characters."""
    words = " ".join(text.split())
    return words if len(words) <= most else f"{words[: most - 1].rstrip()}…"


def visible_top(values: Sequence[float]) -> float:
    """The value at which an axis may end: the largest, unless it is far above all others."""
    first, second = [*sorted(values, reverse=True), 0.0, 0.0][:2]
    return second * OUTLIER if 0 < second * OUTLIER < first else first


def ticks(top: float, most: int = 5) -> list[float]:
    """Round values from 0 to at least `top`: steps of 1, 2, 2.5 or 5 times a power of ten."""
    if not 0 < top < math.inf:
        return [0.0, 1.0]
    power = 10.0 ** math.floor(math.log10(top / most))
    step = next(s for f in (1, 2, 2.5, 5, 10, 20) if (s := f * power) * most >= top * (1 - 1e-9))
    count = math.ceil(top / step - 1e-9)
    return [float(f"{step * at:.12g}") for at in range(count + 1)]


def short(value: float) -> str:
    """A number in few characters: 1.25k, 12M; exact to three digits."""
    if value < 0:
        return f"-{short(-value)}"
    for limit, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")):
        # 999,999 is 1M, and not 1000k.
        if float(f"{value:.3g}") >= limit:
            return f"{float(f'{value:.3g}') / limit:g}{letter}"
    return f"{value:.3g}"


def full(value: float) -> str:
    """A number with thousands separated: whole, or with two digits."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def label_step(labels: Sequence[str], room: float) -> int:
    """Every how many labels one is written, so that none touches another within the pixels."""
    if not labels:
        return 1
    widest = max(len(label) for label in labels) * _CHAR + 10
    return max(math.ceil(widest * len(labels) / room), 1)


class _Frame:
    """The title, legend and axes of a chart with labels below it, and where things lie in it."""

    def __init__(self, title: str, labels: Sequence[str], top: float, names: Sequence[str]) -> None:
        self._title, self._labels = title, labels
        self._ticks = ticks(top)
        self.top = self._ticks[-1]
        self._legend, rows = _legend(names) if len(names) > 1 else ([], 0)
        self._head = 44 + 20 * rows
        self._height = _HEIGHT + 20 * rows
        self._low = self._height - _FOOT
        self._step = (_WIDTH - _LEFT - _RIGHT) / max(len(labels), 1)

    def column(self, at: int, low: float, high: float, colour: int, what: str) -> str:
        wide = min(self._step * 0.72, 56)
        y, bottom = self._y(high), self._y(low)
        tall = max(bottom - y, 0.5)
        return (
            f'<rect class="f{colour}" x="{self._x(at) - wide / 2:.1f}" y="{bottom - tall:.1f}" '
            f'width="{wide:.1f}" height="{tall:.1f}"><title>{clean(what)}</title></rect>'
        )

    def cut(self, at: int, value: str) -> str:
        return _cut(self._x(at), self._head + 14) + self.over(at, value)

    def over(self, at: int, value: str) -> str:
        return _text(self._x(at), self._head - 5, f"{value} »", "ink", "middle")

    def note(self, at: int, note: str) -> str:
        x, y = self._x(at) + 4, self._low - 8
        return (
            f'<text class="bad" x="{x:.1f}" y="{y:.1f}" '
            f'transform="rotate(-90 {x:.1f} {y:.1f})">{clean(shortened(note, 24))}'
            f"<title>{clean(f'{self._labels[at]}: {note}')}</title></text>"
        )

    def line(self, colour: int, values: Sequence[float | None], wide: float) -> Iterator[str]:
        dash = f' stroke-dasharray="{_DASHES[colour]}"' if _DASHES[colour] else ""
        points: list[str] = []
        for at, value in enumerate([*values, None]):
            if value is not None:
                points.append(f"{self._x(at):.1f},{self._y(value):.1f}")
                continue
            if len(points) > 1:
                at_points = f'stroke-width="{wide}" points="{" ".join(points)}"'
                yield f'<polyline class="l{colour}"{dash} {at_points}/>'
            points = []

    def dot(self, at: int, value: float, colour: int, what: str) -> str:
        return (
            f'<circle class="f{colour}" cx="{self._x(at):.1f}" cy="{self._y(value):.1f}" r="3">'
            f"<title>{clean(what)}</title></circle>"
        )

    def svg(self, body: Sequence[str], described: str) -> str:
        empty = [] if body else [_text(_WIDTH / 2, self._low - 60, "nothing to show", "", "middle")]
        parts = [_text(12, 24, self._title, "title"), *self._legend, *self._axes(), *body, *empty]
        return _svg(self._title, described, self._height, parts)

    def _axes(self) -> Iterator[str]:
        for value in self._ticks:
            y = self._y(value)
            yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>'
            yield _text(_LEFT - 8, y + 4, short(value), "", "end")
        every = label_step(self._labels, _WIDTH - _LEFT - _RIGHT)
        last = len(self._labels) - 1
        for at, label in enumerate(self._labels):
            if (last - at) % every == 0:
                yield _text(self._x(at), self._low + 18, label, "", "middle")

    def _x(self, at: int) -> float:
        return _LEFT + self._step * (at + 0.5)

    def _y(self, value: float) -> float:
        share = min(max(value, 0.0), self.top) / self.top
        return self._low - share * (self._low - self._head)


def _legend(names: Sequence[str]) -> tuple[list[str], int]:
    """The names with their colours, in as many rows as they need."""
    found: list[str] = []
    x, row = 12.0, 0
    for i, name in enumerate(names):
        words = shortened(name, 40)
        wide = 18 + len(words) * _CHAR + 14
        if x > 12 and x + wide > _WIDTH - _RIGHT:
            x, row = 12.0, row + 1
        y = 40 + 20 * row
        found.append(f'<rect class="f{i}" x="{x:.1f}" y="{y - 9}" width="11" height="11" rx="2"/>')
        found.append(_text(x + 16, y + 1, words, "ink"))
        x += wide
    return found, row + 1


def _cut(x: float, y: float, *, upright: bool = False) -> str:
    """The mark of a column that is cut: a stripe of paper across it."""
    dx, dy = (5, 12) if upright else (30, 6)
    path = f"M{x - dx:.1f} {y + dy:.1f}L{x + dx:.1f} {y - dy:.1f}"
    return f'<path class="cut" d="{path}"/>'


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "") -> str:
    its = f' class="{kind}"' if kind else ""
    at = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text{its} x="{x:.1f}" y="{y:.1f}"{at}>{clean(words)}</text>'


def _svg(title: str, described: str, height: float, body: Sequence[str]) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img" '
        f'aria-labelledby="{name}-title {name}-desc">'
        f'<title id="{name}-title">{clean(title)}</title>'
        f'<desc id="{name}-desc">{clean(described)}</desc>{"".join(body)}</svg>'
    )


def _described(labels: Sequence[str], values: Sequence[float | None], unit: str) -> str:
    """The chart in words, for those who cannot see it."""
    there = [
        (value, label) for value, label in zip(values, labels, strict=True) if value is not None
    ]
    if not there:
        return "Nothing to show."
    (most, most_at), (least, least_at) = max(there), min(there)
    without = [label for value, label in zip(values, labels, strict=True) if value is None]
    missing = f" No value: {', '.join(without)}." if without else ""
    return (
        f"{labels[0]} to {labels[-1]}; most {full(most)}{unit} ({most_at}), "
        f"least {full(least)}{unit} ({least_at}).{missing}"
    )


def _sum(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return sum(there) if there else None
