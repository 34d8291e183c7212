"""Entry point of the command line, with all commands and their exit codes."""

import errno
import os
import sys
from typing import Any

import click

from allocator_client.cli import (
    access,
    backtesting,
    changing,
    deciding,
    importing,
    limiting,
    proving,
    sharing,
    simulating,
    submitting,
    trees,
    using,
)
from allocator_client.cli.failures import INTERRUPTED, Failure, WrongUsage, failure
from allocator_client.errors import Problem, Unreachable
from allocator_client.transport import VERSION

_COMPLETE = "_ALLOC_COMPLETE"


class Commands(click.Group):
    """Group of commands that turns errors into messages and exit codes."""

    def invoke(self, ctx: click.Context) -> Any:
        if os.environ.get("NO_COLOR"):
            ctx.color = False
        try:
            return super().invoke(ctx)
        except (Problem, Unreachable) as error:
            raise failure(error) from error
        except ValueError as error:  # from the client, for an argument that cannot be a name
            raise WrongUsage(str(error)) from error
        except click.UsageError as error:
            path = error.ctx.command_path if error.ctx else ctx.command_path
            raise WrongUsage(f"{error.format_message()}\nSee: {path} --help") from error
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader closed the pipe, as `head` does
                raise
            raise Failure(str(error)) from error
        except (KeyboardInterrupt, click.Abort):
            ctx.exit(INTERRUPTED)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done; 1 refused, or the answer is no; 2 wrong usage or no usable key; "
    "3 the service gives no answer; 4 the wait timed out; 130 interrupted.",
)
@click.version_option(VERSION, prog_name="alloc")
def cli() -> None:
    """Show and change the allocation of shared pools.

    The commands show what is allocated, why, and what would change it.
    """


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the shell's completion.

    It completes commands, options and pools.

    \b
    bash: echo 'eval "$(alloc completion bash)"' >> ~/.bashrc
    zsh:  echo 'eval "$(alloc completion zsh)"' >> ~/.zshrc
    fish: alloc completion fish > ~/.config/fish/completions/alloc.fish
    """
    # Here, because every start of every command would pay for it.
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"{shell} is not known")
    click.echo(kind(cli, {}, "alloc", _COMPLETE).source())


for command in (
    access.login,
    access.logout,
    deciding.pools,
    sharing.share,
    deciding.why,
    deciding.decision,
    trees.tree,
    simulating.what_if,
    submitting.submit,
    changing.workloads,
    changing.set_workload,
    changing.withdraw,
    limiting.limits,
    limiting.limit,
    changing.slots,
    changing.history,
    backtesting.backtest,
    importing.import_,
    using.usage,
    using.statement,
    proving.verify,
):
    cli.add_command(command)


def main() -> None:
    """Run `alloc`."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal's encoding may lack a character of a name: a ? is better than a command that fails.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr] # they are text files
    cli(prog_name="alloc", complete_var=_COMPLETE)


if __name__ == "__main__":
    main()
