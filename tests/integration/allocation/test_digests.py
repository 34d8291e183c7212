"""Digests of answers, whose placements are written without a document for each."""

from dataclasses import replace

import orjson
import pytest

from allocator_service.allocation.audit.digests import (
    decision_digests,
    digest_of,
    proven_answer,
)
from allocator_service.allocation.runs.recompute import document_solve


def _document(name, mode, policy="drfh"):
    resources = ["cpu", "tasks", "tenant"]
    sizes = {resource: 8 + number for number, resource in enumerate(resources)}
    gang = {"pieces": [{"count": 2, "demand": {"cpu": 0.5, "tenant": 0.00003}}]}
    return {
        "resources": resources,
        "servers": [{"name": f"large {name}", "capacity": sizes, "count": 3}]
        + [{"name": f"s{number}", "capacity": sizes, "labels": {"zone": name}} for number in "ab"],
        "tenants": [{"name": "u1"}, {"name": name}],
        "workloads": [
            {"tenant": "u1", "name": name, "demand": {"cpu": 0.7, "tasks": 0.00002}, "tasks": 9},
            {"tenant": name, "name": "w", "demand": dict.fromkeys(resources, 1)},
            {"tenant": "u1", "name": "gang", **gang, "tasks": 4},
        ],
        "policy": {"name": policy, "mode": mode, "options": {}},
    }


@pytest.mark.parametrize("policy", ["drfh", "drf"])
@pytest.mark.parametrize("mode", ["divisible", "indivisible"])
@pytest.mark.parametrize("name", ["plain", '","tasks":', "back\\slash", "größe 0.00001,e-7"])
def test_digests_are_those_of_the_whole_documents(name, mode, policy):
    document = _document(name, mode, policy)
    decision = document_solve(document)
    servers = decision.classes.servers[decision.placement_class]
    each = decision.placement_tasks / servers
    stored = replace(decision, placement_tasks=servers * each)
    written = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    assert decision_digests(document, written, decision) == {
        "input": digest_of(document),
        "answer": digest_of(proven_answer(document, stored)),
    }
