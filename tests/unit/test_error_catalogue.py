"""docs/guides/errors.md names every code that the service can answer with, and no other."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import policies.model.reasons
from allocator_service.workloads import satisfiability
from policies import REASONS, UNSERVED
from policies.model.reasons import LIMIT, limited_by_resource
from tests.documented import openapi

PROJECT = Path(__file__).parents[2]
CATALOGUE = PROJECT / "docs" / "guides" / "errors.md"
SOURCES = [
    path
    for package in ("allocator_service", "api", "papers", "policies")
    for path in (PROJECT / package).rglob("*.py")
    if "migrations" not in path.parts
]
DOTTED = re.compile(r"[a-z_]+(?:\.[a-z_]+)+")
CODE_NAMES = {"code", "missing_code", "type_code", "unknown", "zero", "violation_error_code"}
ASSIGNED = {"code", "missing_code", "not_found", "UNKNOWN"}
# Composed at run time: f"{what}.{code}" in policies/model/validation.py, policies/fields,
# api/contract/parameters.py, allocator_service/pools/limits.py and allocator_service/imports.
COMPOSED = {
    *(f"{what}.{wrong}" for what in ("capacity", "demand") for wrong in ("negative", "not_finite")),
    *(f"{what}.too_large" for what in ("capacity", "demand", "weight", "owed", "history")),
    *(f"{what}.not_a_number" for what in ("weight", "owed", "history")),
    *(f"{what}.duplicate" for what in ("group", "resource", "server", "tenant")),
    *(
        f"{what}.{wrong}"
        for what in ("limit", "guarantee", "lend")
        for wrong in ("amount", "empty", "interval", "node", "syntax")
    ),
} | {f"parameter.{kind}" for kind in ("unknown", "twice", "required", "value")}
PARTS_OF_COMPOSED = {"negative"}


def codes_in(tree: ast.AST) -> Iterator[str]:
    """Texts given as a code: by keyword, by assignment, or dotted to a call that makes an error."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in CODE_NAMES:
            yield from texts(node.value)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id in ASSIGNED for target in targets):
                yield from texts(node.value)
        elif isinstance(node, ast.arguments):
            for option, default in zip(node.kwonlyargs, node.kw_defaults, strict=True):
                if option.arg in CODE_NAMES and default is not None:
                    yield from filter(DOTTED.fullmatch, texts(default))
        elif isinstance(node, ast.Call) and is_error(node.func):
            for argument in node.args:
                yield from filter(DOTTED.fullmatch, texts(argument))


def is_error(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    words = ("error", "refus", "missing", "mistake", "namefield", "read_fields")
    return any(word in name.lower() for word in words)


def texts(node: ast.expr) -> Iterator[str]:
    for part in (node.body, node.orelse) if isinstance(node, ast.IfExp) else (node,):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def codes_used() -> set[str]:
    found = {code for path in SOURCES for code in codes_in(ast.parse(path.read_text()))}
    return (found - PARTS_OF_COMPOSED) | COMPOSED


def first_cells(text: str) -> set[str]:
    """What the first cells of the tables name in backquotes."""
    return {
        name
        for line in text.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`([^`]+)`", line.split("|")[1])
    }


def test_every_code_is_in_the_catalogue_and_no_other():
    _, _, codes = CATALOGUE.read_text().partition("## The request cannot be read")
    assert first_cells(codes) == codes_used()


def test_every_warning_is_in_the_catalogue_and_no_other():
    _, _, rest = CATALOGUE.read_text().partition("## Warnings")
    warnings, _, _ = rest.partition("## The request cannot be read")
    schema = openapi()["components"]["schemas"]["ChangedGroupDocument"]["properties"]["warnings"]
    assert first_cells(warnings) == set(schema["items"]["properties"]["code"]["enum"])


def test_every_reason_is_in_the_catalogue_and_no_other():
    reasons, _, _ = CATALOGUE.read_text().partition("## Warnings")
    named = {
        value
        for module in (policies.model.reasons, satisfiability)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str)
    }
    named.remove(LIMIT)
    assert named == set(REASONS)
    limits = {f"{LIMIT}:{whose}" for whose in ("workload", "tenant", "lend", "group:<name>")}
    assert first_cells(reasons) == named | limits | {limited_by_resource("<name>")}


def test_the_openapi_document_has_every_reason_and_no_other():
    schemas = openapi()["components"]["schemas"]
    limited_by = schemas["AllocationDocument"]["properties"]["limited_by"]
    enum, resource, limit = limited_by["oneOf"]
    for whose in ("workload", "tenant", "lend", "group:ml"):
        assert re.fullmatch(limit["pattern"], f"{LIMIT}:{whose}")
    assert set(enum["enum"]) == set(REASONS)
    assert re.match(resource["pattern"], limited_by_resource("cpu"))
    condition = schemas["WorkloadDocument"]["properties"]["conditions"]["items"]
    assert set(condition["properties"]["reason"]["enum"]) == set(UNSERVED)


def test_the_search_finds_codes_where_they_stand():
    tree = ast.parse(
        'raise Missing("x", code="a.keyword")\n'
        'class E: code = "a.attribute"\n'
        'FieldError("/p", "an.argument", "no. code")\n'
        'f(code="a.first" if x else "a.second")\n'
        'print("not.a_code")\n'
    )
    expected = {"a.keyword", "a.attribute", "an.argument", "a.first", "a.second"}
    assert set(codes_in(tree)) == expected
