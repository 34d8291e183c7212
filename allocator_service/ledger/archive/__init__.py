"""Months of the ledger outside of the database, as Parquet files."""
