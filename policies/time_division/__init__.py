"""Time division (TDA): slots of whole tasks that are fair on average over a period."""
