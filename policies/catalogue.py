"""Policies of this package as data, with their names, options and promises.

Solvers are registered beside these in ``registry``.
"""

from __future__ import annotations

from policies.model.policy import HandOut, Policy, Proof, Servers, ShareDefinition, options_schema

DRFH_OPTIONS = options_schema(
    share={
        "enum": ["dominant", "alone"],
        "default": "dominant",
        "description": "what is equal for equal weights: dominant: the largest share of any resource; "
        "alone: tasks over those that the workload would run alone on the whole pool, selectors ignored",
    },
    placement={
        "enum": ["best-fit", "first-fit", "affinity", "two-choices"],
        "default": "best-fit",
        "description": "indivisible: which server a task goes to",
    },
    seed={
        "type": "integer",
        "minimum": 0,
        "maximum": 2**53,
        "default": 0,
        "description": "indivisible, two-choices: of the random probes",
    },
)

LONG_TERM_OPTIONS = options_schema(
    placement={
        "enum": ["affinity", "pool"],
        "default": "affinity",
        "description": "affinity: real servers, the one whose room is most like the task; pool: "
        "one big server",
    },
    starvation_timeout={
        "type": "number",
        "exclusiveMinimum": 0,
        "description": "a tenant that had pending tasks and received nothing for so long goes "
        "first, in the unit of the step; never unless given",
    },
    borrow_cap={
        "type": "number",
        "minimum": 0,
        "description": "b: nothing more for a tenant that has used more than 1 + b times its part "
        "of any resource over the window; no cap unless given",
    },
    literal_alone={
        "type": "boolean",
        "default": False,
        "description": "report the sharing degree by the paper's formula (2) read literally as "
        "well, from the first step on",
    },
)

DRF = Policy(
    name="drf",
    title="Fair shares of one big server (DRF)",
    description="Dominant Resource Fairness: the pool as one big server, dominant shares "
    "rise together until a resource is full",
    servers={"divisible": Servers.ONE_POOL, "indivisible": Servers.ONE_POOL},
    options_schema=options_schema(
        resource_weights={
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "additionalProperties": {"type": "number", "minimum": 1e-6, "maximum": 1e6},
            },
            "description": "{tenant: {resource: factor}}: by how much the tenant's weight "
            "differs in a resource; 1 where nothing is said",
        },
    ),
    complexity="divisible: O(rounds × tenants × resources), rounds ≤ resources + limits; "
    "indivisible: O(tenants × log(1 / tolerance)), then O(log tenants) for each last pick",
    source="Ghodsi et al., NSDI 2011, §4, Algorithm 1 and §4.3 (weights per resource)",
    hands_out=HandOut.LEAST_SHARE,
    proof=Proof.LEVELS,
    takes_groups=True,
    takes_limits=True,
)

DRFH = Policy(
    name="drfh",
    title="Fair shares on real servers (DRFH)",
    description="DRF in heterogeneous servers: weighted leximin of global dominant shares "
    "over real servers and placement constraints",
    servers={"divisible": Servers.CLASSES, "indivisible": Servers.RANGES},
    options_schema=DRFH_OPTIONS,
    option_modes={"placement": "indivisible", "seed": "indivisible"},
    complexity="divisible: a few linear programs of tenants × server classes, each linear "
    "in tenants; indivisible: linear in tasks, each O(log tenants) and a few servers",
    source="Wang, Liang, Li, TPDS 2015, §4, §5.1 (divisible) and §5.2 (indivisible); Wang, Li, Liang, "
    "Li, SC 2016 (share alone)",
    hands_out=HandOut.LEAST_SHARE,
    proof=Proof.LEVELS,
    takes_gangs=True,
    keeps_tasks=True,
    takes_groups=True,
    takes_limits=True,
)

STATIC = Policy(
    name="static",
    title="Each on its own servers",
    description="Static partitioning: each tenant alone on the servers it contributed, "
    "the pool's own split by weight",
    servers={"indivisible": Servers.ROWS},
    complexity="O(workloads × servers)",
    source="the baseline of Tang et al., TPDS 2018, and Ghodsi et al., NSDI 2011",
    saturates=False,
    hands_out=HandOut.OWN_PARTITION,
)

ASSET = Policy(
    name="asset",
    title="Equal sums of shares (asset fairness)",
    description="Asset fairness: equal sums of the shares of all resources",
    servers={"divisible": Servers.ONE_POOL, "indivisible": Servers.ONE_POOL},
    complexity="as drf",
    source="Ghodsi et al., NSDI 2011, §4.2",
    share=ShareDefinition.SUM,
    hands_out=HandOut.LEAST_SHARE,
    proof=Proof.LEVELS,
)

CEEI = Policy(
    name="ceei",
    title="Equal budgets at market prices (CEEI)",
    description="Competitive equilibrium from equal incomes: the greatest weighted product of "
    "shares, and the prices at which everybody's budget buys its share",
    servers={"divisible": Servers.ONE_POOL},
    complexity="20 to 40 steps, each O(workloads × resources²)",
    source="Ghodsi et al., NSDI 2011, §4.3; Eisenberg, Gale, 1959",
    proof=Proof.NASH_PRODUCT,
)

SINGLE_RESOURCE = Policy(
    name="single-resource",
    title="Fair shares of one resource",
    description="Max-min fairness of one resource (the first, or the option resource), "
    "whatever the others",
    servers={"indivisible": Servers.ONE_POOL},
    options_schema=options_schema(
        resource={"type": "string", "description": "the one that counts; the first unless given"}
    ),
    complexity="as drf indivisible",
    source="the baseline of Ghodsi et al., NSDI 2011, §6 (CPU-only fair sharing)",
    share=ShareDefinition.SINGLE_RESOURCE,
    hands_out=HandOut.LEAST_SHARE,
)

SLOTS = Policy(
    name="slots",
    title="Fair shares of equal slots",
    description="Hadoop's slots: servers cut into equal slots, max-min on the number of "
    "slots that tasks take",
    servers={"indivisible": Servers.ONE_POOL},
    options_schema=options_schema(
        slots_per_largest_server={
            "type": "integer",
            "minimum": 1,
            "maximum": 1000,
            "default": 14,
            "description": "the largest server is cut into so many",
        },
        slot={
            "type": "object",
            "additionalProperties": {"type": "number", "exclusiveMinimum": 0},
            "minProperties": 1,
            "description": "amount of each resource in one slot, instead",
        },
    )
    | {"not": {"required": ["slot", "slots_per_largest_server"]}},
    complexity="as drf indivisible",
    source="the baseline of Ghodsi et al., NSDI 2011, §6, and Wang et al., TPDS 2015, §6",
    share=ShareDefinition.SLOTS,
    hands_out=HandOut.LEAST_SHARE,
)

TDA = Policy(
    name="tda",
    title="Taking turns (TDA)",
    description="Time division: slots of whole tasks whose average weighted dominant shares "
    "are leximin over the period",
    servers={"indivisible": Servers.ROWS},
    options_schema=options_schema(
        pack={
            "type": "boolean",
            "default": False,
            "description": "every slot's tasks fit on the real servers; otherwise the pool counts "
            "as one server",
        },
        period_seconds={
            "type": "integer",
            "minimum": 1,
            "maximum": 31_536_000,
            "default": 3600,
            "description": "the slots take turns within so many seconds",
        },
        effort={
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": 100,
            "default": 1,
            "description": "how many times the usual work is done before the best schedule so "
            "far is taken, with the gap that its bound leaves; 1 is some seconds",
        },
        replan={
            "enum": ["slot", "at-once"],
            "default": "slot",
            "description": "when a change to a pool begins a new period: at the end of the slot "
            "in force, which is not cut short, or at once",
        },
    ),
    complexity="about two programs of tenants + 1 rows per tenant, each with one knapsack over the "
    "grid of capacities (or near its divisible relaxation where that is large)",
    source="the TDA thesis, 2015, chapters 3 and 4",
    one_pool_when=("pack", False),
    time_sharing=True,
    proof=Proof.LEVELS,
)

MRFS = Policy(
    name="mrfs",
    title="Balanced servers (MRFS)",
    description="MRFS: requests go where a server hosts equally many dominated by each resource",
    servers={"indivisible": Servers.RANGES},
    complexity="linear in tasks, each O(log tenants) and the servers that run something",
    source="Hamzeh et al., MRFS, 2020, Algorithm 1",
    hands_out=HandOut.FEWEST_REQUESTS,
)


def _long_term(
    name: str,
    title: str,
    description: str,
    section: str,
    share: ShareDefinition,
    hands_out: HandOut,
) -> Policy:
    return Policy(
        name=name,
        title=title,
        description=description,
        servers={"indivisible": Servers.RANGES},
        options_schema=LONG_TERM_OPTIONS,
        complexity="linear in tasks, each O(log tenants) and, placed by affinity, the servers "
        "that run something",
        source=f"Tang et al., TPDS 2018, {section}",
        share=share,
        one_pool_when=("placement", "pool"),
        long_term=True,
        takes_gangs=True,
        keeps_tasks=True,
        takes_groups=True,
        hands_out=hands_out,
    )


LT_DRF = _long_term(
    "lt-drf",
    "Fair over time by dominant share (LT-DRF)",
    "Long-term DRF: next is who has the least weighted accumulated dominant share",
    "§5.1",
    ShareDefinition.DOMINANT,
    HandOut.LEAST_ACCUMULATED_DOMINANT,
)
LT_AF = _long_term(
    "lt-af",
    "Fair over time by sums of shares (LT-AF)",
    "Long-term asset fairness: next is who has the least weighted sum of accumulated shares",
    "§5.2",
    ShareDefinition.SUM,
    HandOut.LEAST_ACCUMULATED_SUM,
)
H_MRF = _long_term(
    "h-mrf",
    "Fair over time (H-MRF)",
    "Hybrid multi-resource fairness: first who loses by sharing, then who has used least",
    "§5.3, Algorithm 1",
    ShareDefinition.SUM,
    HandOut.LEAST_SHARING_DEGREE,
)
