"""Schemas of exports in the columns of FOCUS."""

from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.billing.exports.focus import COLUMNS, focus_schema
from allocator_service.core.errors import Missing
from api.auth import EVERY_SCOPE
from api.contract import documents
from api.contract.operations import shows
from api.versions import conditional, of_release
from api.views import ContractView


class GeneratorDocument(documents.Document):
    DataGenerator = documents.TextField(max_length=100)


class ColumnDocument(documents.Document):
    ColumnName = documents.TextField(max_length=50)
    DataType = documents.ChoiceField(choices=["STRING", "DECIMAL", "DATETIME", "JSON"])
    NumericPrecision = documents.IntegerField(minimum=1, maximum=76, required=False)
    NumberScale = documents.IntegerField(minimum=0, maximum=76, required=False)
    StringEncoding = documents.TextField(max_length=20, required=False)


class SchemaDocument(documents.Document):
    SchemaId = documents.TextField(max_length=36, description="It changes if the columns change.")
    FocusVersion = documents.ChoiceField(choices=sorted(COLUMNS))
    CreationDate = documents.TextField(max_length=30)
    ColumnDefinition = documents.ListField(ColumnDocument, min_items=1, max_items=100)


class FocusMetadataDocument(documents.Document):
    DataGenerator = documents.DocumentField(GeneratorDocument)
    Schema = documents.DocumentField(SchemaDocument)


class FocusSchemaView(ContractView):
    scopes: ClassVar = {"GET": EVERY_SCOPE}
    of_a_pool = ("GET",)

    @conditional(of_release)
    @shows(FocusMetadataDocument, "Show the schema of exports in the columns of FOCUS")
    def get(self, request: Request, version: str) -> Response:
        """Show the metadata of exports of a version of FOCUS.

        The schema has its columns in their order. Exports name this document in their header `Link`. A
        version that is not exported is 404 `focus_schema.not_found`.
        """
        if version not in COLUMNS:
            known = ", ".join(sorted(COLUMNS))
            raise Missing(
                f"There is no export of this version of FOCUS; there are: {known}.",
                code="focus_schema.not_found",
            )
        return Response(focus_schema(version))
