"""The arguments of `./dev bench`, which runs each benchmark on servers of its own."""

import pytest

from devtools.bench import _divided


@pytest.mark.parametrize(
    ("arguments", "names", "options"),
    [
        ([], [], []),
        (["idle", "intake"], ["idle", "intake"], []),
        (["--quick", "idle", "--json", "rows.json"], ["idle"], ["--quick", "--json=rows.json"]),
        (["--json=rows.json", "--quick"], [], ["--quick", "--json=rows.json"]),
        (["--help"], [], ["--help"]),
    ],
)
def test_names_are_told_from_options(arguments, names, options):
    assert _divided(arguments) == (names, options)
