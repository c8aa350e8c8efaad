"""What the tests of TensorFlow's device adapters do in a TensorFlow process; plain values in and out."""

import os

import tensorflow as tf

from raybench.devices import Assignment, open_device
from raybench.devices.host import usable_cores


def opened(precision="fp32", threads=1, devices=1):
    """What a trial on the CPU sees, and how many threads really compute."""
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        os.environ[name] = "7"
    device = open_device("cpu", "tensorflow", Assignment([usable_cores()[0]], [], threads, devices))
    device.hide_others()
    try:
        device.open(precision)
    except ValueError as error:
        return str(error)
    tf.linalg.matmul(tf.ones([500, 500]), tf.ones([500, 500]))
    return {
        "visible": os.environ["CUDA_VISIBLE_DEVICES"],
        "runtime_conditions": device.runtime_conditions(),
        "cores": device.describe().count,
        "kind": device.describe().kind,
        "devices": len(tf.config.list_logical_devices("CPU")),
        "replicas": device.strategy().num_replicas_in_sync,
    }


def opened_as_tpu(precision):
    """The precision of products recorded by the TPU adapter, and how many of a program's two have the highest.

    There is no TPU below it.
    """
    from types import SimpleNamespace

    from raybench.devices.tensorflow import Tpu

    tf.distribute.cluster_resolver.TPUClusterResolver = lambda tpu: None
    tf.tpu.experimental.initialize_tpu_system = lambda resolver: None
    tf.tpu.experimental.DeviceAssignment = SimpleNamespace(build=lambda topology, num_replicas: None)
    tf.distribute.TPUStrategy = lambda resolver, experimental_device_assignment: None
    device = Tpu(Assignment([usable_cores()[0]], [], 1))
    device.kind = "tpu"
    device.open(precision)
    matrix, pictures = tf.ones([4, 4]), tf.ones([1, 4, 4, 1])

    def products(matrix, pictures):
        return tf.linalg.matmul(matrix, matrix), tf.nn.conv2d(pictures, tf.reshape(matrix, [4, 4, 1, 1]), 1, "SAME")

    compiled = tf.function(products, jit_compile=True)
    program = compiled.experimental_get_compiler_ir(matrix, pictures)(stage="hlo")
    return device.runtime_conditions()["float32_products"], program.count("operand_precision={highest,highest}")


def synchronised_as_tpu():
    """The values that the TPU adapter waits for, on two replicas which are two parts of the host."""
    from types import SimpleNamespace

    from raybench.devices.tensorflow import Tpu

    (host,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(host, [tf.config.LogicalDeviceConfiguration()] * 2)
    waited = []

    class Strategy(tf.distribute.MirroredStrategy):
        def experimental_local_results(self, value):
            for each in super().experimental_local_results(value):
                yield SimpleNamespace(numpy=lambda each=each: waited.append(float(each.numpy())))

    tf.distribute.cluster_resolver.TPUClusterResolver = lambda tpu: None
    tf.tpu.experimental.initialize_tpu_system = lambda resolver: None
    tf.tpu.experimental.DeviceAssignment = SimpleNamespace(build=lambda topology, num_replicas: None)
    tf.distribute.TPUStrategy = lambda resolver, experimental_device_assignment: Strategy(["CPU:0", "CPU:1"])
    device = Tpu(Assignment([usable_cores()[0]], [], 1, 2))
    device.kind = "tpu"
    device.open("bf16")
    waited.clear()
    device.synchronize()
    return waited
