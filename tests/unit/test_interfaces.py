"""Rules of CONTRIBUTING.md and docs/architecture.md that neither a type nor an import can hold."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

import policies

PROJECT = Path(__file__).resolve().parents[2]

# Interfaces that read the clock, beside admin sites, tasks, management commands and `api`.
CALLBACKS = {
    "allocator_service/core/lockout.py": "django-axes calls it with the request alone",
    "allocator_service/core/worker/heartbeats.py": "a thread of the worker's main process",
    "allocator_service/core/admin_site.py": "the admin's first page",
    "allocator_service/imports/management/import_command.py": "the commands' common base",
}


def modules(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    for folder in folders:
        for path in sorted((PROJECT / folder).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path.relative_to(PROJECT).as_posix(), ast.parse(path.read_text())


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_interface(name: str) -> bool:
    return (
        name in CALLBACKS
        or name.startswith("api/")
        or "/management/commands/" in name
        or name.endswith(("/tasks.py", "/admin.py", "_admin.py"))
        or "/admin/" in name
    )


def test_only_interfaces_read_the_clock():
    readers = {
        name
        for name, tree in modules("allocator_service", "api")
        if "allocator_service.core.clock.utc_now" in imported(tree)
    }
    assert readers >= set(CALLBACKS)
    assert [name for name in sorted(readers) if not is_interface(name)] == []


@pytest.mark.parametrize("folder", ["policies", "allocator_service", "api"])
def test_the_wall_clock_is_read_in_one_place_and_elapsed_time_where_it_is_measured(folder):
    wall = {"time.time", "datetime.now", "datetime.utcnow", "date.today", "timezone.now"}
    readers = {
        name
        for name, tree in modules(folder)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and f"{node.value.id}.{node.attr}" in wall
    }
    assert readers == ({"allocator_service/core/clock.py"} & {f"{folder}/core/clock.py"})


def test_views_read_models_by_selectors():
    """A view may narrow a selector's queryset; it does not begin one."""
    begun = [
        f"{name}:{node.lineno}"
        for name, tree in modules("api/v1", "api/pages")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr == "objects"
        and isinstance(node.value, ast.Name)
        and node.value.id[0].isupper()  # a model, not a rendering's objects
    ]
    assert begun == []


def test_views_write_by_services():
    """A view calls a service for each change. `api/contract` keeps claims of its own."""
    writes = {"save", "delete", "create", "bulk_create", "get_or_create", "update_or_create"}
    found = [
        f"{name}:{node.lineno}"
        for name, tree in modules("api/v1", "api/pages")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and (node.func.attr in writes or is_update_of_rows(node.func))
    ]
    assert found == []


def is_update_of_rows(called: ast.Attribute) -> bool:
    """Return whether a queryset is updated, such as `rows.filter(...).update(...)`."""
    chained = called.value.func if isinstance(called.value, ast.Call) else None
    return called.attr == "update" and isinstance(chained, ast.Attribute)


def test_api_takes_declarations_of_policies_and_calls_none_of_their_functions():
    taken = {
        name
        for _, tree in modules("api")
        for name in (*imported(tree), *attributes_of(tree, "policies"))
        if name.startswith("policies.") and not name.startswith("policies.fields.")
    }
    functions = {
        name for name in taken if inspect.isfunction(getattr(policies, name.split(".")[1]))
    }
    assert functions == set()
    assert "policies.EvaluationRequest" in taken


def attributes_of(tree: ast.Module, module: str) -> Iterator[str]:
    """Yield the dotted names that a file reads from a module which it imports by name."""
    nodes = list(ast.walk(tree))
    if not any(
        isinstance(node, ast.Import) and module in [alias.name for alias in node.names]
        for node in nodes
    ):
        return
    for node in nodes:
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == module:
            yield f"{module}.{node.attr}"


def dotted_names(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from dotted_names(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from dotted_names(each)


def test_what_settings_name_is_held_as_imports_are():
    """Settings name code by strings, which import-linter does not see."""
    named = {
        name
        for setting in dir(settings)
        if setting.isupper()
        for name in dotted_names(getattr(settings, setting))
    }
    assert {name for name in named if name.startswith("api.pages")} == {
        "api.pages.errors.PageErrorMiddleware",
        "api.pages.sessions.PeopleInTheAdminMiddleware",
    }
    assert {name for name in named if name.startswith("policies")} == set()
    assert {name.split(".")[1] for name in named if name.startswith("allocator_service.")} <= {
        *("urls", "wsgi", "core", "tenants", "pools", "workloads", "imports", "ledger"),
        *("allocation", "billing", "webhooks", "enforcement", "mail", "backtests"),
        "transfers",
    }
