"""Extensions of Celery's worker for acknowledgements and signs of life."""
