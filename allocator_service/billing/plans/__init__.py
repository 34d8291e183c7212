"""Price plans, from drafts and publication to the timeline of prices."""
