"""Numbers in the sentences of explanations."""

from __future__ import annotations

import re
from decimal import Decimal

# What is this near to a whole number, relative to it, is one but for rounding.
_NOISE = 1e-9
_LEAST = 1e-3
_DIGITS, _SET_DIGITS = 4, 12
# Words and abbreviations of devices (GPU, vCPU) have a plural. Symbols such as GiB, MHz or W have none.
_NOUN = re.compile(r"[a-z]{3,}|v?[A-Z]{1,3}U|FPGA", re.ASCII)
_NAMED_BY_UNIT = {("cpu", "core"), ("cpus", "core")}


def number(value: float) -> str:
    """Return a whole number with all digits, any other one with four, such as 1,234 or 5.333."""
    size = abs(value)
    if abs(value - round(value)) <= _NOISE * max(size, 1.0) or size >= 10**_DIGITS:
        return f"{round(value):,}"
    if 0 < value < _LEAST:
        return f"less than {_LEAST}"
    return f"{value:,.{_DIGITS}g}"


def weight_text(weight: float) -> str:
    """Return a weight that someone set with all of its digits, and a computed one with four.

    A computed one, such as 4/7, has more than twelve digits.
    """
    exact = Decimal(f"{weight:.{_SET_DIGITS}g}")
    if len(exact.as_tuple().digits) >= _SET_DIGITS:
        return number(weight)
    return f"{exact:,f}"


def percent(fraction: float) -> str:
    """Return a fraction in percent, such as 71.43 %."""
    shown = number(fraction * 100)
    if shown == "100" and fraction < 1 - _NOISE:
        shown = "less than 100"
    return f"{shown} %"


def counted_tasks(count: float) -> str:
    """Return a number of tasks, such as 1 task or 5.333 tasks."""
    shown = number(count)
    return f"{shown} task" if shown == "1" else f"{shown} tasks"


def amount(value: float, resource: str, unit: str) -> str:
    """Return an amount of a resource, such as 4 GPUs, 1 core, 2 GiB memory or 3 a100 GPUs."""
    shown = number(value)
    one, counted = _units(unit, "1"), _units(unit, shown)
    if not unit:
        return f"{shown} {resource}"
    named = (resource.lower(), _units(resource.lower(), "1"))
    if one.lower() in named or (resource, one) in _NAMED_BY_UNIT:
        return f"{shown} {counted}"
    if _NOUN.fullmatch(unit):
        return f"{shown} {resource} {counted}"
    return f"{shown} {counted} {resource}"


def _units(unit: str, count: str) -> str:
    if not _NOUN.fullmatch(unit):
        return unit
    one = unit[:-1] if unit.endswith("s") and not unit.endswith("ss") else unit
    return one if count == "1" else f"{one}s"
