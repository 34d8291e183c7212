"""`./dev bench`, the benchmarks on their own servers with durable writes."""

from collections.abc import Sequence

from launcher import folders
from launcher.commands import run_in_foreground
from launcher.environment import VirtualEnvironment
from launcher.kernels import Kernels
from launcher.servers import Servers
from launcher.supervisor import interrupt_on_signals


def bench(arguments: Sequence[str]) -> int:
    """Run `python -m benchmarks` with these arguments and return its exit code.

    Raises `StepFailed`.
    """
    python = VirtualEnvironment().ensure("dev")
    Kernels(python).compile_all()
    interrupt_on_signals()
    folder = folders.fresh("bench")
    try:
        with Servers(folder, tests=True) as servers:
            return run_in_foreground([python, "-m", "benchmarks", *arguments], servers.environ())
    finally:
        folder.remove()
