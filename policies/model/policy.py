"""What a caller may know about a policy before asking it anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

NO_OPTIONS: Mapping[str, Any] = MappingProxyType(
    {"type": "object", "properties": {}, "additionalProperties": False}
)


def options_schema(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """JSON Schema of an object with these properties, all optional, and no others."""
    return {"type": "object", "properties": properties, "additionalProperties": False}


@dataclass(frozen=True)
class PolicyInfo:
    """What a caller may know about a policy.

    Attributes:
        name, description: for lists; ``source`` is the paper it comes from.
        modes: the first is the default.
        options_schema: JSON Schema that ``options`` must fit; unknown options never fit.
        complexity: running time in words.
        long_term: does it read and write a history?
        takes_turns: does it divide time, so that it can make up for what is owed?
        places: does it decide on servers (and so honours selectors)?
    """

    name: str
    description: str
    modes: tuple[str, ...]
    options_schema: Mapping[str, Any]
    complexity: str
    source: str
    long_term: bool = False
    takes_turns: bool = False
    places: bool = True
