"""How the admin writes times: to the second, with the zone."""
