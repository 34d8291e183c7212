"""Time division (TDA) into slots of whole tasks that are fair on average over a period."""
