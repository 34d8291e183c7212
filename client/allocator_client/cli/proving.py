"""The command `alloc verify`, which checks a proof with the library's stand-alone verifier."""

import json
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import click

from allocator_client.cli.failures import NotSetUp
from allocator_client.cli.output import note
from allocator_client.cli.session import open_session, profile_option

_VERIFIER = "policies"


@click.command()
@click.argument("proof", metavar="[RUN|FILE]", required=False)
@click.option("--save", type=click.Path(dir_okay=False), help="Keep the run's proof in this file.")
@click.option("--json", "as_json", is_flag=True, help="The verifier's JSON, for scripts.")
@profile_option
@click.pass_context
def verify(
    context: click.Context, proof: str | None, save: str | None, as_json: bool, profile: str
) -> None:
    """Check a decision's proof on this machine.

    The proof is that of a run or of a saved file. By default it is that of the decision in force in
    the only pool that the key sees. The verifier is a library of its own, which needs NumPy and no
    solver. Operators and billing can read the proof of every run, a tenant those of transparent pools.
    """
    if find_spec(_VERIFIER) is None:
        raise NotSetUp("The verifier is not installed: pip install 'allocator-client[verify]'")
    if proof and Path(proof).is_file():
        context.exit(_run_verifier(Path(proof), as_json=as_json))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(save) if save else Path(folder) / "proof.json"
        with open_session(profile, "table") as session:
            if proof is None:
                pool = session.pool(None)
                proof = session.client.pools_decision_show(pool).body["run"]["id"]
            document = session.client.runs_proof_show(proof).body
        try:
            file.write_text(json.dumps(document), encoding="utf-8")
        except OSError as error:
            raise click.UsageError(f"{file} cannot be written: {error.strerror}") from error
        if not as_json:
            note(f"Run {document['run']} of {document['pool']}, checked on this machine:")
        context.exit(_run_verifier(file, as_json=as_json))


def _run_verifier(file: Path, *, as_json: bool) -> int:
    """Run the verifier and return its exit code.

    It is 0 for a valid proof, 1 for an invalid proof and 2 for an unreadable one.
    """
    # -P keeps the working folder off the path: a `policies` there must not pass for the verifier.
    command = [sys.executable, "-P", "-m", _VERIFIER, "verify", str(file)]
    if as_json:
        command.append("--json")
    return subprocess.run(command, check=False).returncode
