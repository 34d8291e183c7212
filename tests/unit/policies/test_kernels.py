"""Nothing compiles inside a request: after warming, no question adds a version of a kernel."""

import ast
import inspect
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest

from policies import (
    Gang,
    Policy,
    PolicyError,
    Problem,
    Window,
    allocation_to_document,
    current_placements_of,
    policies_available,
    properties_of,
    solve,
    verify,
    warm,
)
from policies.compiled import KERNELS, Kernel, compiled
from policies.explaining.lending import tasks_by_owner
from policies.leximin.interior_point import loops, tenants_first
from policies.properties.fairness import envy_free
from policies.simulation import POLICIES, Trace, simulate
from tests.examples import long, thorough

LONG_TERM: list[dict[str, Any]] = [
    {"borrow_cap": 0.5},
    {"borrow_cap": 1, "placement": "pool"},
    {"starvation_timeout": 2.0, "literal_alone": True},
    {"starvation_timeout": 1},
    {"placement": "pool", "literal_alone": True},
]
# Every option of a policy, beside what its schema names: other values, and numbers of another type.
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "drf": [{"resource_weights": {"0": {"r0": 2.0}}}, {"resource_weights": {"1": {"r0": 3}}}],
    "drfh": [{"placement": "two-choices", "seed": 2**53}],
    "single-resource": [{"resource": "r0"}],
    "slots": [{"slots_per_largest_server": 4}, {"slot": {"r0": 1}}, {"slot": {"r0": 0.5}}],
    "tda": [
        {"pack": True, "effort": 0.1},
        {"effort": 2},
        {"period_seconds": 60},
        {"replan": "at-once", "pack": True},
    ],
    "lt-drf": LONG_TERM,
    "lt-af": LONG_TERM,
    "h-mrf": LONG_TERM,
}
KINDS = (
    "plain", "whole", "limits", "several", "selectors", "contributed", "deficit", "read-only", "gangs",
)  # fmt: skip
SIZES = ((2, 1, 1), (4, 3, 2), (3, 40, 3), (60, 5, 4))
EVERYTHING = ("placements", "certificate", "explanations", "schedule")


def versions() -> dict[str, int]:
    """How many versions of each kernel this process has."""
    return {_name(kernel): len(kernel.signatures) for kernel in KERNELS}


def _name(kernel: Any) -> str:
    return f"{kernel.py_func.__module__}.{kernel.py_func.__name__}"


def problem(tenants: int, rows: int, resources: int, kind: str) -> Problem:
    rng = np.random.default_rng([KINDS.index(kind), tenants, rows, resources])
    n = 2 * tenants if kind == "several" else tenants
    fields: dict[str, Any] = {}
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
    if kind == "deficit":
        fields["deficit"] = np.where(np.arange(tenants) == 0, 0.1, 0.0)
    whole = kind in ("whole", "deficit")
    capacity = rng.integers(4, 9, (rows, resources)) + (0 if whole else rng.random())
    demand = rng.integers(1, 3, (n, resources)) * (1.0 if whole else 0.7)
    if kind == "read-only":
        capacity, demand = np.asfortranarray(capacity), np.asfortranarray(demand)
        capacity.setflags(write=False)
        demand.setflags(write=False)
    if kind == "gangs":
        fields["server_labels"] = [{"rack": "ab"[row % 2]} for row in range(rows)]
        halves = np.array([demand[0], demand[0] / 2], dtype=np.float64)
        fields["gangs"] = {
            0: Gang(np.array([1, 1]), halves, together="rack"),
            1: Gang(
                np.array([2]), np.array(demand[1:2], dtype=np.float64), per_server=1, at_least=2
            ),
        }
        demand[:2] = 0
    return Problem.create(
        resources=tuple(f"r{r}" for r in range(resources)),
        capacity=capacity,
        demand=demand,
        tenants=[str(i) for i in range(tenants)],
        server_count=np.full(rows, 2),
        **fields,
    )


def options_of(info: Policy) -> list[dict[str, Any]]:
    """None, every value that the schema lists, and those above."""
    listed = [
        {name: value}
        for name, option in info.options_schema.get("properties", {}).items()
        for value in option.get("enum", [False, True] if option.get("type") == "boolean" else [])
    ]
    return [{}, *listed, *OPTIONS.get(info.name, [])]


def ask(info: Policy, mode: str) -> Counter[str]:
    """Ask a policy everything in one mode; how often it answered with each option."""
    answered: Counter[str] = Counter()
    # Every third pair has every kind and every size.
    pairs = list(product(KINDS, SIZES))[:: 1 if thorough() else 3]
    for kind, (tenants, rows, resources) in pairs:
        if info.name == "tda" and tenants * rows > 12:
            continue
        asked = problem(tenants, rows, resources, kind)
        for options in options_of(info):
            keys: dict[str, Any] = {"mode": mode, "options": options}
            try:
                answer = solve(asked, info.name, **keys, time_limit=20.0)
                history = answer.history
                for _ in range(2):
                    if history is not None:
                        history = solve(asked, info.name, **keys, history=history).history
                if mode == "indivisible" and history is None and answer.schedule is None:
                    solve(asked, info.name, **keys, running=current_placements_of(answer))
            except PolicyError:
                continue
            answered.update(list(options) or ["none"])
            verify(asked, answer)
            envy_free(answer)
            tasks_by_owner(answer)
            allocation_to_document(answer, include=EVERYTHING)
            if kind in ("plain", "several") and tenants == 4 and not options:
                properties_of(answer, seconds=0.5)
    return answered


@pytest.fixture(scope="module")
def warmed() -> dict[str, int]:
    warm()
    return versions()


@pytest.mark.parametrize(
    ("info", "mode"),
    [
        pytest.param(info, mode, id=f"{info.name}-{mode}")
        for info in policies_available()
        for mode in info.modes
    ],
)
def test_no_question_compiles_anything(warmed, info, mode):
    answered = ask(info, mode)
    assert set(answered) == {"none", *info.options_schema.get("properties", {})}
    assert versions() == warmed


@pytest.mark.parametrize("policy", POLICIES)
def test_no_simulation_compiles_anything(warmed, policy):
    windows = (
        *(Window.unbounded(), Window.sliding(2), Window.sliding(1.5)),
        *(Window.tumbling([1, 3]), Window.decay(2)),
    )
    trace = Trace.create(workload=[0, 1, 2, 0], submit=[0, 1, 2, 2], duration=[3, 1, 2, 1])
    for kind, window, resources in product(("plain", "several", "read-only"), windows, (1, 2, 4)):
        asked = problem(3, 2, resources, kind)
        simulate(asked, trace, policy, window=window)
        simulate(asked, trace, policy, window=window, step=2, until=3)
        if policy not in ("static", "dedicated"):  # these take no other terms
            # Whole seconds, of which the first is that of a change.
            simulate(asked, trace, policy, window=window, step=2, terms=[(-1, asked), (2, asked)])
    assert versions() == warmed


def test_every_kernel_is_warmed_or_called_by_one_that_is(warmed):
    """So a kernel that no question above happens to reach is found as well."""
    reached: set[Any] = set()
    found = [kernel for kernel in KERNELS if warmed[_name(kernel)]]
    while found:
        kernel = found.pop()
        if kernel not in reached:
            reached.add(kernel)
            called = (
                kernel.py_func.__globals__.get(name) for name in kernel.py_func.__code__.co_names
            )
            found += [each for each in called if isinstance(each, Kernel)]
    assert not [_name(kernel) for kernel in KERNELS if kernel not in reached]


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


@long
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


class Two(NamedTuple):
    first: float
    second: float


class Three(NamedTuple):
    first: float
    second: float
    third: float


def test_a_kernel_takes_another_tuple_beside_the_one_that_it_was_compiled_for():
    """Versions are compared by their arguments before another one is compiled."""
    kernel = compiled(sum_of_two)
    KERNELS.remove(kernel)
    assert kernel(Two(1.0, 2.0)) == 3.0
    assert kernel(Three(1.0, 2.0, 4.0)) == 3.0
    assert len(kernel.signatures) == 2


def sum_of_two(values):
    return values.first + values.second
