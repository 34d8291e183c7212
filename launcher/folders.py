"""Data folders of the launcher, and their locks.

`.data/serve` is persistent. Folders in `.data/demo` and `.data/test` are created for one use and
removed. The kernel frees a folder's lock when its holder dies, which distinguishes a folder left by a
crash from one in use.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from launcher.accounts import Account, server_account
from launcher.console import StepFailed

PROJECT = Path(__file__).resolve().parent.parent
# A socket's path is at most 107 bytes, of which the longest name in the folder takes 14.
_SOCKET_FOLDER_BYTES = 107 - len("/.s.PGSQL.5432")
_PASSABLE = 0o711


class InUse(Exception):
    """Error of a data folder whose lock another process holds."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder


class DataFolder:
    """A locked folder for the data of one set of servers.

    `sockets` is a folder for their Unix sockets, open to their account only.
    """

    def __init__(self, path: Path, account: Account) -> None:
        """Create `path` and lock it. Raises `InUse` if another process holds it."""
        self.path = path
        self.account = account
        make_passable(path)
        self._lock = _lock_file(path / "lock")
        self._retract()  # a killed holder leaves its state
        _remove_sockets(path)
        self.sockets = _make_socket_folder(account)
        (path / "sockets").write_text(str(self.sockets))
        self.logs = path / "logs"
        self.logs.mkdir(exist_ok=True)
        self.logs.chmod(0o700)  # statements in PostgreSQL's log hold what clients sent

    def subfolder(self, name: str) -> Path:
        """Create a folder that only the servers' account can open, and return it."""
        folder = self.path / name
        folder.mkdir(mode=0o700, exist_ok=True)
        self.account.own(folder)
        return folder

    def secret(self) -> str:
        """Return the secret of this folder, which signs sessions and is the same at every start."""
        path = self.path / "secret"
        if not path.exists():
            # Closed to others before it has any content.
            path.touch(mode=0o600)
            path.write_text(secrets.token_urlsafe(50))
        return path.read_text()

    def publish(self, state: dict[str, Any]) -> None:
        """Publish the variables with which other processes join the servers of this folder."""
        draft = self.path / "state.json.new"
        draft.touch(mode=0o600)
        draft.write_text(json.dumps(state, indent=1))
        # A rename is atomic: a reader never finds half of the state.
        draft.replace(self.path / "state.json")

    def release(self) -> None:
        """Release the lock and keep the data."""
        self._retract()
        _remove_sockets(self.path)
        self._lock.close()

    def remove(self) -> None:
        """Delete the folder with all its data."""
        _remove_sockets(self.path)
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()

    def _retract(self) -> None:
        (self.path / "state.json").unlink(missing_ok=True)


@contextlib.contextmanager
def announce_start(name: str) -> Iterator[None]:
    """Announce a service that is about to start on the persistent folder `name`.

    It may install packages before it can lock the folder. Meanwhile a management command finds the
    folder free, and waits (see `announced_pid`).
    """
    with _announcement(name).open("a") as file:
        # Shared, because several launchers may be about to start; a reader tests with an exclusive lock.
        fcntl.flock(file, fcntl.LOCK_SH)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def announced_pid(name: str) -> int | None:
    """Return the live process that has announced a service on the persistent folder `name`."""
    path = _announcement(name)
    return int(path.read_text() or 0) or None if _is_locked(path) else None


def _announcement(name: str) -> Path:
    return data_home(server_account()) / f"{name}.starting"


def is_in_use(path: Path) -> bool:
    """Return whether a process holds the data folder `path`."""
    return _is_locked(path / "lock")


def _is_locked(path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError), path.open("r") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def published_state(path: Path) -> dict[str, Any] | None:
    """Return the published state of a data folder's holder, or None if there is none yet."""
    try:
        state: dict[str, Any] = json.loads((path / "state.json").read_text())
    except FileNotFoundError:
        return None
    return state


def persistent(name: str) -> DataFolder:
    """Lock the persistent data folder `name`. Raises `InUse` if another process holds it."""
    account = server_account()
    return DataFolder(data_home(account) / name, account)


def fresh(name: str) -> DataFolder:
    """Create an empty data folder below `name`, and remove the folders of crashed holders there."""
    account = server_account()
    parent = data_home(account) / name
    make_passable(parent)
    with (parent / "lock").open("a") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # another process could take a new folder for a stale one
        for sibling in parent.iterdir():
            if sibling.is_dir():
                _remove_if_stale(sibling)
        path = Path(tempfile.mkdtemp(dir=parent))
        path.chmod(_PASSABLE)
        return DataFolder(path, account)


def data_home(account: Account) -> Path:
    """Return the parent of the data folders.

    It is `ALLOCATOR_STATE_DIR`, or otherwise `.data` in the project. If the servers' account cannot
    reach `.data`, it is a folder in `/var/lib`. Raises `StepFailed` if `ALLOCATOR_STATE_DIR` cannot be
    reached.
    """
    chosen = os.environ.get("ALLOCATOR_STATE_DIR")
    home = Path(chosen).resolve() if chosen else PROJECT / ".data"
    make_passable(home)
    if account.may_enter(home):
        return home
    if chosen:
        raise StepFailed(
            f"use the folder {home} for data",
            f"the account {account.name}, which runs the database for root, cannot reach it: "
            "choose another ALLOCATOR_STATE_DIR, or let others pass through its parents",
        )
    # Root's own folders are closed to the account that PostgreSQL runs as, and stay closed.
    digest = hashlib.sha256(os.fsencode(home)).hexdigest()[:12]
    return Path("/var/lib/allocator-service") / digest


def make_passable(folder: Path) -> None:
    """Create `folder` and its missing parents.

    Other accounts may pass through them but not list them.
    """
    if folder.exists():
        return
    make_passable(folder.parent)
    folder.mkdir(exist_ok=True)
    folder.chmod(_PASSABLE)  # whatever the umask is


def _remove_if_stale(path: Path) -> None:
    with contextlib.suppress(InUse), _lock_file(path / "lock"):
        _remove_sockets(path)
        shutil.rmtree(path, ignore_errors=True)


def _remove_sockets(path: Path) -> None:
    """Delete the socket folder that the holder of the data folder `path` recorded."""
    record = path / "sockets"
    if record.exists():
        shutil.rmtree(record.read_text(), ignore_errors=True)
        record.unlink()


def _lock_file(path: Path) -> IO[str]:
    lock = path.open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise InUse(path.parent) from None
    return lock


def _make_socket_folder(account: Account) -> Path:
    """Create a folder for sockets, whose path is short however long the project's own path is."""
    candidates = [os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"]
    for candidate in filter(None, candidates):
        longest = len(os.fsencode(candidate)) + len("/allocator-12345678")
        if longest <= _SOCKET_FOLDER_BYTES and account.may_enter(Path(candidate)):
            with contextlib.suppress(OSError):
                folder = Path(tempfile.mkdtemp(prefix="allocator-", dir=candidate))
                account.own(folder)
                return folder
    raise StepFailed(
        "make a folder for the servers' sockets",
        "set TMPDIR to a short path that everybody may enter, such as /tmp",
    )
