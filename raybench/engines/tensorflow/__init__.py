"""The TensorFlow engine, for models in Keras 3.

Importing this sets what TensorFlow and Keras read when they are imported themselves: Keras's backend, and that notices
about the build (notes and warnings, no errors) stay out of a trial's output.
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
