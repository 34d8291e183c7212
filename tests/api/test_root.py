"""The root of the API and the page for browsers: what they link to is there."""

import html
import re

import pytest

from allocator_service import __version__
from allocator_service.core.headers import SCRIPTLESS
from api.situations import SITUATIONS
from launcher.folders import PROJECT
from policies import policies_available

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize("path", ["/", "/api/v1/"])
def test_the_root_links_to_every_collection(path, anonymous, operator, db):
    answer = anonymous.get(path)
    assert answer["Content-Type"] == "application/json"
    root = answer.json()
    assert root["version"] == __version__
    for link in (root["documentation"], root["openapi"]):
        assert anonymous.get(link.removeprefix("http://testserver")).status_code == 200
    for name, link in root["collections"].items():
        found = operator.get(link.removeprefix("http://testserver"))
        posted_only = name in ("evaluations", "comparisons")
        assert found.status_code == (405 if posted_only else 200), name


def test_a_browser_gets_a_page_whose_links_lead_somewhere(anonymous, db):
    answer = anonymous.get("/", Accept=BROWSER)
    assert answer["Content-Type"] == "text/html; charset=utf-8"
    assert answer["Content-Security-Policy"] == SCRIPTLESS
    page = answer.content.decode()
    assert "URL=http://testserver/api/v1\n" in page
    assert "Fair shares on real servers (DRFH)" in page
    assert all(f"<code>{each.name}</code>" in page for each in policies_available())
    links = re.findall('<a [^>]*href="([^"]+)"', page)
    assert len(links) >= 3
    for link in links:
        assert anonymous.get(link, Accept=BROWSER).status_code in (200, 302), link


def test_the_page_names_policies_by_situation_as_the_docs_do(anonymous, db):
    choosing = (PROJECT / "docs" / "policies" / "choosing.md").read_text()
    table = choosing.split("| if you want |")[1].split("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    plain = [[re.sub(r"`|\]\([^)]*\)|\[", "", cell) for cell in row] for row in rows]
    assert plain == [
        [
            each.purpose,
            ", ".join(each.policies) + (f" with {each.option}" if each.option else ""),
            each.note,
        ]
        for each in SITUATIONS
    ]
    page = html.unescape(anonymous.get("/", Accept=BROWSER).content.decode())
    for each in SITUATIONS:
        assert f'<th scope="row">{each.purpose}</th>' in page
        assert f"<td>{each.note}</td>" in page


def test_neither_asks_for_a_key_or_takes_a_body(anonymous, db):
    for path in ("/", "/api/v1/"):
        assert anonymous.post(path, {}).status_code == 405
