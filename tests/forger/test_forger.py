"""No answer that is false is called valid, whatever was changed in it, and whatever the policy.

Each change of ``changes`` is made to answers of random problems under every policy and mode. A slow
oracle says which of the changed answers are false; all of these are refused. A change that the oracle
does not find false may be refused or not.
"""

import json
import os
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from policies import (
    ParsedProblem,
    PolicyError,
    Problem,
    allocation_to_document,
    choose,
    policies_available,
    policy_named,
    solve,
    verify,
    verify_answer,
)
from tests.forger.changes import CHANGES, IN_DOCUMENTS, Case
from tests.references.truth import Truth, false_claim
from tests.services import THOROUGH
from tests.unit.policies.trees import tree_of

WHICH: list[tuple[str, str, dict[str, object]]] = [
    (info.name, mode, {}) for info in policies_available() for mode in info.modes
]
WHICH += [
    ("drfh", "indivisible", {"placement": rule})
    for rule in ("first-fit", "affinity", "two-choices")
]
WHICH += [("drfh", mode, {"share": "alone"}) for mode in ("divisible", "indivisible")]
WHICH += [("tda", "indivisible", {"pack": True}), ("h-mrf", "indivisible", {"placement": "pool"})]
# Policies that decide by groups, with every placement of whole tasks.
IN_GROUPS = [
    (policy, mode, options)
    for policy, mode, options in [
        *WHICH,
        *((p, "indivisible", {"placement": "pool"}) for p in ("lt-drf", "lt-af")),
    ]
    if policy_named(policy).takes_groups
]
PROBLEMS = 40 if os.environ.get(THOROUGH) else 3
IN_EACH_DOCUMENT = 2
COUNTS: Counter[str] = Counter()


def random_problem(rng, choice, *, in_groups=False):
    """A few tenants and servers with decimal quantities: small enough for every reference."""
    m, t, k = int(rng.integers(1, 4)), int(rng.integers(2, 4)), int(rng.integers(1, 4))
    t += 2 * in_groups
    n = t + int(rng.integers(0, 2))
    if choice.policy.time_sharing:  # the oracle lists all that a slot may run
        k = min(k, 2)
    counted = choice.mode == "indivisible"
    selectors = None
    if not choice.sees_one_pool:
        selectors = [{"zone": "a"} if rng.random() < 0.2 else {} for _ in range(n)]
    demand = rng.choice([0.0, 0.5, 1.0, 1.5, 2.0, 3.0], (n, m), p=[0.1, 0.1, 0.3, 0.1, 0.2, 0.2])
    demand[demand.sum(axis=1) == 0, 0] = 1.0
    owner = np.concatenate([np.arange(t), rng.integers(0, t, n - t)])
    if n > t and rng.random() < 0.5:  # a workload like another of its tenant
        demand[n - 1] = demand[owner[n - 1]]
        if selectors:
            selectors[n - 1] = selectors[owner[n - 1]]
    if in_groups:  # a tenant's workload like another tenant's
        demand[1] = demand[0]
        if selectors:
            selectors[1] = selectors[0]
    tasks = rng.choice([1, 2, 3, 5, 8], n).astype(float)
    if not counted or choice.policy.time_sharing:
        tasks = np.where(rng.random(n) < 0.5, np.inf, tasks)
    return Problem.create(
        resources=("cpu", "memory", "gpu")[:m],
        capacity=rng.choice([2.0, 3.0, 4.0, 5.0, 6.0], (k, m)),
        server_count=rng.integers(1, 3, k) if not choice.policy.time_sharing else None,
        server_labels=[{"zone": "ab"[int(rng.integers(2))]} for _ in range(k)],
        contributed_by=rng.integers(-1, t, k),
        tenants=[f"u{i}" for i in range(t)],
        weight=rng.choice([0.5, 1.0, 2.0], t),
        best_effort=rng.random(t) < 0.15,
        workload_tenant=owner,
        demand=demand,
        tasks=tasks,
        priority=rng.integers(0, 2, n),
        selectors=selectors,
        **(tree_of(rng, t) if in_groups else {}),
    )


def random_case(rng, policy, mode, options, *, in_groups=False):
    choice = choose(policy, mode, options)
    problem = random_problem(rng, choice, in_groups=in_groups)
    history = None
    if choice.policy.long_term and rng.random() < 0.7:
        history = solve(problem, policy, mode=mode, options=options).history
    answer = solve(problem, policy, mode=mode, options=options, history=history)
    return Case(problem, answer, history)


def verdict(case):
    """Is the answer called valid? Whatever it states, this ends in a verdict."""
    return verify(case.problem, case.answer, case.history).valid


def in_words(case):
    """The answer as it is written, and how it is verified from there."""
    choice = case.answer.choice
    parts = ("placements", "certificate", "schedule")
    document = json.loads(json.dumps(allocation_to_document(case.answer, parts)))
    options = dict(choice.options)
    document["policy"] = {"name": choice.policy.name, "mode": choice.mode, "options": options}
    parsed = ParsedProblem(
        case.problem, choice.policy.name, choice.mode, options, history=case.history
    )
    return document, lambda changed: verify_answer(parsed, changed, choice).valid


def difference(left, right, way=""):
    """Where two documents differ first, for the report."""
    if type(left) is not type(right) or not isinstance(left, dict | list):
        return "" if left == right else f"{way}: {left!r:.80} -> {right!r:.80}"
    if isinstance(left, list):
        if len(left) != len(right):
            return f"{way}: {len(left)} rows -> {len(right)}"
        left, right = dict(enumerate(left)), dict(enumerate(right))
    if left.keys() != right.keys():
        return f"{way}: other members"
    found = (difference(left[name], right[name], f"{way}/{name}") for name in left)
    return next(filter(None, found), "")


@pytest.mark.parametrize(("policy", "mode", "options"), WHICH)
def test_no_false_answer_is_called_valid(policy, mode, options):
    forge_all(policy, mode, options)


@pytest.mark.parametrize(("policy", "mode", "options"), IN_GROUPS)
def test_no_false_answer_in_groups_is_called_valid(policy, mode, options):
    forge_all(policy, mode, options, in_groups=True)


def forge_all(policy, mode, options, *, in_groups=False):
    """Make every change to answers of some problems, and refuse those that are false."""
    rng = np.random.default_rng(20261122)
    done, accepted = Counter(), []
    for _ in range(PROBLEMS):
        case = random_case(rng, policy, mode, options, in_groups=in_groups)
        choice = case.answer.choice
        truth = Truth(case.problem, choice, case.history)
        assert verdict(case)
        assert (
            false_claim(truth, case.answer) == ""
        )  # the control: what is true is not called false
        for name, function in CHANGES.items():
            try:
                changed = function(case, rng)
            except PolicyError:
                continue
            if changed is None:
                continue
            same = changed.problem is case.problem and changed.history is case.history
            about = truth if same else Truth(changed.problem, choice, changed.history)
            done["tried"] += 1
            valid = verdict(changed)
            done["refused"] += not valid
            false = false_claim(about, changed.answer)
            done["false"] += bool(false)
            if false and valid:
                accepted.append(f"{name}: {false}")
        document, is_valid = in_words(case)
        assert is_valid(document)
        for function in IN_DOCUMENTS * IN_EACH_DOCUMENT:
            forged = function(document, rng)
            if forged is None:
                continue
            done["tried"] += 1
            done["false"] += 1
            if is_valid(forged):
                accepted.append(f"{function.__name__}: {difference(document, forged)}")
            else:
                done["refused"] += 1
    COUNTS.update(done)
    assert accepted == []
    assert done["false"] >= 0.5 * done["tried"]


def test_there_are_enough_ways_to_forge():
    assert len(CHANGES) >= 40


def test_it_reports_how_many_were_tried_false_and_refused(capsys):
    with capsys.disabled():
        print(
            f"\nforger: {len(CHANGES)} changes, {COUNTS['tried']} tried, {COUNTS['false']} false, "
            f"{COUNTS['refused']} refused"
        )
    assert COUNTS["refused"] >= COUNTS["false"]


def test_the_oracle_and_the_verifier_refuse_what_this_page_began_with():
    """11.667 tasks each on servers on which 10 fit, without placements."""
    problem = Problem.create(
        resources=["cpu", "memory"],
        capacity=[[2, 12], [12, 2]],
        tenants=["a", "b"],
        demand=[[0.2, 1], [1, 0.2]],
    )
    answer = solve(problem, "drfh")
    nothing = np.zeros(0, dtype=np.int64)
    (item,) = answer.certificate.rounds
    rounds = (replace(item, level=5 / 6, bound=5 / 6, prices=np.full((2, 2), 0.5)),)
    forged = replace(
        answer,
        tasks=np.full(2, 35 / 3),
        placement_piece=nothing,
        placement_class=nothing,
        placement_tasks=np.zeros(0),
        level=np.full(2, 5 / 6),
        objective=5 / 6,
        bound=5 / 6,
        certificate=replace(answer.certificate, rounds=rounds),
    )
    assert false_claim(Truth(problem, answer.choice), forged)
    assert not verify(problem, forged).valid
