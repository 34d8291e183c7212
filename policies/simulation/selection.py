"""Policies that can be simulated, with their options.

It is apart from the simulator, so that a caller that only lists or checks loads no compiler.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from policies import catalogue
from policies.errors import PolicyOptionsError, PolicyUnknownError
from policies.model.options import mismatch
from policies.model.policy import Choice, Policy, Servers, options_schema

FFMRA = replace(
    catalogue.MRFS,
    name="ffmra",
    description="What MRFS is compared with: the same order of requests, each on the first server "
    "with room",
    source="Hamzeh et al., MRFS, 2020, §VI",
)
DEDICATED = Policy(
    name="dedicated",
    description="Dedicated clouds: each tenant alone on as many random servers as there are per "
    "tenant, rounded up",
    servers={"indivisible": Servers.ROWS},
    options_schema=options_schema(
        seed={"type": "integer", "minimum": 0, "maximum": 2**53, "default": 0,
              "description": "of the random servers"},
    ),
    complexity="as drfh, once per tenant",
    source="Wang et al., TPDS 2015, §6.3",
    saturates=False,
    takes_gangs=True,
)  # fmt: skip
# A decision by ``static`` counts tasks; a simulation places the pieces on each tenant's own part.
STATIC = replace(catalogue.STATIC, takes_gangs=True)
_SIMULATED = (
    catalogue.DRF, catalogue.ASSET, catalogue.SINGLE_RESOURCE, catalogue.SLOTS, catalogue.DRFH,
    catalogue.LT_DRF, catalogue.LT_AF, catalogue.H_MRF, catalogue.MRFS, FFMRA, STATIC, DEDICATED,
)  # fmt: skip
POLICIES: Mapping[str, Policy] = {policy.name: policy for policy in _SIMULATED}
# Each tenant runs alone on servers of its own.
APART = (STATIC, DEDICATED)
_NOT_SIMULATED = ("resource_weights", "borrow_cap", "literal_alone")


def choose_simulated(name: str, options: Mapping[str, Any] | None) -> Choice:
    """Return the policy of that name with its options, checked.

    Raises:
        PolicyUnknownError: it cannot be simulated. PolicyOptionsError: options that do not fit, or
            that a simulation does not take.
    """
    if name not in POLICIES:
        raise PolicyUnknownError(
            "policy.unknown",
            f"policy {name!r} cannot be simulated; these can: {', '.join(POLICIES)}",
            "/policy/name",
        )
    given = dict(options or {})
    wrong = mismatch(POLICIES[name].options_schema, given)
    refused = next((option for option in _NOT_SIMULATED if given.get(option)), None)
    if refused is not None and wrong is None:
        wrong = f"/{refused}", f"a simulation does not take {refused}"
    if wrong is not None:
        raise PolicyOptionsError(
            "policy.options",
            f"options of policy {name!r}: {wrong[1]}",
            f"/policy/options{wrong[0]}",
        )
    return Choice(POLICIES[name], "indivisible", given)
