"""The client of the OpenID Connect provider.

authlib speaks the protocol (discovery, PKCE, state, nonce) and joserfc reads the tokens. Issuer,
audience and algorithms are decided here, not by the metadata of the provider. Nothing of the provider is
kept between two sign-ins, so that a key that it replaces counts no longer.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import BoundedSemaphore
from typing import Any, Final

import structlog
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.django_client import DjangoOAuth2App, OAuth, OAuthError
from authlib.integrations.requests_client import OAuth2Session
from django.http import HttpRequest
from joserfc.errors import JoseError
from requests import RequestException, Response

from allocator_service.settings.environment import OidcProvider
from allocator_service.tenants.models import CLAIM_LENGTH
from allocator_service.tenants.people import Identity
from policies.fields import is_one_line

# Only those in which the provider alone can sign: no "none", and nothing made with the client's secret.
ALGORITHMS: Final = (
    "RS256", "ES256", "PS256", "RS384", "ES384", "PS384", "RS512", "ES512", "PS512", "EdDSA",
)  # fmt: skip
# By which the clocks of the provider and of this service may differ.
LEEWAY = timedelta(minutes=1)
BEGUN_WITHIN = timedelta(minutes=15)
MAX_GROUPS = 1_000
NAME_LENGTH = 150
_CONNECT_SECONDS, _READ_SECONDS = 3, 5
# A provider that hangs holds two of a process' four threads, and no more.
_AT_ONCE = BoundedSemaphore(2)
_STATE = "_state_oidc_"

log = structlog.get_logger(__name__)


class SignInFailed(Exception):
    """A sign-in that failed. The text is for logs."""


class NotBegun(SignInFailed):
    """An answer that belongs to no sign-in of this browser.

    It is another browser's, an old one, or was used before.
    """


class Declined(SignInFailed):
    """A refusal of the person by the provider."""


class Unreachable(SignInFailed):
    """A provider that is down, slow, or answers what cannot be read."""


class Unproven(SignInFailed):
    """An answer of the provider that does not prove the person to this service."""


@dataclass(frozen=True)
class ProvenPerson:
    """A person whom the provider has proven, and the page that the person asked for."""

    identity: Identity
    next_page: str


class _Session(OAuth2Session):
    """A session that never waits for long and follows no redirect, so that secrets stay here."""

    def request(self, method: str, url: str, **options: Any) -> Response:
        options.setdefault("timeout", (_CONNECT_SECONDS, _READ_SECONDS))
        options.setdefault("allow_redirects", False)
        answer: Response = super().request(method, url, **options)
        if answer.is_redirect:
            raise RequestException(f"{url} redirects")
        return answer


class _App(DjangoOAuth2App):
    client_cls = _Session


def begin(
    request: HttpRequest, *, provider: OidcProvider, back_to: str, next_page: str, now: datetime
) -> str:
    """Return the address of the provider's page, and store in the session how its answer is judged.

    Raises `Unreachable`.
    """
    with _talking():
        app = _app(provider)
        asked = app.create_authorization_url(back_to)
    for name in [name for name in list(request.session.keys()) if name.startswith(_STATE)]:
        del request.session[name]  # the newest sign-in of a browser counts
    app.save_authorize_data(
        request, redirect_uri=back_to, wanted=next_page, begun=now.isoformat(), **asked
    )
    return str(asked["url"])


def finish(request: HttpRequest, *, provider: OidcProvider, now: datetime) -> ProvenPerson:
    """Return the person of the provider's answer. Raises a `SignInFailed`."""
    state = request.GET.get("state", "")
    begun = _begun(request, state)
    if begun is None or now - datetime.fromisoformat(begun["begun"]) > BEGUN_WITHIN:
        raise NotBegun("no sign-in was begun with this state, or it took too long")
    if "error" in request.GET:
        # An answer counts once, also a refusal.
        request.session.pop(f"{_STATE}{state}")
        raise Declined(request.GET["error"][:CLAIM_LENGTH])
    with _talking():
        app = _app(provider)
        with _proving():
            token = app.authorize_access_token(
                request,
                claims_options={
                    "iss": {"essential": True, "value": provider.issuer},
                    "aud": {"essential": True, "value": provider.client_id},
                    "sub": {"essential": True},
                    "exp": {"essential": True},
                },
                leeway=LEEWAY.total_seconds(),
            )
            if "userinfo" not in token:
                raise Unproven("the answer has no ID token")
        claims: dict[str, Any] = dict(token["userinfo"])
        if _claim(claims, provider.groups_claim) is None and app.server_metadata.get(
            "userinfo_endpoint"
        ):
            user_info = app.userinfo(token=token)
            # OpenID Connect Core §5.3.2: user info of another subject must not be used.
            if user_info.get("sub") != claims["sub"]:
                raise Unproven("the user info is about another person")
            # The ID token is signed, and wins over the user info where both have a claim.
            claims = {**user_info, **claims}
    return ProvenPerson(_identity(claims, provider), str(begun["wanted"]))


def end_address(*, provider: OidcProvider, back_to: str) -> str | None:
    """Return the provider's page for signing out, if it has one. Raises `Unreachable`."""
    with _talking():
        app = _app(provider)
        if not app.server_metadata.get("end_session_endpoint"):
            return None
        asked = app.create_logout_url(
            post_logout_redirect_uri=back_to, client_id=provider.client_id
        )
        return str(asked["url"])


def _begun(request: HttpRequest, state: str) -> Mapping[str, Any] | None:
    stored = request.session.get(f"{_STATE}{state}")
    return None if stored is None else stored["data"]


def _app(provider: OidcProvider) -> Any:
    """Return the client, with the part of the provider's metadata that is trusted."""
    app = OAuth().register(
        "oidc",
        client_cls=_App,
        client_id=provider.client_id,
        client_secret=provider.client_secret,
        server_metadata_url=f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration",
        client_kwargs={"scope": " ".join(provider.scopes), "code_challenge_method": "S256"},
    )
    metadata = dict(app.load_server_metadata())
    # OpenID Connect Discovery §4.3: metadata of another issuer is that of an impostor or a mistake.
    if metadata.get("issuer") != provider.issuer:
        raise ValueError(f"the metadata is of the issuer {metadata.get('issuer')!r}")
    scheme = f"{provider.issuer.partition(':')[0]}://"
    for name, needed in _ENDPOINTS.items():
        address = metadata.get(name)
        # By http only where the issuer is too, as in development: codes and secrets go to these
        # addresses.
        if (address is None and needed) or (
            address is not None and not str(address).startswith(("https://", scheme))
        ):
            raise ValueError(f"{name} is {address!r}")
    offered = metadata.get("id_token_signing_alg_values_supported") or ALGORITHMS
    methods = metadata.get("token_endpoint_auth_methods_supported") or [_BASIC]
    app.client_kwargs["token_endpoint_auth_method"] = (
        # Basic is the protocol's default, also for a provider that offers neither of the two.
        _BASIC if _BASIC in methods or _POST not in methods else _POST
    )
    # All else stays out: authlib would take it for options of its own. Keys are asked for each time.
    app.server_metadata = {
        **{name: metadata.get(name) for name in ("issuer", "_loaded_at", *_ENDPOINTS)},
        "id_token_signing_alg_values_supported": [each for each in ALGORITHMS if each in offered],
    }
    return app


_BASIC, _POST = "client_secret_basic", "client_secret_post"
_ENDPOINTS: Mapping[str, bool] = {
    "authorization_endpoint": True,
    "token_endpoint": True,
    "jwks_uri": True,
    "userinfo_endpoint": False,
    "end_session_endpoint": False,
}


@contextmanager
def _talking() -> Iterator[None]:
    """Request from the provider. Every answer that cannot be read is one failure."""
    if not _AT_ONCE.acquire(blocking=False):
        raise Unreachable("the provider is being waited for already")
    try:
        yield
    except SignInFailed:
        raise
    except (
        RequestException, AuthlibBaseError, JoseError, ValueError, TypeError, KeyError, AttributeError,
        RuntimeError,
    ) as error:  # fmt: skip
        raise Unreachable(f"{type(error).__name__}: {error}") from error
    finally:
        _AT_ONCE.release()


@contextmanager
def _proving() -> Iterator[None]:
    """Raise `Unproven` for what the provider refused or did not prove."""
    try:
        yield
    except (OAuthError, JoseError) as error:
        raise Unproven(f"{type(error).__name__}: {error}") from error


def _identity(claims: Mapping[str, Any], provider: OidcProvider) -> Identity:
    subject = claims["sub"]
    if not _is_name(subject):
        raise Unproven("the subject is no text of 1 to 255 characters")
    # Which of the names are sent depends on provider and scopes. The subject is always there.
    names = (claims.get("name"), claims.get("preferred_username"), subject)
    return Identity(
        issuer=provider.issuer,
        subject=subject,
        name=next(str(each).strip() for each in names if _is_name(each))[:NAME_LENGTH],
        groups=_groups(_claim(claims, provider.groups_claim)),
    )


def _groups(claim: Any) -> Sequence[str]:
    """Return the groups in the claim, without values that cannot be names."""
    # Providers write a single group as a text, too.
    listed = claim if isinstance(claim, list) else [] if claim is None else [claim]
    groups = list(dict.fromkeys(filter(_is_name, listed)))
    if len(groups) > MAX_GROUPS or not all(map(_is_name, listed)):
        log.warning("oidc_groups_not_read", given=len(listed), read=min(len(groups), MAX_GROUPS))
    return groups[:MAX_GROUPS]


def _is_name(value: object) -> bool:
    """Return True if the value is a text that can be stored and shown on one line."""
    return (
        isinstance(value, str)
        and 0 < len(value.strip()) <= len(value) <= CLAIM_LENGTH
        and is_one_line(value.strip())
        and not any("\ud800" <= character <= "\udfff" for character in value)
    )


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """The claim of this name, or what the names between its dots lead to."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found
