"""The verifier stands alone: Python and NumPy, none of what solves, and a problem read by itself."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import policies
from policies import (
    ParsedProblem,
    ProblemError,
    allocation_to_document,
    choose,
    classes_of_decision,
    normalise,
    policies_available,
    problem_from_document,
    problem_to_document,
    solve,
    verify_answer,
)
from policies.model.alone import tasks_on_whole_pool
from policies.model.quantities import NOTHING, POOL, SERVER, quantities_read
from policies.model.share_definition import share_units
from policies.proofs.pool_of_tasks import pool_of_tasks
from policies.verification.form import form_of
from policies.verification.pool import pool_tasks
from policies.verification.stated import Stated
from tests.examples import examples
from tests.references.exact import exact_problems
from tests.unit.policies.problems import problem_of, problems

PROJECT = Path(__file__).parents[3]
SOLVING = (
    "highspy", "jsonschema", "numba", "scipy", "threadpoolctl", "policies.compiled",
    "policies.proofs", "policies.leximin", "policies.filling", "policies.equilibrium",
    "policies.long_term", "policies.time_division", "policies.finishing", "policies.simulation",
    "papers", "policies.registry",
)  # fmt: skip
ALONE = f"""
import sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if any(name == each or name.startswith(each + ".") for each in {SOLVING!r}):
            raise ImportError(f"the verifier imports {{name}}")

sys.meta_path.insert(0, Refused())
from policies.__main__ import main
raise SystemExit(main(sys.argv[1:]))
"""
EVERY: list[tuple[str, str, dict[str, object]]] = [
    (info.name, mode, {}) for info in policies_available() for mode in info.modes
]
EVERY += [("drfh", mode, {"share": "alone"}) for mode in ("divisible", "indivisible")]
EVERY += [("tda", "indivisible", {"pack": True}), ("h-mrf", "indivisible", {"placement": "pool"})]


def alone(*arguments):
    """Run the command line where whatever solves cannot be imported."""
    return subprocess.run(
        [sys.executable, "-c", ALONE, *map(str, arguments)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def written(tmp_path, problem, policy, mode, options):
    parsed = ParsedProblem(problem, policy, mode, options)
    answer = solve(problem, policy, mode=mode, options=options)
    parts = ("placements", "certificate", "schedule")
    named = {"policy": {"name": policy, "mode": mode, "options": options}}
    files = tmp_path / "problem.json", tmp_path / "answer.json"
    files[0].write_text(json.dumps(problem_to_document(parsed)))
    files[1].write_text(json.dumps(named | allocation_to_document(answer, parts)))
    return files


@pytest.mark.parametrize(("policy", "mode", "options"), EVERY)
def test_every_policy_is_verified_without_what_solves(tmp_path, policy, mode, options):
    problem = problem_of([[2, 12], [12, 2]], [[0.2, 1], [1, 0.2]], tasks=[40, 50])
    files = written(tmp_path, problem, policy, mode, options)
    verified = alone("verify", *files)
    assert (verified.returncode, verified.stderr) == (0, "")
    assert verified.stdout.endswith("\nvalid\n")
    answer = json.loads(files[1].read_text())
    answer["allocations"][0]["tasks"] += 1
    files[1].write_text(json.dumps(answer))
    refused = alone("verify", *files)
    assert (refused.returncode, refused.stderr) == (1, "")
    assert refused.stdout.endswith("\nNOT valid\n")


def test_a_proof_is_one_file_with_input_and_answer(tmp_path):
    problem = problem_of([[2, 12], [12, 2]], [[0.2, 1], [1, 0.2]], server_names=["a", "b"])
    given, answered = written(tmp_path, problem, "drfh", "divisible", {})
    answer = json.loads(answered.read_text())
    answer["certificate"]["servers"] = [["a"], ["b"]]
    proof = tmp_path / "proof.json"
    document = {"input": json.loads(given.read_text()), "answer": answer, "digests": {}}
    proof.write_text(json.dumps(document))
    assert alone("verify", proof).stdout.endswith("\nvalid\n")
    answer["certificate"]["servers"] = [["b"], ["a"]]
    proof.write_text(json.dumps(document))
    refused = alone("verify", proof, "--json")
    wrong = [check["name"] for check in json.loads(refused.stdout)["checks"] if not check["holds"]]
    assert (refused.returncode, wrong) == (1, ["price_rows"])
    proof.write_text(json.dumps({"input": {}}))
    unusable = alone("verify", proof)
    assert unusable.returncode == 2
    assert "a proof is an object with input and answer" in unusable.stderr


CLAIMS = [
    (("allocations", 0, "resources", "cpu"), 9, "allocation_rows"),
    (("allocations", 0, "dominant_share"), 0.9, "allocation_rows"),
    (("allocations", 0, "dominant_resource"), "cpu", "allocation_rows"),
    (("allocations", 1, "weighted_share"), 0.9, "allocation_rows"),
    (("summary", "utilization", "memory"), 0.1, "summary"),
    (("summary", "jain_index"), 0.5, "summary"),
    (("summary", "servers"), 3, "summary"),
    (("summary", "min_weighted_share"), 0.9, "summary"),
    (("placements", 0, "resources", "cpu"), 9, "placement_rows"),
    (("policy", "options"), {"placement": "affinity"}, "policy"),
    (("properties",), {"envy_free": {"holds": True}}, "parts"),
]


@pytest.mark.parametrize(("where", "value", "name"), CLAIMS)
def test_whatever_else_an_answer_says_follows_from_it(tmp_path, where, value, name):
    problem = problem_of([[2, 12], [12, 2]], [[0.2, 1], [1, 0.2]])
    given, answered = written(tmp_path, problem, "drfh", "divisible", {})
    parsed = problem_from_document(json.loads(given.read_text()))
    answer = json.loads(answered.read_text())
    assert verify_answer(parsed, answer, parsed.choice).valid
    inside = answer
    for step in where[:-1]:
        inside = inside[step]
    inside[where[-1]] = value
    checks = verify_answer(parsed, answer, parsed.choice).checks
    assert [check.name for check in checks if not check.holds] == [name]


@pytest.mark.parametrize("policy", ["drfh", "static", "h-mrf", "mrfs"])
def test_rows_of_placements_are_written_once_and_whole(tmp_path, policy):
    problem = problem_of([[4, 4]], [[1, 1], [1, 1]], server_count=[3], tasks=[5, 9])
    mode = "divisible" if policy == "drfh" else "indivisible"
    given, answered = written(tmp_path, problem, policy, mode, {})
    parsed = problem_from_document(json.loads(given.read_text()))
    answer = json.loads(answered.read_text())
    assert verify_answer(parsed, answer, parsed.choice).valid

    def refused(rows):
        try:
            return not verify_answer(parsed, answer | {"placements": rows}, parsed.choice).valid
        except ProblemError as error:
            return error.code == "answer.malformed"

    rows = answer["placements"]
    assert refused([*rows, rows[0]])
    assert refused(rows[1:])
    assert refused([])
    fewer = json.loads(json.dumps(rows))
    if "servers" in fewer[0]:
        fewer[0]["servers"]["count"] -= 1
    else:
        fewer[0]["tasks"] -= 1
    assert refused(fewer)


def test_a_class_is_written_by_kinds_of_servers_however_they_are_mixed(tmp_path):
    """Three kinds by turns: a workload has a row for each kind, not one for each server."""
    problem = problem_of(
        [[4, 4], [2, 8], [4, 4]] * 50,
        [[1, 1], [1, 2]],
        server_labels=[{"zone": "a"}, {"zone": "a"}, {"zone": "b"}] * 50,
    )
    given, answered = written(tmp_path, problem, "drfh", "divisible", {})
    parsed = problem_from_document(json.loads(given.read_text()))
    answer = json.loads(answered.read_text())
    first = answer["placements"][0]
    assert len(answer["placements"]) <= 2 * 3
    assert first["servers"]["count"] == 50

    def refused(**changed):
        servers = first["servers"] | changed
        rows = [first | {"servers": servers}, *answer["placements"][1:]]
        try:
            return not verify_answer(parsed, answer | {"placements": rows}, parsed.choice).valid
        except ProblemError as error:
            return error.code == "answer.malformed"

    assert not refused()
    assert refused(count=49)
    assert refused(count=51)  # of the next kind
    assert refused(count=10**18)
    assert refused(labels={"zone": "c"})
    assert refused(capacity={"cpu": 4, "memory": 5})
    assert refused(last="server-0150")
    assert refused(first="server-0004")


def test_without_what_solves_solving_says_what_is_missing(tmp_path):
    files = written(tmp_path, problem_of([[9]], [[1]]), "drf", "divisible", {})
    refused = alone("solve", files[0])
    assert refused.returncode != 0
    assert "the verifier imports" in refused.stderr  # the control: the hook is there


def test_the_table_of_names_is_the_list_of_imports():
    tree = ast.parse(Path(policies.__file__).read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    imported = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == policies._HOME_OF
    assert sorted(imported) == sorted(policies.__all__)


anything = st.one_of(problems(), exact_problems().map(lambda drawn: drawn[0]))


@examples(500)
@given(problem=anything)
def test_both_read_the_same_problem_in_the_same_way(problem):
    """Weights, stages, shares, classes and normal forms: the solvers' and the verifier's."""
    alone = {"share": "alone"}
    for whole in (True, False):
        mode = "indivisible" if whole else "divisible"
        counted = Stated(problem, choose("drfh", mode, alone)).alone
        assert counted.tolist() == tasks_on_whole_pool(problem, whole=whole).tolist()
    for policy, options in (("drfh", {}), ("drfh", alone), ("drf", {}), ("asset", {})):
        choice = choose(policy, options=options)
        stated = Stated(problem, choice)
        assert stated.totals.tolist() == problem.totals.tolist()
        assert stated.weight.tolist() == pytest.approx(problem.effective_weight.tolist(), rel=1e-14)
        assert stated.late.tolist() == problem.second_stage.tolist()
        assert stated.dominant.tolist() == problem.dominant_share_per_task.tolist()
        places, classes = stated.places(), classes_of_decision(problem, choice)
        assert places.place_of_row.tolist() == classes.class_of_row.tolist()
        assert places.servers.tolist() == classes.servers.tolist()
        assert np.array_equal(places.allowed, classes.allowed)
        form, theirs = (
            form_of(stated, places),
            normalise(problem, classes, share_units(problem, choice)),
        )
        assert form.reasons.tolist() == theirs.reasons.tolist()
        assert form.tenants.tolist() == theirs.tenants.tolist()
        assert form.stage.tolist() == theirs.leximin.stage.tolist()
        assert form.cap == pytest.approx(theirs.leximin.cap, rel=1e-12)
        assert form.capacity == pytest.approx(theirs.leximin.capacity_share, rel=1e-12)
        ours = {
            (i, *row) for i, row in zip(form.owner, form.demand.round(12).tolist(), strict=True)
        }
        assert ours == {
            (i, *row)
            for i, row in zip(
                theirs.leximin.owner, theirs.leximin.demand.round(12).tolist(), strict=True
            )
        }
        alike = [[a == b for b in form.group] for a in form.group]
        assert alike == [
            [a == b for b in theirs.leximin.interchangeable] for a in theirs.leximin.interchangeable
        ]


@examples(500)
@given(problem=anything)
def test_both_read_the_same_quantities_in_the_same_way(problem):
    """Up to the unit, which nothing depends on."""
    stated = Stated(problem, choose("drfh"))
    for sums, ours in (
        (SERVER, stated.on_servers), (POOL, stated.in_pool), (NOTHING, stated.as_they_are)
    ):  # fmt: skip
        theirs = quantities_read(problem, sums)
        for r in range(problem.m):
            mine = np.concatenate([ours.demand[:, r], ours.capacity[:, r]])
            other = np.concatenate([theirs.demand[:, r], theirs.capacity[:, r]])
            some = (other > 0) & (other < 2.0**53)
            if some.any():
                assert (mine[some] * other[some][0]).tolist() == pytest.approx(
                    (other[some] * mine[some][0]).tolist(), rel=1e-15
                )


@examples(500)
@given(problem=problems(selectors=False), policy=st.sampled_from(["drf", "asset", "slots"]))
def test_both_count_the_same_tasks_on_one_pool(problem, policy):
    choice = choose(policy, "indivisible")
    ours, theirs = pool_tasks(Stated(problem, choice)), pool_of_tasks(problem, choice)
    assert ours.reasons.tolist() == theirs.reasons.tolist()
    assert ours.columns[:, 0] == pytest.approx(theirs.share_per_task, rel=1e-12)
    runs = ours.reasons == ""
    room = np.maximum(theirs.room, 1)
    assert ours.demand[runs] / np.maximum(ours.room, 1) == pytest.approx(
        theirs.demand[runs] / room, rel=1e-12
    )
