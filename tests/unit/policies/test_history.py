"""The history of an evaluation: read, refused with a pointer, written back without a loss."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import (
    History,
    PolicyError,
    PolicyNotApplicableError,
    ProblemError,
    history_from_document,
    history_to_document,
    solve,
)
from policies.documents.evaluation import evaluate_document
from tests.examples import examples
from tests.unit.policies.problems import problem_of

TENANTS, RESOURCES = ("u/1", "u2"), ("cpu", "memory")
EXAMPLE = {
    "step": "0.5",
    "tenants": {"u/1": {"used": {"cpu": 15, "memory": "30"}, "alone": {"cpu": 30}}},
}


def read(document):
    return history_from_document(document, TENANTS, RESOURCES)


def test_what_is_missing_starts_from_zeros():
    history = read(EXAMPLE)
    assert (history.step, history.elapsed) == (0.5, 0)
    assert history.used.tolist() == [[15, 30], [0, 0]]
    assert history.alone.tolist() == [[30, 0], [0, 0]]
    assert history.waiting.tolist() == [0, 0]
    assert history.literal_alone is None


def test_the_sharing_degree_is_null_with_a_reason_where_nothing_would_have_been_used_alone():
    tenants = history_to_document(read(EXAMPLE), TENANTS, RESOURCES)["tenants"]
    assert tenants["u/1"]["sharing_degree"] == {
        "resources": {"cpu": 0.5, "memory": None},
        "min": 0.5,
        "reason": "alone it would have used no memory",
    }
    assert tenants["u2"]["sharing_degree"] == {
        "resources": {"cpu": None, "memory": None},
        "min": None,
        "reason": "alone it would have used no cpu, memory",
    }
    full = read(
        {"step": 1, "tenants": {"u2": {"used": {"cpu": 1}, "alone": {"cpu": 1, "memory": 1}}}}
    )
    assert history_to_document(full, TENANTS, RESOURCES)["tenants"]["u2"]["sharing_degree"] == {
        "resources": {"cpu": 1.0, "memory": 0.0},
        "min": 0.0,
    }


amounts = st.floats(0, 1e300, allow_nan=False)
tables = st.lists(st.tuples(amounts, amounts), min_size=2, max_size=2)


@examples(200)
@given(used=tables, alone=tables, literal=st.none() | tables, waiting=st.tuples(amounts, amounts))
def test_what_is_written_is_read_again_to_the_last_digit(used, alone, literal, waiting):
    history = History(
        step=0.1,
        elapsed=waiting[0],
        used=np.array(used),
        alone=np.array(alone),
        waiting=np.array(waiting),
        literal_alone=None if literal is None else np.array(literal),
    )
    text = json.dumps(history_to_document(history, TENANTS, RESOURCES), allow_nan=False)
    again = read(json.loads(text))
    assert (again.step, again.elapsed) == (history.step, history.elapsed)
    assert np.array_equal(again.used, history.used)
    assert np.array_equal(again.alone, history.alone)
    assert np.array_equal(again.waiting, history.waiting)
    assert (again.literal_alone is None) == (literal is None)
    assert literal is None or np.array_equal(again.literal_alone, history.literal_alone)


@pytest.mark.parametrize(
    ("document", "code", "pointer"),
    [
        ({}, "field.missing", "/history/step"),
        ({"step": 0}, "history.step", "/history/step"),
        ({"step": -1}, "history.step", "/history/step"),
        ({"step": float("nan")}, "history.step", "/history/step"),
        ({"step": True}, "field.type", "/history/step"),
        ({"step": 1, "elapsed": -1}, "history.amount", "/history/elapsed"),
        ({"step": 1, "past": {}}, "field.unknown", "/history/past"),
        ({"step": 1, "tenants": []}, "field.type", "/history/tenants"),
        ({"step": 1, "tenants": {"a/b": {}}}, "tenant.unknown", "/history/tenants/a~1b"),
        (
            {"step": 1, "tenants": {"u2": {"spent": {}}}},
            "field.unknown",
            "/history/tenants/u2/spent",
        ),
        (
            {"step": 1, "tenants": {"u2": {"used": {"gpu": 1}}}},
            "history.unknown_resource",
            "/history/tenants/u2/used/gpu",
        ),
        (
            {"step": 1, "tenants": {"u/1": {"alone": {"cpu": -1}}}},
            "history.amount",
            "/history/tenants/u~11/alone/cpu",
        ),
        (
            {"step": 1, "tenants": {"u2": {"used": {"memory": float("nan")}}}},
            "history.amount",
            "/history/tenants/u2/used/memory",
        ),
        (
            {"step": 1, "tenants": {"u2": {"waiting": float("inf")}}},
            "history.amount",
            "/history/tenants/u2/waiting",
        ),
        (
            {"step": 1, "tenants": {"u2": {"literal": {"alone": {"cpu": -2}}}}},
            "history.amount",
            "/history/tenants/u2/literal/alone/cpu",
        ),
    ],
)
def test_what_cannot_be_accepted_names_the_place(document, code, pointer):
    with pytest.raises(PolicyError) as caught:
        read(document)
    assert (caught.value.code, caught.value.pointer) == (code, pointer)


def test_arrays_that_do_not_fit_together_are_refused():
    with pytest.raises(ProblemError, match="alone has shape") as caught:
        History(step=1, used=np.zeros((2, 2)), alone=np.zeros((2, 1)), waiting=np.zeros(2))
    assert caught.value.code == "history.shape"


def test_a_memoryless_policy_takes_no_history():
    problem = problem_of([[9, 18]], [[1, 4], [3, 1]])
    with pytest.raises(PolicyNotApplicableError, match="history is not accepted") as caught:
        solve(problem, "drf", history=History.zeros(problem))
    assert (caught.value.code, caught.value.pointer) == ("policy.history", "/history")


def test_an_evaluation_s_history_is_read_whatever_the_policy():
    document = {
        "resources": ["cpu"],
        "servers": [{"capacity": {"cpu": 1}}],
        "tenants": [{"name": "a"}],
        "workloads": [{"tenant": "a", "name": "w", "demand": {"cpu": 1}}],
        "policy": {"name": "drf"},
        "history": {"step": 1, "tenants": {"b": {}}},
    }
    with pytest.raises(ProblemError) as caught:
        evaluate_document(document)
    assert (caught.value.code, caught.value.pointer) == ("tenant.unknown", "/history/tenants/b")
