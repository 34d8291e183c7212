"""A decision as the limits of a scheduler, and what became of them."""

import hashlib
from http import HTTPStatus
from typing import ClassVar

from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.allocation.decided import decided_by_class
from allocator_service.allocation.selectors import decision_now
from allocator_service.core.clock import utc_now
from allocator_service.enforcement.entitlements import group_entitlements, pool_entitlements
from allocator_service.enforcement.rendering.targets import (
    TARGETS,
    decision_render,
    target_named,
)
from allocator_service.enforcement.selectors import (
    departed_slugs,
    enforcement_state,
    former_group_slugs,
    member_slugs,
    next_boundary,
)
from allocator_service.enforcement.services import report_put
from allocator_service.pools.selectors import group_missing
from api.auth import (
    EVERY_SCOPE_AND_AGENT,
    EVERY_SCOPE_GROUP_AND_AGENT,
    OPERATOR_AND_AGENT,
    OPERATOR_BILLING_AND_AGENT,
)
from api.contract.conditional import is_known
from api.contract.renderers import OrjsonRenderer, PlainTextRenderer, YAMLRenderer
from api.openapi.describing import renders, replaces, shows
from api.v1.enforcement.entitlements import (
    EntitlementsDocument,
    EntitlementsParameters,
    entitlements_document,
    group_entitlements_document,
)
from api.v1.enforcement.reports import (
    EnforcementDocument,
    EnforcementReport,
    EnforcementReportRequest,
    enforcement_document,
    report_document,
    report_draft,
)
from api.v1.enforcement.serializers import (
    RenderingDocument,
    RenderingParameters,
    rendering_document,
)
from api.views import PoolView, writes


class RenderingView(PoolView):
    """The decision in force as a target's objects: of all tenants, so that tenant keys never have it."""

    scopes: ClassVar = {"GET": OPERATOR_BILLING_AND_AGENT}
    parameters = RenderingParameters
    http_method_names = ["get", "head"]

    def get_renderers(self) -> list[BaseRenderer]:
        target = TARGETS.get(str(self.kwargs["target"]))
        text = [form() for form in (PlainTextRenderer, YAMLRenderer) if target is not None
                and form.media_type == target.media_type]  # fmt: skip
        return [OrjsonRenderer(), *text]

    @renders(RenderingDocument, "Render the decision in force for a scheduler")
    def get(self, request: Request, pool: str, target: str) -> Response:
        """Render the decision in force as the limits of a scheduler: `slurm`, `kueue`,
        `kubernetes`, `volcano` or `kai`.

        For operator and billing keys, because it names all tenants. JSON says per tenant what was
        decided, rendered and lost to rounding; `text/plain` (Slurm) and `application/yaml` (the
        others) are ready to be applied. Send the `ETag` as `If-None-Match` to get 304 while nothing
        has changed. What the target cannot express is refused with 409, such as
        `rendering.unsupported` or `rendering.unit`.
        """
        now, of_pool = utc_now(), self.pool
        chosen = target_named(target)
        label, quota = self.query["class_label"], self.query["quota"]
        run = decision_now(pool=of_pool, now=now)
        members, departed = member_slugs(pool=of_pool), departed_slugs(pool=of_pool)
        former_groups = former_group_slugs(pool=of_pool)
        boundary = next_boundary(pool=of_pool, run=run, now=now)
        form = request.accepted_renderer
        parts = [run.pk, chosen.name, label, quota, form.format, boundary, *members, "", *departed]
        parts += ["", *former_groups] if former_groups else []
        digest = hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()
        tag = f'"{run.pk}-{chosen.name}-{digest[:12]}"'
        if is_known(request, tag):
            return Response(status=HTTPStatus.NOT_MODIFIED, headers={"ETag": tag})
        rendering = decision_render(
            decided=decided_by_class(run, label=label),
            target=chosen,
            label=label,
            members=members,
            departed=departed,
            former_groups=former_groups,
            now=now,
            quota=quota,
        )
        if form.format == OrjsonRenderer.format:
            document = rendering_document(rendering, next_boundary=boundary)
            return Response(document, headers={"ETag": tag})
        return Response(rendering.text, headers={"ETag": tag})


class EnforcementView(PoolView):
    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_AGENT, "PUT": OPERATOR_AND_AGENT}

    @shows(
        EnforcementDocument,
        "Show what was decided, is enforced and is used; a tenant sees its own",
        headers=(),
    )
    def get(self, request: Request, pool: str) -> Response:
        """Show per tenant what was decided, what the scheduler is told, what agents report as
        enforced and used, and the drift.

        A tenant key sees its own row, and the agents without their `problems`. `enforced` and
        `used` are null where no agent reported the tenant. An agent that is silent for more than
        three of its intervals is `stale`, and its limits stay as they are. Without a decision or a
        report there are no rows; `refused` says why the decision cannot be rendered for the agent.
        """
        state = enforcement_state(pool=self.pool, now=utc_now())
        return Response(enforcement_document(state, caller=self.tenant))

    @replaces(
        EnforcementReportRequest,
        EnforcementReport,
        "Report what a scheduler was told and what it runs",
    )
    @writes
    def put(self, request: Request, pool: str) -> Response:
        """Store what an agent applied to its scheduler and what runs there, in place of the agent's
        last report.

        Operators and the pool's agents. Repeating the stored report changes nothing; any other
        report that is not newer by its `reported_at` is refused with 409 `enforcement.older`. The
        service also refuses a report dated more than 5 minutes ahead of its clock (422
        `enforcement.clock`), and tenants, resources or runs that the pool does not have.
        """
        of_pool = self.pool
        fields = self.read(EnforcementReportRequest)
        report = report_put(pool=of_pool, draft=report_draft(fields), now=utc_now())
        return Response(report_document(report))


class EntitlementsView(PoolView):
    scopes: ClassVar = {"GET": EVERY_SCOPE_GROUP_AND_AGENT}
    parameters = EntitlementsParameters

    @shows(
        EntitlementsDocument,
        "Show who has what each tenant is entitled to, and when it has it back; a tenant sees its own",
        headers=(),
    )
    def get(self, request: Request, pool: str) -> Response:
        """Show what each tenant is entitled to by its weight, what it has, who borrows from whom,
        and when what it lent returns.

        `definitions` explains each figure. A tenant key sees its own row; in a transparent pool it sees
        all of them. To a tenant key other tenants always appear under pseudonyms. `group` shows the sum
        of a group of the decision and then its children, to all keys but tenants' (404
        `group.not_found`); a group key gets its group, or one below it. Before the first decision the
        answer is 404 `decision.none`.
        """
        slug, of_pool = self.query["group"], self.pool
        if self.subtree is not None:
            own = self.subtree.group
            of_group = group_entitlements(
                pool=of_pool, slug=slug or own.slug, now=utc_now(), within=own
            )
            return Response(group_entitlements_document(of_group, outsider=self.subtree.outsider))
        if slug is not None:
            if self.tenant is not None:
                raise group_missing()
            of_group = group_entitlements(pool=of_pool, slug=slug, now=utc_now())
            return Response(group_entitlements_document(of_group))
        found = pool_entitlements(pool=self.pool, now=utc_now())
        return Response(entitlements_document(found, caller=self.tenant))
