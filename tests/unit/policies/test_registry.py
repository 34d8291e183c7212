"""The front door: policies by name, modes, options."""

import jsonschema
import numpy as np
import pytest

from policies import (
    PolicyModeError,
    PolicyOptionsError,
    PolicyUnknownError,
    Problem,
    ProblemTooLargeError,
    choose,
    policies_available,
    solve,
    warm,
)
from policies.model import server_classes
from policies.proofs.slots import knapsack
from policies.properties import bundles
from tests.unit.policies.problems import problem_of


def test_policies_are_listed_by_name_and_described():
    infos = policies_available()
    names = [info.name for info in infos]
    assert names == sorted(names)
    assert {"drf", "drfh", "static"} <= set(names)
    for info in infos:
        assert info.description
        assert info.source
        assert info.complexity
        jsonschema.Draft202012Validator.check_schema(dict(info.options_schema))
        assert info.options_schema["additionalProperties"] is False


def test_an_unknown_policy_names_the_known_ones():
    with pytest.raises(PolicyUnknownError, match="drfh") as caught:
        solve(problem_of([[1]], [[1]]), "fifo")
    assert (caught.value.code, caught.value.pointer) == ("policy.unknown", "/policy/name")


def test_a_mode_that_a_policy_lacks_is_refused():
    with pytest.raises(PolicyModeError, match="divisible") as caught:
        choose("drfh", "fractional")
    assert (caught.value.code, caught.value.pointer) == ("policy.mode", "/policy/mode")


def test_the_first_mode_is_the_default():
    assert choose("drfh").mode == choose("drfh").policy.modes[0] == "divisible"
    assert choose("static").mode == "indivisible"


def test_unknown_options_are_refused():
    with pytest.raises(PolicyOptionsError, match="colour") as caught:
        choose("drfh", None, {"colour": "red"})
    assert caught.value.code == "policy.options"
    assert choose("drfh").options == {}


def test_a_problem_beyond_the_limit_is_refused_before_any_work(monkeypatch):
    monkeypatch.setattr(server_classes, "LARGEST_TABLE", 3)
    with pytest.raises(ProblemTooLargeError, match="4 pairs") as caught:
        solve(problem_of([[1], [2]], [[1], [2]]), "drfh")
    assert caught.value.code == "problem.too_large"


TABULATING = [info.name for info in policies_available() if info.places] + ["tda"]


@pytest.mark.parametrize("policy", TABULATING)
def test_what_would_not_fit_into_memory_is_refused(policy):
    many = 20_000
    amounts = np.linspace(1.0, 2.0, 2 * many).reshape(many, 2)
    problem = Problem.create(
        resources=("a", "b"),
        capacity=amounts,
        tenants=[str(i) for i in range(many)],
        demand=amounts / 100,
    )
    with pytest.raises(ProblemTooLargeError) as caught:
        solve(problem, policy)
    assert caught.value.code == "problem.too_large"


def test_warming_up_runs_every_policy():
    warm()
    assert knapsack._programme.signatures
    assert knapsack._search.signatures
    assert bundles._tasks_in_bundles.signatures
