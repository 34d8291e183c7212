"""Decisions as the limits of a scheduler."""

import hashlib
from dataclasses import asdict, astuple
from typing import Any, ClassVar

from django.http import HttpResponse
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service import __version__
from allocator_service.allocation.decided import decided_by_class
from allocator_service.allocation.selectors import decision_now
from allocator_service.core.clock import utc_now
from allocator_service.core.quantities import decimal_text
from allocator_service.enforcement.reclaim import reclaim_terms, workload_minima
from allocator_service.enforcement.rendering.limits import HARD, SOFT, TenantLimits
from allocator_service.enforcement.rendering.targets import (
    CLASS_LABEL,
    QUOTAS,
    TARGETS,
    Rendering,
    decision_render,
    target_named,
)
from allocator_service.enforcement.selectors import (
    departed_slugs,
    former_group_slugs,
    member_slugs,
    next_boundary,
)
from allocator_service.pools.budgets import MonthlyStops, monthly_stops
from allocator_service.pools.clusters import cluster_decided, cluster_known
from allocator_service.pools.services import MAX_CHURN, MOST_RECLAIM_SECONDS
from allocator_service.tenants.models import Scope
from api.auth import OPERATOR_BILLING_AND_AGENT
from api.contract import documents
from api.contract.conditional import is_known, not_modified
from api.contract.fields import MAX_GENERATION
from api.contract.operations import renders
from api.contract.parameters import Parameters
from api.contract.renderers import OrjsonRenderer, PlainTextRenderer, YAMLRenderer
from api.v1.reports.documents import MAX_TENANTS, AmountsField
from api.views import PoolView

_WHOLE = {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}


class RenderingParameters(Parameters):
    class_label = documents.TextField(
        max_length=253,
        default=CLASS_LABEL,
        description="The server label whose values are the classes of servers.",
    )
    quota = documents.ChoiceField(
        choices=QUOTAS,
        default=HARD,
        description="hard: never above the decision; soft (kueue, volcano, kai): what is not used is"
        " lent; effective (kueue): in `status.effectiveQuotas`.",
    )

    cluster = documents.TextField(
        max_length=253,
        required=False,
        description="Only what is decided on the servers of this cluster: by default of the key's.",
    )


class WorkloadMinimumDocument(documents.Document):
    tenant = documents.SlugField()
    workload = documents.TextField(max_length=253)
    minimum_run_seconds = documents.IntegerField(
        minimum=1,
        maximum=MOST_RECLAIM_SECONDS,
        description="How long its tasks run at least, in place of the pool's.",
    )


class ReclaimDocument(documents.Document):
    """Terms under which agents end running jobs above the decision."""

    minimum_run_seconds = documents.IntegerField(
        minimum=0, maximum=MOST_RECLAIM_SECONDS, description="How long a job runs at least."
    )
    notice_seconds = documents.IntegerField(
        minimum=0, maximum=MOST_RECLAIM_SECONDS, description="Between notice and end."
    )
    churn = documents.IntegerField(
        minimum=1,
        maximum=MAX_CHURN,
        allow_null=True,
        description="Most tasks that an agent ends in one interval; null is any number.",
    )
    interval_seconds = documents.IntegerField(minimum=1, maximum=MAX_GENERATION)
    workloads = documents.ListField(
        WorkloadMinimumDocument,
        min_items=0,
        description="Workloads that have a minimum of their own.",
    )


class RenderedTenantDocument(documents.Document):
    tenant = documents.SlugField()
    decided = AmountsField(description="In the pool's units.")
    rendered = documents.SchemaField(schema=_WHOLE, description="In the target's units.")
    lost = AmountsField(description="To rounding, in the pool's units; below 0: gained.")
    notes = documents.texts_field(description="What cannot be enforced.")
    reclaim_rank = documents.IntegerField(
        minimum=0,
        maximum=MAX_TENANTS,
        description="Position among tenants whose jobs above the decision end; 0 is the first.",
    )


class RenderingDocument(documents.Document):
    pool = documents.SlugField()
    run = documents.IdField()
    generation = documents.GenerationField()
    policy = documents.TextField(max_length=63)
    mode = documents.TextField(max_length=63)
    target = documents.ChoiceField(choices=list(TARGETS))
    class_label = documents.TextField(max_length=253)
    cluster = documents.StringField(allow_null=True, description="Null: the whole pool.")
    rendered_from = documents.TimestampField()
    next_boundary = documents.TimestampField(
        allow_null=True,
        description="When what it gives changes next without a change: the next slot or interval.",
    )
    units = documents.MapField(
        documents.StringField(), description="What 1 means to the target, by resource."
    )
    notes = documents.texts_field()
    reclaim = documents.DocumentField(ReclaimDocument)
    tenants = documents.ListField(RenderedTenantDocument, min_items=0, max_items=MAX_TENANTS)
    objects = documents.ListField(
        documents.SchemaField(schema={"type": "object", "additionalProperties": True}),
        min_items=0,
        description="The target's objects: docs/enforcement.md has their shapes.",
    )


def rendering_document(rendering: Rendering, *, cluster: str, next_boundary: Any) -> dict[str, Any]:
    """The rendering with what was decided, rendered and lost per tenant."""
    run, limits = rendering.run, rendering.limits
    return {
        "pool": run.pool.slug,
        "run": run.pk,
        "generation": run.generation,
        "policy": run.policy["name"],
        "mode": run.policy["mode"],
        "target": rendering.target.name,
        "class_label": limits.label,
        "cluster": cluster or None,
        "rendered_from": run.effective_from,
        "next_boundary": next_boundary,
        "units": {unit.resource.name: unit.text for unit in limits.units},
        "notes": limits.notes,
        "reclaim": {
            **asdict(reclaim_terms(run.pool)),
            "workloads": [asdict(each) for each in workload_minima(run.pool)],
        },
        "tenants": _tenants(rendering),
        "objects": rendering.objects,
    }


def _tenants(rendering: Rendering) -> list[dict[str, Any]]:
    # The greatest weighted share loses first, and a tenant without a part of the decision before it.
    decided = sorted(rendering.limits.decided.tenants, key=lambda each: each.rank, reverse=True)
    ranks = {tenant.slug: number for number, tenant in enumerate(decided, 1)}
    return [
        {**_tenant(tenant, rendering), "reclaim_rank": ranks.get(tenant.slug, 0)}
        for tenant in rendering.limits.tenants
    ]


def _tenant(tenant: TenantLimits, rendering: Rendering) -> dict[str, Any]:
    names = [unit.resource.name for unit in rendering.limits.units]
    return {
        "tenant": tenant.slug,
        "decided": dict(zip(names, map(decimal_text, tenant.decided), strict=True)),
        "rendered": dict(zip(names, tenant.rendered, strict=True)),
        "lost": dict(zip(names, map(decimal_text, tenant.lost), strict=True)),
        "notes": tenant.notes,
    }


class RenderingView(PoolView):
    """The decision in force as objects of a target.

    It names all tenants, so tenant keys cannot read it.
    """

    scopes: ClassVar = {"GET": OPERATOR_BILLING_AND_AGENT}
    parameters = RenderingParameters
    http_method_names = ["get", "head"]

    def get_renderers(self) -> list[BaseRenderer]:
        target = TARGETS.get(str(self.kwargs["target"]))
        text = [form() for form in (PlainTextRenderer, YAMLRenderer) if target is not None
                and form.media_type == target.media_type]  # fmt: skip
        return [OrjsonRenderer(), *text]

    @renders(RenderingDocument, "Render the decision in force for a scheduler")
    def get(self, request: Request, pool: str, target: str) -> Response | HttpResponse:
        """Render the decision in force as limits of `slurm`, `kueue`, `kubernetes`, `volcano` or `kai`.

        For operator and billing keys, because it names all tenants. JSON states per tenant what was
        decided, rendered and lost to rounding; `text/plain` (Slurm) and `application/yaml` (the
        others) are ready to be applied. Send the `ETag` as `If-None-Match` to get 304 while nothing
        has changed. With `cluster`, or a key that is bound to one, it is the part of that cluster.
        What the target cannot express is refused with 409, such as `rendering.unsupported` or
        `rendering.unit`.
        """
        now, of_pool = utc_now(), self.pool
        chosen = target_named(target)
        label, quota = self.query["class_label"], self.query["quota"]
        run = decision_now(pool=of_pool, now=now)
        members, departed = member_slugs(pool=of_pool), departed_slugs(pool=of_pool)
        former_groups = former_group_slugs(pool=of_pool)
        # Part of the tag: at the boundary the same decision has other limits.
        boundary = next_boundary(pool=of_pool, run=run, now=now)
        cluster = self.cluster(self.query["cluster"])
        # A new cluster's agent may ask before any server has its label.
        if cluster and self.caller.scope != Scope.AGENT:
            cluster_known(pool=of_pool, name=cluster)
        if cluster:
            cluster_decided(pool=of_pool, name=cluster, generation=run.generation)
        # Other targets cannot express them, and would get another tag whenever a budget changes.
        stops = monthly_stops(of_pool, at=now) if chosen.minutes_note else MonthlyStops()
        if cluster:  # each would count the hours of a budget by itself
            stops = MonthlyStops(stops.resources)
        form = request.accepted_renderer
        # With the release, which may render the same decision in other objects.
        parts = [__version__, run.pk, chosen.name, label, quota, form.format, boundary]
        parts += [*members, "", *departed]
        # An empty text between lists, or a name that moves from one to the next would keep the tag.
        parts += ["", *former_groups] if former_groups else []
        parts += ["", "cluster", cluster] if cluster else []
        parts += ["", "reclaim", *astuple(reclaim_terms(of_pool))]
        parts += [part for each in workload_minima(of_pool) for part in astuple(each)]
        if chosen.names_servers:  # a server that changes before the next decision loses its name
            parts += ["", of_pool.generation]
        if stops.resources:
            parts += ["", *sorted(stops.resources), *sorted(stops.hours.items())]
        digest = hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()
        # The tag has everything that the text depends on, since agents poll by it.
        tag = f'"{run.pk}-{chosen.name}-{digest[:12]}"'
        # Before the decision is read and rounded: most polls end here.
        if is_known(request, tag):
            return not_modified(tag)
        rendering = decision_render(
            decided=decided_by_class(
                run,
                label=label,
                reserves=quota == SOFT,
                gangs=chosen.names_servers,
                cluster=cluster,
            ),
            target=chosen,
            label=label,
            members=members,
            departed=departed,
            former_groups=former_groups,
            now=now,
            quota=quota,
            stops=stops,
        )
        if form.format == OrjsonRenderer.format:
            document = rendering_document(rendering, cluster=cluster, next_boundary=boundary)
            return Response(document, headers={"ETag": tag})
        return Response(rendering.text, headers={"ETag": tag})
