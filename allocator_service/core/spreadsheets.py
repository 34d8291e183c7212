"""Cells that a spreadsheet would run as a formula (OWASP, CSV injection)."""

import re

# The full-width forms too: spreadsheets with East Asian settings read them as the ASCII characters.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
# A negative number is not a formula: sums over a column stay right.
NUMBER_PATTERN = "^-[0-9]+([.][0-9]+)?$"
_NUMBER = re.compile(NUMBER_PATTERN, re.ASCII)


def inert(text: str) -> str:
    """Return the text, after an apostrophe if a spreadsheet would run it."""
    if text.startswith(FORMULA_STARTS) and not _NUMBER.fullmatch(text):
        return f"'{text}"
    return text
