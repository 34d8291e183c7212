"""Reproduction of the papers' tables and figures, beside the printed numbers.

Every difference is stated with its reason.
"""

from papers.finding import Figure, Finding, Line, Row, Verdict
from papers.studies import STUDIES, reproduce

__all__ = ["STUDIES", "Figure", "Finding", "Line", "Row", "Verdict", "reproduce"]
