"""The examples in docs/policies are real: each is solved, and gives what its page says."""

import json
import re
from pathlib import Path

import pytest

from policies.evaluation import evaluate_document

PAGES = Path(__file__).parents[3] / "docs" / "policies"


def example(page):
    (block,) = re.findall(r"```json\n(.*?)```", (PAGES / page).read_text(), re.DOTALL)
    return json.loads(block)


@pytest.mark.parametrize(
    ("page", "tasks"),
    [
        ("drf.md", [3, 2]),
        ("drfh.md", [10, 10]),
        ("pool-tasks.md", [2, 3]),
        ("server-tasks.md", [10, 10]),
        ("static.md", [3, 1]),
    ],
)
def test_a_page_s_example_gives_the_figures_it_states(page, tasks):
    answer = evaluate_document(example(page))
    assert [row["tasks"] for row in answer["allocations"]] == pytest.approx(tasks)


def test_every_policy_has_its_page_in_the_index():
    index = (PAGES / "index.md").read_text()
    for page in PAGES.glob("*.md"):
        if page.name != "index.md":
            assert f"({page.name})" in index
