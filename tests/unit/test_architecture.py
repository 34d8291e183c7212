"""The documents for contributors name what is there: folders, apps, layers and files."""

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
ARCHITECTURE = (PROJECT / "docs/architecture.md").read_text()
CONTRIBUTING = (PROJECT / "CONTRIBUTING.md").read_text()
PICTURE = ARCHITECTURE.split("```text\n")[1].split("```")[0]
# What any folder may have.
EVERYWHERE = {"__init__", "__main__", "apps", "migrations", "static", "templates", "management"}


def modules_and_folders(folder: str) -> set[str]:
    within = PROJECT / folder
    modules = {path.stem for path in within.glob("*.py")}
    folders = {path.parent.name for path in within.glob("*/*.py")}
    return (modules | folders) - EVERYWHERE


@cache
def files() -> frozenset[str]:
    """Every file of the project, apart from hidden folders such as the environment."""
    return frozenset(
        f"/{path.relative_to(PROJECT).as_posix()}"
        for top in PROJECT.iterdir()
        if not top.name.startswith(".")
        for path in ([top] if top.is_file() else top.rglob("*"))
    )


def app_layers() -> list[set[str]]:
    contracts = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = (each for each in contracts["contracts"] if each["name"] == "apps form layers")
    found = [{name.strip() for name in layer.split("|")} for layer in layers["layers"]]
    return [layer for layer in found if layer & set(apps())]


def apps() -> list[str]:
    return [path.parent.name for path in (PROJECT / "allocator_service").glob("*/apps.py")]


@pytest.mark.parametrize("folder", ["api", "allocator_service", "policies"])
def test_the_picture_names_each_folder_and_module(folder):
    named = set(re.findall(r"[a-z_0-9]+", PICTURE))
    assert modules_and_folders(folder) - named == set()


def test_the_table_of_folders_names_each_app():
    table = CONTRIBUTING.split("## Where things are")[1].split("## Habits")[0]
    assert set(apps()) - set(re.findall(r"[a-z_]+", table)) == set()


def test_the_layers_of_apps_are_those_of_the_import_contract():
    (stated,) = re.findall(r"Apps form layers, `([^`]+)`", CONTRIBUTING)
    layers = [{name.strip() for name in layer.split("|")} for layer in stated.split(">")]
    assert layers == app_layers()


@pytest.mark.parametrize("text", [ARCHITECTURE, CONTRIBUTING], ids=["architecture", "contributing"])
def test_each_file_named_in_backticks_exists(text):
    named = set(re.findall(r"`([\w./]+\.(?:py|md|toml|yaml))`", text))
    missing = {name for name in named if not any(each.endswith(f"/{name}") for each in files())}
    assert missing == set()
