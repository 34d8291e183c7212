"""docker-compose.yml, Dockerfile and .env.example say what the settings and the launcher say.

There is no Docker here to try them with, so what can be held against the code is.
"""

import importlib.util
import os
import re
import subprocess
import sys

import pytest
import yaml
from django.conf import settings
from django.core.management import get_commands

from allocator_service.core.worker import pulse
from tests.unit.deploy.environment import (
    COMPONENTS,
    READ_BY_LIBRARIES,
    ROOT,
    comparable,
    documented,
    variables_read_by_the_settings,
)

COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
COMPOSE_TEXT = (ROOT / "docker-compose.yml").read_text()
SERVICES = COMPOSE["services"]
STAYING = ("web", "worker", "backtests", "beat", "relay", "sender")
OURS = ("migrate", *STAYING)
SECRETS = (
    *("SECRET_KEY", "POSTGRES_PASSWORD", "ALLOCATOR_PASSWORD", "ALLOCATOR_OWNER_PASSWORD"),
    "REDIS_PASSWORD",
)


def interpolated() -> dict[str, str]:
    """The `${NAME...}` of docker-compose.yml: name -> what follows the name."""
    return dict(re.findall(r"\$\{([A-Z_]+)(.*?)\}", COMPOSE_TEXT))


def environment_of(name: str) -> dict[str, str]:
    """The variables of a service, filled in from an .env with a value for every secret."""
    env_file = {**documented(), **dict.fromkeys(SECRETS, "aB3x" * 16), "ALLOWED_HOSTS": "a.example"}

    def fill(match: re.Match[str]) -> str:
        default = match[2].removeprefix(":-") if match[2].startswith(":-") else ""
        return env_file.get(match[1]) or default

    return {
        key: re.sub(r"\$\{([A-Z_]+)(.*?)\}", fill, str(value))
        for key, value in SERVICES[name]["environment"].items()
    }


def test_every_variable_that_the_settings_read_is_documented():
    assert variables_read_by_the_settings() - documented().keys() == set()


def test_every_documented_variable_is_used_by_the_settings_or_by_compose():
    used = variables_read_by_the_settings() | interpolated().keys() | READ_BY_LIBRARIES
    assert documented().keys() - used == set()


def test_every_variable_that_compose_asks_for_is_documented():
    assert interpolated().keys() - documented().keys() == set()


@pytest.mark.parametrize("name", OURS)
def test_compose_sets_nothing_that_nobody_reads(name):
    known = variables_read_by_the_settings() | READ_BY_LIBRARIES
    assert SERVICES[name]["environment"].keys() - known == set()


@pytest.mark.parametrize("name", OURS)
def test_each_process_says_which_one_it_is(name):
    expected = "manage" if name == "migrate" else name
    assert SERVICES[name]["environment"]["ALLOCATOR_PROCESS"] == expected


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_has_no_default_anywhere(secret):
    assert documented()[secret] == ""
    endings = re.findall(r"\$\{" + secret + r"(.*?)\}", COMPOSE_TEXT)
    assert endings
    assert all(ending.startswith(":?") for ending in endings)


def test_only_the_migration_knows_the_owner_of_the_tables():
    knowing = [name for name in OURS if "OWNER_PASSWORD" in str(SERVICES[name]["environment"])]
    assert knowing == ["migrate"]


@pytest.mark.parametrize("name", STAYING)
def test_each_process_waits_for_the_migration_and_for_redis(name):
    assert SERVICES[name]["depends_on"] == {
        "migrate": {"condition": "service_completed_successfully"},
        "redis": {"condition": "service_healthy"},
    }


def test_the_migration_waits_for_postgresql_and_runs_once():
    assert SERVICES["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert SERVICES["migrate"]["restart"] == "no"


def test_everything_that_stays_up_has_a_health_check():
    staying = SERVICES.keys() - {"migrate"}
    assert [name for name in staying if "healthcheck" not in SERVICES[name]] == []


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_writes_to_its_volumes_only_and_gains_no_rights(name):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "mem_limit" in service
    assert name == "redis" or any(place.startswith("/tmp:") for place in service["tmpfs"])


@pytest.mark.parametrize("name", STAYING)
def test_redis_is_asked_with_a_password(name):
    command = SERVICES["redis"]["command"]
    password = command[command.index("--requirepass") + 1]
    assert SERVICES[name]["environment"]["REDIS_URL"] == f"redis://:{password}@redis:6379/0"
    assert SERVICES["redis"]["environment"]["REDISCLI_AUTH"] == password


@pytest.mark.parametrize("image", ["POSTGRES_IMAGE", "REDIS_IMAGE"])
def test_an_image_can_be_pinned_by_its_digest(image):
    assert f"${{{image}:-{documented()[image]}}}" in COMPOSE_TEXT


def test_no_proxy_is_trusted_unless_it_is_named():
    assert documented()["TRUSTED_PROXIES"] == ""
    assert environment_of("web")["TRUSTED_PROXIES"] == ""


def test_redis_keeps_every_message():
    command = SERVICES["redis"]["command"]
    assert command[command.index("--appendonly") + 1] == "yes"
    assert command[command.index("--maxmemory-policy") + 1] == "noeviction"


@pytest.mark.parametrize("name", ["postgres", "redis"])
def test_data_outlives_its_container(name):
    volume = SERVICES[name]["volumes"][0].split(":")[0]
    assert volume in COMPOSE["volumes"]


def test_the_roles_are_made_by_the_same_script_as_the_launchers():
    source, target, mode = SERVICES["postgres"]["volumes"][1].split(":")
    assert (ROOT / source).resolve() == ROOT / "launcher" / "roles.sql"
    assert target.startswith("/docker-entrypoint-initdb.d/")
    assert mode == "ro"
    asked = re.findall(r"\\getenv \w+ (\w+)", (ROOT / source).read_text())
    assert set(asked) <= SERVICES["postgres"]["environment"].keys()


@pytest.mark.parametrize("name", STAYING)
def test_compose_and_the_launcher_run_the_same_command(name):
    assert comparable(SERVICES[name]["command"]) == comparable([*COMPONENTS[name].command])


def test_a_web_process_has_the_threads_that_the_settings_count_with():
    command = COMPONENTS["web"].command
    assert int(command[command.index("--threads") + 1]) == settings.WEB_THREADS


@pytest.mark.parametrize("name", ["worker", "backtests", "beat", "relay", "sender"])
def test_a_health_check_reads_the_sign_of_life(name):
    file = SERVICES[name]["environment"]["PULSE_FILE"]
    seconds = COMPONENTS[name].silence_seconds
    allowed = [] if seconds == pulse.SILENCE_SECONDS else [f"{seconds:.0f}"]
    command = ["CMD", "python", "-m", pulse.__name__, file, *allowed]
    assert SERVICES[name]["healthcheck"]["test"] == command


@pytest.mark.parametrize("name", STAYING)
def test_a_process_gets_the_time_it_needs_to_finish(name):
    granted = int(SERVICES[name]["stop_grace_period"].removesuffix("s"))
    assert granted == COMPONENTS[name].patience_seconds


def test_the_modules_and_management_commands_that_are_run_exist():
    assert importlib.util.find_spec("allocator_service.wsgi") is not None
    assert importlib.util.find_spec("allocator_service.celery") is not None
    assert {"migrate", "relay", "sender", "collectstatic"} <= get_commands().keys()


@pytest.mark.parametrize("name", ["migrate", "web"])
def test_the_production_settings_accept_what_compose_gives_them(name):
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "ERROR"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **environment_of(name)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_the_production_settings_refuse_to_start_without_a_secret_key():
    env = environment_of("web")
    del env["SECRET_KEY"]
    done = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **env},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "SECRET_KEY" in done.stderr


def test_the_production_settings_refuse_a_clock_that_stands_still(tmp_path):
    clock = tmp_path / "clock"
    clock.write_text("2026-01-05T00:00:00Z")
    done = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **environment_of("web"), "CLOCK_FILE": str(clock)},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "CLOCK_FILE" in done.stderr


class TestDockerfile:
    text = (ROOT / "Dockerfile").read_text()

    def test_it_installs_the_production_lock_with_its_hashes(self):
        assert "COPY requirements.lock " in self.text
        assert re.search(r"pip install .*--require-hashes .*requirements\.lock", self.text)

    def test_it_does_not_run_as_root(self):
        assert re.findall(r"^USER (.+)$", self.text, re.MULTILINE) == ["allocator"]

    def test_what_it_copies_exists_and_is_not_ignored(self):
        copied = [
            word
            for arguments in re.findall(r"^COPY (?!--from)(.+)$", self.text, re.MULTILINE)
            for word in arguments.split()[:-1]
            if not word.startswith("--")
        ]
        admitted = (ROOT / ".dockerignore").read_text().splitlines()
        assert copied == ["requirements.lock", "manage.py", "policies", "allocator_service", "api"]
        assert all((ROOT / name).exists() for name in copied)
        assert all(f"!{name}" in admitted for name in copied)

    def test_it_serves_the_web_as_compose_does(self):
        command = re.search(r"^CMD (\[.+\])$", self.text, re.MULTILINE)
        assert command is not None
        assert yaml.safe_load(command[1]) == SERVICES["web"]["command"]

    def test_it_compiles_the_kernels_where_the_processes_look_for_them(self):
        assert "NUMBA_CACHE_DIR=/srv/allocator/.numba" in self.text
        assert "policies.warm()" in self.text
