"""One trial inside its process, from job to events.

Independent of Ray, MLflow and Pydantic.
"""
