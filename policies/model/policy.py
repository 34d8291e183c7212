"""What a policy is: its name, its options, and the traits that other code acts on.

Nothing in this package compares names of policies: what a policy counts as a share, where it places
tasks and what its answers promise are fields of :class:`Policy`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any

NO_OPTIONS: Mapping[str, Any] = MappingProxyType(
    {"type": "object", "properties": {}, "additionalProperties": False}
)


def options_schema(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """JSON Schema of an object with these properties, all optional, and no others."""
    return {"type": "object", "properties": properties, "additionalProperties": False}


class ShareDefinition(Enum):
    """What one task adds to its tenant's share."""

    DOMINANT = "the largest share of any resource"
    SUM = "the sum of the shares of all resources"
    SINGLE_RESOURCE = "the share of one resource"
    SLOTS = "the share of equal slots"


class Servers(Enum):
    """How a mode of a policy sees the servers, and so what its placements refer to."""

    ONE_POOL = "all servers together are one"
    CLASSES = "identical servers are one class; their tasks spread evenly"
    RANGES = "ranges of servers of one row that run the same whole tasks"
    ROWS = "every row by itself"


class Proof(Enum):
    """What the certificate of an answer proves."""

    LEVELS = "no level of the leximin can be higher"
    NASH_PRODUCT = "no other shares have a greater weighted product"


@dataclass(frozen=True, eq=False, kw_only=True)
class Policy:
    """A policy, as callers and other modules may know it; its solvers are in ``registry``.

    Attributes:
        name, description: for lists; ``source`` is the paper it comes from.
        servers: how each of its modes sees the servers; the first mode is the default.
        options_schema: JSON Schema that ``options`` must fit; unknown options never fit, and
            what is left out has the ``default`` of its property, if there is one.
        complexity: running time in words.
        share: what it counts as a tenant's share.
        one_pool_when: (option, value) with which it sees the pool as one server all the same.
        long_term: does it read and write a history?
        time_sharing: does it divide time, so that it can repay a deficit?
        fills: are whole tasks handed out by least share, so that levels are shares of what runs?
        saturates: does it go on until no task that is wanted fits?
        proof: what its certificates prove; None where it has none.
    """

    name: str
    description: str
    servers: Mapping[str, Servers]
    options_schema: Mapping[str, Any] = field(default_factory=lambda: NO_OPTIONS)
    complexity: str
    source: str
    share: ShareDefinition = ShareDefinition.DOMINANT
    one_pool_when: tuple[str, Any] | None = None
    long_term: bool = False
    time_sharing: bool = False
    fills: bool = False
    saturates: bool = True
    proof: Proof | None = None

    @property
    def modes(self) -> tuple[str, ...]:
        """Names of its modes; the first is the default."""
        return tuple(self.servers)

    @property
    def places(self) -> bool:
        """Does it decide on servers, unless an option asks for something else?"""
        return not Choice(self, self.modes[0]).sees_one_pool


@dataclass(frozen=True, eq=False)
class Choice:
    """A policy with its mode and the options that were given.

    Attributes:
        policy: what decides; mode: one of its modes.
        options: those given, checked against the policy's schema.
    """

    policy: Policy
    mode: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def option(self, name: str) -> Any:
        """The option's value, or its default; None where it has neither."""
        if name in self.options:
            return self.options[name]
        return self.policy.options_schema["properties"].get(name, {}).get("default")

    @property
    def sees_one_pool(self) -> bool:
        """Does the pool count as one server, so that nothing is placed?"""
        if self.policy.one_pool_when is not None:
            name, value = self.policy.one_pool_when
            if self.option(name) == value:
                return True
        return self.policy.servers[self.mode] is Servers.ONE_POOL
