"""Account of the database servers, because PostgreSQL refuses to run as root.

No account is created, and no folder outside the data folder changes its mode.
"""

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from launcher.console import StepFailed


class PopenIdentity(TypedDict, total=False):
    """Arguments of `subprocess.Popen` for the account that runs a command."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True)
class Account:
    """Account of the servers.

    Ids of `None` mean the account that runs the launcher.
    """

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
        """Try to enter `folder` as this account, and return whether all its parents allow it."""
        return self._succeeds(["/bin/sh", "-c", 'cd -- "$0" && [ -x . ]', str(folder)])

    def may_run(self, program: Path) -> bool:
        """Try to start `program` as this account, and return whether that succeeds."""
        return self._succeeds([str(program), "--version"])

    def _succeeds(self, command: list[str]) -> bool:
        try:
            # From /, since the account may not be able to enter the launcher's own folder.
            done = subprocess.run(command, capture_output=True, cwd="/", **self.identity)
        except PermissionError:
            return False
        return done.returncode == 0


def server_account() -> Account:
    """Return the account for PostgreSQL and Redis.

    It is the launcher's own account, and for root `postgres` or `nobody`. Raises `StepFailed` for root
    on a machine that has neither.
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
