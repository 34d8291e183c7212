"""Charts as SVG, drawn on the server.

Colours are of Okabe and Ito's palette, which people with any kind of colour vision can distinguish.
Series differ in lightness too, and lines beyond the palette in their dashes, so that a printed page
keeps them apart.
"""

from allocator_service.core.charts.bars import BarRow, bar_chart
from allocator_service.core.charts.curves import Curve, growth_chart
from allocator_service.core.charts.drawing import COLOURS, Chart, Reference, column
from allocator_service.core.charts.gantt import GanttBar, GanttRow, gantt_chart
from allocator_service.core.charts.lines import StepLine, history_chart, steps_chart

__all__ = [
    "COLOURS",
    "BarRow",
    "Chart",
    "Curve",
    "GanttBar",
    "GanttRow",
    "Reference",
    "StepLine",
    "bar_chart",
    "column",
    "gantt_chart",
    "growth_chart",
    "history_chart",
    "steps_chart",
]
