"""A provider that runs, and the service configured to ask it."""

import dataclasses

import pytest
from django.contrib.auth.models import Group, Permission

from allocator_service.core.roles import AUDITORS, OPERATORS
from tests import factories
from tests.pages.provider import providing


@pytest.fixture(scope="package")
def running():
    with providing() as provider:
        yield provider


@pytest.fixture
def provider(running, settings):
    """The provider, as the service is configured to ask it; the admin's groups are there."""
    running.reset()
    settings.ENVIRONMENT = dataclasses.replace(settings.ENVIRONMENT, oidc=running.settings())
    for role, codename in ((OPERATORS, "add_pool"), (AUDITORS, "view_pool")):
        group, _ = Group.objects.get_or_create(name=role)
        group.permissions.add(Permission.objects.get(codename=codename))
    return running


@pytest.fixture
def ada(db):
    return factories.tenant("ada")
