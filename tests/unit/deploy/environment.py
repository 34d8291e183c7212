"""What the launcher runs and what the settings read; the other ways of running it must agree."""

import ast
import re
from collections.abc import Sequence
from pathlib import Path

from launcher.service import components

ROOT = Path(__file__).resolve().parents[3]
COMPONENTS = {component.name: component for component in components(listener=3, data=Path("/tmp"))}
# Read by Django and gunicorn themselves.
READ_BY_LIBRARIES = {"DJANGO_SETTINGS_MODULE", "WEB_CONCURRENCY", "PROMETHEUS_MULTIPROC_DIR"}


def variables_read_by_the_settings() -> set[str]:
    """The first arguments of `_env.<type>(...)` in the one reader of the environment."""
    source = (ROOT / "allocator_service" / "settings" / "environment.py").read_text()
    return {
        call.args[0].value
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "_env"
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str)
    }


def documented() -> dict[str, str]:
    """The variables of .env.example and their values, those in comments included."""
    lines = (ROOT / ".env.example").read_text().splitlines()
    found = [re.fullmatch(r"(?:# )?([A-Z][A-Z_]+)=(.*)", line) for line in lines]
    return {match[1]: match[2] for match in found if match}


def comparable(command: Sequence[str]) -> list[str]:
    """The words of a command, without those in which one place may differ from the next."""
    words = [word for word in command if word not in ("python", "-m")]
    for varying in ("--bind", "--schedule", "--hostname"):
        if varying in words:
            position = words.index(varying)
            del words[position : position + 2]
    return sorted(words)
