"""The papers' tables and figures again: what they print, what comes out here, and why it differs."""

from papers.finding import Figure, Finding, Line, Row, Verdict
from papers.studies import STUDIES, reproduce

__all__ = ["STUDIES", "Figure", "Finding", "Line", "Row", "Verdict", "reproduce"]
