"""JSON reader that rejects repeated names and numbers beyond float64."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn


def strict_json(text: str) -> Any:
    """Return the value that a text spells.

    Raises:
        ValueError: it is not JSON, has a name twice in one object, or a number that float64 does not
            hold. RecursionError: it nests too deep.
    """
    return json.loads(
        text, object_pairs_hook=_members, parse_float=_finite, parse_constant=_refuse_constant
    )


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f'the name "{name[:80]}" appears twice in one object')
            seen.add(name)
    return members


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:40]} is beyond float64")
    return number


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")
