"""Characters that the fonts of a PDF file have.

The fonts are those in the typesetting library: no font of the machine counts, so that a file has the
same bytes everywhere. They cover Latin, Greek, Cyrillic, Hebrew and Arabic.
"""

import re
import unicodedata

# Both weights of both fonts have every assigned character of these blocks; a test typesets them all.
RANGES = (
    (0x0020, 0x007E),
    (0x00A0, 0x00AC),
    (0x00AE, 0x017F),
    (0x0386, 0x038A),
    (0x038C, 0x038C),
    (0x038E, 0x03A1),
    (0x03A3, 0x03CE),
    (0x0400, 0x045F),
    (0x05D0, 0x05EA),
    (0x0621, 0x063A),
    (0x0640, 0x064A),
    (0x2010, 0x2027),
    (0x2030, 0x2037),
    (0x20A0, 0x20B5),
    (0x20B8, 0x20BA),
    (0x20BD, 0x20BD),
    (0x2190, 0x2199),
    (0x2211, 0x2212),
    (0x2248, 0x2248),
    (0x2260, 0x2265),
    (0x25A0, 0x25FF),
)
REPLACEMENT = "□"
BREAK = "\u200b"
_UNKNOWN = re.compile("[^" + "".join(f"{chr(low)}-{chr(high)}" for low, high in RANGES) + "]")
# A word that a narrow column cannot hold. Hyphens and spaces are places to break a line anyway.
_LONG_WORD = re.compile(r"[^\s\-]{17,}")
_PART = re.compile(".{1,8}")
_LONG_NUMBER = re.compile(r"-?[\d,]+(\.\d+)?")
_NUMBER_LENGTH = 12


def printable(text: str) -> str:
    """Return a text in characters that have a glyph, in one line that can be broken anywhere.

    Other characters are replaced visibly.
    """
    spaced = re.sub(r"\s+", " ", unicodedata.normalize("NFC", text)).strip()
    shown = _UNKNOWN.sub(REPLACEMENT, spaced)
    if len(shown) >= _NUMBER_LENGTH and _LONG_NUMBER.fullmatch(shown):
        return re.sub(r",|\d{9}", lambda part: part.group() + BREAK, shown)
    return _LONG_WORD.sub(lambda word: BREAK.join(_PART.findall(word.group())), shown)
