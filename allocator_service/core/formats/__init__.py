"""The formats of times in the admin, to the second and with the zone."""
