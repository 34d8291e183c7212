"""Address and key of the service, from the environment or a profile in a file with mode 0600."""

import json
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from allocator_client.cli.failures import Failure, NotSetUp

URL, KEY, PROFILE = "ALLOC_URL", "ALLOC_KEY", "ALLOC_PROFILE"
DEFAULT = "default"


@dataclass(frozen=True)
class Access:
    """The address of a service and a key for it."""

    url: str
    key: str


def access(profile: str) -> Access:
    """Return the access of the environment, or otherwise of the profile. Raises `NotSetUp`.

    A profile's key is only sent to the profile's address. Another `ALLOC_URL` requires `ALLOC_KEY`.
    """
    url, key = os.environ.get(URL), os.environ.get(KEY)
    if url and key:
        return Access(url, key.strip())
    stored = _read().get(profile)
    if url and stored and url.rstrip("/") != stored.url:
        raise NotSetUp(f"{URL} is not the address of profile {profile}: set {KEY} too.")
    if stored is None:
        named = "" if profile == DEFAULT else f" --profile {profile}"
        raise NotSetUp(f"No key for this: alloc login https://...{named}, or set {URL} and {KEY}.")
    return Access(stored.url, key.strip() if key else stored.key)


def address(profile: str) -> str | None:
    """Return the address of a stored profile."""
    stored = _read().get(profile)
    return stored.url if stored else None


def store(profile: str, new: Access) -> None:
    """Store a profile."""
    _write({**_read(), profile: new})


def remove(profile: str) -> bool:
    """Remove a profile, and return whether it existed."""
    stored = _read()
    found = stored.pop(profile, None)
    if found is not None:
        _write(stored)
    return found is not None


def file() -> Path:
    """Return the path of the file with the profiles."""
    return Path(click.get_app_dir("allocator")) / "profiles.json"


def _read() -> dict[str, Access]:
    path = file()
    try:
        with path.open(encoding="utf-8") as opened:
            # Of the opened file, not of its path, which could name another file by then.
            if stat.S_IMODE(os.fstat(opened.fileno()).st_mode) & 0o077:
                raise NotSetUp(f"Others can read the keys in {path}: chmod 600 {path}")
            stored: dict[str, dict[str, Any]] = json.load(opened)
        return {name: Access(**each) for name, each in stored.items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise NotSetUp(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise NotSetUp(f"{path} is damaged: remove it, and log in again.") from error


def _write(stored: dict[str, Access]) -> None:
    """Replace the file atomically. At no time can other users read it."""
    path = file()
    content = json.dumps({name: vars(each) for name, each in stored.items()}, indent=2)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # In the same folder: a rename is atomic only within one file system.
        handle, fresh = tempfile.mkstemp(dir=path.parent)  # with mode 0600
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as opened:
                opened.write(content)
            Path(fresh).replace(path)
        except BaseException:
            Path(fresh).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror}") from error
