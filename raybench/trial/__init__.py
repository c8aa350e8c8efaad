"""One trial, inside its process: a job in, events out. Knows nothing of Ray, MLflow or Pydantic."""
