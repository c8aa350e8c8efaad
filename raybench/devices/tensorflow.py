"""TensorFlow adapters for CPUs, NVIDIA GPUs and TPUs.

Those for GPUs and TPUs are written to TensorFlow's documentation and have not been run yet.

Importing this module sets variables that TensorFlow and Keras read at import: Keras's backend, and a log level that
keeps notes about the build out of a trial's output. Warnings are kept: the allocator's warning is the only message
before a kernel without memory ends the process.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from raybench.core.memory import looks_like_oom
from raybench.devices import cuda, tpu
from raybench.devices.base import Assignment, Hardware
from raybench.devices.host import AsynchronousHost, Host

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")


class TensorFlowHost(Host):
    """A host on which TensorFlow computes, with the information that the engine needs."""

    _type = "CPU"

    def jit_compile(self, asked: bool) -> bool | None:
        """The `jit_compile` argument of `tf.function` for the setting `compile`.

        Raises:
            ValueError: a mirrored step cannot be compiled.
        """
        if asked and self.assignment.devices > 1:
            raise ValueError("tensorflow cannot compile a step over several devices: leave compile off")
        return asked

    def open(self, precision: str) -> None:
        """Set threads and virtual devices.

        TensorFlow accepts both only before its first operation. There are virtual devices only if several are assigned.

        Raises:
            ValueError: the device does not support that precision.
        """
        import tensorflow as tf

        super().open(precision)
        if self.assignment.devices > 1:
            (host,) = tf.config.list_physical_devices("CPU")
            configurations = [tf.config.LogicalDeviceConfiguration() for _ in range(self.assignment.devices)]
            tf.config.set_logical_device_configuration(host, configurations)

    def set_threads(self, count: int) -> None:
        """Set the threads within an operation and of concurrent operations."""
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(count)
        tf.config.threading.set_inter_op_parallelism_threads(count)

    def threads(self) -> int:
        """Threads per operation."""
        import tensorflow as tf

        return int(tf.config.threading.get_intra_op_parallelism_threads())

    def strategy(self) -> Any:
        """The `tf.distribute` strategy over the devices; TensorFlow's default for one device."""
        import tensorflow as tf

        if self.assignment.devices == 1:
            return tf.distribute.get_strategy()
        return tf.distribute.MirroredStrategy([f"{self._type}:{i}" for i in range(self.assignment.devices)])

    def copy_to(self) -> str:
        """TensorFlow's name of the device to which batches are copied in advance; empty if there is none or several."""
        return ""

    def is_oom(self, error: BaseException) -> bool:
        """Return whether the memory of the device or of the host ran out."""
        import tensorflow as tf

        if isinstance(error, tf.errors.ResourceExhaustedError) or super().is_oom(error):
            return True
        return isinstance(error, tf.errors.OpError) and looks_like_oom(str(error))


class Cpu(TensorFlowHost):
    """A CPU trial: it owns its cores, by default all of the node.

    Operations are done when the call returns.
    """


class Asynchronous(AsynchronousHost, TensorFlowHost):
    """Devices that execute submitted work asynchronously; TensorFlow has no timed events."""

    def synchronize(self) -> None:
        """Wait until every device has done its submitted work."""
        import tensorflow as tf

        tf.test.experimental.sync_devices()


class Cuda(cuda.Nvidia, Asynchronous):
    """NVIDIA GPUs: the first visible one, or one for each replica."""

    _type = "GPU"
    _peak = 0  # before the last search

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

    def copy_to(self) -> str:
        """The GPU, if there is only one: a mirrored step copies each replica's part itself."""
        return f"{self._type}:0" if self.assignment.devices == 1 else ""

    def peak_memory(self) -> int:
        """Peak bytes of TensorFlow's allocator, of the GPU that held most, without cuDNN's search."""
        import tensorflow as tf

        peaks = [int(tf.config.experimental.get_memory_info(name)["peak"]) for name in self._gpus()]
        return max(self._peak, *peaks)

    def begin_search(self) -> None:
        """Keep the peak before cuDNN's search, which tries algorithms that need more memory than the fastest."""
        self._peak = self.peak_memory()

    def end_search(self) -> bool:
        """Forget the peak since `begin_search`."""
        import tensorflow as tf

        for name in self._gpus():
            tf.config.experimental.reset_memory_stats(name)
        return True

    def _gpus(self) -> list[str]:
        import tensorflow as tf

        return [f"GPU:{i}" for i in range(len(tf.config.list_logical_devices("GPU")))]

    def describe(self) -> Hardware:
        """The first visible GPU according to the driver, and the trial's number of GPUs."""
        import tensorflow as tf

        gpu = tf.config.get_visible_devices("GPU")[0]
        name = tf.config.experimental.get_device_details(gpu).get("device_name", "")
        return replace(self.visible_hardware(name), count=self.assignment.devices, ids=())

    def runtime_conditions(self) -> dict[str, Any]:
        """Conditions of the host, TF32, and the CUDA versions of TensorFlow's build."""
        import tensorflow as tf

        built = tf.sysconfig.get_build_info()
        return super().runtime_conditions() | {
            "tf32": bool(tf.config.experimental.tensor_float_32_execution_enabled()),
            "cuda": built.get("cuda_version"),
            "cudnn": built.get("cudnn_version"),
            "visible": list(self.assignment.visible) or [str(i) for i in range(self.assignment.devices)],
        }


class Tpu(Asynchronous):
    """TPU cores of this host through `TPUStrategy`.

    TensorFlow does not report their memory, so the peak is the host's.
    """

    def __init__(self, assignment: Assignment) -> None:
        super().__init__(assignment)
        self._strategy: Any = None
        self._add_one: Any = None

    def jit_compile(self, asked: bool) -> bool | None:
        """None: every step is compiled, with any setting."""
        return None

    def hide_others(self) -> None:
        """Show only the assigned chips; if none is assigned, those visible to the caller."""
        super().hide_others()
        tpu.show(self.assignment.visible)

    def open(self, precision: str) -> None:
        """Set the host's threads and the precision of float32 products, and initialise the TPU system.

        A TPU multiplies float32 numbers as bfloat16, unless TensorFlow's setting for TF32 is off. The TPU system is
        initialised once per process, before any other operation.

        Raises:
            ValueError: the device does not support that precision.
        """
        import tensorflow as tf

        Host.open(self, precision)
        if precision:
            tf.config.experimental.enable_tensor_float_32_execution(precision != "fp32")
        self.strategy()
        self.synchronize()

    def synchronize(self) -> None:
        """Wait for a value that each core computes after its submitted work.

        `sync_devices` waits for GPUs only (documentation of TensorFlow's operation SyncDevice), and `strategy.run`
        returns before a TPU has ended.
        """
        import tensorflow as tf

        super().synchronize()
        if self._strategy is not None:
            ends = self._strategy.run(self._add_one, args=(tf.constant(0.0),))
            for end in self._strategy.experimental_local_results(ends):
                end.numpy()

    def strategy(self) -> Any:
        """The strategy over as many cores as the trial has devices; the first call initialises the TPU system."""
        import tensorflow as tf

        if self._strategy is None:
            resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
            topology = tf.tpu.experimental.initialize_tpu_system(resolver)
            cores = tf.tpu.experimental.DeviceAssignment.build(topology, num_replicas=self.assignment.devices)
            self._strategy = tf.distribute.TPUStrategy(resolver, experimental_device_assignment=cores)
            self._add_one = tf.function(lambda value: value + 1.0)
        return self._strategy

    def describe(self) -> Hardware:
        """The chips of this host, and the number of cores that the trial uses."""
        from raybench.devices import probe

        hardware = next(entry for entry in probe() if entry.kind == self.kind)
        return replace(hardware, count=self.assignment.devices)

    def runtime_conditions(self) -> dict[str, Any]:
        """Conditions of the host, and the precision of float32 products, named as by PyTorch/XLA.

        `highest` is float32; `default` is bfloat16.
        """
        import tensorflow as tf

        is_low = tf.config.experimental.tensor_float_32_execution_enabled()
        return super().runtime_conditions() | {"float32_products": "default" if is_low else "highest"}
