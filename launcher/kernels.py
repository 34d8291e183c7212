"""The policies' compiled kernels: what the first decision needs at once, the rest meanwhile.

They are compiled once per change of the sources, and kept beside them. A stamp in the environment
says for which sources that was done; a compilation that is killed keeps what it has.
"""

import hashlib
from pathlib import Path

from launcher import processes
from launcher.console import StepFailed, say
from launcher.folders import PROJECT, make_passable

_FIRST = "policies.warm('drfh')"
_ALL = "policies.warm()"
_ABOUT_SECONDS = {_FIRST: 15, _ALL: 75}
_LOWEST_PRIORITY = 19


class Kernels:
    """The kernels of the project, or of one elsewhere (in tests)."""

    def __init__(self, python: Path, project: Path = PROJECT) -> None:
        self._python = python
        self._project = project
        self._stamp = project / ".venv" / "allocator-kernels"
        self._log = project / ".data" / "kernels.log"
        sources = sorted((project / "policies").glob("**/*.py"))
        digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources))
        self._wanted = digest.hexdigest() if sources else None
        self.rest: processes.Process | None = None
        self._running: processes.Process | None = None

    def compile_all(self) -> None:
        """Compile every kernel and wait for it: for whoever uses them all. Raises `StepFailed`."""
        if self._start(_ALL):
            self._wait(f"Compiling all kernels (about {_ABOUT_SECONDS[_ALL]} s, once) ...")

    def start_first(self) -> None:
        """Begin to compile what a divisible decision needs, beside whatever is done meanwhile."""
        self._start(_FIRST)

    def wait_for_first(self) -> None:
        """Return when a divisible decision waits for no compiler. Raises `StepFailed`."""
        if self._running:
            about = _ABOUT_SECONDS[_FIRST]
            self._wait(f"Compiling the kernels of the first decision (about {about} s) ...")

    def start_rest(self) -> None:
        """Compile what is left at the lowest priority, for as long as this process lives."""
        if self._start(_ALL, priority=_LOWEST_PRIORITY):
            self.rest = self._running
            about = _ABOUT_SECONDS[_ALL]
            say(
                f"The kernels of all other policies compile meanwhile (about {about} s of idle time)."
            )

    def stop(self) -> None:
        """End what still compiles; what it has compiled is kept."""
        if self._running and self._running.poll() is None:
            processes.stop(self._running, patience_seconds=1)

    def _start(self, what: str, *, priority: int = 0) -> bool:
        """Start compiling; False where that was done before."""
        done = self._stamp.read_text() if self._stamp.exists() else ""
        if self._wanted is None or done in (f"{what} {self._wanted}", f"{_ALL} {self._wanted}"):
            return False
        lowered = f"os.setpriority(os.PRIO_PROCESS, 0, {priority}); " if priority else ""
        program = (
            f"import os, pathlib; {lowered}import policies; {what}; "
            f"path = pathlib.Path({str(self._stamp)!r}); new = path.with_suffix('.new'); "
            f"new.write_text({f'{what} {self._wanted}'!r}); new.replace(path)"
        )
        make_passable(self._log.parent)
        with self._log.open("wb") as log:
            self._running = processes.start(
                [self._python, "-c", program],
                cwd=self._project,
                env={**processes.inherited_environment(), "OPENBLAS_NUM_THREADS": "1"},
                output=log,
            )
        return True

    def _wait(self, message: str) -> None:
        assert self._running is not None
        if self._running.poll() is None:
            say(message)
        try:
            code = self._running.wait()
        except BaseException:
            self.stop()
            raise
        if code:
            raise StepFailed(
                "compile the numeric kernels",
                "read the error: the policies of this copy cannot be imported",
                log=self._log,
            )
        self._running = None
