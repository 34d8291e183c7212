"""Statements as PDF files, typeset in a process of their own."""
