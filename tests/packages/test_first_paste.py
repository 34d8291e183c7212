"""README's session as a newcomer pastes it: in a clone that has nothing, and once more."""

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.folders import PROJECT
from tests.guides import blocks_of
from tests.packages.test_packages import without_project


@pytest.fixture(scope="module")
def clone() -> Iterator[Path]:
    """The project's files as git has them, with what is not committed yet, and nothing else."""
    # Not pytest's folder: the account that PostgreSQL runs as cannot enter it.
    folder = Path(tempfile.mkdtemp(prefix="clone-", dir="/tmp"))
    folder.chmod(0o755)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        source, target = PROJECT / name, folder / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    yield folder
    run(folder, "./dev stop")
    shutil.rmtree(folder)


def run(folder: Path, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=folder,
        env={**without_project(), **variables},
        capture_output=True,
        text=True,
        timeout=600,
    )


def pasted(port: int) -> str:
    """The session with a port of its own."""
    (block,) = [
        block for block in blocks_of((PROJECT / "README.md").read_text())
        if block.language == "sh" and not block.note
    ]  # fmt: skip
    return block.text.replace(":8000", f":{port}")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def mark_all_kernels_compiled(clone: Path) -> None:
    """Spare later starts the compilation in the background, which tests of the kernels cover.

    The sessions need the kernels of the first decision alone.
    """
    stamp = clone / ".venv" / "allocator-kernels"
    what, _, digest = stamp.read_text().rpartition(" ")
    assert what in ("policies.warm('drfh')", "policies.warm()")
    stamp.write_text(f"policies.warm() {digest}")


def test_the_session_works_cold_warm_and_after_a_stop(clone):
    port = free_port()
    cold = run(clone, pasted(port), PORT=str(port))
    assert cold.returncode == 0, cold.stdout[-3_000:] + cold.stderr[-3_000:]
    assert '"valid":true' in cold.stdout
    assert "Ready." in cold.stderr

    again = run(clone, "./dev serve --detach && ./dev manage apikey list", PORT=str(port))
    assert again.returncode == 0, again.stderr
    assert "runs already" in again.stderr

    stopped = run(clone, "./dev stop && ./dev stop")
    assert stopped.returncode == 0, stopped.stderr
    assert stopped.stderr.split("\n") == ["Stopped.", "No service runs.", ""]

    mark_all_kernels_compiled(clone)
    # The pool and the key of the first paste are kept.
    others = pasted(port).replace("lab", "lab-2").replace("--name me", "--name me-2")
    warm = run(clone, others, PORT=str(port))
    assert warm.returncode == 0, warm.stdout[-3_000:] + warm.stderr[-3_000:]
    assert '"valid":true' in warm.stdout


def test_a_command_waits_for_a_service_that_is_starting(clone):
    """`serve &` and the next line of a script, which once raced for the data."""
    run(clone, "./dev stop")
    port = free_port()
    done = run(
        clone,
        "./dev serve >/dev/null 2>&1 & sleep 0.5\n"
        "./dev manage apikey create --scope operator --name raced >key\n"
        f'curl -sSf -H "Authorization: Bearer $(cat key)" http://localhost:{port}/api/v1/pools/\n'
        "./dev stop; wait",
        PORT=str(port),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"results":[' in done.stdout
