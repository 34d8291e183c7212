"""The command `manage.py export_groups POOL`, for a tree that `import_groups` reads."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from allocator_service.core.errors import DomainError
from allocator_service.imports.tree_export import tree_csv
from allocator_service.pools.selectors import pool_get


class Command(BaseCommand):
    help = "Print the groups and members of a pool as the CSV that import_groups reads."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("pool", metavar="POOL", help="the pool's slug")

    def handle(self, *_: Any, **options: Any) -> None:
        try:
            content = tree_csv(pool_get(slug=options["pool"], tenant=None))
        except DomainError as error:
            raise CommandError(error.detail) from error
        self.stdout.write(content, ending="")
