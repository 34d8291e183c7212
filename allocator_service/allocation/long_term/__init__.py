"""Steps, metering and replay of pools whose policy remembers."""
