"""Groups of operations in the API's documentation."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Group:
    """Operations whose path has one of these segments, the last that is named in any group."""

    name: str
    description: str
    segments: tuple[str, ...]


GROUPS = (
    Group(
        "Pools and members",
        "Who pools servers: tenants, the pools they are members of, their groups and weights.",
        ("tenants", "pools", "members", "groups", "history"),
    ),
    Group(
        "Servers and workloads",
        "What tenants bring and want to run: one by one, in bulk, or from a scheduler's files.",
        ("servers", "workloads", "imports"),
    ),
    Group(
        "Decisions",
        "Who may run how much and where, why, and the proof; now and of any decision before.",
        ("policies", "runs", "decision", "allocations", "placements", "certificate", "explanation",
         "input", "proof", "schedule", "tree", "verify"),
    ),
    Group(
        "What if",
        "Problems, traces, changes of a pool and its history under other policies: nothing is decided.",
        ("evaluations", "comparisons", "simulations", "backtests"),
    ),
    Group(
        "Enforcement",
        "Decisions as limits of a scheduler, what its agent applied, and who has what a tenant lent.",
        ("renderings", "enforcement", "agents", "entitlements"),
    ),
    Group(
        "Ledger",
        "What was used, in one gapless order that consumers follow by cursor, and its chain.",
        ("ledger-entries", "ledger-blocks", "usage", "corrections", "export"),
    ),
    Group("Reports", "Usage, lending, sharing degrees and money over any interval.", ("reports",)),
    Group(
        "Money",
        "Price plans, a month's statements, what changes them later, and budgets.",
        ("price-plans", "statements", "months", "reratings", "credit-notes", "budgets", "service-units",
         "focus-schemas"),
    ),
    Group(
        "Events and webhooks",
        "What happened, read by cursor or sent to a URL.",
        ("events", "webhooks"),
    ),
    Group(
        "Service",
        "Where to begin, and whether the service is well.",
        ("healthz", "readyz", "metrics"),
    ),
)  # fmt: skip
_GROUP_OF = {segment: group.name for group in GROUPS for segment in group.segments}
_BEGIN = GROUPS[-1].name


def group_of(segments: list[str]) -> str:
    """The group of the operation whose path has these segments, without its parameters."""
    # The last one is the most specific: statements are below pools, and belong to money.
    named = [_GROUP_OF[segment] for segment in segments if segment in _GROUP_OF]
    return named[-1] if named else _BEGIN
