"""Charts are well-formed, to scale, and escape what they are given."""

from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

import pytest

from allocator_service.core.charts import BarRow, Curve, bar_chart, growth_chart, history_chart
from allocator_service.core.charts.drawing import LABEL_WIDTH, WIDTH

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


def test_growth_in_proportion_is_a_slope_of_one_decade_per_decade():
    curves = [Curve("a", [(10, 0.02), (100, 0.2), (1000, 2.0)]), Curve("b", [(10, 5.0)])]
    chart = growth_chart(title="t", sizes="tenants", unit="s", curves=curves)
    first, second, third, lone = [
        (float(dot.get("cx")), float(dot.get("cy")))
        for dot in ET.fromstring(chart.svg).iter(f"{SVG}circle")
    ]
    assert second[0] - first[0] == pytest.approx(third[0] - second[0], abs=0.2)
    assert first[1] - second[1] == pytest.approx(second[1] - third[1], abs=0.2)
    assert lone[0] == first[0]
    assert {"tenants", "s", "a", "b", "10", "100", "1,000", "0.01", "0.1", "1"} <= set(texts(chart))


def test_growth_without_values_says_so():
    chart = growth_chart(title="t", sizes="n", unit="s", curves=[])
    assert "No values yet." in texts(chart)


def test_marks_are_to_scale_and_stay_on_the_paper():
    rows = [BarRow("a", (10.0,), (5.0,)), BarRow("b", (0.0,), (20.0,))]
    chart = bar_chart(title="<t>", unit="&", series=("CPU",), rows=rows, marked="brought")
    root = ET.fromstring(chart.svg)
    strokes = [each for each in root.iter() if each.get("stroke-width") == "2.5"]
    legend, first, second = (float(each.get("x1", 0)) for each in strokes)
    assert second - LABEL_WIDTH == pytest.approx(4 * (first - LABEL_WIDTH), rel=1e-2)
    assert LABEL_WIDTH < legend < WIDTH
    assert second <= WIDTH
