"""The commands of `./dev`."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from demo.run import demo
from devtools.bench import bench
from devtools.bundle import bundle
from devtools.checks import check
from devtools.licences import licences
from devtools.locks import lock
from devtools.mutants import mutants
from devtools.site import docs
from launcher import detached
from launcher.console import StepFailed, echo
from launcher.environment import VirtualEnvironment
from launcher.folders import PROJECT
from launcher.kernels import Kernels
from launcher.manage import manage
from launcher.processes import inherited_environment
from launcher.serve import counts_of, serve

# The packages have a command of their own, `./dev test tests/packages`, which builds and installs them.
# Three workers keep two cores busy: about a third of the time a test waits for a process.
_WHOLE_SUITE = ("-n", "3", "--dist", "loadfile", "--ignore", "tests/packages")


@dataclass(frozen=True)
class Command:
    """A command of `./dev`.

    `run` receives the arguments after the command's name and returns the exit code.
    """

    usage: str
    purpose: str
    run: Callable[[Sequence[str]], int]


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code.

    It is 1 for a failed step and 2 for wrong arguments.
    """
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_help())
        return 0 if arguments else 2
    command = COMMANDS.get(arguments[0])
    if command is None:
        echo(f"./dev has no command {arguments[0]!r}.\n\n{_help()}")
        return 2
    try:
        return command.run(arguments[1:])
    except StepFailed as failure:
        echo(str(failure))
        return 1
    except KeyboardInterrupt:
        return 130


def _help() -> str:
    width = max(len(command.usage) for command in COMMANDS.values())
    lines = [f"  ./dev {each.usage:<{width}}  {each.purpose}" for each in COMMANDS.values()]
    return "\n".join(["Usage:", *lines])


def _demo(arguments: Sequence[str]) -> int:
    if list(arguments) not in ([], ["--exit"]):
        return _refuse(arguments)
    return demo(stay=not arguments)


def _serve(arguments: Sequence[str]) -> int:
    options = serve_options(arguments)
    counts = counts_of(options)
    if counts is None:
        return _refuse(arguments)
    return serve(counts) if options == arguments else detached.start(options)


def serve_options(arguments: Sequence[str]) -> Sequence[str]:
    """Return the arguments of `serve` without a leading `--detach`."""
    return arguments[1:] if "--detach" in arguments[:1] else arguments


def _test(arguments: Sequence[str]) -> int:
    """Replace this process by pytest on the pinned servers.

    The result must not depend on the servers that are installed on the machine.
    """
    python = VirtualEnvironment().ensure("dev")
    Kernels(python).compile_all()
    env = {"ALLOCATOR_POSTGRES": "wheel", "ALLOCATOR_REDIS": "wheel"}
    env |= inherited_environment()
    os.chdir(PROJECT)
    os.execve(python, [str(python), "-m", "pytest", *pytest_arguments(arguments)], env)


def pytest_arguments(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of pytest.

    They run the whole suite on several workers, unless the given ones include anything but long options.
    """
    whole = all(argument.startswith("--") for argument in arguments)
    return [*_WHOLE_SUITE, *arguments] if whole else list(arguments)


def _alone(run: Callable[[], int]) -> Callable[[Sequence[str]], int]:
    """Return a command that accepts no arguments."""
    return lambda arguments: _refuse(arguments) if arguments else run()


def _refuse(arguments: Sequence[str]) -> int:
    echo(f"These arguments mean nothing here: {' '.join(arguments)}\n\n{_help()}")
    return 2


COMMANDS = {
    "demo": Command("demo [--exit]", "the main job on a sample pool, then go on serving it", _demo),
    "serve": Command(
        "serve [--detach] [--processes NAME=NUMBER,...]",
        "the service on lasting data; PORT (8000) chooses the port",
        _serve,
    ),
    "stop": Command("stop", "end the service that ./dev serve runs", _alone(detached.stop)),
    "manage": Command("manage COMMAND ...", "a management command on serve's data", manage),
    "test": Command("test [--thorough | PYTEST ARGUMENTS]", "the tests, on real servers", _test),
    "mutants": Command(
        "mutants [NAME ...]", "mistakes in critical modules, each to fail a test", mutants
    ),
    "check": Command("check", "lint, types, imports, migrations, OpenAPI, settings", _alone(check)),
    "bench": Command(
        "bench [--quick] [NAME ...]", "the benchmarks, side by side with others", bench
    ),
    "lock": Command("lock", "resolve the dependencies of pyproject.toml again", _alone(lock)),
    "bundle": Command("bundle [FILE]", "all that an installation without a network needs", bundle),
    "docs": Command("docs", "the documentation as a site", _alone(docs)),
    "licences": Command("licences", "list every dependency's licence", _alone(licences)),
}
