"""The TensorFlow engine, for Keras 3 models."""

from raybench.devices import tensorflow  # noqa: F401 — sets the variables that TensorFlow and Keras read on import
