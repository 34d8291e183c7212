"""Functions have at most eight positional parameters: more belong together, or are passed by name."""

import ast
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
FOLDERS = (
    "policies",
    "papers",
    "allocator_service",
    "api",
    "agent",
    "client",
    "launcher",
    "devtools",
    "demo",
    "benchmarks",
)
MOST = 8
# Compiled loops that run for each task, event or step. With tuples in the place of arrays they were
# slower: simulations by 29 to 57 %, launches of gangs by 30 to 37 %, a step of the interior point by
# 15 to 20 %, and what takes apart all state of a simulation compiled for three to four times as long.
HOT_LOOPS = (
    "policies/filling/",
    "policies/leximin/interior_point/",
    "policies/leximin/priority_order.py",
    "policies/long_term/loop.py",
    "policies/simulation/",
)


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for folder in FOLDERS:
        for path in sorted((PROJECT / folder).rglob("*.py")):
            name = path.relative_to(PROJECT).as_posix()
            if "/migrations/" in name or "/_generated/" in name:
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield name, node


def is_hot(name: str, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    compiled = any(ast.unparse(each).startswith("compiled") for each in function.decorator_list)
    return compiled and name.startswith(HOT_LOOPS)


def test_functions_have_at_most_eight_positional_parameters():
    long = [
        f"{name}: {function.name}"
        for name, function in functions()
        if len(function.args.posonlyargs) + len(function.args.args) > MOST
        and not is_hot(name, function)
    ]
    assert not long
