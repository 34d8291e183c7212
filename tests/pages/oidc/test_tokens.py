"""A token that the provider did not make for this service signs nobody in."""

import json
import time
from base64 import urlsafe_b64encode

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from tests.pages.oidc.visits import come, grant, refused
from tests.pages.provider import CLIENT, DISCOVERY

pytestmark = pytest.mark.django_db


def unsigned(claims):
    parts = ({"alg": "none"}, claims)
    encoded = [urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*encoded, ""])


def seconds(**changes):
    return lambda claims: {**claims, **{name: time.time() + at for name, at in changes.items()}}


FORGED = {
    "another audience": {"claims": lambda c: {**c, "aud": "another"}},
    "another audience, made for us": {"claims": lambda c: {**c, "aud": "another", "azp": CLIENT}},
    "several audiences, for another": {
        "claims": lambda c: {**c, "aud": [CLIENT, "another"], "azp": "another"}
    },
    "no audience": {"claims": lambda c: {n: v for n, v in c.items() if n != "aud"}},
    "another issuer": {"claims": lambda c: {**c, "iss": "https://evil.example"}},
    "no issuer": {"claims": lambda c: {n: v for n, v in c.items() if n != "iss"}},
    "another nonce": {"claims": lambda c: {**c, "nonce": "mine"}},
    "no nonce": {"claims": lambda c: {n: v for n, v in c.items() if n != "nonce"}},
    "expired": {"claims": seconds(exp=-90)},
    "no end": {"claims": lambda c: {n: v for n, v in c.items() if n != "exp"}},
    "from the future": {"claims": seconds(iat=600, nbf=600)},
    "no subject": {"claims": lambda c: {n: v for n, v in c.items() if n != "sub"}},
    "an empty subject": {"claims": lambda c: {**c, "sub": ""}},
    "a subject that is a number": {"claims": lambda c: {**c, "sub": 7}},
    "a subject with NUL": {"claims": lambda c: {**c, "sub": "a\0b"}},
    "a subject of half a pair": {"claims": lambda c: {**c, "sub": "a\ud800"}},
    "a long subject": {"claims": lambda c: {**c, "sub": "a" * 256}},
    "unsigned": {"token_of": unsigned},
    "signed with the client's secret": {
        "token_of": lambda c: jwt.encode(
            {"alg": "HS256"}, c, OctKey.import_key("secret words"), algorithms=["HS256"]
        )
    },
    "no token": {"token_of": lambda _: ""},
    "no token at all": {"token_of": lambda _: "a.b.c"},
}


@pytest.mark.parametrize("forgery", FORGED)
def test_a_forged_token_signs_nobody_in(provider, ada, forgery):
    grant("biology", ada)
    for name, change in FORGED[forgery].items():
        setattr(provider, name, change)
    _, answer = come(provider, "ada-1", groups=["operators", "biology"])
    assert answer.status_code in (403, 503)
    refused(answer, answer.status_code, "Sign in again")


def test_a_token_signed_by_another_key_signs_nobody_in(provider, ada):
    grant("biology", ada)
    other = RSAKey.generate_key(2048)
    for kid in ("first", "second"):
        provider.token_of = lambda claims, kid=kid: provider.signed(claims, key=other, kid=kid)
        _, answer = come(provider, "ada-1", groups=["biology"])
        refused(answer, 403, "could not be verified")


def test_the_control_the_same_token_unforged_is_taken(provider, ada):
    grant("biology", ada)
    provider.claims = lambda claims: {**claims, "aud": [CLIENT, "another"], "azp": CLIENT}
    _, answer = come(provider, "ada-1", groups=["biology"])
    assert answer.status_code == 302
    provider.claims = seconds(exp=-30)  # a clock that is half a minute ahead is forgiven
    _, answer = come(provider, "ada-1", groups=["biology"])
    assert answer.status_code == 302


def test_a_provider_may_replace_its_keys(provider, ada):
    grant("biology", ada)
    come(provider, "ada-1", groups=["biology"])
    before, provider.key = provider.key, RSAKey.generate_key(2048, {"kid": "second"})
    provider.token_of = lambda claims: provider.signed(claims, kid="second")
    _, answer = come(provider, "ada-1", groups=["biology"])
    provider.key = before
    assert answer.status_code == 302


def test_what_a_provider_says_of_itself_sets_no_option_of_the_client(provider, ada):
    grant("biology", ada)
    odd = {
        "verify": False,
        "client_id": "x",
        "proxies": {"http": "http://localhost:1"},
        "scope": "y",
    }
    algorithms = {"id_token_signing_alg_values_supported": ["none", "HS256", "RS256"]}
    provider.answers[DISCOVERY] = lambda told: {**told, **odd, **algorithms}
    _, answer = come(provider, "ada-1", groups=["biology"])
    assert answer.status_code == 302
    provider.token_of = unsigned
    _, answer = come(provider, "ada-1", groups=["biology"])
    assert answer.status_code == 403
