"""Reports of agents, and what is decided, enforced and used."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.core.clock import utc_now
from allocator_service.core.quantities import Resource, decimal_text
from allocator_service.enforcement.models import Report
from allocator_service.enforcement.rendering.targets import CLASS_LABEL, TARGETS
from allocator_service.enforcement.services import ReportDraft, TenantReport, report_put
from allocator_service.enforcement.state import enforcement_state
from allocator_service.pools.clusters import cluster_known
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Scope, Tenant
from api.auth import EVERY_SCOPE_AND_AGENT, OPERATOR_AND_AGENT
from api.contract import documents
from api.contract.fields import MAX_GENERATION
from api.contract.operations import replaces, shows
from api.pseudonyms import tenant_name
from api.v1.reports.documents import MAX_TENANTS, AmountsField
from api.v1.run_documents import MAX_ROWS
from api.views import PoolView, writes

MAX_PROBLEMS = 100

MAX_PROBLEM_LENGTH = 500

MAX_HELD, MAX_SERVERS_HELD, MAX_NAME = 100, 1_000, 253
MAX_JOB_NAME = 400  # of Kueue: namespace, workload and pod set


def problems_field() -> documents.ListField:
    """Describe what an agent could not do, in sentences."""
    return documents.ListField(
        documents.TextField(max_length=MAX_PROBLEM_LENGTH),
        min_items=0,
        max_items=MAX_PROBLEMS,
        default=list,
    )


class JobsBeside(documents.Document):
    tenant = documents.SlugField(
        description="The tenant of their account, also if the pool has no such member."
    )
    jobs = documents.IntegerField(minimum=1, maximum=MAX_ROWS)


class ServersHeldRequest(documents.Document):
    """Servers that a scheduler holds for jobs which start together."""

    jobs = documents.ListField(
        documents.TextField(max_length=MAX_NAME),
        max_items=MAX_HELD,
        description="The scheduler's names of the jobs.",
    )
    servers = documents.ListField(
        documents.TextField(max_length=MAX_NAME),
        max_items=MAX_SERVERS_HELD,
        description="The scheduler's names of the servers.",
    )
    beside = documents.ListField(
        JobsBeside, min_items=0, max_items=MAX_HELD, description="Jobs that still run there."
    )


def holds_field(document: type[documents.Document]) -> documents.ListField:
    """Describe the servers that are held for the jobs of a tenant."""
    return documents.ListField(
        document,
        min_items=0,
        max_items=MAX_HELD,
        default=list,
        description="Servers held for jobs which start together, until all have room.",
    )


class JobsEndingRequest(documents.Document):
    """Jobs above the decision that an agent ends together."""

    name = documents.TextField(
        max_length=MAX_JOB_NAME, description="The agent's name of what starts and ends together."
    )
    jobs = documents.ListField(
        documents.TextField(max_length=MAX_JOB_NAME),
        max_items=MAX_HELD,
        description="The scheduler's names of the jobs.",
    )
    tasks = documents.IntegerField(minimum=1, maximum=MAX_ROWS)
    ends_at = documents.TimestampField(description="The earliest time of their end.")
    heir = documents.SlugField(
        allow_null=True,
        default=None,
        description="The tenant whose jobs wait for what they hold; null if no job does.",
    )
    ended = documents.BooleanField(default=False, description="Ended in this round.")


class TenantEnforcementReportRequest(documents.Document):
    tenant = documents.SlugField()
    applied = documents.PoolQuantitiesField(description="The limits that the scheduler has.")
    used = documents.PoolQuantitiesField(default=dict, description="What runs.")
    pending_tasks = documents.IntegerField(
        minimum=0, maximum=MAX_ROWS, allow_null=True, default=None
    )
    running_tasks = documents.IntegerField(
        minimum=0, maximum=MAX_ROWS, allow_null=True, default=None
    )
    pending_reason = documents.TextField(
        max_length=MAX_PROBLEM_LENGTH,
        blank=True,
        allow_null=True,
        default=None,
        description="The scheduler's own reason why the first pending job waits.",
    )
    pending_demand = documents.PoolQuantitiesField(
        allow_null=True, default=None, description="Demand of the first pending job."
    )
    problems = problems_field()
    holds = holds_field(ServersHeldRequest)
    ending = documents.ListField(
        JobsEndingRequest,
        min_items=0,
        max_items=MAX_HELD,
        default=list,
        description="Jobs above the decision that have notice, or that have just ended.",
    )
    absent = documents.BooleanField(
        default=False,
        description="The scheduler does not know the tenant any more. After 30 days the membership of"
        " one that an agent admitted ends.",
    )


class EnforcementReportRequest(documents.Document):
    agent = documents.SlugField(description="The agent's name, unique in the pool.")
    cluster = documents.TextField(
        max_length=MAX_NAME,
        allow_null=True,
        default=None,
        description="The cluster that it applies decisions to: by default the key's, else the whole"
        " pool.",
    )
    target = documents.ChoiceField(choices=list(TARGETS))
    class_label = documents.TextField(max_length=253, default=CLASS_LABEL)
    run = documents.IdField(
        allow_null=True, description="The decision that it applied; null without any."
    )
    generation = documents.GenerationField(allow_null=True, default=None)
    interval = documents.DurationField(
        description="How often it reports, such as PT15S; at most a day."
    )
    reported_at = documents.TimestampField(description="By the agent's clock.")
    tenants = documents.ListField(
        TenantEnforcementReportRequest, min_items=0, max_items=MAX_TENANTS
    )
    problems = problems_field()


class TenantEnforcementReport(documents.Document):
    tenant = documents.SlugField()
    applied = AmountsField()
    used = AmountsField()
    pending_tasks = documents.IntegerField(minimum=0, maximum=MAX_ROWS, allow_null=True)
    running_tasks = documents.IntegerField(minimum=0, maximum=MAX_ROWS, allow_null=True)
    pending_reason = documents.StringField(allow_null=True)
    pending_demand = AmountsField(allow_null=True)
    problems = documents.ListField(documents.StringField(), min_items=0)
    holds = documents.ListField(ServersHeldRequest, min_items=0)
    ending = documents.ListField(JobsEndingRequest, min_items=0)
    absent_since = documents.TimestampField(
        source=lambda row, _: row.get("absent_since"), allow_null=True
    )


class EnforcementReport(EnforcementReportRequest):
    """The stored report, whose amounts are exact decimals."""

    tenants = documents.ListField(TenantEnforcementReport, min_items=0, max_items=MAX_TENANTS)


@dataclass(frozen=True)
class EnforcementReader:
    """The context of an answer, the resources of the decision and the tenant that reads, if any."""

    pool: Pool
    resources: Sequence[Resource]
    tenant: Tenant | None

    @property
    def knows_servers(self) -> bool:
        return self.tenant is None or self.pool.transparent

    def name(self, slug: str) -> str:
        """Return the slug of a tenant, or the pseudonym that the caller knows it by."""
        return tenant_name(slug, pool=self.pool, caller=self.tenant)


class AgentDocument(documents.Document):
    agent = documents.SlugField(source="agent.name")
    cluster = documents.StringField(
        source=lambda state, _: state.agent.cluster or None,
        allow_null=True,
        description="Null: the whole pool.",
    )
    target = documents.ChoiceField(choices=list(TARGETS), source="agent.target")
    run = documents.IdField(source="agent.run_id", allow_null=True)
    generation = documents.GenerationField(source="agent.generation", allow_null=True)
    reported_at = documents.TimestampField(source="agent.reported_at")
    received_at = documents.TimestampField(
        source="agent.received_at", description="By the service's clock."
    )
    interval = documents.StringField(source=lambda state, _: f"PT{state.agent.interval_seconds}S")
    stale = documents.BooleanField(description="Silent for more than three intervals.")
    behind = documents.IntegerField(
        minimum=-MAX_GENERATION,
        maximum=MAX_GENERATION,
        allow_null=True,
        description="By how many generations its decision is older than the one in force.",
    )
    problems = documents.ListField(
        documents.StringField(),
        # They may name other members.
        source=lambda state, reader: state.problems if reader.tenant is None else [],
        min_items=0,
    )


class NonZeroAmountsField(AmountsField):
    """Exact amounts keyed by resource, without those that are 0."""

    def write(self, value: Any, context: Any) -> dict[str, str]:
        amounts = zip(context.resources, value or (), strict=False)
        return {each.name: decimal_text(amount) for each, amount in amounts if amount}


class ServersHeldDocument(documents.Document):
    """Servers that are held for jobs of a tenant, as the caller may see them."""

    jobs = documents.ListField(documents.StringField(), min_items=0)
    count = documents.IntegerField(
        minimum=1,
        maximum=MAX_SERVERS_HELD,
        source=lambda held, _: len(held.servers),
        description="Number of the servers.",
    )
    servers = documents.ListField(
        documents.StringField(),
        source=lambda held, reader: held.servers if reader.knows_servers else [],
        min_items=0,
        description="Their names, for operators and in transparent pools.",
    )
    beside = documents.ListField(
        JobsBeside,
        source=lambda held, reader: [
            {"tenant": reader.name(slug), "jobs": jobs} for slug, jobs in held.beside.items()
        ],
        min_items=0,
        description="Jobs that still run there, by tenant; others have pseudonyms where the pool is"
        " not transparent.",
    )


class JobsEndingDocument(documents.Document):
    """Jobs above the decision that end together, as the caller may see them."""

    agent = documents.SlugField()
    name = documents.StringField()
    jobs = documents.ListField(documents.StringField(), min_items=0)
    tasks = documents.IntegerField(minimum=1, maximum=MAX_ROWS)
    ends_at = documents.TimestampField(description="The earliest time of their end.")
    heir = documents.SlugField(
        source=lambda each, reader: None if each.heir is None else reader.name(each.heir),
        allow_null=True,
        description="The tenant whose jobs wait for what they hold, by its pseudonym where the pool is"
        " not transparent; null if no job does.",
    )
    ended = documents.BooleanField(description="Ended in the agent's last round.")


class ClusterEnforcementDocument(documents.Document):
    """The numbers of a tenant in one cluster."""

    cluster = documents.StringField()
    decided = AmountsField()
    rendered = AmountsField()
    enforced = AmountsField(allow_null=True)
    used = AmountsField(allow_null=True)
    drift = NonZeroAmountsField()
    over = documents.BooleanField()
    pending_tasks = documents.IntegerField(minimum=0, maximum=MAX_ROWS, allow_null=True)
    running_tasks = documents.IntegerField(minimum=0, maximum=MAX_ROWS, allow_null=True)


class TenantEnforcementDocument(documents.Document):
    tenant = documents.SlugField()
    decided = AmountsField()
    rendered = AmountsField(description="The decision in the whole units of the scheduler.")
    enforced = AmountsField(allow_null=True, description="Null where no agent reported it.")
    used = AmountsField(allow_null=True)
    drift = NonZeroAmountsField(description="enforced − rendered where that is not 0.")
    over = documents.BooleanField(description="More is used than was decided.")
    pending_tasks = documents.IntegerField(minimum=0, maximum=MAX_ROWS, allow_null=True)
    running_tasks = documents.IntegerField(minimum=0, maximum=MAX_ROWS, allow_null=True)
    pending_reason = documents.StringField(
        allow_null=True, description="The scheduler's own reason why the first pending job waits."
    )
    blocked_since = documents.TimestampField(
        allow_null=True,
        description="Since when its jobs wait although more was decided than it uses; null until"
        " that has lasted three intervals.",
    )
    problems = documents.ListField(documents.StringField(), min_items=0)
    holds = documents.ListField(
        ServersHeldDocument,
        min_items=0,
        description="Servers held for jobs which start together, until all have room.",
    )
    ending = documents.ListField(
        JobsEndingDocument,
        min_items=0,
        description="Jobs above the decision that have notice, or that have just ended.",
    )
    absent_since = documents.TimestampField(
        allow_null=True, description="Since when no scheduler knows the tenant; null if any does."
    )
    clusters = documents.ListField(
        ClusterEnforcementDocument,
        min_items=0,
        description="The same by cluster, where agents report from clusters.",
    )


class EnforcementDocument(documents.Document):
    pool = documents.SlugField(source="pool.slug")
    run = documents.IdField(source="run.pk", allow_null=True, description="The decision in force.")
    generation = documents.GenerationField(source="run.generation", allow_null=True)
    agents = documents.ListField(AgentDocument, min_items=0, max_items=MAX_TENANTS)
    tenants = documents.ListField(
        TenantEnforcementDocument,
        source=lambda state, reader: [
            row
            for row in state.tenants
            if reader.tenant is None or row.tenant == reader.tenant.slug
        ],
        min_items=0,
        max_items=MAX_TENANTS,
    )
    stale = documents.BooleanField(description="Any agent is silent: limits stay as they are.")
    refused = documents.StringField(
        # It may name servers of others.
        source=lambda state, reader: state.refused if reader.tenant is None else "",
        description="Why the decision cannot be rendered for the agent; or empty.",
    )


def report_draft(fields: dict[str, Any], *, cluster: str) -> ReportDraft:
    """Return the report in a body, of the cluster that the caller has chosen."""
    tenants = [TenantReport(**row) for row in fields["tenants"]]
    return ReportDraft(**{**fields, "tenants": tenants, "cluster": cluster})


def report_document(report: Report) -> dict[str, Any]:
    """Return the stored report."""
    agent = report.agent
    return {
        "agent": agent.name,
        "target": agent.target,
        "class_label": agent.class_label,
        "cluster": agent.cluster or None,
        "run": report.run_id,
        "generation": agent.generation,
        "interval": f"PT{agent.interval_seconds}S",
        "reported_at": report.repeated_at,
        **report.document,
    }


class EnforcementView(PoolView):
    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_AGENT, "PUT": OPERATOR_AND_AGENT}

    @shows(
        EnforcementDocument,
        "Show what was decided, is enforced and is used; a tenant sees its own",
        headers=(),
    )
    def get(self, request: Request, pool: str) -> Response:
        """Show per tenant what was decided, its rendering for the scheduler, what agents report as
        enforced and used, and the drift.

        A tenant key sees its own row, and the agents without their `problems`. `enforced` and
        `used` are null where no agent reported the tenant. An agent that is silent for more than
        three of its intervals is `stale`, and its limits stay as they are. Without a decision or a
        report there are no rows; `refused` states why the decision cannot be rendered for the agent.
        """
        state = enforcement_state(pool=self.pool, now=utc_now())
        reader = EnforcementReader(self.pool, state.resources, self.tenant)
        return Response(EnforcementDocument.write(state, reader))

    @replaces(
        EnforcementReportRequest,
        EnforcementReport,
        "Report the limits that a scheduler has and what it runs",
    )
    @writes
    def put(self, request: Request, pool: str) -> Response:
        """Store what an agent applied to its scheduler and what runs there, in place of the agent's
        last report.

        Operators and the pool's agents. Repeating the stored report changes nothing; any other
        report that is not newer by its `reported_at` is refused with 409 `enforcement.older`. The
        service also refuses a report dated more than 5 minutes ahead of its clock (422
        `enforcement.clock`), and tenants, resources or runs that the pool does not have. A key that
        is bound to a cluster reports from no other (403 `auth.cluster`), and two agents of one name
        cannot be at work in two clusters (409 `enforcement.cluster`).
        """
        # Before the body is read: a pool that the caller may not see is 404 even if the body is
        # wrong.
        of_pool = self.pool
        fields = self.read(EnforcementReportRequest)
        cluster = self.cluster(fields["cluster"])
        # An agent's report may be the first sign of its cluster, before any server has its label.
        if cluster and self.caller.scope != Scope.AGENT:
            cluster_known(pool=of_pool, name=cluster)
        draft = report_draft(fields, cluster=cluster)
        report = report_put(pool=of_pool, draft=draft, now=utc_now())
        return Response(report_document(report))
