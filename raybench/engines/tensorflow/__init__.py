"""The TensorFlow engine, for models in Keras 3.

Importing this sets what TensorFlow and Keras read when they are imported themselves: Keras's backend, and that notes
about the build stay out of a trial's output. Warnings go there: the allocator's is all that is told before a kernel
without memory takes the process down.
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
