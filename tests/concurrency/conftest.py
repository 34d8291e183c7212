"""Fixtures of the integration tests, for tests of many at once."""

from tests.integration.conftest import fig2, now, pool, tenant

__all__ = ["fig2", "now", "pool", "tenant"]
