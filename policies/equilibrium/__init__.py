"""Competitive equilibrium from equal incomes (CEEI)."""
