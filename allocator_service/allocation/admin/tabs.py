"""Tabs of a pool's page in the admin, each at an address of its own.

An app registers tabs, as it registers sections of the board. A tab makes a few statements however many
rows the pool has, and asks for a permission.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from allocator_service.pools.models import Pool

NOW = "now"
PERIODS: Mapping[str, str] = {"1": "24 hours", "7": "7 days", "30": "30 days"}
_DEFAULT_PERIOD = "7"


@dataclass(frozen=True)
class TabRequest:
    """A pool's tab with the query of its URL, at an instant."""

    pool: Pool
    query: Mapping[str, str]
    user: Any
    now: datetime

    @property
    def days(self) -> str:
        """Length of the requested period in days. Values that are not offered are ignored."""
        days = self.query.get("days", _DEFAULT_PERIOD)
        return days if days in PERIODS else _DEFAULT_PERIOD

    @property
    def since(self) -> datetime:
        """Beginning of the requested period."""
        return self.now - timedelta(days=int(self.days))

    @property
    def search(self) -> str:
        """Requested part of a name."""
        return self.query.get("q", "").strip()[:200]


Content = Callable[[TabRequest], Mapping[str, Any]]


@dataclass(frozen=True)
class Tab:
    """A tab of a pool's page, whose `content` returns the context of its template."""

    place: int
    name: str
    title: str
    permission: str
    content: Content

    @property
    def template(self) -> str:
        """Path of the template."""
        return f"admin/pools/pool/tabs/{self.name}.html"

    @property
    def route(self) -> str:
        """Path below the pool's address. The first tab is the overview itself."""
        return "overview/" if self.name == NOW else f"overview/{self.name}/"

    @property
    def url_name(self) -> str:
        """Name of the route, with the admin's namespace."""
        return f"admin:{self.local_name}"

    @property
    def local_name(self) -> str:
        """Name of the route within the admin."""
        return "pools_pool_overview" if self.name == NOW else f"pools_pool_tab_{self.name}"


_tabs: dict[str, Tab] = {}


def pool_tab(name: str, title: str, *, permission: str, place: int) -> Callable[[Content], Content]:
    """Register a function as the content of a tab. Tabs are in order of `place`."""

    def register(content: Content) -> Content:
        _tabs[name] = Tab(place, name, title, permission, content)
        return content

    return register


def all_tabs() -> Sequence[Tab]:
    """Return every registered tab in order."""
    return sorted(_tabs.values(), key=lambda tab: tab.place)


def tabs_for(user: Any) -> Sequence[Tab]:
    """Return the tabs that a user of the admin may open, in order."""
    return [tab for tab in all_tabs() if user.has_perm(tab.permission)]
