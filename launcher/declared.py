"""Digest of the declared dependencies, to find locks and environments that do not match them."""

import hashlib
import json
import tomllib
from pathlib import Path

from launcher.folders import PROJECT

# The service and the packages of their own.
DECLARATIONS = ("pyproject.toml", "policies/pyproject.toml", "client/pyproject.toml")


def declared_digest(project: Path = PROJECT) -> str:
    """Return a digest of the declared dependencies of all packages, without their other fields."""
    keys = ("requires-python", "dependencies", "optional-dependencies")
    declared = [
        tomllib.loads((project / name).read_text())["project"].get(key)
        for name in DECLARATIONS
        for key in keys
    ]
    return hashlib.sha256(json.dumps(declared).encode()).hexdigest()
