"""A pool's input and the answer to it in the plain way: object by object, number by number."""

import hashlib
import json
import math

from allocator_service.pools.models import MembershipTerms, Server
from allocator_service.workloads.models import Workload
from policies import certificate_to_document, summary_document
from policies.model.server_names import NumberedServers, server_name


def plain_input(pool):
    """Return the evaluation document of a flat pool without amounts, gangs, clusters or budgets."""
    resources = list(pool.resource_types.order_by("position"))
    servers = []
    groups = []
    for server in Server.objects.filter(pool=pool).exclude(state="retired").order_by("id"):
        owner = server.contributed_by and server.contributed_by.slug
        kind = (list(server.capacity), server.labels, owner, server.state == "draining")
        for known, names in groups:
            if known == kind:
                names.append(server.name)
                break
        else:
            groups.append((kind, [server.name]))
    for (capacity, labels, owner, is_draining), names in groups:
        servers.append(
            {
                "name": names[0],
                "capacity": _amounts(resources, capacity),
                "count": len(names),
                "labels": labels,
                "contributed_by": owner,
                **({"draining": True} if is_draining else {}),
            }
        )
    members = MembershipTerms.objects.filter(membership__pool=pool, end=None)
    workloads = Workload.objects.filter(pool=pool, state="active")
    return {
        "resources": [{"name": each.name, "unit": each.unit} for each in resources],
        "servers": servers,
        "tenants": [
            {
                "name": terms.membership.tenant.slug,
                "weight": _number(terms.weight),
                "best_effort": terms.best_effort,
            }
            for terms in members.order_by("membership_id")
        ],
        "workloads": [
            {
                "tenant": workload.tenant.slug,
                "name": workload.name,
                "demand": _amounts(resources, workload.demand),
                "tasks": workload.tasks,
                "priority": workload.priority,
                "server_selector": workload.server_selector,
            }
            for workload in workloads.order_by("id")
        ],
        "policy": {
            "name": pool.policy_name,
            "mode": pool.policy_mode,
            "options": pool.policy_options,
        },
        "weights": pool.weights,
    }


def _amounts(resources, vector):
    return {
        resource.name: _number(amount)
        for resource, amount in zip(resources, vector, strict=True)
        if amount
    }


def _number(amount):
    return int(amount) if amount == int(amount) else float(amount)


def plain_digest(document):
    """Return the SHA-256 of JSON with sorted keys and no spaces."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def plain_answer(document, decision):
    """Return the answer of a proof, for a decision of `drfh` without gangs and guarantees."""
    problem = decision.problem
    certificate = decision.certificate and certificate_to_document(decision.certificate)
    if certificate is not None:
        certificate["servers"] = [
            [problem.server_names[row] for row in decision.classes.rows_of(position)]
            for position in range(decision.classes.count)
        ]
    return {
        "policy": document["policy"],
        "allocations": [_allocation(decision, workload) for workload in range(problem.n)],
        "summary": summary_document(decision),
        "placements": [
            _placement(decision, *row) for row in zip(*decision.placements_by_range(), strict=True)
        ],
        "certificate": certificate,
        "schedule": None,
    }


def _allocation(decision, workload):
    problem = decision.problem
    tenant = int(problem.workload_tenant[workload])
    tasks = float(decision.tasks[workload])
    weighted = float(decision.weighted_share[tenant])
    return {
        "tenant": problem.tenants[tenant],
        "workload": {"id": None, "name": problem.workload_names[workload]},
        "tasks": int(tasks) if decision.whole else tasks,
        "resources": _named(problem, tasks * problem.demand[workload]),
        "dominant_resource": problem.resources[int(decision.dominant_resource[workload])],
        "dominant_share": float(decision.dominant_share[workload]),
        "weighted_share": weighted if math.isfinite(weighted) else None,
        "limited_by": decision.limited_by[workload],
    }


def _placement(decision, workload, row, offset, count, tasks):
    problem = decision.problem
    row, offset, count = int(row), int(offset), int(count)
    placed = {
        "tenant": problem.tenants[int(problem.workload_tenant[workload])],
        "workload": {"id": None, "name": problem.workload_names[workload]},
        "tasks": float(tasks) if decision.classes.offset is None else int(tasks),
        "resources": _named(problem, float(tasks) * problem.demand[workload]),
    }
    if count == 1:
        return {**placed, "server": server_name(problem, row, offset)}
    last = int(problem.first_server[row]) + offset + count - 1
    servers = {
        "count": count,
        "capacity": _named(problem, problem.capacity[row]),
        "labels": dict(problem.server_labels[row]),
        "first": server_name(problem, row, offset),
        "last": NumberedServers(problem).name(last),
    }
    return {**placed, "servers": servers}


def _named(problem, amounts):
    return dict(zip(problem.resources, amounts.tolist(), strict=True))
