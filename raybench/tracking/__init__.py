"""Copy of a grid's journal in MLflow, as runs."""
