"""How processes reach PostgreSQL."""

from dataclasses import replace

import pytest
from django.conf import settings
from psycopg._conninfo_attempts import conninfo_attempts

from allocator_service.settings.databases import database, databases

SERVER = "postgresql://allocator:s@db.example.org:5433/allocator"
POOLER = "postgresql://allocator:s@pooler.example.org:6432/pooled"


STANDBY = "postgresql://allocator:s@standby.example.org:5434/allocator"


def chosen(process, url=SERVER, web="", read=""):
    return replace(
        settings.ENVIRONMENT,
        process=process,
        database_url=url,
        web_database_url=web or url,
        read_database_url=read,
    )


@pytest.mark.parametrize("process", ["web", "worker", "relay", "manage"])
def test_what_an_address_demands_of_the_connection_is_kept(process):
    secured = chosen(process, f"{SERVER}?sslmode=verify-full&sslrootcert=/etc/ca.pem")
    options = database(secured)["OPTIONS"]
    assert (options["sslmode"], options["sslrootcert"]) == ("verify-full", "/etc/ca.pem")
    assert options["application_name"] == f"allocator-{process}"


def test_options_of_an_address_stand_beside_the_time_limits():
    options = database(chosen("web", f"{SERVER}?options=-c%20work_mem%3D64MB"))["OPTIONS"]
    assert options["options"].startswith("-c work_mem=64MB -c tcp_keepalives_idle=5 ")
    assert options["options"].endswith(" -c statement_timeout=5000 -c lock_timeout=3000")


@pytest.mark.parametrize(
    ("process", "host"), [("web", "pooler"), ("worker", "db"), ("relay", "db")]
)
def test_only_web_processes_use_the_pooler(process, host):
    assert database(chosen(process, web=POOLER))["HOST"] == f"{host}.example.org"


def test_nothing_that_outlasts_a_transaction_is_asked_of_a_pooler():
    web = database(chosen("web", web=POOLER))
    assert web["DISABLE_SERVER_SIDE_CURSORS"]
    assert web["OPTIONS"]["prepare_threshold"] is None
    assert "options" not in web["OPTIONS"]


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ("10.0.0.1:5433,10.0.0.2:5434", [("10.0.0.1", "5433"), ("10.0.0.2", "5434")]),
        ("10.0.0.1,10.0.0.2:5434", [("10.0.0.1", None), ("10.0.0.2", "5434")]),
        ("10.0.0.1:5433,10.0.0.2", [("10.0.0.1", "5433"), ("10.0.0.2", None)]),
        ("10.0.0.1,10.0.0.2", [("10.0.0.1", None), ("10.0.0.2", None)]),
        ("[::1]:5433,[::2]:5434", [("::1", "5433"), ("::2", "5434")]),
        ("%2Frun%2Fa,%2Frun%2Fb:5434", [("/run/a", None), ("/run/b", "5434")]),
    ],
)
@pytest.mark.parametrize("process", ["web", "worker", "relay", "beat", "sender", "manage"])
def test_every_process_tries_each_host_of_an_address_at_its_own_port(process, hosts, expected):
    url = f"postgresql://allocator:s%40@{hosts}/allocator?target_session_attrs=read-write"
    found = database(chosen(process, url))
    parameters = {"host": found["HOST"], **({"port": found["PORT"]} if found["PORT"] else {})}
    attempts = [(each["host"], each.get("port") or None) for each in conninfo_attempts(parameters)]
    assert attempts == expected
    assert found["OPTIONS"]["target_session_attrs"] == "read-write"
    assert found["PASSWORD"] == "s@"


@pytest.mark.parametrize(("process", "aliases"), [("web", {"standby"}), ("worker", set())])
def test_only_web_processes_read_from_a_standby(process, aliases):
    found = databases(chosen(process, web=POOLER, read=STANDBY))
    assert found.keys() == {"default"} | aliases
    for alias in aliases:
        assert (found[alias]["HOST"], found[alias]["PORT"]) == ("standby.example.org", 5434)
        # It is the server itself, with the time limits and prepared statements of one.
        assert "statement_timeout=5000" in found[alias]["OPTIONS"]["options"]
        assert found[alias]["OPTIONS"]["pool"]["timeout"] == 1
    assert databases(chosen(process, web=POOLER)).keys() == {"default"}
