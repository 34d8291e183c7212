"""A document is declared once: it writes objects and rows, and requests are derived from it."""

from collections import namedtuple
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from policies.fields import (
    BooleanField,
    Document,
    DocumentField,
    Given,
    IntegerField,
    ListField,
    NumberField,
    TextField,
)


class Rounded(NumberField):
    def write(self, value: Any, context: Any) -> Any:
        return round(float(value), 2)

    def exact(self, value: Any, context: Any) -> Any:
        return value


class Engine(Document):
    model = TextField(max_length=20, source="engine_model", writable=True)
    serial = TextField(max_length=20)


class Wheel(Document):
    size = IntegerField(minimum=1, maximum=9, writable=True)


class Car(Document):
    park = TextField(max_length=9, source=Given("park.name"))
    name = TextField(max_length=20, writable={"max_length": 5, "description": "Short."})
    owner = TextField(max_length=9, source="owner.name", allow_null=True)
    price = Rounded(writable={"default": Decimal(1)})
    sold = BooleanField(source=lambda car, context: car.owner is not None and context.open)
    engine = DocumentField(Engine, source=".", writable=True)
    wheels = ListField(Wheel, writable=True)


class FlatCar(Document):
    park = TextField(max_length=9, source=Given("park.name"))
    name = TextField(max_length=20)
    owner = TextField(max_length=9, source="owner.name")


CONTEXT = SimpleNamespace(park=SimpleNamespace(name="north"), open=True)


def car(**changes: Any) -> SimpleNamespace:
    values: dict[str, Any] = {
        "name": "one",
        "owner": SimpleNamespace(name="ada"),
        "price": Decimal("1.239"),
        "engine_model": "v8",
        "serial": "x1",
        "wheels": [SimpleNamespace(size=4)],
    }
    return SimpleNamespace(**{**values, **changes})


def test_an_object_is_written_by_the_sources_of_the_fields():
    assert Car.write(car(), CONTEXT) == {
        "park": "north",
        "name": "one",
        "owner": "ada",
        "price": 1.24,
        "sold": True,
        "engine": {"model": "v8", "serial": "x1"},
        "wheels": [{"size": 4}],
    }


def test_a_null_relation_ends_the_path():
    assert Car.write(car(owner=None), CONTEXT)["owner"] is None


def test_stored_documents_are_passed_on():
    written = Car.write(car(wheels=[{"size": 3, "spare": True}]), CONTEXT)
    assert written["wheels"] == [{"size": 3, "spare": True}]


def test_a_change_starts_from_exact_values():
    assert Car.exact(car(), CONTEXT)["price"] == Decimal("1.239")


def test_the_request_has_the_writable_fields_with_their_options():
    request = Car.writable("CarRequest", year=IntegerField(minimum=0, maximum=9999))
    assert request.__name__ == "CarRequest"
    assert list(request.fields) == ["name", "price", "engine", "wheels", "year"]
    assert request.schema()["properties"]["name"] == {
        "type": "string",
        "minLength": 1,
        "maxLength": 5,
        "description": "Short.",
    }
    assert request.schema()["required"] == ["name", "engine", "wheels", "year"]
    sent = {"name": "a", "engine": {"model": "v6"}, "wheels": [{"size": 1}], "year": 1}
    assert request.read(sent) == {**sent, "price": 1}
    # The answer keeps its own options.
    assert Car.schema()["properties"]["name"]["maxLength"] == 20
    assert "price" in Car.schema()["required"]


def test_a_request_can_have_some_fields_in_its_own_order():
    assert list(Car.writable("CarChange", only=("price", "name")).fields) == ["price", "name"]


def test_an_option_that_the_field_does_not_have_is_refused():
    class Wrong(Document):
        name = TextField(max_length=5, writable={"max_lenght": 3})

    with pytest.raises(TypeError, match="max_lenght"):
        Wrong.writable("WrongRequest")


def test_rows_of_a_query_are_written_without_objects():
    assert FlatCar.lookups() == ["name", "owner__name"]
    row = namedtuple("Row", FlatCar.lookups())("one", "ada")
    written = {"park": "north", "name": "one", "owner": "ada"}
    assert FlatCar.row_writer(CONTEXT)(row) == written == FlatCar.write(car(), CONTEXT)


@pytest.mark.parametrize("source", [".", lambda found, _: found])
def test_rows_have_no_column_for_a_function(source):
    class Computed(Document):
        name = TextField(max_length=5, source=source)

    with pytest.raises(TypeError, match="No column"):
        Computed.lookups()
