"""Declarations of the fields of an evaluation document, for reading and describing it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policies.documents.amount_fields import (
    amount_rows,
)
from policies.documents.gangs import gang_fields
from policies.documents.request_fields import (
    MAX_WHOLE,
    GroupField,
    NameField,
    Part,
    TenantField,
    WholeField,
)
from policies.fields import (
    AmountsField,
    AnyField,
    BooleanField,
    ChoiceField,
    ColumnsField,
    Document,
    DocumentField,
    Field,
    ListField,
    MapField,
    ObjectField,
    OneOrMoreField,
    PatternField,
    RealField,
    Schema,
    StringField,
    is_object,
)
from policies.model.group_tree import LARGEST_TIER, MOST_GROUPS
from policies.model.validation import LARGEST_DEFICIT, LARGEST_SERVER_COUNT

INCLUDES = ("placements", "certificate", "properties", "schedule", "explanations")
RESOURCE_NAME = "^[a-z][a-z0-9_.-]{0,62}$"
MAX_POLICIES = 20


class ResourceDocument(Part):
    name = PatternField(
        pattern=RESOURCE_NAME,
        code="resource.name",
        expected="a lower-case letter followed by at most 62 lower-case letters, digits, '_', '.'"
        " or '-'",
    )
    unit = StringField(default="", description="Such as `core` or `GiB`.")


class ResourceField(Field):
    """Resource, given by its name or an object with its name and unit.

    It is read as the latter.
    """

    def read(self, value: Any) -> dict[str, str]:
        if is_object(value):
            return ResourceDocument.read(value)
        return {"name": ResourceDocument.name.read(value), "unit": ""}

    def describe(self) -> Schema:
        return {"oneOf": [ResourceDocument.name.describe(), ResourceDocument.schema()]}


class ServerDocument(Part):
    name = NameField(
        "server.name",
        required=False,
        description="By default `server-0001` and so on, by position.",
    )
    capacity = AmountsField(unknown="capacity.unknown_resource", description="Of each server.")
    count = WholeField(
        minimum=1, maximum=LARGEST_SERVER_COUNT, code="server.count", default=1,
        description="How many servers of this kind there are.",
    )  # fmt: skip
    labels = MapField(StringField(), default=dict)
    contributed_by = TenantField(
        required=False, allow_null=True, description="The tenant; null: the pool's own."
    )
    draining = BooleanField(default=False, description="Contributed, but no capacity.")


def _weight() -> RealField:
    return RealField(
        "weight", code="weight.not_positive", expected="a number above 0", above=0, default=1
    )


def _tier() -> WholeField:
    return WholeField(
        minimum=-LARGEST_TIER, maximum=LARGEST_TIER, code="tier.out_of_range", default=0,
        description="Order among siblings: nothing rises while a sibling of a lower tier can.",
    )  # fmt: skip


def _group(known: Mapping[str, int] | None = None) -> GroupField:
    return GroupField(
        known, required=False, allow_null=True,
        description="Name of the group that it belongs to; null: the pool itself.",
    )  # fmt: skip


class GroupDocument(Part):
    name = NameField("group.name")
    parent = _group()
    weight = _weight()
    tier = _tier()
    guarantee = amount_rows("guarantee")
    limit = amount_rows("limit")


class TenantDocument(Part):
    name = NameField("tenant.name")
    weight = _weight()
    group = _group()
    tier = _tier()
    best_effort = BooleanField(
        default=False, description="Served with what the other tenants leave."
    )
    guarantee = amount_rows("guarantee")
    limit = amount_rows("limit")
    lend = amount_rows("lend")
    own_servers = BooleanField(
        required=False, allow_null=True,
        description="Guarantee to each workload of what it would get if the tenant ran alone on the"
        " servers that it contributed. null: the setting of the problem.",
    )  # fmt: skip
    owed = RealField(
        "owed", code="owed.out_of_range",
        expected=f"a number from -{LARGEST_DEFICIT} to {LARGEST_DEFICIT}",
        minimum=-LARGEST_DEFICIT, maximum=LARGEST_DEFICIT, default=0,
        description="tda: the deficit to repay, in dominant share × periods; below 0 is a surplus.",
    )  # fmt: skip


class WorkloadDocument(Part):
    tenant = TenantField()
    name = NameField("workload.name")
    demand = AmountsField(
        unknown="demand.unknown_resource", zero="demand.zero", required=False,
        description="Of each task. A workload has a demand or pieces.",
    )  # fmt: skip
    pieces, per_server, together, at_least = gang_fields()
    tasks = WholeField(
        minimum=0, maximum=MAX_WHOLE, code="tasks.not_whole", required=False, allow_null=True,
        description="How many can run at once; null is no limit.",
    )  # fmt: skip
    priority = WholeField(minimum=-MAX_WHOLE, maximum=MAX_WHOLE, default=0)
    server_selector = MapField(
        OneOrMoreField(StringField(), as_list=True, code="selector.empty"),
        default=dict,
        description="For each label the value, or the values, one of which a server must have. "
        "An empty object is no constraint.",
    )
    limit = amount_rows("limit")


class ModeField(StringField):
    """Mode of a policy, which the policy checks."""

    def describe(self) -> Schema:
        return {"type": "string", "enum": ["divisible", "indivisible"]}


class PolicyDocument(Part):
    name = StringField(description="One of those that `GET /policies/` lists.")
    mode = ModeField(
        required=False, allow_null=True, description="The policy's first mode by default."
    )
    options = ObjectField(default=dict, description="By the policy's own schema.")


def _counted(default: int | None = None, description: str = "") -> WholeField:
    given = {} if default is None else {"default": default}
    return WholeField(
        minimum=0, maximum=MAX_WHOLE, code="number.negative", description=description, **given
    )


class RunningDocument(Part):
    tenant = StringField()
    workload = StringField()
    kind = _counted(0, "Of the pieces of a gang: 0 for the first kind, 1 for the second.")
    server = StringField(description="Name of a server row; any other has left the pool.")
    offset = _counted(0, "Position in the row of the first server.")
    servers = _counted(1)
    tasks = _counted(description="Tasks, or pieces of a gang, on each of the servers.")


def _time(description: str = "") -> RealField:
    return RealField(
        "history", code="history.amount", expected="a number, 0 or more", minimum=0, default=0,
        description=description,
    )  # fmt: skip


def _remembered(description: str) -> AmountsField:
    return AmountsField(
        unknown="history.unknown_resource", each=_time(), required=False, description=description
    )


class LiteralDocument(Part):
    alone = _remembered("`alone` by the paper's formula (2) read literally.")
    sharing_degree = AnyField(required=False, description="Ignored.")


class RememberedDocument(Part):
    used = _remembered("Resource × time that was allocated.")
    alone = _remembered("Resource × time that it would have used in its own partition.")
    waiting = _time("For how long it has had pending tasks and received nothing.")
    literal = DocumentField(LiteralDocument, required=False, allow_null=True)
    sharing_degree = AnyField(required=False, description="Ignored.")


class HistoryDocument(Part):
    step = RealField(
        "history", code="history.step", expected="a number above 0", above=0,
        description="The length of the step that is decided.",
    )  # fmt: skip
    elapsed = _time("The length of the window so far.")
    tenants = MapField(
        DocumentField(RememberedDocument),
        default=dict,
        description="By name; a tenant that is missing starts from zeros.",
    )


class EvaluationRequest(Part):
    """Declaration of an evaluation document, with an attribute for each field.

    Examples
    --------
    >>> from policies import EvaluationRequest
    >>> sorted(EvaluationRequest.schema()["required"])
    ['policy', 'resources']
    """

    resources = ListField(
        ResourceField(), unique="resource", code="resource.none",
        description="What the pool counts: names, or names with units.",
        examples=[["cpu", "memory"], [{"name": "memory", "unit": "GiB"}]],
    )  # fmt: skip
    servers = ListField(
        ServerDocument, min_items=0, unique="server", default=list,
        description="Without servers nothing runs: each workload has 0 tasks, and the reason.",
    )  # fmt: skip
    groups = ListField(
        GroupDocument, min_items=0, max_items=MOST_GROUPS, unique="group", default=list,
        code="group.too_many",
        description="Groups of tenants and of other groups, at most 8 levels deep.",
    )  # fmt: skip
    tenants = ListField(TenantDocument, min_items=0, unique="tenant", default=list)
    workloads = ListField(WorkloadDocument, min_items=0, default=list)
    policy = DocumentField(PolicyDocument)
    weights = ChoiceField(
        choices=["explicit", "contribution"], code="weights.unknown", default="explicit",
        description="Whether `weight` is the weight itself or a factor on what was contributed.",
    )  # fmt: skip
    own_servers = BooleanField(
        default=False,
        description="Guarantee to each workload of what it would get if its tenant ran alone on the"
        " servers that it contributed. Settings of tenants override it.",
    )
    count = ChoiceField(
        choices=["total", "above"], code="count.unknown", default="total",
        description="Amount that levels count. `total`: everything that is allocated. `above`: only what"
        " is allocated beyond guarantees.",
    )  # fmt: skip
    history = DocumentField(
        HistoryDocument,
        required=False,
        allow_null=True,
        description="Of long-term policies: what an answer returned as `history`.",
    )
    running = ColumnsField(
        RunningDocument,
        min_items=0,
        required=False,
        description="Where whole tasks run now: they stay there where that gives the same counts.",
    )
    kept = ColumnsField(
        RunningDocument,
        min_items=0,
        default=list,
        description="Whole tasks that stay on their servers before any other task is handed out. They "
        "count towards shares, and stay as far as their workload asks for them and they fit.",
    )
    include = ListField(
        ChoiceField(choices=INCLUDES, code="include.unknown", type_code="include.unknown"),
        min_items=0,
        default=list,
        description="Optional parts to include in the answer.",
    )


class AskedPolicyField(Field):
    """Policy of a comparison, given by its name or an object as in an evaluation.

    It is read as the latter.
    """

    type_name = "a name of a policy, or an object with one"

    def read(self, value: Any) -> dict[str, Any]:
        if isinstance(value, str):
            return {"name": value}
        if not is_object(value):
            raise self.wrong_type()
        PolicyDocument.read(value)
        return dict(value)

    def describe(self) -> Schema:
        schema = PolicyDocument.schema()  # a mode that no policy has is an error of its column
        schema["properties"]["mode"] = {"type": ["string", "null"]}
        return {"oneOf": [{"type": "string"}, schema]}


class ComparisonRequest(Part):
    """Declaration of a comparison document, with an attribute for each field.

    Examples
    --------
    >>> from policies import ComparisonRequest
    >>> sorted(ComparisonRequest.schema()["required"])
    ['input', 'policies']
    """

    policies = ListField(
        AskedPolicyField(), max_items=MAX_POLICIES, code="comparison.policies",
        missing_code="comparison.policies", type_code="comparison.policies",
        description="A column each, in this order.",
        examples=[["drf", "asset", {"name": "drfh", "mode": "indivisible"}]],
    )  # fmt: skip
    input = ObjectField(
        missing_code="field.type",
        description="An evaluation, as `POST /evaluations/` takes it (its policy may be left out and"
        ' is not read), or `{"run": id}`: the stored input of a run that the caller may see whole.',
        examples=[{"run": "01931f3e-7c2e-7c3b-8a51-6f0a4be7a1c2"}],
    )


def request_for(document: Mapping[str, Any]) -> type[Document]:
    """Return the declaration with the names that a document gives its own resources and tenants."""
    # Names are read first, so that a field that refers to an unknown one reports it at its place.
    resources = _units(document.get("resources"))
    tenants = _indices(document.get("tenants", ()))
    groups = _indices(document.get("groups", ()))
    servers = ServerDocument.with_fields(
        capacity=ServerDocument.capacity.within(resources),
        contributed_by=TenantField(tenants, required=False, allow_null=True),
    )
    limits = amount_rows("limit", resources)
    guarantees = amount_rows("guarantee", resources)
    workloads = WorkloadDocument.with_fields(
        tenant=TenantField(tenants),
        demand=WorkloadDocument.demand.within(resources),
        pieces=gang_fields(resources)[0],
        limit=limits,
    )
    grouped = GroupDocument.with_fields(parent=_group(groups), guarantee=guarantees, limit=limits)
    members = TenantDocument.with_fields(
        group=_group(groups),
        guarantee=guarantees,
        limit=limits,
        lend=amount_rows("lend", resources),
    )
    history = history_for(tenants, resources)
    return EvaluationRequest.with_fields(
        servers=ListField(
            servers,
            min_items=0,
            unique="server",
            default=list,
            description=EvaluationRequest.servers.description,
        ),
        groups=ColumnsField(
            grouped,
            min_items=0,
            max_items=MOST_GROUPS,
            unique="group",
            default=list,
            code="group.too_many",
            description=EvaluationRequest.groups.description,
        ),
        tenants=ColumnsField(members, min_items=0, unique="tenant", default=list),
        workloads=ColumnsField(workloads, min_items=0, default=list),
        history=DocumentField(history, required=False, allow_null=True),
    )


def history_for(
    tenants: Mapping[str, int] | None, resources: Mapping[str, str] | None
) -> type[Document]:
    """Return the declaration of a history of these tenants and resources.

    They are None if they are not known.
    """
    literal = LiteralDocument.with_fields(alone=LiteralDocument.alone.within(resources))
    row = RememberedDocument.with_fields(
        used=RememberedDocument.used.within(resources),
        alone=RememberedDocument.alone.within(resources),
        literal=DocumentField(literal, required=False, allow_null=True),
    )
    names = TenantField(tenants)
    return HistoryDocument.with_fields(
        tenants=MapField(DocumentField(row), names=names, default=dict)
    )


def _units(items: Any) -> dict[str, str] | None:
    """Return the units by resource, or None if there is none or any of them cannot be read."""
    # Then the names' own field reports the mistake, and fields that refer to them are not judged.
    if not isinstance(items, list | tuple):
        return None
    units: dict[str, str] = {}
    for item in items:
        name, unit = (item.get("name"), item.get("unit", "")) if is_object(item) else (item, "")
        if not isinstance(name, str) or not isinstance(unit, str):
            return None
        units[name] = unit
    return units or None


def _indices(items: Any) -> dict[str, int] | None:
    """Return the objects' indices by name, or None if any name cannot be read."""
    if not isinstance(items, list | tuple):
        return None
    indices: dict[str, int] = {}
    for index, item in enumerate(items):
        name = item.get("name") if is_object(item) else None
        if not isinstance(name, str):
            return None
        indices[name] = index
    return indices
