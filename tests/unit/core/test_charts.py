"""Charts are well-formed, to scale, and escape what they are given."""

import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET
from zoneinfo import ZoneInfo

import pytest

from allocator_service.core.charts import (
    BarRow,
    Curve,
    GanttBar,
    GanttRow,
    Reference,
    StepLine,
    bar_chart,
    column,
    gantt_chart,
    growth_chart,
    history_chart,
    steps_chart,
)
from allocator_service.core.charts.drawing import COLOURS, NARROW, WIDE
from allocator_service.core.display import instant_text

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


NAME = "the workload of an institute whose name is long, " * 4


@pytest.mark.parametrize("frame", [WIDE, NARROW], ids=["wide", "narrow"])
def test_a_legend_has_whole_names_within_the_picture(frame):
    steps = [(NOON, NOON + timedelta(hours=1), 1.0)]
    lines = [StepLine(name, steps) for name in ("a", NAME, "b", "c" * 200)]
    drawn = steps_chart(title="t", unit="u", lines=lines).draw(frame)
    root = ET.fromstring(f"<svg xmlns='http://www.w3.org/2000/svg'>{drawn.body}</svg>")
    keys = [each for each in root.iter(f"{SVG}text") if each.get("text-anchor") == "start"]
    shown = " ".join(each.text for each in keys)
    assert NAME.strip() in shown
    assert "c" * 200 in shown.replace(" ", "")
    assert all(float(each.get("x")) + 7 * len(each.text) <= frame.width for each in keys)
    heights = [float(each.get("y")) for each in keys]
    axis = min(
        float(each.get("y1")) for each in root.iter(f"{SVG}line") if each.get("stroke") == "#ddd"
    )
    assert sorted(heights)[-2] < axis  # the last one is the end of the axis
    assert not any(each.text.endswith("…") for each in keys)


def test_a_timetable_has_whole_names():
    bar = GanttBar(NOON, NOON + timedelta(minutes=5), "4 tasks", 0)
    rows = [GanttRow(NAME[:60], [bar]), GanttRow(NAME, [bar])]
    chart = gantt_chart(
        title="t", series=["s"], rows=rows, start=NOON, end=NOON + timedelta(hours=1)
    )
    assert NAME[:60] in " ".join(filter(None, texts(chart)))
    titles = [each.text for each in ET.fromstring(chart.svg).iter(f"{SVG}title")]
    assert NAME in titles  # more than three lines are cut, and whole in a tooltip


def test_names_are_escaped_and_long_ones_cut():
    chart = bar_chart(
        title="<script>", unit="&", series=["s"], rows=[BarRow("<b>" + "x" * 80, [1.0])]
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
    assert second - WIDE.label_width == pytest.approx(4 * (first - WIDE.label_width), rel=1e-2)
    assert WIDE.label_width < legend < WIDE.width
    assert second <= WIDE.width


def lines_of(chart):
    return [
        (each.get("stroke"), each.get("stroke-dasharray"), each.get("stroke-dashoffset"))
        for each in ET.fromstring(chart.svg).iter(f"{SVG}polyline")
    ]


def points_of(chart):
    return [
        [tuple(map(float, point.split(","))) for point in each.get("points").split()]
        for each in ET.fromstring(chart.svg).iter(f"{SVG}polyline")
    ]


def steps(*lines, reference=None, whole=False):
    named = [
        StepLine(
            str(number),
            [
                (NOON + timedelta(hours=hour), NOON + timedelta(hours=hour + 1), value)
                for hour, value in enumerate(values)
            ],
        )
        for number, values in enumerate(lines)
    ]
    return steps_chart(title="t", unit="u", lines=named, reference=reference, whole=whole)


@pytest.mark.parametrize(
    ("values", "whole", "expected"),
    [
        ([0, 1], True, ["0", "1"]),
        ([1, 2], True, ["1", "2"]),
        ([1, 3], True, ["0", "1", "2", "3"]),
        ([3, 17], True, ["0", "5", "10", "15", "20"]),
        ([1000, 1001], True, ["1,000", "1,001"]),
        ([0, 0], True, ["0", "1"]),
        ([0, 1], False, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
    ],
)
def test_an_axis_of_whole_numbers_has_no_fractions(values, whole, expected):
    chart = steps(values, whole=whole)
    texts = ET.fromstring(chart.svg).iter(f"{SVG}text")
    axis = [each.text for each in texts if each.get("x") == "54.0"]
    assert axis == expected


BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("start", "end", "labels"),
    [
        (
            datetime(2026, 11, 22, tzinfo=BERLIN),
            datetime(2026, 11, 24, 14, tzinfo=BERLIN),
            ["22 Nov", "12:00", "23 Nov", "12:00", "24 Nov", "12:00"],
        ),
        # The clocks skip an hour, and show the one of autumn once.
        (
            datetime(2026, 3, 29, 1, tzinfo=BERLIN),
            datetime(2026, 3, 29, 4, 30, tzinfo=BERLIN),
            ["01:00", "01:30", "03:00", "03:30", "04:00", "04:30"],
        ),
        (
            datetime(2026, 10, 25, 1, tzinfo=BERLIN),
            datetime(2026, 10, 25, 3, tzinfo=BERLIN),
            ["01:00", "01:30", "02:00", "02:30", "03:00"],
        ),
    ],
)
def test_an_axis_of_time_has_the_clocks_of_its_zone(start, end, labels):
    spans = [(start.astimezone(UTC), end.astimezone(UTC), 1.0)]
    chart = steps_chart(title="t", unit="u", lines=[StepLine("s", spans)], zone="Europe/Berlin")
    drawn = texts(chart)
    assert [each for each in drawn if re.fullmatch(r"\d\d:\d\d|\d+ \w{3}", each or "")] == labels
    assert (
        f"{instant_text(start, 'Europe/Berlin')} to {instant_text(end, 'Europe/Berlin')}" in drawn
    )
    (mark,) = [
        each.text for each in ET.fromstring(chart.svg).iter(f"{SVG}title") if each.text != "t"
    ]
    assert mark == f"s, {instant_text(start, 'Europe/Berlin', 'second')}: 1 u"


def test_lines_that_coincide_alternate_in_dashes_and_are_both_visible():
    first, second = COLOURS[:2]
    chart = steps([4, 4], [4, 4])
    assert lines_of(chart) == [(first, "6 6", "0"), (second, "6 6", "-6")]
    assert points_of(chart)[0] == points_of(chart)[1]
    three = lines_of(steps([4], [4], [4]))
    assert [(dash, offset) for _, dash, offset in three] == [
        ("6 12", "0"), ("6 12", "-6"), ("6 12", "-12"),
    ]  # fmt: skip


def test_lines_are_dashed_only_where_they_coincide():
    chart = steps([4, 4, 8], [2, 4, 4])
    first, second = COLOURS[:2]
    assert lines_of(chart) == [
        (first, None, None), (first, "6 6", "0"), (first, None, None),
        (second, None, None), (second, "6 6", "-6"), (second, None, None),
    ]  # fmt: skip
    places = points_of(chart)
    # Both pieces begin at one point, so that the dashes of one fill the gaps of the other.
    assert places[1][0] == places[4][0]
    # Steps are drawn: each piece begins where the one before it ends.
    assert [places[n][-1] for n in (0, 1, 3, 4)] == [places[n][0] for n in (1, 2, 4, 5)]


def test_lines_apart_or_with_gaps_stay_whole():
    assert [dash for _, dash, _ in lines_of(steps([4, 6, 4], [1, 2, 3]))] == [None, None]
    assert len(lines_of(steps([4, None, 4]))) == 2
    assert len(points_of(steps([4, 4, 4, 5]))[0]) == 4


@pytest.mark.parametrize(
    ("values", "marks"),
    [
        ([980, 1000], ["980", "985", "990", "995", "1,000"]),
        ([1000.2, 1001], ["1,000.2", "1,000.4", "1,000.6", "1,000.8", "1,001.0"]),
        ([1, 10], ["0", "2", "4", "6", "8", "10"]),
        ([10, 10], ["0", "2", "4", "6", "8", "10"]),
        ([0, 0], ["0", "1"]),
    ],
)
def test_the_axis_of_values_fits_them(values, marks):
    chart = steps(values)
    ends = [
        each.text
        for each in ET.fromstring(chart.svg).iter(f"{SVG}text")
        if each.get("text-anchor") == "end" and "to" not in each.text
    ]
    assert ends == marks
    heights = [y for path in points_of(chart) for _, y in path]
    assert 54 <= min(heights) <= max(heights) <= chart.draw(WIDE).height - 46 + 0.1


def test_an_entitlement_far_above_the_values_is_a_mark_and_does_not_flatten_them():
    far = Reference(500, "entitled: 500 u", is_included=False)
    chart = steps([10, 4], reference=far)
    assert points_of(chart) == points_of(steps([10, 4]))
    assert "entitled: 500 u (above the axis)" in texts(chart)
    assert chart.svg.count("class='mark'") == 1
    near = steps([10, 4], reference=Reference(12, "entitled: 12 u", is_included=False))
    assert "entitled: 12 u" in texts(near)
    assert "class='mark'" not in near.svg
    low = steps([1000, 990], reference=Reference(1, "entitled: 1 u", is_included=False))
    assert "entitled: 1 u (below the axis)" in texts(low)


POLICIES = [
    "Fair shares on real servers (DRFH)",
    "Fair shares on real servers (DRFH) (two-choices)",
]
LONG_TITLE = "memory: used, and what it would have been alone, means of 3 h 30 min"


def every_kind_of_chart():
    end = NOON + timedelta(days=7)
    values = [(NOON, NOON + timedelta(days=1), 3.0), (NOON + timedelta(days=1), end, 1_234_567.0)]
    bar = GanttBar(NOON, NOON + timedelta(days=1), "72 slots", 0)
    return [
        bar_chart(
            title=LONG_TITLE,
            unit="per cent of the pool",
            series=POLICIES,
            rows=[BarRow(each, [1.0, 1_234_567.0], [5.0, 7.0]) for each in POLICIES],
            reference=Reference(5.0, "1: as much as alone"),
            marked="contributed",
        ),
        steps_chart(
            title=LONG_TITLE,
            unit="cores, mean of the day",
            lines=[StepLine(each, values) for each in POLICIES],
            reference=Reference(9e9, "entitled now: 9,000,000,000 cores", is_included=False),
        ),
        history_chart(title=LONG_TITLE, unit="tasks", points=[(NOON, 3.0), (end, 4.0)]),
        gantt_chart(
            title=LONG_TITLE,
            series=POLICIES,
            rows=[GanttRow(POLICIES[0], [bar])],
            start=NOON,
            end=end,
        ),
        growth_chart(
            title=LONG_TITLE,
            sizes="tenants",
            unit="seconds",
            curves=[Curve(each, [(10, 0.02), (1_234_567, 9_999.0)]) for each in POLICIES],
        ),
    ]


def test_a_page_has_each_picture_for_phones_too_and_nothing_of_it_is_cut_off():
    charts = every_kind_of_chart()
    for chart in [*charts, column("all", charts)]:
        wide, narrow = ET.fromstring(f"<p>{chart.picture}</p>")
        assert (wide.get("width"), narrow.get("width")) == ("760", "360")
        assert narrow.get("class") == "narrow"
        # Where no style sheet chooses, the picture is there once.
        assert (wide.get("display"), narrow.get("display")) == (None, "none")
        for shown in narrow.iter(f"{SVG}text"):
            size = 8.0 if shown.get("font-size") else 6.0  # pixels of a character
            at, length = float(shown.get("x")), size * len(shown.text)
            part = {None: 0, "start": 0, "middle": 0.5, "end": 1}[shown.get("text-anchor")]
            assert at - part * length >= -4, shown.text
            assert at + (1 - part) * length <= NARROW.width + 4, shown.text


def test_long_names_are_told_apart_in_labels_and_legends():
    shown = texts(every_kind_of_chart()[0])
    keys = {each for each in shown if each.startswith(POLICIES[0])}
    assert len(keys) == len(POLICIES)
    assert shown.count("choices)") == 1
