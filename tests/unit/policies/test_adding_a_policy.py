"""A policy is one module and one registration: a toy one runs everywhere without another file."""

import pytest

from policies import (
    allocation_to_document,
    choose,
    compare_documents,
    evaluate_document,
    policies_available,
    register,
    registry,
    selection,
    solve,
    verify,
)
from policies.documents.reading import allocation_from_document
from tests.unit.policies import toy_policy
from tests.unit.policies.problems import problem_of

DOCUMENT = {
    "resources": ["cpu", "memory"],
    "servers": [{"capacity": {"cpu": 9, "memory": 18}}],
    "tenants": [{"name": "a"}, {"name": "b"}],
    "workloads": [
        {"tenant": "a", "name": "analysis", "demand": {"cpu": 1, "memory": 4}},
        {"tenant": "b", "name": "folding", "demand": {"cpu": 3, "memory": 1}},
    ],
    "policy": {"name": "head-count"},
}


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_SOLVERS", dict(registry._SOLVERS))
    monkeypatch.setattr(selection, "_KNOWN", dict(selection._KNOWN))
    toy_policy.add()


def test_it_is_listed_with_its_options_and_their_defaults():
    assert toy_policy.TOY in policies_available()
    assert choose("head-count").option("most") == 1000


def test_it_is_solved_verified_written_and_read_again():
    problem = problem_of([[9, 18]], [[1, 4], [3, 1]])
    answer = solve(problem, "head-count")
    assert answer.tasks.tolist() == [2, 2]
    assert verify(problem, answer).valid
    document = allocation_to_document(answer, ("placements", "certificate", "explanations"))
    again = allocation_from_document(document, problem, answer.choice)
    assert again.tasks.tolist() == [2, 2]
    assert verify(problem, again).valid
    assert solve(problem, "head-count", options={"most": 1}).tasks.tolist() == [1, 1]


def test_it_answers_evaluations_and_comparisons():
    answer = evaluate_document(DOCUMENT | {"include": ["explanations", "properties"]})
    assert [row["tasks"] for row in answer["allocations"]] == [2, 2]
    assert answer["properties"]["pareto_optimal"]["holds"] is False
    columns = compare_documents(DOCUMENT, ["head-count", "drf"])["columns"]
    assert [column["error"] for column in columns] == [None, None]


def test_a_name_is_taken_once_and_every_mode_has_a_solver():
    with pytest.raises(ValueError, match="already registered"):
        toy_policy.add()
    with pytest.raises(ValueError, match="has modes"):
        register(toy_policy.TOY, divisible=toy_policy.solve_indivisible)
