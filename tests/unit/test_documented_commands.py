"""Every block of commands on a page is run by a test, or says above it why not, and all are shell.

A page's session is run as a whole by the test named here, in the order of the page: what is added to it
is run with it.
"""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

from devtools.cli import COMMANDS, serve_options
from launcher.folders import PROJECT
from launcher.serve import counts_of
from tests.guides import Block, blocks_of

PAGES = sorted(
    path.relative_to(PROJECT).as_posix()
    for path in (
        PROJECT / "README.md",
        PROJECT / "agent" / "README.md",
        PROJECT / "client" / "README.md",
        *(PROJECT / "docs").rglob("*.md"),
    )
)
READING = "tests/live/test_reading_order.py"
RUN_BY = {
    "README.md": READING,
    "docs/enforcement.md": READING,
    "docs/guides/tenants.md": READING,
    "docs/guides/why.md": READING,
    "docs/guides/backtests.md": "tests/live/test_backtests.py",
    "docs/guides/billing.md": "tests/live/test_billing_guide.py",
    "docs/chain.md": "tests/live/test_billing_guide.py",
    "docs/tutorial.md": "tests/live/test_tutorial.py",
    "docs/guides/command-line-client.md": "tests/live/test_command_line_guide.py",
    "docs/guides/coming-from.md": "tests/live/test_coming_from_guide.py",
    "docs/guides/groups.md": "tests/live/test_groups_guide.py",
    "docs/guides/kubernetes.md": "tests/unit/deploy/test_chart_guide.py",
    "docs/guides/kueue.md": "tests/live/test_kueue_guide.py",
    "docs/guides/slurm.md": "tests/slurm/test_guide.py",
    "docs/guides/webhooks.md": "tests/live/test_webhooks.py",
    "docs/policies/command-line.md": "tests/unit/policies/test_command_line.py",
}
# What a page's test runs of it; the other language needs a note.
CONSOLE = {"docs/guides/command-line-client.md", "docs/policies/command-line.md"}
_FENCE = re.compile(r"^ *```(?:sh|console|bash|shell)$", re.MULTILINE)
_OWN = re.compile(r"(?:(manage\.py)|(\./dev)) (\w+)([^|;&)\n]*)")


def blocks(page: str) -> list[Block]:
    return blocks_of((PROJECT / page).read_text())


def commands(block: Block) -> str:
    """What is typed, without what is printed and without comments."""
    text = block.text.replace("\\\n", " ")
    if block.language == "console":
        text = "\n".join(line[2:] for line in text.splitlines() if line.startswith(("$ ", "# ")))
    return re.sub(r"(?m)(?<=\s)# .*$", "", text)


def unaccounted(page: str, found: list[Block]) -> list[str]:
    """The blocks that neither run with their page nor say why they do not."""
    wrong = []
    for block in found:
        where = f"{page}:{block.line}"
        runs = block.language == ("console" if page in CONSOLE else "sh")
        if not block.note and not (page in RUN_BY and runs):
            wrong.append(f"{where}: no test runs it, and no comment above it says why")
        if block.note == "not run" and len(block.told.split()) < 4:
            wrong.append(f"{where}: a reason has more words")
        if block.note == "run by" and not _runs(block):
            wrong.append(f"{where}: {block.told} does not run it")
    return wrong


def _runs(block: Block) -> bool:
    """Whether the test that a note names knows the first program, or the command of ours."""
    test = PROJECT / block.told
    own = _OWN.search(commands(block))
    words = commands(block).split()
    wanted = {own[3]} if own else {"pg_restore", "install.sh", "compare", "archive_lines.py"} & {
        Path(word).name for word in words
    }  # fmt: skip
    return test.is_file() and bool(wanted) and all(word in test.read_text() for word in wanted)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_run_or_says_why_not(page):
    found = blocks(page)
    assert len(found) == len(_FENCE.findall((PROJECT / page).read_text())), "an indented block"
    assert unaccounted(page, found) == []


@pytest.mark.parametrize(("page", "test"), RUN_BY.items())
def test_the_test_of_a_page_reads_it(page, test):
    assert Path(page).name in (PROJECT / test).read_text()
    assert any(not block.note for block in blocks(page)), "nothing is left to run"


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_shell(page):
    for block in blocks(page):
        text = commands(block).replace("...", "x")
        done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), f"{page}:{block.line}"


def own_commands() -> list[tuple[str, str, str, list[str]]]:
    return [
        (f"{page}:{block.line}", "dev" if found[2] else "manage", found[3], _words(found[4]))
        for page in PAGES
        for block in blocks(page)
        for found in _OWN.finditer(commands(block))
    ]


def _words(text: str) -> list[str]:
    """The arguments, without where input comes from and output goes."""
    return shlex.split(re.sub(r"\d?[<>]+ *\S+", "", text))


@pytest.mark.parametrize(("where", "program", "name", "arguments"), own_commands())
def test_our_own_commands_have_these_options(where, program, name, arguments):
    if program == "dev" and name == "manage":
        program, (name, *arguments) = "manage", arguments
    if program == "dev":
        assert name in COMMANDS, where
        assert name != "serve" or counts_of(serve_options(arguments)) is not None, where
        return
    parser = load_command_class(get_commands()[name], name).create_parser("manage.py", name)
    parser.parse_args(arguments)


def test_a_new_block_that_nobody_runs_is_found():
    page = "docs/new.md"
    (wrong,) = unaccounted(page, blocks_of("Do this:\n\n```sh\nrm file\n```\n"))
    assert wrong.startswith("docs/new.md:3: no test runs it")
    short = blocks_of("<!-- not run: slow -->\n```sh\nrm file\n```\n")
    assert "a reason has more words" in unaccounted(page, short)[0]
    nowhere = blocks_of("<!-- run by: tests/none.py -->\n```sh\nmanage.py verify\n```\n")
    assert "does not run it" in unaccounted(page, nowhere)[0]
    other = blocks_of("```console\n$ rm file\n```\n")
    assert len(unaccounted("docs/guides/tenants.md", other)) == 1
    said = blocks_of("<!-- not run: it is for another machine -->\n```sh\nrm file\n```\n")
    assert unaccounted(page, said) == []
