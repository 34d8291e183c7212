"""The long-term policies for lists of policies: names, options, sources."""

from __future__ import annotations

from policies.model.policy import PolicyInfo, options_schema

LONG_TERM_OPTIONS = options_schema(
    placement={
        "enum": ["affinity", "pool"],
        "description": "affinity: real servers, the one whose room is most like the task; pool: "
        "one big server; default affinity",
    },
    starvation_timeout={
        "type": "number",
        "exclusiveMinimum": 0,
        "description": "a tenant that had pending tasks and received nothing for so long goes "
        "first, in the unit of the step; default never",
    },
    borrow_cap={
        "type": "number",
        "minimum": 0,
        "description": "b: nothing more for a tenant that has used more than 1 + b times its part "
        "of any resource over the window; default no cap",
    },
    literal_alone={
        "type": "boolean",
        "description": "report the sharing degree by the paper's formula (2) read literally as "
        "well, from the first step on; default false",
    },
)


def _info(name: str, description: str, section: str) -> PolicyInfo:
    return PolicyInfo(
        name=name,
        description=description,
        modes=("indivisible",),
        options_schema=LONG_TERM_OPTIONS,
        complexity="linear in tasks, each O(log tenants) and, placed by affinity, the servers "
        "that run something",
        source=f"Tang et al., TPDS 2018, {section}",
        long_term=True,
    )


INFOS = (
    _info(
        "lt-drf",
        "Long-term DRF: next is who has the least weighted accumulated dominant share",
        "§5.1",
    ),
    _info(
        "lt-af",
        "Long-term asset fairness: next is who has the least weighted sum of accumulated shares",
        "§5.2",
    ),
    _info(
        "h-mrf",
        "Hybrid multi-resource fairness: first who loses by sharing, then who has used least",
        "§5.3, Algorithm 1",
    ),
)
