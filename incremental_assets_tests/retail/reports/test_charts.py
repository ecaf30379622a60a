"""The charts of the reports, as functions of their values."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from incremental_assets.retail.reports.charts import (
    DARK,
    LIGHT,
    Series,
    clean,
    columns,
    full,
    label_step,
    lines,
    ranking,
    short,
    shortened,
    standalone,
    ticks,
    visible_top,
)

SVG = "{http://www.w3.org/2000/svg}"
DAYS = [f"01-{day:02d}" for day in range(1, 32)]
HOSTILE = "<script>alert('1')</script>\n\"&\x00\x1b[31m\ud800]]>"


def drawn(svg: str) -> ET.Element:
    """The picture as an XML parser of any browser reads it."""
    return ET.fromstring(standalone(svg))


def texts(svg: str) -> list[str]:
    return [found.text or "" for found in drawn(svg).iter(f"{SVG}text")]


def bars(svg: str) -> list[ET.Element]:
    """The columns or bars, without the squares of the legend and the paper."""
    return [
        each for each in drawn(svg).iter(f"{SVG}rect") if each.get("height") not in ("11", "100%")
    ]


@pytest.mark.parametrize(
    ("top", "expected"),
    [
        (0, [0, 1]),
        (1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (3, [0, 1, 2, 3]),
        (5, [0, 1, 2, 3, 4, 5]),
        (7, [0, 2, 4, 6, 8]),
        (12, [0, 2.5, 5, 7.5, 10, 12.5]),
        (100, [0, 20, 40, 60, 80, 100]),
        (101, [0, 25, 50, 75, 100, 125]),
        (0.03, [0, 0.01, 0.02, 0.03]),
        (14825.31, [0, 5000, 10000, 15000]),
        (2**53, [0, 2e15, 4e15, 6e15, 8e15, 1e16]),
        (float("nan"), [0, 1]),
        (float("inf"), [0, 1]),
        (-4, [0, 1]),
    ],
)
def test_ticks_are_round_and_end_at_or_above_the_top(top: float, expected: list[float]) -> None:
    assert ticks(top) == expected


@pytest.mark.parametrize("top", [1.0, 1.01, 9.99, 33.3, 99_999.5, 123_456_789.0, 1e-6])
def test_there_are_few_ticks_and_the_highest_is_not_far_above_the_top(top: float) -> None:
    found = ticks(top)

    assert 2 <= len(found) <= 6
    assert found[-2] < top <= found[-1] * (1 + 1e-9)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0"),
        (0.25, "0.25"),
        (0.05, "0.05"),
        (7, "7"),
        (999, "999"),
        (999.6, "1k"),
        (1000, "1k"),
        (2500, "2.5k"),
        (12500, "12.5k"),
        (999_999, "1M"),
        (1_250_000, "1.25M"),
        (3e9, "3G"),
        (-2500, "-2.5k"),
    ],
)
def test_a_number_is_short_on_an_axis(value: float, expected: str) -> None:
    assert short(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(0, "0"), (1234, "1,234"), (1234.5, "1,234.50"), (0.004, "0.00")]
)
def test_a_number_in_words_has_its_thousands_separated(value: float, expected: str) -> None:
    assert full(value) == expected


@pytest.mark.parametrize(
    ("values", "top"),
    [
        ([], 0),
        ([5], 5),
        ([1, 2, 3], 3),
        ([1, 2, 1000], 6),
        ([10, 30], 30),
        ([10, 31], 30),
        ([0, 0, 9], 9),
    ],
)
def test_an_outlier_does_not_flatten_the_rest(values: list[float], top: float) -> None:
    assert visible_top(values) == top


def test_a_column_far_above_the_others_is_cut_and_says_how_high_it_is() -> None:
    found = columns("Rows", DAYS[:4], [Series("rows", [10, 12, 5000, 11])])

    heights = [float(each.get("height") or 0) for each in bars(found)]
    assert heights[0] > 40
    assert max(heights) < 250
    assert "5k »" in texts(found)
    assert "5,000" in found


def test_stacked_columns_are_as_high_as_their_sum_and_their_parts_as_their_shares() -> None:
    found = columns(
        "Seconds", DAYS[:2], [Series("bronze", [30.0, 60.0]), Series("gold", [70.0, None])]
    )

    first, second, third = bars(found)
    height = {each.get("class"): float(each.get("height") or 0) for each in (first, second)}
    assert height["f1"] / height["f0"] == pytest.approx(7 / 3, rel=0.01)
    assert float(third.get("height") or 0) == pytest.approx(height["f0"] * 2, rel=0.01)
    below = float(second.get("y") or 0) + float(second.get("height") or 0)
    assert below == pytest.approx(float(first.get("y") or 0), abs=0.11)


def test_a_cut_stack_keeps_the_shares_of_its_parts() -> None:
    found = columns("Rows", DAYS[:3], [Series("a", [1, 900, 1]), Series("b", [1, 100, 1])])

    heights = [float(each.get("height") or 0) for each in bars(found)]
    assert heights[2] / heights[3] == pytest.approx(9, rel=0.01)


def test_a_day_without_a_value_is_a_gap_and_says_why() -> None:
    found = columns(
        "Revenue", DAYS[:3], [Series("revenue", [5.0, None, 6.0])], notes={"01-02": "it is held"}
    )

    assert len(bars(found)) == 2
    assert any("it is held" in text for text in texts(found))
    assert "No value: 01-02." in found


def test_a_line_is_broken_where_a_value_is_missing() -> None:
    found = drawn(lines("Rows", DAYS[:5], [Series("rows", [1, 2, None, 3, 4])]))

    broken = list(found.iter(f"{SVG}polyline"))
    assert [len((each.get("points") or "").split()) for each in broken] == [2, 2]
    assert len(list(found.iter(f"{SVG}circle"))) == 4


def test_lines_differ_by_more_than_their_colour() -> None:
    found = drawn(lines("Rows", DAYS[:2], [Series(name, [1, 2]) for name in "abcdefg"]))

    dashes = [each.get("stroke-dasharray") for each in found.iter(f"{SVG}polyline")]
    assert len(set(dashes)) == 7


@pytest.mark.parametrize("count", [1, 2, 7, 13, 14, 20, 31])
def test_labels_of_days_do_not_overlap_and_the_last_one_is_there(count: int) -> None:
    labels = DAYS[:count]

    found = drawn(columns("Rows", labels, [Series("rows", [1.0] * count)]))

    places = [float(each.get("x") or 0) for each in found.iter(f"{SVG}text") if each.text in labels]
    assert all(after - before > 5 * 6.4 for before, after in pairwise(places))
    assert labels[-1] in [each.text for each in found.iter(f"{SVG}text")]


def test_every_label_is_written_where_there_is_room() -> None:
    assert label_step(DAYS[:7], 572) == 1
    assert label_step(DAYS, 572) == 3
    assert label_step([], 572) == 1


def test_a_legend_of_long_names_takes_rows_and_stays_inside() -> None:
    names = [f"silver/inventory_movements: rule_number_{i}" for i in range(7)]

    found = drawn(columns("Rows", DAYS[:2], [Series(name, [1, 1]) for name in names]))

    squares = [each for each in found.iter(f"{SVG}rect") if each.get("height") == "11"]
    assert len(squares) == 7
    assert len({each.get("y") for each in squares}) > 2
    written = [each for each in found.iter(f"{SVG}text") if (each.text or "").startswith("silver")]
    assert all(float(t.get("x") or 0) + len(t.text or "") * 6.4 < 640 for t in written)


def test_a_ranking_shortens_a_long_name_and_keeps_it_whole_as_a_tooltip() -> None:
    name = " ".join(["Seedless Watermelon"] * 5)

    found = drawn(ranking("Best", [(name, 12.5), ("Milk", 3)]))

    assert any((t.text or "").endswith("…") for t in found.iter(f"{SVG}text"))
    assert f"{name}: 12.50" in [t.text for t in found.iter(f"{SVG}title")]


def test_the_bars_of_a_ranking_are_as_long_as_their_values_are_large() -> None:
    first, second, third = bars(ranking("Best", [("a", 40), ("b", 20), ("c", 0)]))

    lengths = [float(each.get("width") or 0) for each in (first, second, third)]
    assert lengths[0] / lengths[1] == pytest.approx(2, rel=0.01)
    assert lengths[2] == 0


@pytest.mark.parametrize(
    "svg",
    [
        columns("Nothing", [], []),
        columns("Nothing", DAYS[:2], [Series("a", [None, None])]),
        lines("Nothing", DAYS[:2], [Series("a", [None, None])]),
        ranking("Nothing", []),
    ],
)
def test_a_chart_without_values_says_so(svg: str) -> None:
    assert "nothing to show" in texts(svg)


def test_zeros_are_drawn_as_a_day_with_nothing() -> None:
    found = columns("Late rows", DAYS[:2], [Series("late", [0.0, 0.0])])

    assert "nothing to show" in texts(found)
    assert "most 0 (01-02)" in found


@pytest.mark.parametrize(
    "svg",
    [
        ranking(HOSTILE, [(HOSTILE, 1.0)], unit=HOSTILE),
        columns(HOSTILE, [HOSTILE], [Series(HOSTILE, [1.0]), Series("b", [2.0])], unit=HOSTILE),
        columns("a", [HOSTILE], [Series("b", [None])], notes={HOSTILE: HOSTILE}),
        lines(HOSTILE, [HOSTILE], [Series(HOSTILE, [1.0]), Series("b", [2.0])]),
    ],
)
def test_hostile_text_is_text_wherever_it_is_drawn(svg: str) -> None:
    found = drawn(svg)

    assert {each.tag.removeprefix(SVG) for each in found.iter()} <= {
        *("svg", "style", "rect", "title", "desc", "text", "path", "g", "polyline", "circle")
    }
    assert any("<script>" in (each.text or "") for each in found.iter())
    assert not [name for each in found.iter() for name in each.attrib if name.startswith("on")]
    svg.encode()


def test_text_is_on_one_line_with_its_control_characters_shown() -> None:
    assert clean("a\nb\t 'c' \x1b[0m") == r"a b &#x27;c&#x27; \x1b[0m"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("abc", "abc"), ("abcdef", "abc…"), ("ab  c", "ab c"), ("abc def", "abc…")],
)
def test_a_long_text_ends_in_an_ellipsis(text: str, expected: str) -> None:
    assert shortened(text, 4) == expected


def test_a_chart_has_a_title_and_a_description_for_those_who_cannot_see_it() -> None:
    found = drawn(columns("Revenue by day", DAYS[:3], [Series("revenue", [1.0, 7.5, 3.0])]))

    named = {each.get("id"): each.text for each in found.iter() if each.get("id")}
    assert found.get("role") == "img"
    assert [named[i] for i in (found.get("aria-labelledby") or "").split()] == [
        "Revenue by day",
        "01-01 to 01-03; most 7.50 (01-02), least 1 (01-01).",
    ]


def luminance(colour: str) -> float:
    """WCAG 2.2's relative luminance of `#rrggbb`."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


@pytest.mark.parametrize("scheme", [LIGHT, DARK])
def test_colours_stand_out_from_their_paper(scheme: str) -> None:
    colours = dict(re.findall(r"--(\w+):(#\w{6})", scheme))
    paper = luminance(colours["paper"])

    def contrast(name: str) -> float:
        low, high = sorted((paper, luminance(colours[name])))
        return (high + 0.05) / (low + 0.05)

    assert min(contrast(name) for name in ("ink", "soft")) >= 4.5
    assert min(contrast(name) for name in colours if re.fullmatch(r"c\d", name)) >= 3
