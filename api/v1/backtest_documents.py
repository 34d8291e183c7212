"""Documents of backtests."""

from collections.abc import Callable, Mapping
from typing import Any

from allocator_service.backtests.errors import (
    MAX_CELLS,
    MAX_GROUPS,
    MAX_SEED,
    MAX_SERVER_ROWS,
    MAX_SERVERS,
    MAX_TASKS,
    MAX_TENANTS,
)
from allocator_service.backtests.models import Backtest, BacktestStatus
from allocator_service.backtests.selectors import percent
from allocator_service.backtests.uploads import FORMATS
from allocator_service.core.durations import parse_duration
from api.contract import documents
from api.v1.members import tier_field
from policies import ComparisonRequest

MAX_POLICIES = 20

LONGEST_NAME = 253


class TraceFields(documents.Document):
    format = documents.ChoiceField(
        choices=list(FORMATS),
        description="csv: our own table; sacct: what `sacct --parsable2` prints; swf: the Standard"
        " Workload Format; google: the first instant of Google's trace; alibaba: its list of pods;"
        " swim: times of submission, each with a job of the mix of H-MRF's Table 3.",
    )
    content = documents.StringField(description="The file: its text, or gzip in base64.")
    encoding = documents.ChoiceField(choices=["text", "gzip"], default="text")
    skip_bad_lines = documents.BooleanField(
        default=False, description="Count lines that cannot be read instead of refusing the trace."
    )
    begin = documents.TimestampField(
        required=False,
        allow_null=True,
        description="When second 0 was, where times are not seconds since 1970.",
    )
    tenant = documents.TextField(
        max_length=20,
        required=False,
        allow_null=True,
        description="Whose a job is: sacct: account, user, group, partition, qos; swf: user, group,"
        " queue, partition.",
    )
    resources = documents.ListField(
        documents.TextField(max_length=63),
        max_items=20,
        required=False,
        allow_null=True,
        description="sacct: which count; cpu and memory by default.",
    )
    memory = documents.BooleanField(
        required=False, allow_null=True, description="swf: memory is a second resource."
    )
    processors_per_task = documents.IntegerField(
        minimum=1,
        maximum=10**9,
        required=False,
        allow_null=True,
        description="swf: a job is so many tasks; one by default.",
    )
    processors_per_node = documents.IntegerField(
        minimum=1,
        maximum=10**9,
        required=False,
        allow_null=True,
        description="swf: processors of a node. A job of more processors is one task with a piece on"
        " each node. Without it a job has one piece. Excludes `processors_per_task`.",
    )
    gangs = documents.BooleanField(
        required=False,
        allow_null=True,
        description="sacct: whether a job on several nodes is one task with a piece on each (true by"
        " default), or a task on each.",
    )
    tenants = documents.IntegerField(
        minimum=1,
        maximum=MAX_TENANTS,
        required=False,
        allow_null=True,
        description="alibaba: how many to divide the pods among; swim: whose the jobs are in turn.",
    )
    jobs = documents.IntegerField(
        minimum=1,
        maximum=MAX_TASKS,
        required=False,
        allow_null=True,
        description="swim: so many of the first jobs; all by default.",
    )
    seed = documents.IntegerField(
        minimum=0,
        maximum=MAX_SEED,
        required=False,
        allow_null=True,
        description="swim: of kinds and durations, which it does not state; 0 by default.",
    )


class PeriodFields(documents.Document):
    from_ = documents.TimestampField(description="Inclusive.")
    to = documents.TimestampField(description="Exclusive.")


class BacktestServer(documents.Document):
    name = documents.TextField(max_length=LONGEST_NAME, required=False, allow_null=True)
    capacity = documents.PoolQuantitiesField(
        description="Of each server, in the resources of the trace."
    )
    count = documents.IntegerField(minimum=1, maximum=MAX_SERVERS, default=1)
    labels = documents.LabelsField(default=dict)
    contributed_by = documents.TextField(max_length=LONGEST_NAME, required=False, allow_null=True)


class BacktestTenant(documents.Document):
    name = documents.TextField(max_length=LONGEST_NAME)
    weight = documents.RealField(
        "weight", code="weight.not_positive", expected="a number above 0", above=0, default=1
    )
    best_effort = documents.BooleanField(default=False)
    group = documents.TextField(
        max_length=LONGEST_NAME,
        required=False,
        allow_null=True,
        description="Name of one of `groups`. null: the pool itself.",
    )
    tier = tier_field(default=0)


class BacktestGroup(documents.Document):
    name = documents.TextField(max_length=LONGEST_NAME)
    parent = documents.TextField(
        max_length=LONGEST_NAME,
        required=False,
        allow_null=True,
        description="Name of another group. null: the pool itself.",
    )
    weight = documents.RealField(
        "weight", code="weight.not_positive", expected="a number above 0", above=0, default=1
    )
    tier = tier_field(default=0)


class BacktestWindow(documents.Document):
    kind = documents.ChoiceField(choices=["unbounded", "sliding", "decay"])
    length = documents.DurationField(
        required=False, allow_null=True, description="Of a sliding window."
    )
    half_life = documents.DurationField(
        required=False, allow_null=True, description="Where it decays."
    )


class BacktestRequest(documents.Document):
    name = documents.TextField(
        max_length=200, blank=True, default="", description="For your own lists."
    )
    trace = documents.DocumentField(TraceFields, required=False, allow_null=True)
    history = documents.DocumentField(
        PeriodFields,
        required=False,
        allow_null=True,
        description="Instead of a trace: what ran in the pool, on its servers, in this period.",
    )
    pool = documents.SlugField(
        required=False,
        allow_null=True,
        description="Whose history; for a trace whose servers and price plan.",
    )
    servers = documents.ListField(
        BacktestServer,
        min_items=0,
        max_items=MAX_SERVER_ROWS,
        default=list,
        description="Those of the pool by default.",
    )
    tenants = documents.ListField(
        BacktestTenant,
        min_items=0,
        max_items=MAX_TENANTS,
        default=list,
        unique="tenant",
        description="Their weights; a trace may then name nobody else. By default everybody weighs 1,"
        " or as members of the pool do.",
    )
    groups = documents.ListField(
        BacktestGroup,
        min_items=0,
        max_items=MAX_GROUPS,
        default=list,
        unique="group",
        description="The tree that `tenants` belong to. The history of a pool has the pool's own tree"
        " unless `tenants` are named.",
    )
    policies = documents.ListField(
        ComparisonRequest.policies.items,
        max_items=MAX_POLICIES,
        description="A column each, in this order; the first is what the others are compared with.",
        examples=[
            ["static", "drfh", {"name": "slots", "options": {"slots_per_largest_server": 14}}]
        ],
    )
    seeds = documents.ListField(
        documents.IntegerField(minimum=0, maximum=MAX_SEED),
        max_items=MAX_CELLS,
        default=lambda: [0],
        description="Of policies that draw; the result has means and the spread.",
    )
    resample = documents.BooleanField(
        default=False,
        description="Draw the jobs of each seed with replacement, so that every policy has a spread.",
    )
    step = documents.DurationField(
        required=False,
        allow_null=True,
        description="The decision interval of long-term policies: the pool's, or PT1M.",
    )
    window = documents.DocumentField(
        BacktestWindow,
        required=False,
        allow_null=True,
        description="How far back they look: the pool's window, or unbounded.",
    )
    price_plan = documents.IdField(
        required=False,
        allow_null=True,
        description="What use costs; the plan that the pool publishes by default.",
    )


def _asked(name: str) -> Callable[[Backtest, Any], Any]:
    """Return the source of a part of the request, null if it was omitted."""
    return lambda backtest, _: backtest.spec.get(name)


class BacktestDocument(documents.Document):
    id = documents.IdField()
    name = documents.TextField(max_length=200, blank=True)
    status = documents.ChoiceField(choices=BacktestStatus.values)
    progress = documents.IntegerField(
        minimum=0,
        maximum=100,
        source=lambda backtest, _: percent(backtest),
        description="Per cent.",
    )
    pool = documents.SlugField(source="pool.slug", allow_null=True)
    history = documents.DocumentField(PeriodFields, source=_asked("history"), allow_null=True)
    format = documents.TextField(
        max_length=20,
        source=lambda backtest, _: backtest.spec.get("trace", {}).get("format"),
        allow_null=True,
        description="Of the trace.",
    )
    policies = documents.ListField(
        documents.ObjectField(), source=_asked("policies"), max_items=MAX_POLICIES
    )
    seeds = documents.ListField(
        documents.IntegerField(minimum=0, maximum=MAX_SEED),
        source=_asked("seeds"),
        max_items=MAX_CELLS,
    )
    resample = documents.BooleanField(source=_asked("resample"))
    simulations = documents.IntegerField(
        minimum=0,
        maximum=MAX_CELLS,
        source=lambda backtest, _: len(backtest.spec["cells"]),
        description="Policies times seeds.",
    )
    price_plan = documents.IdField(source="plan_id", allow_null=True)
    input = documents.ObjectField(
        allow_null=True,
        description="What was read: `digest` (SHA-256), sizes, `left_out` by reason, `bad_lines`, and"
        " how many tasks fit on no server.",
    )
    created_at = documents.TimestampField()
    finished_at = documents.TimestampField(allow_null=True)
    error = documents.ObjectField(
        allow_null=True, description="`code`, `detail` and `errors` as of a problem."
    )


class ResultColumnDocument(documents.Document):
    policy = documents.ObjectField()
    error = documents.ObjectField(
        allow_null=True, description="Why this policy could not run it; the others still answer."
    )
    seeds = documents.ListField(documents.IntegerField(minimum=0, maximum=MAX_SEED), min_items=0)
    seconds = documents.NumberField(description="What the simulations took.")
    pool = documents.ObjectField(
        allow_null=True,
        description="Measurements of the whole pool, each with mean, deviation, least and most over"
        " the seeds; `utilisation` by resource.",
    )
    by_job_size = documents.ListField(documents.ObjectField(), min_items=0, allow_null=True)
    tenants = documents.ListField(documents.ObjectField(), min_items=0, allow_null=True)
    money = documents.ObjectField(allow_null=True)
    curves = documents.ObjectField(allow_null=True)


class BacktestResultsDocument(documents.Document):
    backtest = documents.IdField()
    input = documents.ObjectField(description="With the `digest` of what every policy was given.")
    baseline = documents.TextField(max_length=63, allow_null=True)
    resources = documents.texts_field()
    units = documents.texts_field()
    price_plan = documents.IdField(allow_null=True)
    currency = documents.TextField(max_length=3, allow_null=True)
    seeds = documents.ListField(documents.IntegerField(minimum=0, maximum=MAX_SEED))
    resample = documents.BooleanField()
    definitions = documents.ObjectField()
    columns = documents.ListField(ResultColumnDocument, max_items=MAX_POLICIES)


def asked_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request of a backtest in the form of the service."""
    trace, window, step = fields["trace"], fields["window"], fields["step"]
    return {
        "name": fields["name"],
        "trace": None
        if trace is None
        else {
            **{name: trace[name] for name in ("format", "content", "encoding", "begin")},
            "options": {
                name: trace[name]
                for name in (
                    "skip_bad_lines", "tenant", "resources", "memory", "processors_per_task",
                    "processors_per_node", "gangs", "tenants", "jobs", "seed",
                )
            },
        },
        "history": fields["history"],
        "servers": [
            {
                # As texts: a job is stored as JSON, whose numbers would round exact decimals.
                "capacity": {name: str(each) for name, each in row["capacity"].items()},
                "count": row["count"],
                "labels": row["labels"],
                "contributed_by": row["contributed_by"],
            }
            for row in fields["servers"]
        ],
        "tenants": [{**row, "weight": float(row["weight"])} for row in fields["tenants"]],
        "groups": [{**row, "weight": float(row["weight"])} for row in fields["groups"]],
        "policies": fields["policies"],
        "seeds": fields["seeds"],
        "resample": fields["resample"],
        "step": None if step is None else seconds_of(step, "/step"),
        "window": None if window is None else _window(window),
    }  # fmt: skip


def _window(window: Mapping[str, Any]) -> dict[str, Any]:
    if window["kind"] == "sliding":
        return {
            "kind": "sliding",
            "length": seconds_of(window["length"] or "P7D", "/window/length"),
        }
    if window["kind"] == "decay":
        half_life = seconds_of(window["half_life"] or "P7D", "/window/half_life")
        return {"kind": "decay", "half_life": half_life}
    return {"kind": "unbounded"}


def seconds_of(text: Any, pointer: str) -> float:
    """The seconds of a duration, a day 24 hours."""
    # A simulation has no calendar that could make a day longer.
    return float(parse_duration(text, pointer=pointer).nominal_seconds)
