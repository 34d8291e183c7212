"""Compiled kernels, loaded on import by processes from which others are forked."""

import policies.documents.comparison
import policies.documents.evaluation  # noqa: F401 - what the forked processes are asked
from policies.warming import warm_compiled

warm_compiled()
