"""Writes of backtests, to request and cancel them and to delete their old inputs."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from allocator_service.allocation.policies import plain_options
from allocator_service.backtests.errors import (
    MAX_CELLS,
    of_policy,
    refuse_many_servers,
    too_large,
)
from allocator_service.backtests.models import OPEN, Backtest, BacktestInput, BacktestStatus, Cell
from allocator_service.backtests.selectors import Holder, asked_by, with_progress
from allocator_service.backtests.trees import tree_named
from allocator_service.backtests.uploads import head_checked, packed
from allocator_service.billing.models import PlanState, PricePlan
from allocator_service.billing.plans.timeline import plans_of
from allocator_service.core.audit import audit_record, stated_fields
from allocator_service.core.dates import date_range_text, is_settable
from allocator_service.core.errors import Conflict, Unacceptable
from allocator_service.core.jobs import BACKTESTS, complete_job, wake_relay
from allocator_service.core.locks import Lock, lock_in_transaction
from allocator_service.pools.models import Pool
from allocator_service.pools.policy import EARLIEST_ANCHOR, LATEST_ANCHOR, is_anchor
from allocator_service.tenants.models import Tenant
from policies import PolicyError
from policies.simulation import POLICIES, choose_simulated

PRUNED_AT_ONCE = 100
RETRY_SECONDS = 30
# Of what one key or person may have open.
TENANT_LIMIT_FACTOR = 2


@transaction.atomic
def backtest_request(
    *,
    holder: Holder,
    tenant: Tenant | None,
    pool: Pool | None,
    plan: PricePlan | None,
    names: Mapping[str, str] | None,
    asked: Mapping[str, Any],
    now: datetime,
) -> Backtest:
    """Request a backtest.

    `tenant` limits what is read of the pool, and `names` has the names by which its members are shown,
    None for their own. `asked` has `name`, `trace` or `history`, `servers`, `tenants`, `policies`,
    `seeds`, `resample`, `step` and `window`.

    Raises `Unacceptable` for mistakes that can be found at once, including in the first lines of a
    trace, `TooLarge` for a larger grid, and `Conflict` if the holder has the maximum number of backtests
    open.
    """
    spec, content = _spec(asked, pool=pool, names=names, now=now)
    # Counted under a lock: requests at once would each find room for one more.
    lock_in_transaction(Lock.BACKTEST, f"of {holder if tenant is None else tenant.slug}")
    limit = settings.ENVIRONMENT.backtests_open
    _refuse_many(asked_by(holder), "your", limit)
    if tenant is not None:  # by all of its keys and people
        of_tenant = Backtest.objects.filter(tenant=tenant)
        _refuse_many(of_tenant, "your tenant's", TENANT_LIMIT_FACTOR * limit)
    backtest = Backtest.objects.create(
        name=asked["name"],
        key_id=holder.key_id,
        started_by=holder.user,
        tenant=tenant,
        pool=pool,
        plan=plan or _own_plan(pool, now),
        spec=spec,
        created_at=now,
    )
    if content is not None:
        BacktestInput.objects.create(backtest=backtest, uploaded=content)
    audit_record(
        action="backtest.create",
        instance=backtest,
        now=now,
        pool=None if pool is None else pool.slug,
        extra={"spec": _audited(spec)},
    )
    wake_relay(BACKTESTS)
    return with_progress(Backtest.objects.filter(pk=backtest.pk)).get()


def _refuse_many(backtests: QuerySet[Backtest], whose: str, limit: int) -> None:
    waiting = backtests.filter(status__in=OPEN).count()
    if waiting >= limit:
        raise Conflict(
            f"{waiting} of {whose} backtests are queued or running, of at most {limit}. Wait for one to"
            " end, or cancel one.",
            code="backtest.too_many",
            retry_after=RETRY_SECONDS,
        )


def _spec(
    asked: Mapping[str, Any], *, pool: Pool | None, names: Mapping[str, str] | None, now: datetime
) -> tuple[dict[str, Any], bytes | None]:
    """Return the stored part of a request, and the trace as gzip."""
    policies = _policies(asked["policies"])
    tree_named(asked["groups"], asked["tenants"])
    spec: dict[str, Any] = {
        "policies": policies,
        "seeds": asked["seeds"],
        "resample": asked["resample"],
        "cells": _cells(policies, asked["seeds"], resample=asked["resample"]),
        "servers": asked["servers"],
        "tenants": asked["tenants"],
        "groups": asked["groups"],
        "step": asked["step"],
        "window": asked["window"],
        "names": None if names is None else dict(names),
    }
    if (asked["trace"] is None) == (asked["history"] is None):
        raise Unacceptable(
            "A backtest reads either a trace or the history of a pool.",
            code="backtest.source",
            pointer="/trace",
        )
    if asked["trace"] is None:
        history = _history(asked["history"], pool, now)
        return spec | {"history": history}, None
    refuse_many_servers(sum(row["count"] for row in asked["servers"]))
    trace = asked["trace"]
    if not asked["servers"] and pool is None:
        raise Unacceptable(
            "A trace needs servers to run on: name them in `servers`.",
            code="backtest.no_servers",
            pointer="/servers",
        )
    content = packed(trace["content"], trace["encoding"])
    head_checked(content, trace["format"], trace["options"])
    begin = trace["begin"]
    # Traces of the last century are simulated as well, as windows are counted from then.
    if begin is not None and not is_anchor(begin):
        raise Unacceptable(
            f"`begin` must be between {EARLIEST_ANCHOR:%Y} and {LATEST_ANCHOR:%Y}.",
            code="backtest.period",
            pointer="/trace/begin",
        )
    stored = {
        "format": trace["format"],
        "begin": None if begin is None else begin.isoformat(),
        "options": {name: value for name, value in trace["options"].items() if value is not None},
    }
    return spec | {"trace": stored}, content


def _audited(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a request that the audit stores, with the numbers of servers and tenants."""
    kept = ("policies", "seeds", "resample", "step", "window", "trace", "history")
    counted = {name: len(spec[name]) for name in ("cells", "servers", "tenants", "groups")}
    return {name: spec[name] for name in kept if name in spec} | counted


def _policies(asked: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the policies with their options, checked, each once."""
    found: list[dict[str, Any]] = []
    for position, each in enumerate(asked):
        options = plain_options(each.get("options")) or {}
        try:
            choose_simulated(each["name"], options)
        except PolicyError as error:
            wrong = of_policy(error)
            raise Unacceptable(
                wrong.detail,
                code=wrong.code,
                pointer=f"/policies/{position}{error.pointer.removeprefix('/policy')}",
            ) from error
        policy = {"name": each["name"], "options": options}
        if policy in found:
            raise Unacceptable(
                f"{each['name']} with these options is named twice.",
                code="backtest.twice",
                pointer=f"/policies/{position}",
            )
        found.append(policy)
    return found


def _cells(
    policies: Sequence[Mapping[str, Any]], seeds: Sequence[int], *, resample: bool
) -> list[list[int]]:
    """Return the (policy, seed) of each simulation, with one seed where nothing is drawn."""
    if len(set(seeds)) != len(seeds):
        raise Unacceptable("A seed is named twice.", code="backtest.twice", pointer="/seeds")
    cells = [
        [position, seed]
        for position, policy in enumerate(policies)
        # Without random numbers every seed has the same result: one simulation states it.
        for seed in (seeds if resample or draws(policy) else seeds[:1])
    ]
    if len(cells) > MAX_CELLS:
        raise too_large(
            f"{len(cells)} simulations, of policies times seeds; at most {MAX_CELLS} in one backtest."
        )
    return cells


def draws(policy: Mapping[str, Any]) -> bool:
    """Return whether the policy draws random numbers, and its seed is not given as an option."""
    properties = POLICIES[policy["name"]].options_schema.get("properties", {})
    options = policy["options"]
    if "seed" not in properties or "seed" in options:
        return False
    return "placement" not in properties or options.get("placement") == "two-choices"


def _history(period: Mapping[str, datetime], pool: Pool | None, now: datetime) -> dict[str, str]:
    if pool is None:
        raise Unacceptable(
            "The history is that of a pool: name it.", code="backtest.source", pointer="/pool"
        )
    for side in ("from", "to"):
        if not is_settable(period[side]):
            raise Unacceptable(
                date_range_text(side), code="backtest.period", pointer=f"/history/{side}"
            )
    # A minute for a client's clock that is ahead, whose "now" would be refused.
    if not period["from"] < period["to"] <= now + timedelta(minutes=1):
        raise Unacceptable(
            "A period ends after it begins, and not in the future.",
            code="backtest.period",
            pointer="/history/to",
        )
    return {side: period[side].isoformat() for side in ("from", "to")}


def _own_plan(pool: Pool | None, now: datetime) -> PricePlan | None:
    """Return the present price plan of the pool."""
    if pool is None:
        return None
    held = plans_of(pool, now, now + timedelta(microseconds=1))
    return next((plan for plan in held if plan.state == PlanState.PUBLISHED), None)


@transaction.atomic
def backtest_cancel(*, backtest: Backtest, now: datetime) -> Backtest:
    """Stop a backtest and delete its simulations. Idempotent.

    Raises `Conflict` for one that has succeeded or failed.
    """
    found = Backtest.objects.select_for_update(of=("self",)).select_related("pool")
    locked = found.get(pk=backtest.pk)
    if locked.status in (BacktestStatus.SUCCEEDED, BacktestStatus.FAILED):
        raise Conflict(
            f"The backtest has {locked.status}: there is nothing to cancel.",
            code="backtest.finished",
        )
    if locked.status != BacktestStatus.CANCELLED:
        before = stated_fields(locked)
        complete_job(locked, status=BacktestStatus.CANCELLED, finished_at=now)
        Cell.objects.filter(backtest=locked).delete()
        BacktestInput.objects.filter(backtest=locked).delete()
        audit_record(
            action="backtest.cancel",
            instance=locked,
            before=before,
            now=now,
            pool=None if locked.pool is None else locked.pool.slug,
        )
    return with_progress(Backtest.objects.filter(pk=backtest.pk)).get()


def backtests_prune(*, now: datetime) -> int:
    """Delete inputs and single simulations of backtests that ended long enough ago.

    They are kept as long as inputs of runs. Results stay, and the digest of their input. Returns the
    number of pruned backtests.
    """
    before = now - timedelta(days=settings.ENVIRONMENT.run_retention_days)
    old = list(
        Backtest.objects.filter(pruned_at=None, finished_at__lt=before)
        # Oldest first, as ids ascend with time: each call continues with the rest.
        .order_by("pk")
        .values_list("pk", flat=True)[:PRUNED_AT_ONCE]
    )
    with transaction.atomic():
        BacktestInput.objects.filter(backtest__in=old).delete()
        Cell.objects.filter(backtest__in=old).delete()
        Backtest.objects.filter(pk__in=old).update(pruned_at=now)
    return len(old)
