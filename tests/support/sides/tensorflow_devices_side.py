"""What the tests of TensorFlow's device adapters do in a TensorFlow process; plain values in and out."""

import os
import re
import time
from pathlib import Path

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


def busy_threads(threads):
    """How many threads of the process spend time in a large product."""
    device = open_device("cpu", "tensorflow", Assignment([], [], threads))
    device.open("fp32")
    values = tf.random.normal([1500, 1500])
    before = _spent()
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        values = tf.linalg.matmul(values, values) * 1e-3
    spent = {thread: ticks - before.get(thread, 0) for thread, ticks in _spent().items()}
    return sum(ticks > 0.15 * max(spent.values()) for ticks in spent.values())


def _spent():
    ticks = {}
    for path in Path("/proc/self/task").iterdir():
        fields = re.sub(r"^.*\) ", "", (path / "stat").read_text()).split()
        ticks[path.name] = int(fields[11]) + int(fields[12])
    return ticks


def out_of_memory():
    """Whether each of these is taken for memory running out."""
    device = open_device("cpu", "tensorflow", Assignment([], [], 1))
    device.open("fp32")
    found = []
    for work in (lambda: tf.ones([1 << 46]), lambda: tf.linalg.matmul(tf.ones([2, 3]), tf.ones([2, 3]))):
        try:
            work()
        except Exception as error:
            found.append(device.is_oom(error))
    return [*found, device.is_oom(MemoryError()), device.is_oom(ValueError("out of memory"))]


def marks():
    device = open_device("cpu", "tensorflow", Assignment([], [], 1))
    device.open("fp32")
    start = device.mark()
    tf.linalg.matmul(tf.ones([800, 800]), tf.ones([800, 800]))
    device.synchronize()
    return device.elapsed(start, device.mark())


def without_a_gpu():
    try:
        open_device("cuda", "tensorflow", Assignment([], [], 1)).open("fp32")
    except RuntimeError as error:
        return str(error)


def copy_to(kind, devices):
    """The device to which batches are copied in advance."""
    return open_device(kind, "tensorflow", Assignment([], [], 1, devices)).copy_to()
