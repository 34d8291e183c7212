"""Serious findings of axe on a page, in each view.

Views are wide and light, narrow and dark; with `--thorough` also the other way round.
"""

from collections.abc import Sequence
from typing import Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.examples import thorough

WIDE, NARROW = 1400, 390
VIEWS: list[tuple[int, Literal["light", "dark"]]] = [(WIDE, "light"), (NARROW, "dark")]
if thorough():
    VIEWS += [(WIDE, "dark"), (NARROW, "light")]
# What depends on colours or on the width. Everything else is the same in all views.
OF_A_VIEW = ["color-contrast", "link-in-text-block", "scrollable-region-focusable"]
SCROLLED = """() => [...document.querySelectorAll(".wide, .cards")]
  .filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.ariaLabel)"""


def findings(page: Page, *, outside: Sequence[str] = ()) -> list[str]:
    """Return what axe finds serious or critical in each view of a page, and where it is too wide.

    Args:
        page: the open page.
        outside: selectors of parts that are left out.
    """
    found = []
    page.evaluate(Axe().axe_script)
    for number, (width, scheme) in enumerate(VIEWS):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        view = f"{page.url} {width} {scheme}"
        rules = {"type": "rule", "values": OF_A_VIEW}
        options = {"resultTypes": ["violations"], **({"runOnly": rules} if number else {})}
        found += [
            f"{view}: {each['id']} {[node['html'][:200] for node in each['nodes'][:3]]}"
            for each in page.evaluate(
                "([exclude, options]) => axe.run({exclude}, options)", [list(outside), options]
            )["violations"]
            if each["impact"] in ("serious", "critical")
        ]
        if "/my/" in page.url or page.locator(".tabs, #board").count():
            beyond = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            found += [f"{view}: {beyond} px too wide"] if beyond > 0 else []
        if "/my/" in page.url or width == NARROW:
            found += [f"{view}: {each} scrolls" for each in page.evaluate(SCROLLED)]
    return found
