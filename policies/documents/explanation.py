"""The JSON shape of an explanation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policies.documents.quantities import quantities
from policies.explaining.explanations import Binding, Explanation
from policies.model.allocation import Allocation


def explanation_to_document(allocation: Allocation, explanation: Explanation) -> dict[str, Any]:
    """Return the JSON form of an explanation in an evaluation's answer.

    Other tenants are not named.
    """
    problem = allocation.problem
    return {
        "tenant": problem.tenants[explanation.tenant],
        "share": explanation.share,
        "weight": explanation.weight,
        "weighted_share": explanation.weighted_share,
        "level": explanation.level,
        "workloads": [
            {"workload": problem.workload_names[j], "limited_by": allocation.limited_by[j]}
            for j in explanation.workloads
        ],
        "binding": [_binding_document(allocation, item) for item in explanation.binding],
        "neighbours": {"above": explanation.just_above, "below": explanation.just_below},
        "sentence": explanation.sentence,
    }


def _binding_document(allocation: Allocation, binding: Binding) -> Mapping[str, Any]:
    problem, classes = allocation.problem, allocation.classes
    servers = None
    if binding.server_class is not None:
        row = int(classes.first_row[binding.server_class])
        servers = {
            "count": int(classes.servers[binding.server_class]),
            "capacity": quantities(problem.resources, problem.capacity[row]),
        }
    return {
        "resource": problem.resources[binding.resource],
        "price": binding.price,
        "servers": servers,
    }
