"""The JSON shape of properties."""

from __future__ import annotations

from typing import Any

import numpy as np

from policies.documents.quantities import quantities
from policies.model.allocation import Allocation
from policies.properties.properties import PROPERTY_NAMES, Properties


def properties_to_document(allocation: Allocation, properties: Properties) -> dict[str, Any]:
    """Return the JSON form of properties, with a verdict per name and three numbers."""
    ratio = properties.contribution_ratio
    return {name: properties.verdicts[name].to_document() for name in PROPERTY_NAMES} | {
        "resource_as_you_contributed": None if ratio is None or np.isinf(ratio) else ratio,
        "jain_index": properties.jain_index,
        "utilization": quantities(allocation.problem.resources, properties.utilization),
    }
