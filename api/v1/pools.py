"""Pools, which operators open and change and their members see."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service import __version__
from allocator_service.allocation.policies import policy_choose
from allocator_service.core.clock import utc_now
from allocator_service.core.durations import MOST_RECLAIM_DAYS
from allocator_service.core.errors import Unacceptable
from allocator_service.core.quantities import Resource as ResourceUnit
from allocator_service.pools.models import (
    RESOURCE_NAME_PATTERN,
    Count,
    Metering,
    Pool,
    WeightsMode,
    WindowKind,
)
from allocator_service.pools.policy import DEFAULT_ANCHOR, Window
from allocator_service.pools.selectors import pools_for, resources_of
from allocator_service.pools.services import (
    MAX_CHURN,
    MAX_RESOURCES,
    PoolSettings,
    pool_create,
    pool_retire,
    pool_update,
)
from api.auth import EVERY_SCOPE_AND_GROUP, EVERY_SCOPE_GROUP_AND_AGENT, OPERATOR
from api.contract import documents
from api.contract.conditional import is_known, not_modified
from api.contract.operations import creates, lists, retires, shows, updates
from api.contract.pagination import by_slug
from api.contract.parameters import PageParameters
from api.resources import Resource
from api.v1.warnings import warnings_field, warns_of_guarantees
from api.versions import conditional, of_pools
from api.views import PoolView, writes


class ResourceFields(documents.Document):
    name = documents.PatternField(
        pattern=RESOURCE_NAME_PATTERN, code="resource.syntax", writable=True
    )
    unit = documents.TextField(max_length=20, blank=True, default="", writable=True)


class PolicyDocument(documents.Document):
    name = documents.TextField(max_length=63, source="policy_name", writable=True)
    mode = documents.TextField(
        max_length=63, source="policy_mode", writable={"required": False, "allow_null": True}
    )
    options = documents.ObjectField(source="policy_options", writable={"required": False})


class WindowDocument(documents.Document):
    kind = documents.ChoiceField(
        choices=WindowKind.values, source="window_kind", writable={"default": "tumbling"}
    )
    # A window that never ends has no length, and only a decaying one a half-life.
    length = documents.DurationField(
        allow_null=True,
        source=lambda pool, _: pool.window_length or None,
        writable={"required": False},
    )
    anchor = documents.TimestampField(source="window_anchor", writable={"required": False})
    half_life = documents.DurationField(
        allow_null=True,
        source=lambda pool, _: pool.window_half_life or None,
        writable={"required": False},
    )


class PoolDocument(documents.Document):
    slug = documents.SlugField(writable=True)
    name = documents.TextField(max_length=200, writable=True)
    resources = documents.ListField(
        ResourceFields,
        max_items=MAX_RESOURCES,
        source=lambda pool, _: resources_of(pool),
        writable=True,
    )
    policy = documents.DocumentField(PolicyDocument, source=".", writable=True)
    window = documents.DocumentField(WindowDocument, source=".", writable={"required": False})
    weights = documents.ChoiceField(
        choices=WeightsMode.values, writable={"default": "contribution"}
    )
    own_servers = documents.BooleanField(
        description="Guarantee to each workload of what it would get if its tenant ran alone on the"
        " servers that it contributed. Settings of members and groups override it.",
        writable={"default": False},
    )
    count = documents.ChoiceField(
        choices=Count.values,
        description="Amount that levels count. `total`: everything that is allocated. `above`: only what"
        " is allocated beyond guarantees.",
        writable={"default": "total"},
    )
    decision_interval = documents.DurationField(writable={"default": "PT1M"})
    cluster_grace = documents.DurationField(
        description="For how long the servers of a cluster whose agents are silent stay in decisions.",
        writable={"default": "PT15M"},
    )
    minimum_run = documents.DurationField(
        most_days=MOST_RECLAIM_DAYS,
        source=lambda pool, _: pool.minimum_run or None,
        allow_null=True,
        description="For how long a placed task keeps its server in decisions of whole tasks, and a job"
        " runs before agents take back what it holds. A workload may have its own.",
        writable={"default": None},
    )
    notice = documents.DurationField(
        most_days=MOST_RECLAIM_DAYS,
        source=lambda pool, _: pool.notice or None,
        allow_null=True,
        description="Time between the notice of a job and its end, when agents take back what it holds.",
        writable={"default": None},
    )
    churn = documents.IntegerField(
        minimum=1,
        maximum=MAX_CHURN,
        allow_null=True,
        description="Most tasks that an agent ends in one decision interval; null is any number.",
        writable={"default": None},
    )
    metering = documents.ChoiceField(choices=Metering.values, writable={"default": "allocation"})
    currency = documents.PatternField(
        pattern="^[A-Z]{3}$", code="currency.syntax", writable={"default": "EUR"}
    )
    timezone = documents.TextField(max_length=63, writable={"default": "UTC"})
    transparent = documents.BooleanField(writable={"default": False})
    generation = documents.GenerationField()
    version = documents.VersionField()
    created_at = documents.TimestampField()


class ChangedPoolDocument(PoolDocument):
    warnings = warnings_field()


PolicyFields = PolicyDocument.writable("PolicyFields")
WindowFields = WindowDocument.writable("WindowFields")
PoolRequest = PoolDocument.writable("PoolRequest")


class PoolDeclaration(Resource):
    document = PoolDocument
    change = PoolRequest
    fixed = ("slug",)
    ordering = by_slug("pools")

    def headers_of(self, found: Pool, *, changed: bool) -> dict[str, str]:
        return {"ETag": pool_tag(found), "Pool-Generation": str(found.generation)}


class PoolsView(PoolDeclaration):
    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_GROUP, "POST": OPERATOR}
    of_a_pool = ("GET",)
    parameters = PageParameters

    @conditional(of_pools)
    @lists(PoolDocument, "List pools")
    def get(self, request: Request) -> Response:
        """List the open pools, by slug.

        A tenant key sees the pools that the tenant is a member of, and a group key its group's;
        operator and billing keys see all, or the one that they are bound to. Retired pools are not
        listed.
        """
        # A group's key has no tenant: its pool limits it.
        seen = pools_for(None if self.caller.group is not None else self.tenant)
        # The route is open to keys of one pool, and must show them no other.
        return self.answer_list(seen.filter(slug=self.caller.pool) if self.caller.pool else seen)

    @creates(PoolRequest, PoolDocument, "Open a pool")
    @writes
    def post(self, request: Request) -> Response:
        """Open a pool with its resources, policy, window and money settings.

        Operators only. Required are `slug`, `name`, `resources` and `policy.name`; everything else
        has a default. `GET /policies/` lists the policies with their modes and options (422
        `policy.unknown`, `policy.mode`, `policy.options`). A slug that any pool has, even a retired
        one, is refused with 409 `pool.exists`.
        """
        fields = self.read(PoolRequest)
        pool = pool_create(slug=fields["slug"], settings=pool_settings(fields), now=utc_now())
        return self.answer_created(pool, pool.slug)


class OnePoolView(PoolDeclaration, PoolView):
    scopes: ClassVar = {"GET": EVERY_SCOPE_GROUP_AND_AGENT, "PATCH": OPERATOR, "DELETE": OPERATOR}

    def find(self, key: str) -> Pool:
        return self.pool

    def current(self, found: Pool) -> dict[str, Any]:
        current = super().current(found)
        patch = self.body_value()
        policy = patch.get("policy") if isinstance(patch, dict) else None
        if not isinstance(policy, dict) or policy.get("name") in (None, current["policy"]["name"]):
            return current
        # Mode and options belong to the policy that had them: another starts with its defaults.
        return {**current, "policy": {}}

    def update(self, found: Pool, fields: Mapping[str, Any], version: int) -> Pool:
        settings = pool_settings(fields)
        return pool_update(pool=found, settings=settings, version=version, now=utc_now())

    def retire(self, found: Pool, version: int) -> None:
        pool_retire(pool=found, version=version, now=utc_now())

    def generation_header(self) -> dict[str, str]:
        return {"Pool-Generation": str(self.pool.generation)}

    @shows(PoolDocument, "Show a pool", conditional=True)
    def get(self, request: Request, pool: str) -> Response | HttpResponse:
        """Show the settings of a pool, its `version` and its `generation`, the number of its last
        change.

        A tenant key sees only pools that the tenant is a member of; any other slug answers 404
        `pool.not_found`. The `ETag` is what a change sends as `If-Match`: changes of members, servers
        and workloads, which it names too, do not make it old. Sent as `If-None-Match`, it is answered
        304 until anything in the pool changes.
        """
        tag = pool_tag(self.pool)
        if is_known(request, tag):
            return not_modified(tag)
        return self.answer_one(self.pool)

    @updates(PoolRequest, ChangedPoolDocument, "Change a pool")
    @warns_of_guarantees
    @writes
    def patch(self, request: Request, pool: str) -> Response:
        """Change the settings of a pool by JSON merge patch.

        Operators only, with `If-Match`. Another policy, window or kind of weights counts from the
        next decision on; a different policy starts with its default mode and options unless the
        patch names them. To add a resource, send the whole list: none can be dropped and no unit
        can change (409 `in_use`). Once prices are published, currency and time zone stay (409
        `pool.money_fixed`). A change of `own_servers` or `count` is accepted with `warnings` if the
        present servers cannot meet all guarantees.
        """
        return self.answer_update(pool)

    @retires("Close a pool", pool=True)
    @writes
    def delete(self, request: Request, pool: str) -> Response:
        """Close a pool permanently.

        Operators only, with `If-Match`. A pool with servers that are not retired is refused with
        409 `in_use`. Afterwards the pool answers 404 and gets no further decisions; its runs,
        statements and billing report stay readable, and its slug stays taken.
        """
        return self.answer_retire(pool)


def pool_tag(pool: Pool) -> str:
    """Return the entity tag of a pool, its version with what else the document depends on."""
    # With the release, which may write the same pool in another form.
    return f'"v{pool.version}.{pool.generation}-{__version__}"'


def pool_settings(fields: Mapping[str, Any]) -> PoolSettings:
    """Return the settings in the fields of a request. Raises `Unacceptable` for the policy."""
    policy = fields["policy"]
    # A request without a window has the same defaults as one with an empty window.
    window = fields["window"] or documents.read_document(WindowFields, {})
    anchor = window["anchor"] or DEFAULT_ANCHOR
    others = {name: fields[name] for name in fields if name not in ("slug", "policy", "window")}
    return PoolSettings(
        **{
            **others,
            "resources": [ResourceUnit(item["name"], item["unit"]) for item in fields["resources"]],
            "minimum_run": fields["minimum_run"] or "",
            "notice": fields["notice"] or "",
        },
        policy=policy_choose(policy["name"], policy["mode"], policy["options"]),
        window=Window(window["kind"], anchor, window["length"] or "P7D", window["half_life"] or ""),
    )


def pool_named(slug: str, among: QuerySet[Pool]) -> Pool:
    """Return the pool that the field `pool` of a body names. Raises `Unacceptable`."""
    pool = among.filter(slug=slug).first()
    if pool is None:
        raise Unacceptable(f'No pool has the slug "{slug}".', code="pool.unknown", pointer="/pool")
    return pool
