"""Policies as data.

A policy has a name, options, and the traits that other code acts on. Nothing in this package
compares names of policies: what a policy counts as a share, where it places tasks and what its
answers promise are fields of :class:`Policy`.
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
    """Build the JSON Schema of a policy's options.

    Parameters
    ----------
    **properties : mapping
        JSON Schema of each option; all are optional, and no others are accepted.

    Returns
    -------
    dict
        The schema of the object.

    Examples
    --------
    >>> from policies import options_schema
    >>> options_schema(seed={"type": "integer"})["additionalProperties"]
    False
    """
    return {"type": "object", "properties": properties, "additionalProperties": False}


class ShareDefinition(Enum):
    """Share that one task adds to its tenant.

    Examples
    --------
    >>> from policies import ShareDefinition, policy_named
    >>> policy_named("asset").share is ShareDefinition.SUM
    True
    """

    DOMINANT = "the largest share of any resource"
    SUM = "the sum of the shares of all resources"
    SINGLE_RESOURCE = "the share of one resource"
    SLOTS = "the share of equal slots"
    ALONE = "the part of the tasks that the workload would run alone on the whole pool"


class Servers(Enum):
    """View of the servers that a mode of a policy has, and to which its placements refer.

    Examples
    --------
    >>> from policies import Servers, policy_named
    >>> policy_named("drfh").servers["divisible"] is Servers.CLASSES
    True
    """

    ONE_POOL = "all servers together are one"
    CLASSES = "identical servers are one class; their tasks spread evenly"
    RANGES = "ranges of servers of one row that run the same whole tasks"
    ROWS = "every row by itself"


class Proof(Enum):
    """Optimality that the certificate of an answer proves.

    Examples
    --------
    >>> from policies import Proof, policy_named
    >>> policy_named("ceei").proof is Proof.NASH_PRODUCT
    True
    """

    LEVELS = "no level of the leximin can be higher"
    NASH_PRODUCT = "no other shares have a greater weighted product"


class HandOut(Enum):
    """Order in which a policy hands out whole tasks, which a verifier can repeat.

    Examples
    --------
    >>> from policies import HandOut, policy_named
    >>> policy_named("mrfs").hands_out is HandOut.FEWEST_REQUESTS
    True
    """

    LEAST_SHARE = "to the tenant with the least share of what runs"
    FEWEST_REQUESTS = "to the tenant with the fewest requests, on the server that stays most even"
    LEAST_ACCUMULATED_DOMINANT = "to the tenant with the least accumulated dominant share"
    LEAST_ACCUMULATED_SUM = "to the tenant with the least accumulated sum of shares"
    LEAST_SHARING_DEGREE = "to the tenant that loses most by sharing, then by the accumulated sum"
    OWN_PARTITION = "to each tenant in the servers that it has to itself"


@dataclass(frozen=True, eq=False, kw_only=True)
class Policy:
    """Allocation policy with its modes, its options and the traits that other code acts on.

    Attributes
    ----------
    name : str
        Name by which ``solve`` finds it.
    description : str
        One sentence, for lists.
    title : str
        Name for people; the name itself unless given.
    servers : mapping of str to Servers
        How each mode sees the servers; the first mode is the default.
    options_schema : mapping
        JSON Schema of ``options``. Unknown options never fit; an option that is left out has the
        ``default`` of its property, if there is one.
    option_modes : mapping of str to str
        Options that one mode alone reads, with that mode.
    complexity : str
        Running time in words.
    source : str
        The paper it comes from.
    share : ShareDefinition
        What it counts as a tenant's share, unless an option changes it (``Choice.share``).
    one_pool_when : (option, value) or None
        Option with which it sees the pool as one server.
    long_term : bool
        Whether it reads and writes a history.
    time_sharing : bool
        Whether it divides time, so that it can repay a deficit.
    hands_out : HandOut or None
        How it hands out whole tasks one by one. Its answers promise the counts, and where it places the
        servers, that come of it; None where it has its own way, of which nothing is verified.
    takes_groups : bool
        Whether groups and tiers decide the order of tenants. Other policies refuse problems that
        have any.
    takes_gangs : bool
        Whether it places the pieces of whole tasks. Other policies that place whole tasks refuse
        problems that have any, and the rest count their sum.
    keeps_tasks : bool
        Whether tasks that a problem states to be kept stay on their servers. Other policies refuse
        problems that state any.
    takes_limits : bool
        Whether it keeps limits of groups, tenants and workloads. Other policies refuse problems that
        have any.
    saturates : bool
        Whether it goes on until no requested task fits.
    proof : Proof or None
        What its certificates prove; None where it has none. Answers with divisible tasks, and those of
        time-sharing policies, promise a certificate.

    Examples
    --------
    >>> from policies import policy_named
    >>> policy = policy_named("drf")
    >>> policy.modes, policy.places
    (('divisible', 'indivisible'), False)
    """

    name: str
    description: str
    title: str = ""
    servers: Mapping[str, Servers]
    options_schema: Mapping[str, Any] = field(default_factory=lambda: NO_OPTIONS)
    option_modes: Mapping[str, str] = field(default_factory=dict)
    complexity: str
    source: str
    share: ShareDefinition = ShareDefinition.DOMINANT
    one_pool_when: tuple[str, Any] | None = None
    long_term: bool = False
    time_sharing: bool = False
    hands_out: HandOut | None = None
    takes_groups: bool = False
    takes_gangs: bool = False
    keeps_tasks: bool = False
    takes_limits: bool = False
    saturates: bool = True
    proof: Proof | None = None

    @property
    def modes(self) -> tuple[str, ...]:
        """Names of the modes, the default first."""
        return tuple(self.servers)

    @property
    def places(self) -> bool:
        """True if it decides on servers, unless an option selects otherwise."""
        return not Choice(self, self.modes[0]).sees_one_pool

    @property
    def fills(self) -> bool:
        """True if it hands out whole tasks by least share, so that levels are shares of what runs."""
        return self.hands_out is HandOut.LEAST_SHARE


@dataclass(frozen=True, eq=False)
class Choice:
    """A policy with its mode and the options that were given.

    Attributes
    ----------
    policy : Policy
        The policy that decides.
    mode : str
        One of its modes.
    options : mapping
        The options given, checked against the policy's schema.

    Examples
    --------
    >>> from policies import choose
    >>> choice = choose("tda", options={"pack": True})
    >>> choice.mode, choice.option("pack"), choice.option("effort")
    ('indivisible', True, 1)
    """

    policy: Policy
    mode: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def option(self, name: str) -> Any:
        """Return the value of an option, or its default.

        None if it has neither.
        """
        if name in self.options:
            return self.options[name]
        return self.policy.options_schema["properties"].get(name, {}).get("default")

    @property
    def share(self) -> ShareDefinition:
        """Definition of a tenant's share, by the policy or its option ``share``."""
        return ShareDefinition.ALONE if self.option("share") == "alone" else self.policy.share

    @property
    def promises_certificate(self) -> bool:
        """True if every answer proves that it is the best."""
        shared = self.mode == "divisible" or self.policy.time_sharing
        return self.policy.proof is not None and shared

    @property
    def sees_one_pool(self) -> bool:
        """True if the pool counts as one server, so that nothing is placed."""
        if self.policy.one_pool_when is not None:
            name, value = self.policy.one_pool_when
            if self.option(name) == value:
                return True
        return self.policy.servers[self.mode] is Servers.ONE_POOL

    @property
    def places_pieces(self) -> bool:
        """True if the pieces of a task are placed one by one."""
        return self.policy.takes_gangs and self.mode == "indivisible" and not self.sees_one_pool

    @property
    def keeps_tasks(self) -> bool:
        """True if tasks stay that a problem states to be kept."""
        return self.policy.keeps_tasks and self.mode == "indivisible" and not self.sees_one_pool

    @property
    def whole_tasks(self) -> bool:
        """True if allocated tasks are whole numbers.

        Averages over the slots of a schedule are not.
        """
        return self.mode == "indivisible" and not self.policy.time_sharing
