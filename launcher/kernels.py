"""Compilation of the policies' numeric kernels.

The kernels of the first decision are compiled before the service starts, and the rest while it runs.
They are compiled once per change of the sources and cached beside them. A stamp in the environment
records the compiled sources. A killed compilation keeps the kernels that it has finished.
"""

import hashlib
from pathlib import Path

from launcher import processes
from launcher.console import StepFailed, echo
from launcher.folders import PROJECT, make_passable

_FIRST = "policies.warm('drfh')"
_ALL = "policies.warm()"
_SIMULATIONS = "policies.warming.warm_simulations()"
# Where one process compiles, on a processor of its own.
_ABOUT_SECONDS = {_FIRST: 15, _ALL: 200}
_LOWEST_PRIORITY = 19
# With Python's own threshold, 700, garbage collection takes a tenth of the compiler's processor time.
_PREFIX = "import gc; gc.set_threshold(50_000); "


class Kernels:
    """Kernels of the project, or in tests of another project."""

    def __init__(self, python: Path, project: Path = PROJECT) -> None:
        self._python = python
        self._project = project
        self._stamp = project / ".venv" / "allocator-kernels"
        self._log = project / ".data" / "kernels.log"
        self._log_beside = project / ".data" / "kernels-of-simulations.log"
        sources = sorted((project / "policies").glob("**/*.py"))
        digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources))
        self._digest = digest.hexdigest() if sources else None
        self.rest: processes.Process | None = None
        self._running: processes.Process | None = None

    def compile_all(self) -> None:
        """Compile every kernel in two processes and wait for them. Raises `StepFailed`."""
        if self._is_compiled(_ALL):
            return
        # Who compiles all comes to simulations last, and loads what is finished.
        beside = self._run(f"import policies.warming; {_SIMULATIONS}", self._log_beside)
        try:
            self._start(_ALL)
            about = _ABOUT_SECONDS[_ALL] * 2 // 3
            self._wait(f"Compiling all kernels (about {about} s on two processors, once) ...")
        finally:
            processes.stop(beside, patience_seconds=1)

    def start_first(self) -> None:
        """Start to compile the kernels of a divisible decision in the background."""
        self._start(_FIRST)

    def wait_for_first(self) -> None:
        """Wait until the kernels of a divisible decision are compiled. Raises `StepFailed`."""
        if self._running:
            about = _ABOUT_SECONDS[_FIRST]
            self._wait(f"Compiling the kernels of the first decision (about {about} s) ...")

    def start_rest(self) -> None:
        """Start to compile the remaining kernels at the lowest priority, while this process lives."""
        if self._start(_ALL, priority=_LOWEST_PRIORITY):
            self.rest = self._running
            about = _ABOUT_SECONDS[_ALL]
            echo(
                f"The kernels of all other policies compile meanwhile (about {about} s of idle time)."
            )

    def stop(self) -> None:
        """Stop the running compilation, and keep its finished kernels."""
        if self._running and self._running.poll() is None:
            processes.stop(self._running, patience_seconds=1)

    def _is_compiled(self, what: str) -> bool:
        done = self._stamp.read_text() if self._stamp.exists() else ""
        return self._digest is None or done in (f"{what} {self._digest}", f"{_ALL} {self._digest}")

    def _start(self, what: str, *, priority: int = 0) -> bool:
        """Start to compile, or return False if the kernels are already compiled."""
        if self._is_compiled(what):
            return False
        lowered = f"os.setpriority(os.PRIO_PROCESS, 0, {priority}); " if priority else ""
        program = (
            f"import os, pathlib; {lowered}import policies; {what}; "
            f"path = pathlib.Path({str(self._stamp)!r}); new = path.with_suffix('.new'); "
            f"new.write_text({f'{what} {self._digest}'!r}); new.replace(path)"
        )
        self._running = self._run(program, self._log)
        return True

    def _run(self, program: str, path: Path) -> processes.Process:
        """Start a process that compiles, and logs into the file."""
        make_passable(path.parent)
        with path.open("wb") as log:
            return processes.start(
                [self._python, "-c", _PREFIX + program],
                cwd=self._project,
                env={**processes.inherited_environment(), "OPENBLAS_NUM_THREADS": "1"},
                output=log,
            )

    def _wait(self, message: str) -> None:
        assert self._running is not None
        if self._running.poll() is None:
            echo(message)
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
