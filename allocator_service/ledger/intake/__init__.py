"""How entries come in: usage that is reported, corrections, and the sealer."""
