"""The client has every operation of the OpenAPI document, and nothing that is not there."""

import inspect
import re
from typing import Any

import generate
from allocator_client import Client
from allocator_client._generated.operations import Operations
from tests.documented import openapi

DOCUMENT = openapi()
OPERATIONS = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}
METHODS = {
    name for name, _ in inspect.getmembers(Operations, inspect.isfunction) if name[0] != "_"
} - {"close"}
DOCUMENTED = {"from_": "from", "idempotency_key": "Idempotency-Key", "if_match": "If-Match"}
PYTHON = {name: python for python, name in DOCUMENTED.items()}
HEADERS = {"Idempotency-Key", "If-Match"}
KINDS = {"csv": "text/csv", "txt": "text/plain", "yaml": "application/yaml"}


def test_what_is_committed_is_what_the_document_makes():
    assert generate.outdated() == [], "run .venv/bin/python client/generate.py"


def test_every_operation_is_a_method_and_every_method_an_operation():
    assert len(OPERATIONS) > 100
    assert OPERATIONS.keys() - METHODS == set()
    assert {name.removesuffix("_as") for name in METHODS} == OPERATIONS.keys()


def example(parameter: dict[str, Any]) -> object:
    """Some value that a parameter may have."""
    return {"integer": 7, "boolean": True}.get(parameter["schema"].get("type"), "x")


def test_every_method_sends_its_operation_with_all_that_it_takes(scripted):
    """Path, method, query and headers as the document has them: each is called with everything."""
    told = scripted()
    client = Client(told.url, "key", attempts=1)
    for name in sorted(METHODS):
        method, path, operation = OPERATIONS[name.removesuffix("_as")]
        parameters = {each["name"]: each for each in operation.get("parameters", [])}
        given = {}
        for each, parameter in inspect.signature(getattr(client, name)).parameters.items():
            choices = re.findall(r"'(\w+)'", str(parameter.annotation))
            if each == "body":
                given[each] = {"some": "thing"}
            else:
                given[each] = (
                    choices[0] if choices else example(parameters[DOCUMENTED.get(each, each)])
                )
        success = next(v for k, v in operation["responses"].items() if k[0] == "2")
        kind = KINDS.get(given.get("format"), next(iter(success.get("content", [""]))))
        page = {"results": [], "next": None}
        told.answers.append(
            (204, {}, b"") if method == "DELETE" else (200, {"Content-Type": kind}, page)
        )
        answer = getattr(client, name)(**given)
        if hasattr(answer, "pages"):
            assert list(answer) == []
        elif hasattr(answer, "open"):
            answer.read()
        sent, asked, headers = told.asked[-1]
        route, _, query = asked.partition("?")
        filled = path.format_map(given)
        assert (sent, route) == (method, filled), name
        wanted = {
            each: str(given[PYTHON.get(each, each)])
            for each, parameter in parameters.items()
            if parameter["in"] == "query" and PYTHON.get(each, each) in given
        }
        assert dict(pair.split("=") for pair in query.split("&") if pair) == wanted, name
        for header in HEADERS & parameters.keys():
            assert headers[header] == "x", (name, header)
        if "body" in given:
            assert told.bodies[-1] == b'{"some": "thing"}', name
    assert told.answers == []
