"""Numbers in the sentences of explanations."""

import pytest

from policies import Problem, explain, solve
from policies.explaining.numbers import counted_tasks, number, percent, weight_text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1234567.0, "1,234,567"), (16 / 3, "5.333"), (5.9999999999, "6"), (12345.6, "12,346"),
        (0.5, "0.5"), (1234.5, "1,234"), (0.99996, "1"),
        (3e-5, "less than 0.001"), (0.0, "0"), (-1e-17, "0"),
    ],
)  # fmt: skip
def test_whole_numbers_have_all_digits_and_others_four(value, shown):
    assert number(value) == shown


@pytest.mark.parametrize(
    ("fraction", "shown"),
    [
        (5 / 7, "71.43 %"), (1.0, "100 %"), (1 - 1e-12, "100 %"), (0.99996, "less than 100 %"),
        (3.2e-5, "0.0032 %"), (1e-7, "less than 0.001 %"), (0.0, "0 %"),
    ],
)  # fmt: skip
def test_less_than_all_is_not_called_all(fraction, shown):
    assert percent(fraction) == shown


@pytest.mark.parametrize(
    ("weight", "shown"),
    [
        (1.0, "1"), (8.9999999999, "8.9999999999"), (1.00001, "1.00001"), (12345.25, "12,345.25"),
        (4 / 7, "0.5714"), (6 / 11, "0.5455"), (1e-9, "0.000000001"), (1234567.0, "1,234,567"),
    ],
)  # fmt: skip
def test_a_weight_that_was_set_has_all_digits_and_a_computed_one_four(weight, shown):
    assert weight_text(weight) == shown


def test_one_task_is_singular_as_it_is_shown():
    assert [counted_tasks(count) for count in (1.0, 0.99996, 2.0, 0.5)] == [
        "1 task", "1 task", "2 tasks", "0.5 tasks",
    ]  # fmt: skip


def test_sentences_count_workloads_and_tasks():
    problem = Problem.create(
        resources=["cpu"], capacity=[[4e6]], tenants=["a"], workload_tenant=[0] * 4,
        demand=[[1]] * 4, tasks=[1234567, 1, 1, 1],
    )  # fmt: skip
    assert explain(solve(problem, "drf"), 0).sentence == (
        "a runs 1,234,567 tasks of workload-0001, 1 task of workload-0002, 1 task of workload-0003"
        " and 1 more workload, a dominant share of 30.86 % at weight 1; that is all it asked for."
    )
