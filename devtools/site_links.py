"""Links from a page to files that are not documentation: the site shows their names."""

import re
from typing import Any

_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?:deploy|client|agent|policies/pyproject)[^)]*\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Pages at depth one reach the project's own folders by `../../`; the site has none of them."""
    return _OUTSIDE.sub(r"\1", markdown)
