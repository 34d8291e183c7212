"""A policy of one module and one registration is selectable wherever pools choose one.

Evaluations and explanations are computed in other processes, which a registration of this one does not
reach: tests/unit/policies/test_adding_a_policy.py has them.
"""

import pytest

from allocator_service.allocation.admin.pool_form import PoolForm
from allocator_service.allocation.audit.decisions import run_verify
from allocator_service.allocation.what_if.simulations import simulation_run
from allocator_service.core.clock import utc_now
from allocator_service.pools.models import Pool
from policies import registry, selection
from policies.simulation import POLICIES
from tests import factories
from tests.api.v1.test_conventions import code
from tests.backtests import asked, work
from tests.unit.policies import toy_policy

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_SOLVERS", dict(registry._SOLVERS))
    monkeypatch.setattr(selection, "_KNOWN", dict(selection._KNOWN))
    toy_policy.add()


def test_a_pool_is_opened_with_it_decided_and_verified(operator):
    assert "head-count" in [
        row["name"] for row in operator.get("/api/v1/policies/").json()["results"]
    ]
    body = {
        "slug": "lab",
        "name": "Lab",
        "resources": [{"name": "cpu"}, {"name": "memory"}],
        "policy": {"name": "head-count", "options": {"most": 2}},
    }
    answer = operator.post("/api/v1/pools/", body)
    assert answer.status_code == 201, answer.content
    lab = Pool.objects.get()
    ada = factories.tenant("ada")
    factories.server(lab, "rack", 9, 18, ada)
    factories.workload(lab, "analysis", 1, 4, ada)
    run = factories.decision(lab)
    found = operator.get("/api/v1/pools/lab/allocations/").json()["results"]
    assert [row["tasks"] for row in found] == [2]
    assert run_verify(run)["valid"] is True


def test_the_form_of_the_admin_offers_it():
    fields = PoolForm().fields
    assert ("head-count", "head-count") in fields["policy_name"].choices
    assert (
        fields["option_head-count_most"].help_text == "Tasks of each workload at most. Empty: 1000."
    )


def test_a_simulation_answers_what_a_pool_would_decide_under_it(world, operator):
    body = {"policy": {"name": "head-count", "options": {"most": 1}}}
    begun = operator.post("/api/v1/pools/lab/simulations/", body)
    assert begun.status_code == 202, begun.content
    simulation_run(simulation_id=begun.json()["id"], clock=utc_now)
    found = operator.get(begun.headers["Location"]).json()
    assert found["status"] == "succeeded", found["error"]
    assert [row["after"]["tasks"] for row in found["result"]["workloads"]] == [1, 1]


def test_a_backtest_takes_it_once_the_event_loop_can_play_it(operator, monkeypatch):
    """Backtests hand out task by task in a compiled order and refuse other policies by name."""
    body = asked(policies=["head-count", "drf"])
    assert code(operator.post("/api/v1/backtests/", body)) == (422, "policy.unknown")
    monkeypatch.setitem(POLICIES, "head-count", toy_policy.TOY)
    begun = operator.post("/api/v1/backtests/", body)
    assert begun.status_code == 202, begun.content
    work()
    results = operator.get(begun.headers["Location"] + "results/").json()
    assert [column["error"] for column in results["columns"]] == [None, None]
