"""TensorFlow adapters for CPUs and NVIDIA GPUs.

That for GPUs is written to TensorFlow's documentation and has not been run yet.

Importing this module sets variables that TensorFlow and Keras read at import: Keras's backend, and a log level that
keeps notes about the build out of a trial's output. Warnings are kept: the allocator's warning is the only message
before a kernel without memory ends the process.
"""

from __future__ import annotations

import os
from dataclasses import replace

from raybench.core.memory import looks_like_oom
from raybench.devices import cuda
from raybench.devices.base import AsynchronousDevice, Device, Hardware

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")


class TensorFlowDevice(Device):
    """A device on which TensorFlow computes, with the information that the engine needs."""

    copy_to = ""
    """TensorFlow's name of the device to which batches are copied in advance; empty if there is none."""

    def set_threads(self, count: int) -> None:
        """Set the threads within an operation and of concurrent operations."""
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(count)
        tf.config.threading.set_inter_op_parallelism_threads(count)

    def threads(self) -> int:
        import tensorflow as tf

        return int(tf.config.threading.get_intra_op_parallelism_threads())

    def is_oom(self, error: BaseException) -> bool:
        import tensorflow as tf

        if isinstance(error, tf.errors.ResourceExhaustedError) or super().is_oom(error):
            return True
        return isinstance(error, tf.errors.OpError) and looks_like_oom(str(error))


class Cpu(TensorFlowDevice):
    """A CPU trial: it owns its cores, by default all of the node; operations are done when the call returns."""


class Asynchronous(AsynchronousDevice, TensorFlowDevice):
    """Devices that execute submitted work asynchronously; TensorFlow has no timed events."""

    def synchronize(self) -> None:
        import tensorflow as tf

        tf.test.experimental.sync_devices()


class Cuda(cuda.Nvidia, Asynchronous):
    """NVIDIA GPUs: the first visible ones."""

    copy_to = "GPU:0"

    def open(self, precision: str) -> None:
        """Set the host's threads, memory growth and TF32.

        TF32 is set as declared; TensorFlow's own default is on.

        Raises:
            RuntimeError: this TensorFlow sees no GPU.
        """
        import tensorflow as tf

        gpus = tf.config.list_physical_devices("GPU")
        if not gpus:
            raise RuntimeError(f"tensorflow {tf.__version__} sees no GPU (a build without CUDA, or no driver)")
        self.set_threads(self.assignment.threads)
        selected = gpus[: self.assignment.devices]
        tf.config.set_visible_devices(selected, "GPU")
        for gpu in selected:
            tf.config.experimental.set_memory_growth(gpu, True)
        if precision:
            tf.config.experimental.enable_tensor_float_32_execution(precision == "tf32")

    def peak_memory(self) -> int:
        import tensorflow as tf

        names = [f"GPU:{i}" for i in range(len(tf.config.list_logical_devices("GPU")))]
        return max(int(tf.config.experimental.get_memory_info(name)["peak"]) for name in names)

    def describe(self) -> Hardware:
        import tensorflow as tf

        gpu = tf.config.get_visible_devices("GPU")[0]
        name = tf.config.experimental.get_device_details(gpu).get("device_name", "")
        return replace(self.visible_hardware(name), count=self.assignment.devices, ids=())
