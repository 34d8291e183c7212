"""Generator of the client's operations and documents from docs/openapi.yaml.

Run it with `python client/generate.py`. A test compares its output with the committed files. For each
group of operations it writes a module of `operations/`, with a method for each operation, and a module
of `documents/`, with a TypedDict for each object that no earlier group has. The transport of requests in
`transport.py` is not generated.
"""

import json
import keyword
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

CLIENT = Path(__file__).resolve().parent
DOCUMENT = CLIENT.parent / "docs" / "openapi.yaml"
PACKAGE = CLIENT / "allocator_client"
_MADE = "Made from docs/openapi.yaml by client/generate.py: change those."
_JSON = "application/json"
_SCALARS = {
    "string": "str",
    "number": "float",
    "integer": "int",
    "boolean": "bool",
    "null": "None",
}
_HEADERS = {"Idempotency-Key": "idempotency_key", "If-Match": "if_match"}
# Descriptions that repeat the parameter's name, and paging, which `Rows` does.
_EVIDENT = re.compile(r"The [a-z ]+'s (slug|id)\.")
_PAGING = ("limit", "cursor", "after", "format")


class Documents:
    """TypedDicts of the document's objects.

    Equal nested objects of one group share a TypedDict.
    """

    def __init__(self, schemas: dict[str, Any]) -> None:
        self.source: dict[str, str] = {}
        self.group = ""
        self._schemas = schemas
        self._components: dict[str, str] = {}
        self._named: dict[tuple[str, str], str] = {}
        self._structures: dict[str, str] = {}
        for name, schema in schemas.items():
            if "properties" in schema:
                # A nested object that equals a named schema gets its name: one type for both.
                self._components.setdefault(_structure(schema), name)

    def type_of(self, schema: dict[str, Any], name: str) -> str:
        """Return the type of a value, with `name` for an object in it."""
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return self._object(self._schemas[name], name)
        if "enum" in schema:
            # `Literal[None]` would be valid, but type checkers show `| None` as any other optional.
            values = [value for value in schema["enum"] if value is not None]
            none = " | None" if None in schema["enum"] else ""
            return f"Literal[{', '.join(map(repr, values))}]{none}"
        for choice in ("oneOf", "anyOf"):
            if choice in schema:
                return " | ".join(
                    dict.fromkeys(self.type_of(each, name) for each in schema[choice])
                )
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        types = [self._of_kind(kind, schema, name) for kind in kinds]
        return " | ".join(types) or "Any"

    def _of_kind(self, kind: str, schema: dict[str, Any], name: str) -> str:
        if kind == "array":
            return f"list[{self.type_of(schema['items'], _singular(name))}]"
        if kind != "object":
            return _SCALARS[kind]
        if "properties" in schema:
            return self._object(schema, name)
        values = schema.get("additionalProperties", True)
        inner = self.type_of(values, _singular(name)) if isinstance(values, dict) else "Any"
        return f"dict[str, {inner}]"

    def _object(self, schema: dict[str, Any], name: str) -> str:
        """Return the name of an object's type, and write the type at the first call."""
        structure = _structure(schema)
        known = self._components.get(structure)
        name = known or self._named.setdefault((self.group, structure), name)
        if self._structures.setdefault(name, structure) != structure:
            raise ValueError(f"two objects would be {name}: make one a schema with a name")
        if name not in self.source:
            self._write(name, schema)
        return name

    def _write(self, name: str, schema: dict[str, Any]) -> None:
        self.source[name] = ""  # reserves the name while its fields are written
        required = schema.get("required", ())
        fields = []
        for field, inner in schema["properties"].items():
            kind = self.type_of(inner, name.removesuffix("Document") + _camel(field))
            fields.append((field, kind if field in required else f"NotRequired[{kind}]", inner))
        del self.source[name]  # a type stands after the types that it refers to
        # A field such as `from` cannot be written in a class, only as a key of the functional form.
        if all(field.isidentifier() and not keyword.iskeyword(field) for field, _, _ in fields):
            lines = [f"class {name}(TypedDict):", *_comment(schema)]
            for field, kind, inner in fields:
                lines += [*_comment(inner), f"    {field}: {kind}"]
        else:
            lines = [f'{name} = TypedDict("{name}", {{']
            for field, kind, inner in fields:
                lines += [*_comment(inner), f'    "{field}": {kind},']
            lines.append("})")
        self.source[name] = "\n".join([*lines, "" if fields else "    pass"])


def _structure(schema: dict[str, Any]) -> str:
    """Return the fields of an object without descriptions, which are equal for equal types."""

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            if "properties" in value:
                fields = {name: bare(inner) for name, inner in value["properties"].items()}
                return {"fields": fields, "required": sorted(value.get("required", ()))}
            kept = ("$ref", "type", "enum", "items", "additionalProperties", "oneOf", "anyOf")
            return {name: bare(value[name]) for name in kept if name in value}
        return [bare(each) for each in value] if isinstance(value, list) else value

    # As text, which is hashable, and with sorted keys, since types that differ in their order are equal.
    return json.dumps(bare(schema), sort_keys=True)


def _camel(text: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"\W|_", text))


def _singular(name: str) -> str:
    """Return the singular of a name."""
    if name.endswith(("Series", "Ties")):
        return name.removesuffix("s") if name.endswith("Ties") else name
    return f"{name[:-3]}y" if name.endswith("ies") else name.removesuffix("s")


def _comment(schema: dict[str, Any]) -> Iterator[str]:
    text = " ".join(schema.get("description", "").split())
    for line in textwrap.wrap(text, 92):
        yield f"    # {line}"


class Operation:
    """One operation of the document."""

    def __init__(self, path: str, method: str, document: dict[str, Any]) -> None:
        self.name, self.method = document["operationId"], method
        self.description = _escape(document["description"].strip())
        parameters = document.get("parameters", [])
        self.path = [each for each in parameters if each["in"] == "path"]
        self.query = [
            # `format` is a parameter of the method that returns a file.
            each
            for each in parameters
            if each["in"] == "query" and each["name"] != "format"
        ]
        self.headers = sorted(each["name"] for each in parameters if each["in"] == "header")
        self.formats: list[str] = next(
            (each["schema"]["enum"] for each in parameters if each["name"] == "format"), []
        )
        self.body: dict[str, Any] = document.get("requestBody", {})
        success = next(v for k, v in document["responses"].items() if k.startswith("2"))
        self.schema: dict[str, Any] | None = success.get("content", {}).get(_JSON, {}).get("schema")
        filled = re.sub(r"\{(\w+)\}", r"{path_part(\1)}", path)
        self.where = f'f"{filled}"' if self.path else f'"{path}"'

    def as_method(
        self, body: list[str], options: list[str], result: str, call: str, *, file: bool = False
    ) -> str:
        """Return the source of the method that returns `call`.

        With `file`, it is the second method of an operation, which returns a file.
        """
        parts = ["self", *(f"{each['name']}: str" for each in self.path), *body]
        signature = ", ".join([*parts, *(["*"] if options else []), *options])
        name = f"{self.name}_as" if file else self.name
        lines = [f"`{self.name}` as a file."] if file else self._description_lines()
        end = '"""' if len(lines) == 1 else '\n"""'
        inner = '"""' + "\n".join(lines) + end + f"\nreturn {call}\n"
        head = f"def {name}({signature}) -> {result}:"
        return textwrap.indent(f"{head}\n{textwrap.indent(inner, '    ')}", "    ")

    def _description_lines(self) -> list[str]:
        """Return the lines of the description, with the parameters that need an explanation."""
        lines = self.description.split("\n")
        explained = [
            each
            for each in (*self.path, *self.query)
            if each["name"] not in _PAGING and not _EVIDENT.fullmatch(each["description"])
        ]
        if explained:
            lines += ["", "Parameters", "----------"]
        for each in explained:
            text = textwrap.wrap(_escape(" ".join(each["description"].split())), 84)
            lines += [_python(each["name"]), *(f"    {line}" for line in text)]
        return lines


class Operations:
    """Methods of the document's operations, by group."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.documents = Documents(document["components"]["schemas"])
        self._schemas = document["components"]["schemas"]
        self._purpose = {tag["name"]: tag["description"] for tag in document["tags"]}
        self._methods: dict[str, list[str]] = {}
        self._home: dict[str, str] = {}  # the group of each type
        operations = [
            (path, method, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        ]
        for group in self._purpose:
            methods = self._methods.setdefault(group, [])
            self.documents.group = group
            for path, method, operation in operations:
                if operation["tags"][0] == group:
                    methods += self._operation_methods(Operation(path, method.upper(), operation))
            for name in self.documents.source:
                self._home.setdefault(name, group)

    def files(self) -> dict[str, str]:
        """Return the source of each file, by its path in the package."""
        files = {}
        classes = {group: _camel(group) for group in self._methods}
        for group, name in classes.items():
            purpose = " ".join(self._purpose[group].split())
            own = [
                self.documents.source[each] for each, home in self._home.items() if home == group
            ]
            if own:
                files[f"_generated/documents/{_snake(group)}.py"] = self._module(
                    group, f"Documents of {group[0].lower()}{group[1:]}.", "\n\n".join(own)
                )
            body = f'class {name}(Transport):\n    """{purpose}"""\n\n'
            body += "\n".join(self._methods[group])
            files[f"_generated/operations/{_snake(group)}.py"] = self._module("", purpose, body)
        files["_generated/operations/__init__.py"] = self._module(
            "",
            "Every operation of the service, in the groups of its document.",
            f"class Operations({', '.join(classes.values())}):\n"
            '    """A method for each operation of docs/openapi.yaml, named after its `operationId`."""',
            *(
                f"from allocator_client._generated.operations.{_snake(group)} import {name}"
                for group, name in classes.items()
            ),
        )
        files["_generated/documents/__init__.py"] = (
            f'"""Documents of requests and answers, by group.\n\n{_MADE}\n"""\n'
        )
        files["_generated/__init__.py"] = (
            f'"""Operations and documents of the service.\n\n{_MADE}\n"""\n'
        )
        return {name: _format_source(text) for name, text in files.items()}

    def _module(self, group: str, purpose: str, body: str, *imports: str) -> str:
        """Return a module of a group's documents or of operations. Ruff removes unused imports later."""
        lines = [
            f'"""{purpose}\n\n{_MADE}\n"""',
            "from datetime import datetime",
            "from typing import Any, Literal, NotRequired, TypedDict",
            "from allocator_client.answers import Answer, Download, Rows",
            "from allocator_client.transport import Transport, path_part",
            *imports,
        ]
        for name, home in self._home.items():
            if home != group and re.search(rf"\b{name}\b", body):
                lines.append(
                    f"from allocator_client._generated.documents.{_snake(home)} import {name}"
                )
        return "\n".join([*lines, body, ""])

    def _operation_methods(self, operation: Operation) -> list[str]:
        """Return the methods of an operation, with a second one for formats other than JSON."""
        return (
            self._read_methods(operation)
            if operation.method == "GET"
            else [self._write_method(operation)]
        )

    def _read_methods(self, operation: Operation) -> list[str]:
        row = self._row(operation.schema)
        options = [self._option(each, listed=row is not None) for each in operation.query]
        asked = [f'"{each["name"]}": {_python(each["name"])}' for each in operation.query]
        where, query = operation.where, f"{{{', '.join(asked)}}}"
        made = []
        if row is not None:
            cursor = (
                "after" if any(each["name"] == "after" for each in operation.query) else "cursor"
            )
            call = f'self._rows({where}, {query}, "{cursor}")'
            made.append(operation.as_method([], options, f"Rows[{row}]", call))
        elif operation.schema is not None:
            call = f"self._read({where}, {query})" if asked else f"self._read({where})"
            result = f"Answer[{self._type(operation.schema)}]"
            made.append(operation.as_method([], options, result, call))
        elif not operation.formats:
            made.append(operation.as_method([], options, "Answer[str]", f"self._text({where})"))
        files = [each for each in operation.formats if each != "json"]
        if files and row is None:
            options.insert(0, f"format: Literal[{', '.join(map(repr, files))}]")
            asked.append('"format": format')
            query = f"{{{', '.join(asked)}}}"
            made.append(
                operation.as_method(
                    [], options, "Download", f"self._file({where}, {query})", file=bool(made)
                )
            )
        return made

    def _write_method(self, operation: Operation) -> str:
        body, sent = self._body(operation)
        options = [self._option(each, listed=False) for each in operation.query]
        options += [f"{_HEADERS[each]}: str | None = None" for each in operation.headers]
        result = f"Answer[{self._type(operation.schema) if operation.schema else 'None'}]"
        where, method = operation.where, operation.method
        # Every POST that writes takes a key: one without it computes, and may be repeated freely.
        if method == "POST" and "Idempotency-Key" not in operation.headers:
            call = f"self._compute({where}, {sent})"
        elif method == "POST":
            more = ", if_match=if_match" if "If-Match" in operation.headers else ""
            asked = [f'"{each["name"]}": {_python(each["name"])}' for each in operation.query]
            more += f", query={{{', '.join(asked)}}}" if asked else ""
            call = f"self._post({where}, {sent}, idempotency_key{more})"
        elif "If-Match" in operation.headers:
            more = f", {sent}" if method != "DELETE" else ""
            call = f'self._change("{method}", {where}{more}, if_match=if_match)'
        else:
            call = f"self._put({where}, {sent})"
        return operation.as_method([body] if body else [], options, result, call)

    def _option(self, parameter: dict[str, Any], *, listed: bool) -> str:
        name, schema = parameter["name"], parameter["schema"]
        if listed and name == "limit":  # a whole list is read, in as few pages as possible
            return f"limit: int = {schema['maximum']}"
        kind = "bool" if schema.get("type") == "boolean" else self.documents.type_of(schema, "")
        # The transport writes instants, and refuses those without a time zone.
        if schema.get("format") == "date-time":
            kind = "str | datetime"
        return f"{_python(name)}: {kind} | None = None"

    def _body(self, operation: Operation) -> tuple[str, str]:
        """Return the parameter of the body, and the expression that is sent."""
        content = operation.body.get("content")
        if content is None:
            return "", "None"
        schema = content[_JSON]["schema"]
        kind = self._type(schema)
        if kind == "NoFields":
            return "", "{}"
        if "text/csv" in content:
            kind += " | str"
        if operation.body.get("required"):
            return f"body: {kind}", "body"
        return f"body: {kind} | None = None", "body or {}"

    def _row(self, schema: dict[str, Any] | None) -> str | None:
        """Return the type of the rows of a list, or None if the schema is not a list."""
        name = (schema or {}).get("$ref", "").rpartition("/")[2]
        if not name.endswith("Page"):
            return None
        return self._type(self._schemas[name]["properties"]["results"]["items"])

    def _type(self, schema: dict[str, Any]) -> str:
        return self.documents.type_of(schema, "Body")


def _python(name: str) -> str:
    """Return the name of a parameter, with an underscore after a keyword such as `from`."""
    return f"{name}_" if keyword.iskeyword(name) else name


def _snake(text: str) -> str:
    return text.lower().replace(" ", "_")


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', "'''")


def _format_source(text: str) -> str:
    # Imports first: removing some changes how the rest is laid out.
    for command in (["check", "--fix", "--quiet", "--select", "F401,I001"], ["format"]):
        place = ["--stdin-filename", str(PACKAGE / "made.py"), "-"]
        text = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *place],
            input=text, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
    return text


def generated() -> dict[str, str]:
    """Return the source of each generated file, by its path in the package."""
    # libyaml, because PyYAML's own reader takes seconds.
    return Operations(yaml.load(DOCUMENT.read_text(), Loader=yaml.CSafeLoader)).files()


def outdated() -> list[str]:
    """Return the names of files that differ from the generated ones, are missing or are left over."""
    made = generated()
    there = {
        str(file.relative_to(PACKAGE)): file.read_text()
        for file in (PACKAGE / "_generated").rglob("*.py")
    }
    return sorted(name for name in made.keys() | there.keys() if made.get(name) != there.get(name))


def main(arguments: Sequence[str]) -> int:
    """Write the files, or with `--check` list the outdated ones."""
    if list(arguments) == ["--check"]:
        old = outdated()
        sys.stdout.writelines(f"{name} is not what docs/openapi.yaml makes\n" for name in old)
        return 1 if old else 0
    made = generated()
    for name in outdated():
        file = PACKAGE / name
        if name in made:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(made[name])
        else:
            file.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
