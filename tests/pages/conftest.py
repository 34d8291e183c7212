"""What tests of the tenants' pages share."""

import dataclasses
from typing import Any

import pytest

from allocator_service.settings.environment import OidcProvider
from tests.pages.people import ISSUER


@pytest.fixture
def people_sign_in(settings: Any) -> None:
    """A provider is configured, so that people may be signed in."""
    told = OidcProvider(ISSUER, "us", "secret", "ID", ["openid"], "groups", "operators", "auditors")
    settings.ENVIRONMENT = dataclasses.replace(settings.ENVIRONMENT, oidc=told)
