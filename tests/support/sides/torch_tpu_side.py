"""What the tests of TorchTPU's adapter do with the real package, on a machine without a TPU."""

import sys

import torch

from raybench.devices import Assignment, open_device

USED = {
    "torch.accelerator": ["current_accelerator", "is_available", "max_memory_allocated", "synchronize"],
    "torch": ["get_float32_matmul_precision", "set_float32_matmul_precision"],
}
"""The functions that the adapter calls."""


def interface():
    """What the package offers: without a chip, and as if there were one."""
    loaded = "torch_tpu" in sys.modules
    device = open_device("tpu", "torch_tpu", Assignment([], ["0"], 1))
    device.hide_others()
    try:
        device.open("fp32")
    except RuntimeError as error:
        without = str(error)
    from torch_tpu import _loader
    from torch_tpu._internal.utils import hardware

    hardware.get_tpu_device_count = lambda: 1
    _loader.load()
    accelerator = torch.accelerator.current_accelerator()
    precisions = [torch.get_float32_matmul_precision()]
    torch.set_float32_matmul_precision("highest")
    precisions.append(torch.get_float32_matmul_precision())
    modules = {"torch": torch, "torch.accelerator": torch.accelerator}
    return {
        "loaded by torch alone": loaded,
        "without a chip": without,
        "accelerator": accelerator.type if accelerator else None,
        "device": torch.device("tpu").type,
        "precision": precisions,
        "missing": [name for module, names in USED.items() for name in names if not hasattr(modules[module], name)],
    }
