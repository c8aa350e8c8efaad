"""What the tests of TensorFlow's device adapters do in a TensorFlow process; plain values in and out."""

import os

import tensorflow as tf

from raybench.devices import Assignment, open_device
from raybench.devices.host import usable_cores


def opened(threads=1):
    """What a trial on the CPU sees, and how many threads really compute."""
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        os.environ[name] = "7"
    device = open_device("cpu", "tensorflow", Assignment([usable_cores()[0]], [], threads))
    device.hide_others()
    device.open("fp32")
    tf.linalg.matmul(tf.ones([500, 500]), tf.ones([500, 500]))
    return {
        "visible": os.environ["CUDA_VISIBLE_DEVICES"],
        "threads": device.threads(),
        "own_cores": usable_cores(),
        "cores": device.describe().count,
        "kind": device.describe().kind,
        "devices": len(tf.config.list_logical_devices("CPU")),
    }
