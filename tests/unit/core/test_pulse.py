"""The sign of life of loops: given once a second, asked for by whoever runs them."""

import subprocess
import sys
import time

import pytest

from allocator_service.core.worker import pulse
from allocator_service.core.worker.pulse import Sign


def asked(file, *seconds):
    return subprocess.run([sys.executable, "-m", pulse.__name__, str(file), *seconds]).returncode


def test_a_loop_that_turns_often_gives_the_sign_once_a_second(tmp_path, monkeypatch):
    file, now = tmp_path / "pulse", 1000.0
    monkeypatch.setattr(pulse.time, "monotonic", lambda: now)
    sign = Sign(str(file))
    given = []
    for _ in range(35):
        sign()
        given.append(file.read_text())
        now += 0.1
    assert len(set(given)) == 4
    assert given[0] == repr(1000.0)


def test_a_disk_that_is_full_does_not_end_the_loop(tmp_path):
    (tmp_path / "pulse.new").symlink_to("/dev/full")
    Sign(str(tmp_path / "pulse"))()
    assert pulse.age_seconds(tmp_path / "pulse") is None


@pytest.mark.parametrize(("age", "seconds", "code"), [
    (5, (), 0), (60, (), 1), (60, ("120",), 0), (130, ("120",), 1),
])  # fmt: skip
def test_how_old_it_may_be_is_said_by_who_asks(tmp_path, age, seconds, code):
    file = tmp_path / "pulse"
    file.write_text(repr(time.monotonic() - age))
    assert asked(file, *seconds) == code
    assert asked(tmp_path / "none", *seconds) == 1
