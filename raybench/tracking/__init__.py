"""A grid's attempts in MLflow, as runs."""
