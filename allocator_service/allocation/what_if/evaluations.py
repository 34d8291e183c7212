"""Evaluations, which store nothing and run in a child process that can be killed.

The code that runs in the child lives in `policies`. A child knows neither Django nor the database.
"""

import math
import multiprocessing
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures.process import BrokenProcessPool
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any

import structlog
from django.conf import settings
from pebble import ProcessExpired, ProcessPool

from allocator_service.allocation.policies import domain_error
from allocator_service.core.confined import confine
from allocator_service.core.errors import (
    FAULTS_OF_OURS,
    DomainError,
    TooLarge,
    Unacceptable,
    Unavailable,
)
from allocator_service.pools.guarantees import AmountNode, limits_below_guarantees
from allocator_service.pools.limits import MAX_LIMITS, Limit
from policies import (
    Guarantee,
    PolicyError,
    SolveTimeoutError,
    call_by_name,
    problem_from_document,
)
from policies import Limit as ProblemLimit

MAX_ITEMS = {"tenants": 2_000, "workloads": 5_000}
MAX_SERVER_CLASSES = 1_000
MAX_COUNT = 10**6
SECONDS = 10.0
MEMORY_BYTES = 6 * 2**30
STARTING_SECONDS = 40.0
# The web threads that wait for a solve are never all of them: the others answer everybody else.
PLACES = settings.WEB_THREADS // 2
NICENESS = 5
# The part of the time that policies may use: an answer must be complete before the child is ended.
PART_FOR_POLICIES = 0.85
RETRY_SECONDS = 2
# Amounts of an evaluation have no dates.
_ANY_INSTANT = datetime(2000, 1, 1, tzinfo=UTC)
_ROUNDING = Decimal("1e-9")
_places = threading.BoundedSemaphore(PLACES)
_started = threading.Event()
_starting = threading.Lock()
log = structlog.get_logger(__name__)


def evaluate(document: Mapping[str, Any]) -> dict[str, Any]:
    """Solve the problem that an evaluation document describes and return the answer's document.

    Raises `Unacceptable` with a JSON pointer for what is wrong in it, `TooLarge` naming the limit,
    `Unavailable` with `evaluation.timeout` after ten seconds.
    """
    refuse_oversized(document)
    refuse_low_limits(document)
    return answer_document(document)


def compare(
    document: Mapping[str, Any],
    policies: Sequence[str | Mapping[str, Any]],
    seconds: float = SECONDS,
) -> dict[str, Any]:
    """Answer a document by several policies, a column each, within so many seconds together.

    Raises as `evaluate`. An error of only one policy is in its column.
    """
    refuse_oversized(document)
    answer = _in_child("compare_documents", document, policies, seconds=seconds)
    for column in answer["columns"]:
        # The library's code; here a time limit has one code, whether it ends a column or everything.
        if column["error"] is not None and column["error"]["code"] == "solve.timeout":
            column["error"]["code"] = "evaluation.timeout"
    return answer


def answer_document(document: Mapping[str, Any], seconds: float = SECONDS) -> dict[str, Any]:
    """Answer a document of any size, within so many seconds and in the same children.

    Raises as `evaluate`, but for the limits on size.
    """
    return _in_child("evaluate_document", document, seconds=seconds)


def _in_child(function: str, *arguments: Any, seconds: float = SECONDS) -> dict[str, Any]:
    """Have a child call a function of `policies`, if one is free now.

    Raises `Unavailable`, `evaluation.busy`, if none is.
    """
    # Not awaited: a queue of evaluations would occupy the threads of all other requests.
    if not _places.acquire(blocking=False):
        raise Unavailable(
            f"This process has {PLACES} evaluations running: repeat the request.",
            code="evaluation.busy",
            retry_after=RETRY_SECONDS,
        )
    try:
        return _computed(function, arguments, seconds)
    finally:
        _places.release()


def _computed(function: str, arguments: Sequence[Any], seconds: float) -> dict[str, Any]:
    future = _children().schedule(
        call_by_name,
        args=[function, *arguments],
        kwargs={"time_limit": PART_FOR_POLICIES * seconds},
        timeout=seconds,
    )
    try:
        # Only the first ones wait for children that still load their kernels.
        answer: dict[str, Any] = future.result(seconds if _started.is_set() else STARTING_SECONDS)
        _started.set()
    except (FutureTimeout, SolveTimeoutError) as error:
        # It kills the child, which nothing else can interrupt within compiled code.
        future.cancel()
        raise Unavailable(
            f"The evaluation took longer than {seconds:.3g} s and was stopped: make it smaller, or ask"
            " for a simulation of a pool.",
            code="evaluation.timeout",
            retry_after=30,
        ) from error
    except BrokenProcessPool as error:
        # The next call makes another pool.
        _pool.cache_clear()
        raise Unavailable(
            "The processes that evaluate have died and are started again.",
            code="evaluation.restarting",
            retry_after=5,
        ) from error
    except (ProcessExpired, MemoryError) as error:
        raise Unavailable(
            "The evaluation needed more memory than it may have: make it smaller.",
            code="evaluation.memory",
            retry_after=30,
        ) from error
    except PolicyError as error:
        raise domain_error(error) from error
    except FAULTS_OF_OURS as error:
        log.exception("evaluation_failed")
        raise DomainError(
            f"The policy failed on this problem ({type(error).__name__}): its numbers may be too far"
            " apart. The cause is in our log.",
            code="evaluation.internal",
        ) from error
    return answer


def evaluation_children_start() -> None:
    """Start the child processes in the background, while the web process already answers.

    All of them are forked from one process that has loaded the kernels, also those that take the place
    of one that was killed or has done its tasks. A request that comes before waits for it.
    """
    threading.Thread(target=lambda: _children().schedule(int), daemon=True).start()


def _children() -> ProcessPool:
    with _starting:
        return _pool()


@cache
def _pool() -> ProcessPool:
    # A fork of the web process would copy its connections, and locks that other threads hold.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["policies.warmed", "allocator_service.core.frozen"])
    return ProcessPool(
        max_workers=PLACES,
        max_tasks=1_000,
        initializer=confine,
        initargs=[MEMORY_BYTES, NICENESS],
        context=context,
    )


def refuse_oversized(document: Mapping[str, Any]) -> None:
    """Raise `TooLarge`, naming the limit, for a document that evaluations do not take.

    It stops at the first item beyond a limit and reads no quantities, so that a refusal is quick.
    """
    for field in MAX_ITEMS:
        items = document.get(field)
        if isinstance(items, list):
            refuse_many(field, len(items))
    servers = document.get("servers")
    if isinstance(servers, list):
        refuse_kinds(server if isinstance(server, Mapping) else {} for server in servers)


def refuse_many(field: str, count: int) -> None:
    """Raise `TooLarge` for more `tenants` or `workloads` than evaluations take."""
    if count > MAX_ITEMS[field]:
        raise TooLarge(
            f"{count} {field}; an evaluation takes at most {MAX_ITEMS[field]}.",
            code="evaluation.too_large",
            pointer=f"/{field}",
        )


def refuse_kinds(servers: Iterable[Mapping[str, Any]]) -> None:
    """Raise `TooLarge` for more servers of a kind, or more kinds, than evaluations take."""
    distinct = set()
    for position, server in enumerate(servers):
        count = server.get("count", 1)
        if isinstance(count, int) and count > MAX_COUNT:
            raise TooLarge(
                f"count {count}; an evaluation takes at most {MAX_COUNT} servers of a kind.",
                code="evaluation.too_large",
                pointer=f"/servers/{position}/count",
            )
        # As text, since invalid values are refused later and may be of any type.
        distinct.add(repr((server.get("capacity"), server.get("labels"))))
        if len(distinct) > MAX_SERVER_CLASSES:
            raise TooLarge(
                f"More than {MAX_SERVER_CLASSES} distinct kinds of servers; an evaluation takes no"
                " more.",
                code="evaluation.too_large",
                pointer="/servers",
            )


def refuse_low_limits(document: Mapping[str, Any]) -> None:
    """Raise `Unacceptable` for a limit that is less than the guarantees under it, as pools do.

    The input of a run has a limit of 0 for each exhausted budget, and can be evaluated again. A limit of
    0 of one resource on all servers is therefore accepted.
    """
    if not all(_has_amounts(document, kind) for kind in ("limit", "guarantee")):
        return
    try:
        problem = problem_from_document(document).problem
    except PolicyError:
        return  # the evaluation reports it, with all other mistakes
    if max(len(problem.limits), len(problem.guarantees)) > MAX_LIMITS:
        return
    limits, guarantees = (
        _amounts_by_node(amounts, problem.resources)
        for amounts in (problem.limits, problem.guarantees)
    )
    nodes = {}
    for scope, names, parents in (
        ("group", problem.groups, problem.group_parent),
        ("tenant", problem.tenants, problem.tenant_group),
    ):
        for position, (name, parent) in enumerate(zip(names, parents.tolist(), strict=True)):
            key, of_node = (scope == "tenant", name), (scope, position)
            above = None if parent < 0 else problem.groups[parent]
            nodes[key] = AmountNode(key, above, guarantees[of_node], limits[of_node])
    for exceeded in limits_below_guarantees(nodes, now=_ANY_INSTANT):
        is_member, name = exceeded.node.key
        limit = exceeded.node.limits[exceeded.index]
        is_stop = not limit.where and list(limit.amount.values()) == [0]
        # Numbers of a document may be rounded ones of a pool, whose limit is as much as its guarantees.
        if is_stop or exceeded.lacking <= _ROUNDING * exceeded.needed:
            continue
        part, names = ("tenants", problem.tenants) if is_member else ("groups", problem.groups)
        raise Unacceptable(
            exceeded.detail,
            code="limit.below_guarantees",
            pointer=f"/{part}/{names.index(name)}/limit/{exceeded.index}",
        )


def _has_amounts(document: Mapping[str, Any], kind: str) -> bool:
    """Return True if a group or tenant of a document, which may be wrong, has amounts of a kind."""
    parts = [document.get(part) for part in ("groups", "tenants")]
    rows = [row for part in parts if isinstance(part, list) for row in part]
    return any(isinstance(row, Mapping) and row.get(kind) for row in rows)


def _amounts_by_node(
    amounts: Iterable[ProblemLimit | Guarantee], resources: Sequence[str]
) -> dict[tuple[str, int], list[Limit]]:
    """Return the limits or guarantees of each node of a problem, in the order of the document."""
    found: dict[tuple[str, int], list[Limit]] = defaultdict(list)
    for each in amounts:
        named = {
            name: Decimal(repr(amount))
            for name, amount in zip(resources, each.amount.tolist(), strict=True)
            if math.isfinite(amount)
        }
        where = {label: list(values) for label, values in each.where.items()}
        found[each.scope, each.node].append(Limit(named, where))
    return found
