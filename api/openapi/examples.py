"""Recorded examples of each operation, a request and its answer.

`examples.json` is written by the test that sends them (tests/api/test_examples.py).
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from policies.fields import Schema

FILE = Path(__file__).with_name("examples.json")


class Example(TypedDict):
    """One request, `METHOD /path`, with its body and its answer where there are any."""

    request: str
    body: NotRequired[Any]
    status: NotRequired[int]
    answer: NotRequired[Any]


@cache
def examples() -> Mapping[str, Example]:
    """By the operation's id."""
    found: dict[str, Example] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def add_example(described: Schema) -> None:
    """Put the example of an operation into its description, where the body and the answer are."""
    example = examples().get(described["operationId"])
    if example is None:
        return
    summary = example["request"]
    if "body" in example:
        _add(described["requestBody"], summary, example["body"])
    if "answer" in example:
        _add(described["responses"][str(example["status"])], summary, example["answer"])


def _add(part: Schema, summary: str, value: Any) -> None:
    content = part["content"]
    # Recorded examples are JSON. Other formats of an answer are made from the same rows.
    if "application/json" in content:
        shown = {"example": {"summary": summary, "value": value}}
        content["application/json"] = {**content["application/json"], "examples": shown}
