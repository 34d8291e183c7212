"""Files of one or several JSON documents of Slurm, perhaps with the text of `scontrol show topology`.

A job has some two hundred values, so that the lists of a document are parsed item by item: neither a
limit on all values nor the memory for all of them would suit a cluster with 100,000 jobs.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from allocator_service.core.errors import TooLarge
from allocator_service.imports.reading import (
    MAX_VALUES,
    check_row_count,
    not_the_json,
    refuse_constant,
)

TOPOLOGY = "topology"
_FIRST_WINDOW = 2**12
_SPACE = re.compile(r"[ \t\r\n]*")
_SWITCH = re.compile(r"^SwitchName=(\S+) Level=0 [^\n]*?\bNodes=(\S+)", re.MULTILINE)
# Brackets end before further ones, or a text of open ones would take quadratic time.
_NODES = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_NODE_PART = re.compile(r"([^\[\]]+)|\[([^\[\]]*)\]")
_MOST_NODES = 65_533  # of a cluster of Slurm
_LONGEST_NODES = 2**16

Reduce = Callable[[str, Any], Any]


def slurm_content(
    content: str | dict[str, Any], reduce: Reduce = lambda _, item: item
) -> dict[str, Any]:
    """Return the members of all documents, and text between these as `topology`.

    `reduce` is called with the name of a list and each of its items, and returns what is kept of it.
    Raises `Unacceptable` for other content, and `TooLarge`.
    """
    if not isinstance(content, str):
        return {
            name: [reduce(name, item) for item in value] if isinstance(value, list) else value
            for name, value in content.items()
        }
    try:
        return _documents(content, reduce)
    except json.JSONDecodeError as error:
        reason = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise not_the_json(reason) from error
    except (ValueError, RecursionError) as error:
        raise not_the_json("it is nested too deeply or has a number too long to read") from error


def switches_of(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the switch of each node, none without a topology.

    Of several switches of a node the first counts.
    """
    text = document.get(TOPOLOGY)
    found: dict[str, str] = {}
    for switch, nodes in _SWITCH.findall(text if isinstance(text, str) else ""):
        for node in node_names(nodes):
            found.setdefault(node, label_text(switch))
    return found


def node_names(text: str) -> tuple[str, ...]:
    """Return the nodes of a list such as `n[1-3,07],gpu1`, none if it cannot be read."""
    if len(text) > _LONGEST_NODES:
        return ()
    names: list[str] = []
    for item in _NODES.findall(text):
        heads = [""]
        for fixed, ranges in _NODE_PART.findall(item):
            numbers = list(_numbers(ranges)) if ranges else [fixed]
            if len(heads) * len(numbers) > _MOST_NODES:
                return ()
            heads = [head + number for head in heads for number in numbers]
        names += heads
        if not heads or len(names) > _MOST_NODES:
            return ()
    return tuple(names)


def label_text(text: str) -> str:
    """Return a text as the value of a label."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)


def _numbers(ranges: str) -> Iterator[str]:
    """Yield the numbers of `1-3,07` with the zeros that they begin with."""
    for item in ranges.split(","):
        first, _, last = item.partition("-")
        last = last or first
        if not re.fullmatch("[0-9]{1,9}", first) or not re.fullmatch("[0-9]{1,9}", last):
            return
        if int(last) - int(first) > _MOST_NODES:
            return
        for number in range(int(first), int(last) + 1):
            yield f"{number:0{len(first)}d}"


def _documents(content: str, reduce: Reduce) -> dict[str, Any]:
    found: dict[str, Any] = {}
    texts = []
    has_object = False
    at = _after_space(content, 0)
    while at < len(content):
        if content[at] == "{":
            at = _document(content, at, found, reduce)
            has_object = True
        else:
            end = content.find("\n{", at) + 1 or len(content)
            texts.append(content[at:end])
            at = end
        at = _after_space(content, at)
    text = "".join(texts)
    if text and not _SWITCH.search(text):
        raise not_the_json("expected objects, and nothing else but scontrol show topology")
    if not has_object:
        raise not_the_json("expected an object")
    return found | {TOPOLOGY: text} if text else found


def _document(content: str, at: int, found: dict[str, Any], reduce: Reduce) -> int:
    """Read one object into `found`, and return the position after it."""
    at = _after_space(content, at + 1)
    is_first = True
    while content[at : at + 1] != "}":
        if not is_first:
            at = _after_space(content, _after(content, at, ","))
        is_first = False
        if content[at : at + 1] != '"':
            raise json.JSONDecodeError("a name in double quotes is missing", content, at)
        name, at = _value(content, at)
        at = _after_space(content, _after(content, _after_space(content, at), ":"))
        if content[at : at + 1] == "[":
            found[name], at = _list(content, at, name, reduce)
        else:
            found[name], at = _value(content, at)
        at = _after_space(content, at)
    return at + 1


def _list(content: str, at: int, name: str, reduce: Reduce) -> tuple[list[Any], int]:
    items: list[Any] = []
    at = _after_space(content, at + 1)
    while content[at : at + 1] != "]":
        if items:
            at = _after_space(content, _after(content, at, ","))
        item, at = _value(content, at)
        items.append(reduce(name, item))
        check_row_count(len(items))
        at = _after_space(content, at)
    return items, at + 1


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=refuse_constant)


def _value(content: str, at: int) -> tuple[Any, int]:
    """Return the value at a position, and the position after it."""
    # The parser holds the interpreter until it ends, so that it sees no more than a limited number of
    # values at once.
    size = _FIRST_WINDOW
    while True:
        window = content[at : at + size]
        if size > MAX_VALUES and sum(map(window.count, ",[{")) > MAX_VALUES:
            raise TooLarge(
                f"Expected at most {MAX_VALUES:,} values in one item of a list.",
                code="import.too_many",
            )
        try:
            value, length = _DECODER.raw_decode(window)
        except json.JSONDecodeError as error:
            if at + size >= len(content):
                raise json.JSONDecodeError(error.msg, content, at + error.pos) from error
        else:
            # A number at the end of the window may be cut.
            if length < size or at + size >= len(content):
                return value, at + length
        size *= 4


def _after(content: str, at: int, character: str) -> int:
    if content[at : at + 1] != character:
        raise json.JSONDecodeError(f"{character!r} is missing", content, at)
    return at + 1


def _after_space(content: str, at: int) -> int:
    match = _SPACE.match(content, at)
    return match.end() if match else at
