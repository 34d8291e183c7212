"""What `alloc` prints: tables, numbers, JSON, colours, completions."""

import json
import os

import pytest

from allocator_client.cli import output, words
from policies import policies_available
from tests.client.answers import POOL, POOLS, decision, process, row
from tests.client.test_transport import HTML, page

DRFH = "Fair shares on real servers (DRFH)"


def test_policies_have_the_names_of_the_service():
    for policy in policies_available():
        assert words.policy_title(policy.name) == policy.title


def test_tables_are_aligned_with_numbers_right_whatever_the_letters(alloc, told):
    names = ["Übung", "研究室", "a\x1b[31mred\u202e", "e\u0301te\u0301"]
    told(
        page(
            [{**POOL, "name": name, "generation": 10**n} for n, name in enumerate(names)],
            None,
            last=True,
        )
    )
    assert alloc("pools").stdout.splitlines() == [
        f"POOL  NAME        {'POLICY':34}  RESOURCES        GENERATION",
        f"lab   Übung       {DRFH}  cpu (core), gpu           1",
        f"lab   研究室      {DRFH}  cpu (core), gpu          10",
        f"lab   a\ufffd[31mred\ufffd  {DRFH}  cpu (core), gpu         100",
        f"lab   e\u0301te\u0301         {DRFH}  cpu (core), gpu       1,000",
    ]


def test_a_long_list_is_printed_while_it_comes(capsys):
    seen = []

    def rows():
        for n in range(100_000):
            if n == 5000:
                seen.append(capsys.readouterr().out.count("\n"))
            yield (f"row-{n}", "1")

    output.table(("NAME", ">N"), rows())
    assert seen == [5001]  # the heading, and every row before the one that is being made
    assert capsys.readouterr().out.count("\n") == 95_000


@pytest.mark.parametrize(
    ("value", "shown"),
    [(12583, "12,583"), (0, "0"), (5 / 7, "0.7143"), ("15.50", "15.5"), (1234.5678, "1,235"),
     (9.999999999999998, "10"), ("0.00001234", "1.23e-5"), (-0.5, "-0.5"), (None, "-"),
     (10**24, "1" + ",000" * 8), ("not a number", "not a number"), (1e-300, "1.00e-300")],
)  # fmt: skip
def test_numbers_are_short(value, shown):
    assert words.number(value) == shown


def test_json_is_the_services_own_document_with_all_rows_in_one(alloc, told):
    told(page([POOL], "c", last=False), page([{**POOL, "slug": "ü"}], None, last=True))
    assert json.loads(alloc("pools", "--json").stdout) == {
        "results": [POOL, {**POOL, "slug": "ü"}],
        "next": None,
    }
    told(page([], None, last=True))
    assert json.loads(alloc("pools", "--json").stdout) == {"results": [], "next": None}
    rows = [row("a", 1), row("b", 2)]
    told(decision(3), page(rows, None, last=True))
    document = json.loads(alloc("decision", "lab", "--json").stdout)
    assert (document["decision"], document["allocations"]["results"]) == (decision(3)[2], rows)


def test_colours_are_for_terminals_that_want_them(told):
    import pty

    def printed(**env):
        told(POOLS)
        ours, theirs = pty.openpty()
        with pytest.MonkeyPatch.context() as patch:
            for name, value in env.items():
                patch.setenv(name, value)
            with process("pools", stdout=theirs) as done:
                os.close(theirs)
                done.wait(timeout=10)
        text = os.read(ours, 10_000).decode()
        os.close(ours)
        return text

    assert "\x1b[1m" in printed(TERM="xterm")
    assert "\x1b" not in printed(TERM="xterm", NO_COLOR="1")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_its_completion(alloc, shell):
    done = alloc("completion", shell)
    assert (done.exit_code, "_ALLOC_COMPLETE" in done.stdout) == (0, True)


def test_pools_are_completed_and_nothing_is_said_when_they_cannot_be(alloc, told):
    told(page([POOL, {**POOL, "slug": "campus"}], None, last=True), HTML)
    words = {"_ALLOC_COMPLETE": "bash_complete", "COMP_WORDS": "alloc share l", "COMP_CWORD": "2"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in words.items():
            patch.setenv(name, value)
        for expected in ("plain,lab\n", "\n"):
            with process() as completing:
                assert completing.communicate(timeout=10) == (expected, "")
