"""The committed OpenAPI document, read once by each process: it has more than a million characters."""

from functools import cache
from typing import Any

import yaml

from launcher.folders import PROJECT

DOCUMENT = PROJECT / "docs" / "openapi.yaml"


def loaded(text: str) -> Any:
    """What a YAML text says, read by libyaml: PyYAML's own reader takes seconds for this document."""
    return yaml.load(text, Loader=yaml.CSafeLoader)


@cache
def openapi() -> Any:
    """The document as it is committed."""
    return loaded(DOCUMENT.read_text())
