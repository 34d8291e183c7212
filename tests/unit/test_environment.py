"""What the settings take from the environment for signing in by a provider, and what they refuse."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from allocator_service.settings.environment import read_environment

WHOLE = {"ISSUER": "https://id.example/realms/a", "CLIENT_ID": "us", "CLIENT_SECRET": "words"}


@pytest.fixture
def told(monkeypatch):
    """Sets variables of the provider, and reads them."""

    def read(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(f"ALLOCATOR_OIDC_{name}", value)
        return read_environment(secret_key="x").oidc

    return read


def test_without_an_issuer_there_is_no_provider(told):
    assert told(CLIENT_ID="us", CLIENT_SECRET="words") is None
    assert told(ISSUER="") is None


def test_what_is_left_out_has_a_default(told):
    provider = told(**WHOLE)
    assert (provider.issuer, provider.name) == ("https://id.example/realms/a", "id.example")
    assert (provider.scopes, provider.groups_claim) == (["openid", "profile"], "groups")
    assert (provider.operator_group, provider.auditor_group) == ("", "")


def test_openid_is_always_asked_for(told):
    assert told(**WHOLE, SCOPES="groups  openid").scopes == ["openid", "groups"]


def test_the_secret_may_be_in_a_file(told, tmp_path):
    (tmp_path / "secret").write_text("other words\n")
    file = str(tmp_path / "secret")
    assert told(**{**WHOLE, "CLIENT_SECRET": ""}, CLIENT_SECRET_FILE=file).client_secret == (
        "other words"
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ISSUER": "http://id.example"}, "must begin with https://"),
        ({"ISSUER": "id.example"}, "must begin with https://"),
        ({"CLIENT_ID": ""}, "ALLOCATOR_OIDC_CLIENT_ID"),
        ({"CLIENT_SECRET": ""}, "ALLOCATOR_OIDC_CLIENT_SECRET_FILE"),
        ({"CLIENT_SECRET": "", "CLIENT_SECRET_FILE": "/nowhere"}, "No such file"),
    ],
)
def test_half_a_configuration_stops_the_start(told, changes, words):
    with pytest.raises(ImproperlyConfigured, match=words):
        told(**{**WHOLE, **changes})


def test_plain_http_is_for_this_machine_alone(told):
    assert told(**{**WHOLE, "ISSUER": "http://localhost:8080"}) is not None


@pytest.mark.parametrize(("value", "chosen"), [("", None), ("true", True), ("False", False)])
def test_how_placements_are_stored_is_chosen_by_words(monkeypatch, value, chosen):
    monkeypatch.setenv("PLACEMENT_ROWS", value)
    assert read_environment(secret_key="x").placement_rows is chosen


@pytest.mark.parametrize("value", ["ture", "yes", "0", "rows"])
def test_another_word_is_not_taken_for_false(monkeypatch, value):
    monkeypatch.setenv("PLACEMENT_ROWS", value)
    with pytest.raises(ImproperlyConfigured, match=f"PLACEMENT_ROWS is {value}"):
        read_environment(secret_key="x")
