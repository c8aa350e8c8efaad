"""Execution of trials: in this process or through Ray Tune. Importing it does not import Ray."""
