"""`alloc login`: where keys are kept, and what they are used for."""

import stat

import pytest

from tests.client.answers import LOGIN, POOLS, ROOT
from tests.client.test_transport import HTML, JSON, refusal


def test_a_key_is_checked_and_kept_where_nobody_else_reads_it(alloc, scripted, home):
    service = scripted(*LOGIN, POOLS)
    done = alloc("login", service.url + "/api/v1/", typed="alloc_secret\n")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "as physics. Pools: lab." in done.stdout
    assert "alloc_secret" not in done.output
    kept = home / "config" / "allocator" / "profiles.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert list(kept.parent.iterdir()) == [kept]
    assert alloc("pools").exit_code == 0
    assert service.asked[0][2].get("Authorization") is None  # before it is known to be the service
    assert service.asked[-1][2]["Authorization"] == "Bearer alloc_secret"


def test_two_profiles_go_each_to_its_own_service(alloc, scripted):
    one, two = scripted(*LOGIN, POOLS), scripted(*LOGIN, POOLS)
    alloc("login", one.url, typed="key-1")
    alloc("login", two.url, "--profile", "two", typed="key-2")
    assert alloc("pools").exit_code == 0
    assert alloc("pools", ALLOC_PROFILE="two").exit_code == 0
    keys = [service.asked[-1][2]["Authorization"] for service in (one, two)]
    assert keys == ["Bearer key-1", "Bearer key-2"]
    assert alloc("logout", "--profile", "two").exit_code == 0
    assert (alloc("pools", "--profile", "two").exit_code, len(two.asked)) == (2, 4)


@pytest.mark.parametrize(
    ("answers", "code"),
    [((ROOT, refusal(401, "auth.invalid")), 2), ((HTML,), 3), (((200, JSON, {"ok": True}),), 3)],
)
def test_a_login_that_fails_keeps_nothing(alloc, scripted, home, answers, code):
    done = alloc("login", scripted(*answers).url, typed="wrong")
    assert (done.exit_code, done.stdout) == (code, "")
    assert done.stderr.startswith("alloc: ")
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [("login", "http://h", "alloc_secret"), ("login", "--key", "alloc_secret"),
     ("pools", "--key=alloc_secret"), ("verify", "run", "--key", "alloc_secret")],
)  # fmt: skip
def test_a_key_on_the_command_line_is_refused_and_not_repeated(alloc, arguments):
    done = alloc(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "is seen by everybody on this machine" in done.stderr
    assert "alloc_secret" not in done.output


def test_a_new_key_needs_no_new_address_and_is_never_taken_for_one(alloc, scripted):
    service = scripted(*LOGIN, *LOGIN)
    unknown = alloc("login", typed="alloc_secret")
    assert (unknown.exit_code, "alloc_secret" in unknown.output) == (2, False)
    alloc("login", service.url, typed="alloc_secret")
    again = alloc("login", typed="alloc_new")
    assert (again.exit_code, service.asked[-1][2]["Authorization"]) == (0, "Bearer alloc_new")


def test_a_profiles_key_goes_to_no_other_address(alloc, scripted):
    service, other = scripted(*LOGIN), scripted()
    alloc("login", service.url, typed="key-1")
    done = alloc("pools", ALLOC_URL=other.url)
    assert (done.exit_code, other.asked) == (2, [])
    assert "set ALLOC_KEY too" in done.stderr


def test_keys_that_others_can_read_are_not_used(alloc, scripted, home):
    service = scripted(*LOGIN)
    alloc("login", service.url, typed="key-1")
    kept = home / "config" / "allocator" / "profiles.json"
    kept.chmod(0o644)
    done = alloc("pools")
    assert (done.exit_code, len(service.asked)) == (2, 3)
    assert f"chmod 600 {kept}" in done.stderr


def test_a_damaged_file_is_said_and_not_a_traceback(alloc, home):
    kept = home / "config" / "allocator" / "profiles.json"
    kept.parent.mkdir(parents=True)
    for content in ("{cut", "[]", '{"default": {"url": "http://h"}}', '{"default": 3}'):
        kept.write_text(content)
        kept.chmod(0o600)
        done = alloc("pools")
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
        assert "is damaged: remove it, and log in again" in done.stderr


def test_a_place_that_cannot_be_written_is_said(alloc, scripted):
    done = alloc("login", scripted(*LOGIN).url, typed="key-1", XDG_CONFIG_HOME="/proc/nowhere")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "alloc: /proc/nowhere/allocator/profiles.json cannot be written: "
    )


def test_without_a_key_it_says_how_to_get_one(alloc):
    done = alloc("share")
    assert (done.exit_code, done.stdout) == (2, "")
    assert (
        done.stderr
        == "alloc: No key for this: alloc login https://..., or set ALLOC_URL and ALLOC_KEY.\n"
    )
