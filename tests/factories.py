"""What tests of the API start from: keys, and pools filled through the services."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from json import dumps
from types import SimpleNamespace
from typing import Any

from rest_framework.test import APIClient

from allocator_service.allocation.decided import decided_by_class
from allocator_service.allocation.models import Run
from allocator_service.allocation.policies import policy_choose
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.core.clock import utc_now
from allocator_service.core.quantities import Resource
from allocator_service.enforcement.rendering.targets import TARGETS, limits_for
from allocator_service.enforcement.services import ReportDraft, TenantReport, report_put
from allocator_service.enforcement.watching import enforcement_watch
from allocator_service.pools.group_services import (
    GroupDraft,
    GroupSettings,
    group_update,
    groups_create,
)
from allocator_service.pools.limits import Limit, limits_from
from allocator_service.pools.member_services import member_put
from allocator_service.pools.models import Group, GroupTerms, Pool
from allocator_service.pools.policy import Window
from allocator_service.pools.server_services import ServerDraft, servers_contribute
from allocator_service.pools.services import PoolSettings, pool_create
from allocator_service.tenants.models import Scope, Tenant
from allocator_service.tenants.services import api_key_create, tenant_create
from allocator_service.workloads.services import WorkloadDraft, workloads_submit

ANCHOR = datetime(2026, 1, 5, tzinfo=UTC)
_numbers = count(1)


@dataclass
class Client:
    """A caller of the API: its key is on every request, answers are DRF's."""

    key: str | None

    def __post_init__(self) -> None:
        self._client = APIClient(raise_request_exception=False)
        if self.key is not None:
            self._client.credentials(HTTP_AUTHORIZATION=f"Bearer {self.key}")

    def get(self, path: str, **headers: str) -> Any:
        return self._client.get(path, headers=_named(headers))

    def delete(self, path: str, **headers: str) -> Any:
        return self._client.delete(path, headers=_named(headers))

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.send("POST", path, body, **headers)

    def put(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.send("PUT", path, body, **headers)

    def patch(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.send("PATCH", path, body, **headers)

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        **headers: str,
    ) -> Any:
        """A request; a body that is no bytes is written as JSON. `If_Match` is the header If-Match."""
        data = body if isinstance(body, bytes) else b"" if body is None else dumps(body).encode()
        call: Any = self._client.generic
        return call(method, path, data, content_type=content_type, headers=_named(headers))


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def client(
    scope: str = Scope.OPERATOR,
    tenant: Tenant | None = None,
    *,
    pool: str = "",
    group: Group | None = None,
    access: str = "manage",
    cluster: str = "",
) -> Client:
    """A caller with a new key of the scope."""
    now = utc_now()
    issued = api_key_create(
        scope=scope,
        name=f"test-{next(_numbers)}",
        tenant=tenant,
        pool=group.pool.slug if group else pool,
        group=group.pk if group else None,
        access=access,
        cluster=cluster,
        expires_at=now + timedelta(days=1),
        now=now,
    )
    return Client(issued.text)


def tenant(slug: str) -> Tenant:
    return tenant_create(slug=slug, name=slug.title(), now=utc_now())


def pool(slug: str = "lab", **changes: Any) -> Pool:
    """A pool of cpu and memory under exact DRFH, or the policy of that name with `options`."""
    options = {"policy": "drfh", **changes}
    choice = policy_choose(
        options["policy"], options.pop("mode", None), options.pop("options", None)
    )
    settings = {
        "name": slug.title(),
        "resources": [Resource("cpu", "core"), Resource("memory", "GiB")],
        "window": Window("tumbling", ANCHOR),
        "weights": "explicit",
        "own_servers": False,
        "count": "total",
        "decision_interval": "PT1M",
        "metering": "allocation",
        "currency": "EUR",
        "timezone": "UTC",
        "transparent": False,
        **options,
        "policy": choice,
    }
    return pool_create(slug=slug, settings=PoolSettings(**settings), now=utc_now())


def group(pool: Pool, slug: str, parent: str | None = None, **more: Any) -> Group:
    """A group of the pool, by its slug below another one or the pool itself."""
    terms = GroupSettings(slug.title(), parent, **more)
    (made,) = groups_create(pool=pool, drafts=[GroupDraft(slug, terms)], now=utc_now())
    return made


def member(pool: Pool, of: Tenant, group: str | None, *, tier: int = 0, weight: int = 1) -> None:
    """Admit or move the tenant to a group of the pool."""
    present = pool.memberships.filter(tenant=of, ended_at=None).first()
    member_put(
        pool=pool,
        tenant=of,
        weight=Decimal(weight),
        best_effort=False,
        group=group,
        tier=tier,
        version=present.version if present else None,
        now=utc_now(),
    )


def limit(
    pool: Pool,
    slug: str,
    amount: dict[str, float],
    where: dict[str, Any] | None = None,
    **dates: Any,
) -> None:
    """One more limit of a group, with the dates `start` and `end`."""
    terms = GroupTerms.objects.select_related("group", "parent").get(
        group__pool=pool, group__slug=slug, end=None
    )
    amounts = {name: Decimal(str(value)) for name, value in amount.items()}
    limits = [*limits_from(terms.limit), Limit(amounts, where or {}, **dates)]
    settings = GroupSettings(
        terms.group.name,
        terms.parent.slug if terms.parent else None,
        terms.weight,
        terms.tier,
        limits,
    )
    group_update(group=terms.group, settings=settings, version=None, now=utc_now())


def server(pool: Pool, name: str, cpu: float, memory: float, by: Tenant | None, **more: Any) -> Any:
    """A server of the pool, contributed by a tenant or the pool's own."""
    draft = ServerDraft(name, vector(cpu, memory), by, **more)
    created = servers_contribute(pool=pool, drafts=[draft], now=utc_now())
    return pool.servers.get(pk=created.ids[0])


def workload(pool: Pool, name: str, cpu: float, memory: float, of: Tenant, **more: Any) -> Any:
    """A workload of a tenant in the pool."""
    draft = WorkloadDraft(of, name, vector(cpu, memory), **more)
    submitted = workloads_submit(pool=pool, drafts=[draft], now=utc_now())
    return pool.workloads.get(pk=submitted.ids[0])


def vector(*amounts: float) -> list[Decimal]:
    return [Decimal(str(amount)) for amount in amounts]


def world() -> SimpleNamespace:
    """DRFH Fig. 2 as two tenants see it: `ada` and `bob` in `lab`, `eve` in a pool of her own."""
    ada, bob, eve = (tenant(slug) for slug in ("ada", "bob", "eve"))
    lab, other = pool("lab"), pool("other")
    return SimpleNamespace(
        ada=ada,
        bob=bob,
        eve=eve,
        lab=lab,
        other=other,
        as_ada=client("tenant", ada),
        as_bob=client("tenant", bob),
        as_eve=client("tenant", eve),
        ada_server=server(lab, "high-memory", 2, 12, ada),
        bob_server=server(lab, "high-cpu", 12, 2, bob),
        ada_workload=workload(lab, "analysis", 0.2, 1, ada),
        bob_workload=workload(lab, "simulation", 1, 0.2, bob),
        eve_server=server(other, "alone", 4, 4, eve),
        eve_workload=workload(other, "work", 1, 1, eve),
    )


def decision(pool: Pool) -> Run:
    """The pool's decision, computed here as a worker would."""
    run = recompute_pool(pool_id=pool.pk, clock=utc_now, early=True)
    assert run is not None
    assert run.status == "succeeded"
    return run


def blocked(run: Run, tenant: str) -> None:
    """Jobs of a tenant wait up to now for more than three intervals; nothing runs."""
    for seconds in (50, 30, 0):
        at = utc_now() - timedelta(seconds=seconds)
        enforcement_report(run, waiting=tenant, now=at, reported_at=at)
        enforcement_watch(pool=run.pool, now=at)


def enforcement_report(run: Run, *, waiting: str = "", **changes: Any) -> Any:
    """What an agent of the run's pool reports that has applied all of it; nothing runs.

    Three jobs of the tenant `waiting` wait.
    """
    now = utc_now()
    decided = decided_by_class(run, label="partition")
    limits = limits_for(TARGETS["slurm"], decided, label="partition", members=[], at=now)
    names = [each.name for each in decided.resources]
    rows = [
        TenantReport(
            row.slug,
            {
                name: str((amount - less).quantize(Decimal("1e-12")))
                for name, amount, less in zip(names, row.decided, row.lost, strict=True)
            },
            {},
            3 if row.slug == waiting else None,
            None,
            [],
            *(("AssocGrp<b>Limit", {names[0]: 1}) if row.slug == waiting else ()),
        )
        for row in limits.tenants
    ]
    draft = {
        "agent": "slurm-lab",
        "target": "slurm",
        "class_label": "partition",
        "run": run.pk,
        "generation": run.generation,
        "interval": "PT15S",
        "reported_at": now,
        "tenants": rows,
        "problems": [],
        "now": now,
        **changes,
    }
    return report_put(pool=run.pool, now=draft.pop("now"), draft=ReportDraft(**draft))
