"""Which account runs the database: PostgreSQL refuses to run as root.

Nothing is added to the machine and no folder outside the data folder changes its mode.
"""

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from launcher.console import StepFailed


class PopenIdentity(TypedDict, total=False):
    """The arguments of `subprocess.Popen` that change who runs a command."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True)
class Account:
    """The account of the servers; `None` ids mean the account that runs the launcher."""

    name: str
    uid: int | None = None
    gid: int | None = None

    @property
    def identity(self) -> PopenIdentity:
        if self.uid is None or self.gid is None:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        """Give `path` to this account."""
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)

    def may_enter(self, folder: Path) -> bool:
        """Whether this account can reach `folder` through all of its parents, found by trying."""
        return self._succeeds(["/bin/sh", "-c", 'cd -- "$0" && [ -x . ]', str(folder)])

    def may_run(self, program: Path) -> bool:
        """Whether this account can start `program`, found by trying."""
        return self._succeeds([str(program), "--version"])

    def _succeeds(self, command: list[str]) -> bool:
        try:
            done = subprocess.run(command, capture_output=True, cwd="/", **self.identity)
        except PermissionError:
            return False
        return done.returncode == 0


def server_account() -> Account:
    """The account for PostgreSQL and Redis: one's own, and as root `postgres` or `nobody`.

    Raises `StepFailed` for root on a machine that has neither.
    """
    if os.geteuid() != 0:
        return Account(name="")
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    raise StepFailed(
        "choose an account for PostgreSQL, which refuses to run as root",
        "run ./dev as a normal user, or add an account named postgres",
    )
