"""The command `manage.py apikey create | list | revoke | rotate`.

Only the key goes to standard output.
"""

from argparse import ArgumentParser
from datetime import datetime
from typing import Any, NoReturn
from zoneinfo import ZoneInfo

from django.core.management.base import BaseCommand, CommandError

from allocator_service.core.clock import utc_now
from allocator_service.core.durations import parse_duration
from allocator_service.core.errors import DomainError
from allocator_service.pools.models import Group, Pool
from allocator_service.pools.selectors import groups_of, pool_get
from allocator_service.tenants.models import Access, ApiKey, Scope
from allocator_service.tenants.selectors import tenant_get
from allocator_service.tenants.services import api_key_create, api_key_revoke, api_key_rotate

_TIME = "%Y-%m-%dT%H:%M:%SZ"


class Command(BaseCommand):
    help = "Issue, list, revoke and rotate API keys."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create", help="print a new key, once")
        create.add_argument("--scope", required=True, choices=Scope.values)
        create.add_argument("--name", required=True)
        create.add_argument("--tenant", metavar="SLUG", help="whose key it is: scope tenant")
        create.add_argument(
            "--pool",
            metavar="SLUG",
            help="the one pool that it sees: scopes agent, group, operator, billing",
        )
        create.add_argument("--group", metavar="SLUG", help="the pool's group: scope group")
        create.add_argument(
            "--access",
            choices=Access.values,
            default=Access.MANAGE.value,
            help="of scope group: change weights below the group, or only read",
        )
        create.add_argument("--cluster", metavar="NAME", help="the pool's cluster: scope agent")
        create.add_argument("--expires", default="P1Y", metavar="P90D")
        actions.add_parser("list", help="list the keys")
        revoke = actions.add_parser("revoke", help="revoke the keys of a name or a prefix")
        revoke.add_argument("identifier", metavar="NAME|PREFIX")
        rotate = actions.add_parser(
            "rotate", help="print a successor; both work until one is revoked"
        )
        rotate.add_argument("name")
        rotate.add_argument("--expires", default="P1Y", metavar="P90D")

    def handle(self, *_: Any, **options: Any) -> None:
        now = utc_now()
        try:
            getattr(self, f"_{options['action']}")(options, now)
        except DomainError as error:
            _refuse(error.detail)
        except UnicodeEncodeError:  # Python keeps other bytes of an argument as surrogates
            _refuse("Expected arguments in UTF-8.")

    def _create(self, options: dict[str, Any], now: datetime) -> None:
        for name in ("tenant", "pool", "group", "cluster"):
            # A shell variable that is not set would issue a key that is bound to less.
            if options[name] == "":
                _refuse(f"--{name}: expected a name, got an empty text.")
        tenant = tenant_get(slug=options["tenant"]) if options["tenant"] else None
        pool = pool_get(slug=options["pool"], tenant=None) if options["pool"] else None
        issued = api_key_create(
            scope=options["scope"],
            name=options["name"],
            tenant=tenant,
            pool=pool.slug if pool else "",
            group=_group(pool, options["group"]),
            access=options["access"],
            cluster=options["cluster"] or "",
            expires_at=_expiry(options, now),
            now=now,
        )
        self.stdout.write(issued.text)

    def _rotate(self, options: dict[str, Any], now: datetime) -> None:
        issued = api_key_rotate(name=options["name"], expires_at=_expiry(options, now), now=now)
        self.stdout.write(issued.text)

    def _revoke(self, options: dict[str, Any], now: datetime) -> None:
        revoked = api_key_revoke(identifier=options["identifier"], now=now)
        if not revoked:
            _refuse(f"No live key has the name or prefix {options['identifier']}.")
        self.stderr.write(f"{revoked} revoked")

    def _list(self, options: dict[str, Any], now: datetime) -> None:  # noqa: ARG002
        groups = dict(Group.objects.values_list("pk", "slug"))
        for key in ApiKey.objects.select_related("tenant").order_by("name", "pk"):
            state = "revoked" if key.revoked_at else "expired" if key.expires_at <= now else "live"
            bound = key.pool or (key.tenant.slug if key.tenant else "-")
            if key.group is not None:
                bound = f"{bound}/{groups.get(key.group, '?')}"
                bound += " (read)" * (key.access == Access.READ)
            bound += f" (cluster {key.cluster})" if key.cluster else ""
            used = f"used {key.last_used_at:{_TIME}}" if key.last_used_at else "never used"
            self.stdout.write(
                f"{key.prefix}…\t{key.name}\t{key.scope}\t{bound}\t{state}"
                f"\t{key.expires_at:{_TIME}}\t{used}"
            )


def _group(pool: Pool | None, slug: str | None) -> int | None:
    """Return the primary key of a present group of the pool."""
    if slug is None:
        return None
    if pool is None:
        _refuse("--group needs the --pool of the group.")
    found = groups_of(pool=pool).filter(slug=slug).first()
    if found is None:
        _refuse(f"The pool {pool.slug} has no group {slug}.")
    return found.pk


def _expiry(options: dict[str, Any], now: datetime) -> datetime:
    return parse_duration(options["expires"]).after(now, ZoneInfo("UTC"))


def _refuse(detail: str) -> NoReturn:
    raise CommandError(detail, returncode=2)
