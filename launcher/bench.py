"""`./dev bench`: the benchmarks, on servers of their own with durable writes."""

import subprocess
import sys
from collections.abc import Sequence

from launcher import folders
from launcher.console import say
from launcher.environment import VirtualEnvironment
from launcher.folders import PROJECT
from launcher.servers import Servers


def bench(names: Sequence[str]) -> int:
    """Run the benchmarks called `names`, or all; each is a module of `benchmarks/`.

    Returns 1 when one failed and 2 for a name that does not exist. Raises `StepFailed`.
    """
    known = sorted(
        path.stem for path in (PROJECT / "benchmarks").glob("*.py") if not path.stem.startswith("_")
    )
    unknown = [name for name in names if name not in known]
    if unknown:
        say(f"No benchmark is called {', '.join(unknown)}; there are: {', '.join(known)}")
        return 2
    python = VirtualEnvironment().ensure("dev")
    folder = folders.fresh("bench")
    try:
        with Servers(folder, tests=True) as servers:
            failed = []
            for name in names or known:
                print(f"== {name}", flush=True)
                done = subprocess.run(
                    [python, "-m", f"benchmarks.{name}"], cwd=PROJECT, env=servers.environ()
                )
                if done.returncode:
                    failed.append(name)
    finally:
        folder.remove()
    if failed:
        print(f"Failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0
