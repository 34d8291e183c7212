"""Hook that replaces links to files outside of the documentation by their names."""

import re
from typing import Any

_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?:deploy|client|agent|policies/pyproject)[^)]*\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace links to the project's folders, which the site does not include, by their texts.

    Pages at depth one reach these folders by `../../`.
    """
    return _OUTSIDE.sub(r"\1", markdown)
