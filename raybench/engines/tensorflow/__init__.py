"""The TensorFlow engine, for models in Keras 3."""

from raybench.devices import tensorflow  # noqa: F401 — sets the variables that TensorFlow and Keras read on import
