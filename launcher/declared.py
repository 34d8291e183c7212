"""The dependencies that are declared: a digest says whether locks and environments fit them."""

import hashlib
import json
import tomllib
from pathlib import Path

from launcher.folders import PROJECT

# The service, and what is a package of its own.
DECLARATIONS = ("pyproject.toml", "policies/pyproject.toml", "client/pyproject.toml")


def declared_digest(project: Path = PROJECT) -> str:
    """A digest of the dependencies that both packages declare, and of nothing else in them."""
    keys = ("requires-python", "dependencies", "optional-dependencies")
    declared = [
        tomllib.loads((project / name).read_text())["project"].get(key)
        for name in DECLARATIONS
        for key in keys
    ]
    return hashlib.sha256(json.dumps(declared).encode()).hexdigest()
