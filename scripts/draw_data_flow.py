"""Draw docs/data-flow.svg from the definitions of the tables: `python scripts/draw_data_flow.py`.

Rows of bronze and silver lie next to each other, gold below each other; a line leads from each
table to those that read it, a dashed one where it is looked up as of a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from incremental_assets.catalog import tables
from incremental_assets.table import AsOf, SameDay, Table

TARGET = Path(__file__).resolve().parent.parent / "docs" / "data-flow.svg"
WIDTH, TOP, STEP, BOX, HIGH = 1080, 86, 62, 204, 44
LEFT = {"source": 16, "bronze": 280, "silver": 544, "gold": 860}
TITLES = {
    "source": ("sources", "files, tables, a log"),
    "bronze": ("bronze", "every row, as it landed"),
    "silver": ("silver", "typed, judged, by key"),
    "gold": ("gold", "joined, summed, by day"),
}
COLOURS = {
    "source": ("#f4f4f4", "#888888"),
    "bronze": ("#f7e6d3", "#b87333"),
    "silver": ("#eceff3", "#7a8aa0"),
    "gold": ("#fdf3c8", "#c9a227"),
}
HOW = {
    "Files": "landed files",
    "Timestamp": "by updated_at",
    "Sequence": "by number",
    "SnapshotDiff": "a copy a day",
    "ChangeLog": "Debezium's log",
}
WRITES = {
    "Append": "append",
    "Merge": "merge",
    "SCD2": "history (SCD2)",
    "ReplaceDay": "replace the day",
    "RecomputeKeys": "totals by key",
}
CAPTION = (
    "Dashed: looked up as of the time of a sale. Rows that a gate refuses go to the quarantine of "
    "their table; a day with too many of them is held."
)
_ARROW = (
    '<defs><marker id="a" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
    'orient="auto"><path d="M0 0 L10 5 L0 10 z" fill="#555"/></marker></defs>'
)
# So that few lines cross.
ORDER = {
    **{f"{layer}/{name}": at for layer in ("bronze", "silver") for at, name in enumerate(
        ("events", "users", "products", "orders", "inventory_movements")
    )},
    "silver/sales": 0,
    "gold/latest_user_events": 0,
    "gold/sales_mart": 1,
    "gold/daily_product_sales": 2,
    "gold/customer_orders": 3,
    "gold/inventory_levels": 4,
}  # fmt: skip


def svg() -> str:
    """The picture as text."""
    every = tables()
    height = TOP + STEP * 5 + 24
    size = f'viewBox="0 0 {WIDTH} {height}"'
    font = 'font-family="Helvetica, Arial, sans-serif" font-size="13"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>',
        _ARROW,
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        *_titles(),
        '<g stroke="#555" fill="none" stroke-width="1.5" marker-end="url(#a)">',
        *(line for table in every for line in _lines_to(table)),
        "</g>",
        *(box for table in every for box in _boxes(table)),
        _text(WIDTH // 2, height - 12, CAPTION, 'fill="#666"'),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _text(middle: int, y: int, words: str, style: str) -> str:
    return f'<text x="{middle}" y="{y}" text-anchor="middle" {style}>{words}</text>'


def _titles() -> Iterator[str]:
    for layer, (title, subtitle) in TITLES.items():
        middle = LEFT[layer] + BOX // 2
        yield _text(middle, 36, title, 'font-weight="bold" font-size="15" fill="#333"')
        yield _text(middle, 56, subtitle, 'fill="#666"')


def _boxes(table: Table) -> Iterator[str]:
    if table.layer == "bronze":
        feed = table.name.split("/")[1]
        yield _box("source", _top(table), feed, HOW[type(table.changes).__name__])
    yield _box(table.layer, _top(table), table.name, WRITES[type(table.write).__name__])


def _box(layer: str, top: int, name: str, how: str) -> str:
    fill, stroke = COLOURS[layer]
    left, middle = LEFT[layer], LEFT[layer] + BOX // 2
    return (
        f'<rect x="{left}" y="{top}" width="{BOX}" height="{HIGH}" rx="6" fill="{fill}" '
        f'stroke="{stroke}" stroke-width="1.4"/>'
        + _text(middle, top + 19, name, 'fill="#222"')
        + _text(middle, top + 35, how, 'font-size="11" fill="#666"')
    )


def _lines_to(table: Table) -> Iterator[str]:
    if table.layer == "bronze":
        yield _line(LEFT["source"], _top(table), LEFT["bronze"], _top(table))
    for read in table.reads:
        if not isinstance(read, SameDay | AsOf):
            continue
        dashed = isinstance(read, AsOf)
        above = read.table
        if above.layer == table.layer:  # within gold: from below one box to the next
            middle = LEFT[table.layer] + BOX // 2
            yield f'<path d="M{middle} {_top(above) + HIGH} V{_top(table) - 2}"/>'
        else:
            yield _line(
                LEFT[above.layer], _top(above), LEFT[table.layer], _top(table), dashed=dashed
            )


def _line(left: int, top: int, to: int, to_top: int, *, dashed: bool = False) -> str:
    start, y = left + BOX, top + HIGH // 2
    end, to_y = to - 3, to_top + HIGH // 2
    bend = (start + end) // 2
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return f'<path d="M{start} {y} C{bend} {y} {bend} {to_y} {end} {to_y}"{dash}/>'


def _top(table: Table) -> int:
    return TOP + STEP * ORDER[table.name]


if __name__ == "__main__":
    TARGET.write_text(svg(), encoding="utf-8")
