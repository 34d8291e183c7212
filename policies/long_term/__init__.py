"""Long-term policies, which decide whole tasks for one step at a time by past use."""
