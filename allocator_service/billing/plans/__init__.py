"""Price plans: drafts, publishing, and which price holds when."""
