"""What keeps Celery's worker at work: deliveries that it settles, and a sign of life that it earns."""
