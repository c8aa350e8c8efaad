"""What is kept of a grid: the journal, and its projection in MLflow."""
