"""Long-term policies: whole tasks for one step at a time, by what tenants have used so far."""
