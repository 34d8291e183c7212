"""Modules of kernels, whose functions the type checker takes without annotations."""

import ast
import tomllib
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[3]
KERNELS = {"compiled", "compiled_in_order"}


def modules() -> list[str]:
    """Return those that the settings of the type checker name for it."""
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["mypy"]["overrides"]
    return [
        module
        for override in settings
        if override.get("disallow_untyped_defs") is False
        for module in override["module"]
        if module.startswith("policies.")
    ]


def without_annotations(source: str) -> list[str]:
    """Return the functions that are no kernels and lack an annotation."""
    return [
        function.name
        for function in ast.walk(ast.parse(source))
        if isinstance(function, ast.FunctionDef)
        and not KERNELS
        & {each.id for each in function.decorator_list if isinstance(each, ast.Name)}
        and not is_annotated(function)
    ]


def is_annotated(function: ast.FunctionDef) -> bool:
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    named = [each for each in arguments if each.arg not in ("self", "cls")]
    return function.returns is not None and all(each.annotation for each in named)


@pytest.mark.parametrize("module", modules())
def test_only_kernels_have_no_annotations(module):
    source = (PROJECT / f"{module.replace('.', '/')}.py").read_text()
    assert "@compiled" in source
    assert without_annotations(source) == []


def test_control_a_function_without_annotations_is_found():
    source = (
        "@compiled\ndef kernel(a): ...\ndef half(a: int, b): ...\ndef typed(a: int) -> int: ..."
    )
    assert without_annotations(source) == ["half"]
