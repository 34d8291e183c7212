"""What `./dev` answers to its arguments, and how it says that something failed."""

import stat
import subprocess
import sys

import pytest

from devtools import cli
from launcher import serve
from launcher.accounts import server_account
from launcher.console import StepFailed, last_lines
from launcher.folders import PROJECT, DataFolder, published_state


def dev(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, PROJECT / "dev", *arguments], capture_output=True, text=True
    )


def test_without_a_command_it_lists_them():
    done = dev()
    assert done.returncode == 2
    for name in (
        "demo [--exit]",
        "test [--thorough | PYTEST ARGUMENTS]",
        "serve",
        "manage COMMAND",
        "check",
    ):
        assert f"./dev {name}" in done.stdout


def test_an_unknown_command_is_refused_with_the_list():
    done = dev("deom")
    assert done.returncode == 2
    assert "no command 'deom'" in done.stderr
    assert "./dev demo" in done.stderr


@pytest.mark.parametrize("arguments", [("serve", "8000"), ("demo", "--quick"), ("check", "all")])
def test_arguments_that_mean_nothing_are_refused(arguments):
    done = dev(*arguments)
    assert done.returncode == 2
    assert f"mean nothing here: {arguments[1]}" in done.stderr


@pytest.mark.parametrize("arguments", [[], ["--thorough"], ["--durations=20", "--maxfail=1"]])
def test_options_alone_run_the_whole_suite_on_both_cores(arguments):
    whole = cli.pytest_arguments(arguments)
    assert whole[:4] == ["-n", "3", "--dist", "loadfile"]
    assert whole[-len(arguments) :] == arguments or not arguments


@pytest.mark.parametrize(
    "arguments", [["tests/packages"], ["-n", "0"], ["--thorough", "tests/api"]]
)
def test_a_test_or_a_number_of_workers_that_is_named_is_all_that_pytest_is_given(arguments):
    assert cli.pytest_arguments(arguments) == arguments


def test_a_failed_step_is_told_with_its_log_and_what_to_do(tmp_path, monkeypatch, capsys):
    log = tmp_path / "install.log"
    log.write_text("\n".join(f"line {number}" for number in range(40)))

    def fail(_arguments):
        raise StepFailed("install the packages", "check the network", log=log)

    monkeypatch.setitem(cli.COMMANDS, "check", cli.Command("check", "", fail))
    assert cli.main(["check"]) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "This step failed: install the packages"
    assert told[1] == f"The last lines of {log}:"
    assert told[2:17] == [f"    line {number}" for number in range(25, 40)]
    assert told[17] == "What to do: check the network"


def test_a_log_that_does_not_exist_has_no_lines(tmp_path):
    assert last_lines(tmp_path / "none.log") == []


@pytest.mark.parametrize("port", ["http", "70000", "-1", ""])
def test_a_port_that_is_no_port_is_refused(port, monkeypatch):
    monkeypatch.setenv("PORT", port)
    with pytest.raises(StepFailed, match="read PORT"):
        serve._port()


@pytest.mark.usefixtures("state_home")
def test_a_second_serve_on_the_same_data_is_told_where_the_first_one_is():
    first = serve._take_folder()
    first.publish({"url": "http://127.0.0.1:8000"})
    with pytest.raises(StepFailed) as failure:
        serve._take_folder()
    assert "another ./dev serve runs on it, at http://127.0.0.1:8000" in failure.value.advice
    first.release()
    serve._take_folder().release()


@pytest.mark.usefixtures("state_home")
def test_serve_waits_for_a_command_that_runs_the_servers_for_itself(monkeypatch):
    monkeypatch.setattr(serve, "_PATIENCE_SECONDS", 0.3)
    command = serve._take_folder()
    command.publish({"DATABASE_URL": "postgresql://a@b/c"})
    with pytest.raises(StepFailed, match="take the data"):
        serve._take_folder()
    command.release()


def test_the_secret_of_a_data_folder_is_its_own_and_stays(tmp_path):
    account = server_account()
    one, other = DataFolder(tmp_path / "one", account), DataFolder(tmp_path / "other", account)
    secret = one.secret()
    assert len(secret) > 50
    assert other.secret() != secret
    one.release()
    again = DataFolder(tmp_path / "one", account)
    assert again.secret() == secret
    for folder in (again, other):
        folder.release()
    assert stat.S_IMODE((tmp_path / "one" / "secret").stat().st_mode) == 0o600


def test_logs_are_closed_to_other_accounts(tmp_path):
    """Statements in PostgreSQL's log hold what clients sent. An older folder is closed, too."""
    (tmp_path / "data" / "logs").mkdir(parents=True, mode=0o755)
    folder = DataFolder(tmp_path / "data", server_account())
    assert stat.S_IMODE(folder.logs.stat().st_mode) == 0o700
    folder.release()


def test_what_is_published_ends_with_its_publisher(tmp_path):
    folder = DataFolder(tmp_path / "data", server_account())
    folder.publish({"url": "http://127.0.0.1:1"})
    assert published_state(folder.path) == {"url": "http://127.0.0.1:1"}
    folder.release()
    assert published_state(folder.path) is None


def test_what_a_killed_publisher_left_is_not_believed(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "state.json").write_text('{"url": "http://127.0.0.1:1"}')
    folder = DataFolder(tmp_path / "data", server_account())
    assert published_state(folder.path) is None
    folder.release()
