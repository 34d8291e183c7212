"""How processes reach PostgreSQL."""

from dataclasses import replace

import pytest
from django.conf import settings

from allocator_service.settings.databases import database

SERVER = "postgresql://allocator:s@db.example.org:5433/allocator"
POOLER = "postgresql://allocator:s@pooler.example.org:6432/pooled"


def chosen(process, url=SERVER, web=""):
    return replace(
        settings.ENVIRONMENT, process=process, database_url=url, web_database_url=web or url
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
