"""The examples in docs/policies and in docstrings are real: each gives what its page says."""

import doctest
import inspect
import io
import json
import re
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

import policies
from benchmarks.examples import EXAMPLES, picture_of
from policies.documents.evaluation import evaluate_document
from policies.model.problem_fields import ProblemFields

PAGES = Path(__file__).parents[3] / "docs" / "policies"


def example(page):
    (block,) = re.findall(r"```json\n(.*?)```", (PAGES / page).read_text(), re.DOTALL)
    return json.loads(block)


def problems(page):
    """Return the problems of a page, without blocks that show parts of answers."""
    blocks = re.findall(r"```json\n(.*?)```", (PAGES / page).read_text(), re.DOTALL)
    return [json.loads(block) for block in blocks if '"servers":' in block]


@pytest.mark.parametrize(
    ("page", "tasks"),
    [
        ("asset.md", [6, 12]),
        ("ceei.md", [100 / 31, 1500 / 31]),
        ("drf.md", [3, 2]),
        ("drfh.md", [10, 10]),
        ("pool-tasks.md", [2, 3]),
        ("server-tasks.md", [10, 10]),
        ("static.md", [3, 1]),
        ("tda.md", [63 / 41, 90 / 41]),
        ("long-term.md", [40, 20]),
        ("mrfs.md", [1, 1, 1, 1, 1]),
    ],
)
def test_a_page_s_example_gives_the_figures_it_states(page, tasks):
    answer = evaluate_document(example(page))
    assert [row["tasks"] for row in answer["allocations"]] == pytest.approx(tasks)


@pytest.mark.parametrize(
    ("page", "each"),
    [
        ("gangs.md", [[1, 0, 1], [1, 8]]),
        ("groups.md", [[40 / 13, 40 / 13, 800 / 13]]),
        ("guarantees.md", [[65, 35]]),
        ("kept-tasks.md", [[6, 2]]),
        ("limits.md", [[2, 2, 68]]),
    ],
)
def test_the_problems_of_a_page_with_answers_give_the_figures_it_states(page, each):
    answers = [evaluate_document(document)["allocations"] for document in problems(page)]
    assert [[row["tasks"] for row in rows] for rows in answers] == [
        pytest.approx(tasks) for tasks in each
    ]


@pytest.mark.parametrize(
    ("page", "name", "tasks"),
    [("gangs.md", "own_servers", [2, 1, 0]), ("kept-tasks.md", "kept", [4, 4])],
)
def test_a_page_s_example_without_its_subject_gives_the_figures_it_states(page, name, tasks):
    document = problems(page)[0]
    del document[name]
    assert [row["tasks"] for row in evaluate_document(document)["allocations"]] == tasks


def test_what_the_page_of_drf_says_about_weights_per_resource():
    document = example("drf.md")
    document["policy"]["options"] = {"resource_weights": {"A": {"memory": 2}}}
    rows = evaluate_document(document)["allocations"]
    assert [row["tasks"] for row in rows] == pytest.approx([54 / 13, 18 / 13])


def test_every_policy_has_its_page_in_the_index():
    index = (PAGES / "index.md").read_text()
    for page in PAGES.glob("*.md"):
        if page.name != "index.md":
            assert f"({page.name})" in index


def test_what_the_page_on_long_term_policies_says_about_their_example():
    document = example("long-term.md")
    for policy, tasks, degrees in (
        ("h-mrf", [40, 20], [1.375, 1]),
        ("lt-af", [42, 16], [1.425, 0.9556]),
        ("lt-drf", [35, 30], [1.25, 1.1111]),
    ):
        answer = evaluate_document(document | {"policy": {"name": policy}})
        assert [row["tasks"] for row in answer["allocations"]] == tasks
        tenants = answer["history"]["tenants"].values()
        found = [tenant["sharing_degree"]["min"] for tenant in tenants]
        assert found == pytest.approx(degrees, abs=5e-5)


def test_the_page_on_mrfs_shows_where_requests_go():
    rows = evaluate_document(example("mrfs.md"))["placements"]
    assert {row["workload"]["name"]: row["server"] for row in rows} == {
        "a": "s-0001",
        "b": "s-0002",
        "c": "s-0001",
        "d": "s-0002",
        "e": "s-0001",
    }


def test_the_windows_example_counts_what_its_page_says():
    page = (PAGES / "long-term.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {}
    exec(code, names)
    assert names["window"].start(names["t"], names["dt"]) == 1860
    assert names["before"].tolist() == [[1740 * 4, 1740 * 8], [7200, 7200]]
    assert names["history"].elapsed == names["window"].elapsed(0, names["t"], names["dt"])


def test_the_simulated_example_ends_when_its_page_says():
    page = (PAGES / "simulation.md").read_text()
    code, _ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {}
    exec(code, names)
    assert names["ended"] == {
        "h-mrf": [21, 20],
        "lt-drf": [21, 20],
        "lt-af": [21, 20],
        "drf": [12, 21],
    }
    assert names["found"].sharing_degree.round(4).tolist() == [1.8333, 1.8182]


def test_a_site_s_record_is_simulated_as_its_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    times = "2026-10-05T09:00:00|2026-10-05T09:00:00|2026-10-05T11:00:00"
    (tmp_path / "quarter.txt").write_text(
        "JobID|User|Account|Submit|Start|End|AllocTRES|State\n"
        f"1|ada|bio|{times}|cpu=128,mem=64G,node=2|COMPLETED\n"
    )
    page = (PAGES / "simulation.md").read_text()
    _, code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {}
    exec(code, names)
    assert names["ran"].completion.tolist() == [7200]
    assert len(names["ran"].piece_server) == 2


@pytest.mark.parametrize("page", EXAMPLES)
def test_the_picture_of_an_example_is_what_its_solution_draws(page):
    # Otherwise: python -m benchmarks.examples
    assert picture_of(page).read_text() == EXAMPLES[page]().svg + "\n"
    assert f"(../pictures/{picture_of(page).name})" in (PAGES / f"{page}.md").read_text()


EXPORTED = [
    name
    for name in policies.__all__
    if inspect.isroutine(getattr(policies, name))
    or inspect.isclass(getattr(policies, name))
    or hasattr(getattr(policies, name), "__wrapped__")
]


def documented(name):
    return inspect.getdoc(getattr(policies, name)) or ""


def underlined(text):
    """The titles of sections, as numpydoc marks them, and what each holds."""
    parts = re.split(r"^(\w+)\n-+$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_only_constants_and_a_type_are_exported_without_a_docstring():
    without = set(policies.__all__) - set(EXPORTED)
    assert without == {"DISCRETE_TOLERANCE", "PROPERTY_NAMES", "REASONS", "UNSERVED", "Solver"}


@pytest.mark.parametrize("name", EXPORTED)
def test_the_example_of_an_exported_name_gives_what_its_docstring_says(name):
    tests = doctest.DocTestParser().get_doctest(documented(name), {}, name, None, 0)
    assert tests.examples
    report = io.StringIO()
    result = doctest.DocTestRunner(verbose=False).run(tests, out=report.write)
    assert not result.failed, report.getvalue()


@pytest.mark.parametrize("name", EXPORTED)
def test_an_exported_name_documents_its_parameters_and_results(name):
    """Classes with fields name each of them; functions each parameter, and what they return."""
    item, parts = getattr(policies, name), underlined(documented(name))
    assert "Examples" in parts
    if inspect.isclass(item):
        names = [field.name for field in fields(item)] if is_dataclass(item) else []
        listed = parts.get("Attributes", "")
        if item is policies.Problem:
            listed = ProblemFields.__doc__
    else:
        signature = inspect.signature(inspect.unwrap(item))
        names, listed = list(signature.parameters), parts.get("Parameters", "")
        assert ("Returns" in parts) == (signature.return_annotation not in ("None", None))
        assert ("Parameters" in parts) == bool(names)
    for each in names:
        assert re.search(rf"^[ \w,*]*\b{each}\b", listed, re.MULTILINE), each
