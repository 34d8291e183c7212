"""Numbers in the sentences of explanations."""

from __future__ import annotations

# What is this near to a whole number, relative to it, is one but for rounding.
_NOISE = 1e-9
_LEAST = 1e-3
_DIGITS = 4


def number(value: float) -> str:
    """Return a whole number with all digits, any other one with four, such as 1,234 or 5.333."""
    size = abs(value)
    if abs(value - round(value)) <= _NOISE * max(size, 1.0) or size >= 10**_DIGITS:
        return f"{round(value):,}"
    if 0 < value < _LEAST:
        return f"less than {_LEAST}"
    return f"{value:,.{_DIGITS}g}"


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
