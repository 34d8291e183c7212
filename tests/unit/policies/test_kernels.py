"""Nothing compiles inside a request: after warming, no question adds a version of a kernel."""

import ast
import inspect
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from policies import (
    History,
    PolicyError,
    Problem,
    policies_available,
    running_of,
    solve,
    verify,
    warm,
)
from policies.compiled import KERNELS
from policies.explaining.lending import tasks_by_owner
from policies.leximin.interior_point import loops, tenants_first
from policies.properties.fairness import envy_free
from policies.simulation import Trace, simulate

# Every option of a policy with values that choose another way through the code.
OPTIONS = {
    "drf": [{"resource_weights": {"0": {"r0": 2.0}}}],
    "drfh": [
        {"placement": "first-fit"},
        {"placement": "affinity"},
        {"placement": "two-choices", "seed": 7},
    ],
    "slots": [{"slots_per_largest_server": 4}],
    "tda": [{"pack": True}, {"effort": 0.1}],
    "lt-drf": [{"borrow_cap": 0.5}],
    "lt-af": [{"borrow_cap": 0.5}],
    "h-mrf": [{"starvation_timeout": 2.0}, {"placement": "pool", "literal_alone": True}],
}


def versions() -> dict[str, int]:
    """How many versions of each kernel this process has."""
    return {
        f"{each.py_func.__module__}.{each.py_func.__name__}": len(each.signatures)
        for each in KERNELS
    }


def problem(tenants: int, rows: int, resources: int, kind: str) -> Problem:
    rng = np.random.default_rng([tenants, rows, resources])
    n = 2 * tenants if kind == "several" else tenants
    fields: dict[str, object] = {}
    if kind == "selectors":
        fields["server_labels"] = [{"zone": "ab"[row % 2]} for row in range(rows)]
        fields["selectors"] = [[{}, {"zone": "a"}][j % 2] for j in range(n)]
    if kind in ("limits", "several"):
        fields["tasks"] = np.where(rng.random(n) < 0.5, rng.integers(1, 9, n), np.inf)
    if kind == "several":
        fields["workload_tenant"] = np.repeat(np.arange(tenants), 2)
        fields["priority"] = rng.integers(-1, 2, n)
        fields["best_effort"] = np.arange(tenants) % 2 == 0
    if kind == "contributed":
        fields["weights_mode"] = "contribution"
        fields["contributed_by"] = np.arange(rows) % tenants
    whole = kind == "whole"
    return Problem.create(
        resources=tuple(f"r{r}" for r in range(resources)),
        capacity=rng.integers(4, 9, (rows, resources)) + (0 if whole else rng.random()),
        demand=rng.integers(1, 3, (n, resources)) * (1.0 if whole else 0.7),
        tenants=[str(i) for i in range(tenants)],
        server_count=np.full(rows, 2),
        **fields,  # type: ignore[arg-type]
    )


def ask(policy: str, mode: str) -> int:
    """Ask a policy everything in one mode; how many questions it answered."""
    answered = 0
    kinds = ("plain", "whole", "limits", "several", "selectors", "contributed")
    sizes = ((2, 1, 1), (4, 3, 2), (3, 40, 3), (60, 5, 4))
    for kind, (tenants, rows, resources) in product(kinds, sizes):
        if policy == "tda" and tenants * rows > 12:
            continue
        asked = problem(tenants, rows, resources, kind)
        for options in ({}, *OPTIONS.get(policy, [])):
            try:
                answer = solve(asked, policy, mode=mode, options=options)
                for _ in range(2):
                    if isinstance(answer.history, History):
                        solve(asked, policy, mode=mode, options=options, history=answer.history)
                if mode == "indivisible" and answer.history is None and answer.schedule is None:
                    solve(asked, policy, mode=mode, options=options, running=running_of(answer))
            except PolicyError:
                continue
            answered += 1
            verify(asked, answer)
            envy_free(answer)
            tasks_by_owner(answer)
    return answered


@pytest.fixture(scope="module")
def warmed() -> dict[str, int]:
    warm()
    return versions()


@pytest.mark.parametrize(
    "policy", [info.name for info in policies_available() if "divisible" in info.modes]
)
def test_no_divisible_question_compiles_anything(warmed, policy):
    assert ask(policy, "divisible")
    assert versions() == warmed


@pytest.mark.parametrize("policy", ["drf", "drfh", "h-mrf", "lt-drf", "lt-af", "mrfs"])
def test_no_simulation_compiles_anything(warmed, policy):
    asked = problem(3, 2, 2, "plain")
    trace = Trace.create(workload=[0, 1, 2, 0], submit=[0, 1, 2, 2], duration=[3, 1, 2, 1])
    try:
        simulate(asked, trace, policy)
    except PolicyError:
        pytest.skip("simulations do not know it")
    assert versions() == warmed


def test_read_only_and_writable_arrays_take_the_same_version():
    values = np.ones((2, 5))
    fixed = values.copy()
    fixed.setflags(write=False)
    line = np.ones(3)
    for each in (values, fixed):
        loops.predicted(each, values, fixed, each, line, line, line, line, 1.0, 0.5)
    assert len(loops.predicted.signatures) == 1


def test_an_argument_of_another_type_is_refused_and_not_compiled():
    line = np.ones(3)
    with pytest.raises(TypeError, match="No matching definition"):
        loops.predicted(line, line, line, line, line, line, line, line, 1.0, 0.5)


def innermost_loops(function: ast.AST) -> Iterator[ast.For]:
    for loop in ast.walk(function):
        inside = [each for each in ast.walk(loop) if isinstance(each, ast.For | ast.While)]
        if isinstance(loop, ast.For) and inside == [loop]:
            yield loop


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.py_func.__qualname__)
def test_a_kernel_collects_its_sums_in_local_variables(kernel):
    """A sum in an element of an array is reordered or not, by where other arrays lie in memory."""
    if not kernel.targetoptions["fastmath"]:
        return
    source = ast.parse(textwrap.dedent(inspect.getsource(kernel.py_func)))
    counting = {ast.dump(ast.parse(number, mode="eval").body) for number in ("1", "1.0")}
    for loop in innermost_loops(source):
        names = {node.id for node in ast.walk(loop) if isinstance(node, ast.Name)
                 and isinstance(node.ctx, ast.Store)}  # fmt: skip
        for each in ast.walk(loop):
            if isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Subscript):
                index = {node.id for node in ast.walk(each.target.slice)
                         if isinstance(node, ast.Name)}  # fmt: skip
                assert index & names or ast.dump(each.value) in counting, ast.unparse(each)


@pytest.mark.parametrize("apart", [0, 1, 7, 8, 30, 1000])
def test_a_kernel_gives_the_same_bits_wherever_its_arrays_lie(apart):
    draw = np.random.default_rng(1)
    resources, classes = 3, 30
    size = resources * classes
    resource, other = np.tril_indices(resources)
    links = draw.random((len(resource), classes, classes))
    rest, prices, missed = draw.random((size, size)), draw.random(size), draw.random(size)
    memory = np.empty(2 * size + apart)
    near, beside = memory[:size], memory[size + apart :]
    near[:], beside[:] = prices, missed
    tenants_first._take_applied(resource, other, links, rest, prices, missed)
    tenants_first._take_applied(resource, other, links, rest, near, beside)
    assert beside.tobytes() == missed.tobytes()


_PROGRAM = """
import numpy as np, policies
problem = policies.Problem.create(
    resources=("a",), capacity=[[4.0]], tenants=["0", "1"], demand=[[1.0], [2.0]]
)
print(policies.solve(problem, "drf", mode="indivisible").tasks.tolist())
"""


def test_processes_that_compile_at_the_same_time_and_one_that_is_killed_leave_a_usable_cache(
    tmp_path,
):
    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            env={"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path)},
            stdout=subprocess.PIPE,
            text=True,
        )

    killed, *others = [start() for _ in range(3)]
    while not list(tmp_path.rglob("*.nbi")):
        assert killed.poll() is None
    killed.kill()
    killed.communicate()
    answers = {other.communicate()[0] for other in others}
    again = start()
    answers.add(again.communicate()[0])
    assert len(answers) == 1
    assert again.returncode == 0
