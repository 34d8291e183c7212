"""Rendering of a decision's exact amounts as limits of a scheduler in whole numbers of its units."""
