"""Charts are well-formed, to scale, and escape what they are given."""

from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

import pytest

from allocator_service.core.charts import BarRow, bar_chart, history_chart

SVG = "{http://www.w3.org/2000/svg}"
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def bars(chart):
    return [
        float(bar.get("width"))
        for bar in ET.fromstring(chart.svg).iter(f"{SVG}rect")
        if bar.find(f"{SVG}title") is not None
    ]


def texts(chart):
    return [text.text for text in ET.fromstring(chart.svg).iter(f"{SVG}text")]


def test_bars_are_to_scale_and_name_their_unit():
    chart = bar_chart(
        title="cpu",
        unit="core",
        series=["a", "b"],
        rows=[BarRow("x", [10, 5]), BarRow("y", [None, 0])],
    )
    widths = bars(chart)
    assert widths[0] == pytest.approx(2 * widths[1], rel=0.01)
    assert widths[2:] == [0]
    assert {"cpu", "core", "a", "b", "x", "y"} <= set(texts(chart))


def test_stacked_bars_stand_behind_each_other():
    chart = bar_chart(
        title="t", unit="u", series=["a", "b"], rows=[BarRow("x", [3, 1])], stacked=True
    )
    first, second = [
        bar
        for bar in ET.fromstring(chart.svg).iter(f"{SVG}rect")
        if bar.find(f"{SVG}title") is not None
    ]
    assert float(second.get("x")) == pytest.approx(
        float(first.get("x")) + float(first.get("width")), abs=0.2
    )


@pytest.mark.parametrize("values", [[], [0.0], [1e-12], [1e15], [3, 9999.5]])
def test_any_numbers_make_a_picture(values):
    rows = [BarRow(str(position), [value]) for position, value in enumerate(values)]
    ET.fromstring(bar_chart(title="t", unit="u", series=["s"], rows=rows).svg)
    points = [(NOON + timedelta(seconds=n), value) for n, value in enumerate(values)]
    ET.fromstring(history_chart(title="t", unit="u", points=points).svg)


def test_names_are_escaped_and_long_ones_cut():
    chart = bar_chart(
        title="<script>", unit="&", series=["s"], rows=[BarRow("<b>" + "x" * 40, [1.0])]
    )
    assert "<script>" not in chart.svg
    assert "<script>" in texts(chart)
    assert any(text.endswith("…") for text in texts(chart))


def test_a_history_without_values_says_so():
    assert "No values yet." in texts(history_chart(title="t", unit="u", points=[(NOON, None)]))
