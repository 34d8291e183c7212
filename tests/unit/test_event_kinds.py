"""The list of the kinds of events is that of what the code tells, and the guide has all of them."""

import ast
from pathlib import Path

from allocator_service.core.outbox import EVENT_KINDS

PROJECT = Path(__file__).parents[2]


def told() -> set[str]:
    """The `kind` of every call that records events."""
    return {
        str(keyword.value.value)
        for path in (PROJECT / "allocator_service").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in RECORDING
        for keyword in node.keywords
        if keyword.arg == "kind" and isinstance(keyword.value, ast.Constant)
    }


RECORDING = ("event_record", "events_record")


def test_every_kind_that_is_told_is_listed_and_no_other():
    assert told() == set(EVENT_KINDS)
    assert list(EVENT_KINDS) == sorted(EVENT_KINDS)


def test_the_guide_lists_every_kind_and_no_other():
    guide = (PROJECT / "docs" / "guides" / "webhooks.md").read_text()
    _, _, table = guide.partition("## Event kinds")
    rows = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]
    assert rows == list(EVENT_KINDS)
