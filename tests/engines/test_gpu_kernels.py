"""Every operation of the TensorFlow engine has a GPU kernel, so that no step crosses to the host."""

import pytest
from support.frameworks import call
from support.published import MODELS

from raybench import workloads

pytestmark = [pytest.mark.slow, pytest.mark.tensorflow]

LARGE = ("resnet63", "resunet")
NAMES = [name for name in MODELS if "tensorflow" in workloads.get(name).frameworks]
AUGMENTED = [{"crop": 2}, "flip", {"cutout": 3}]


def unsupported(name, **changes):
    if not call("tensorflow", "gpu_kernels_side:built_with_gpu_kernels"):
        pytest.skip("this TensorFlow was built without GPU kernels")
    return call("tensorflow", "gpu_kernels_side:unsupported", name=name, **changes)


@pytest.mark.parametrize("where", ["device", "host"])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.exhaustive] * (name in LARGE)) for name in NAMES]
)
def test_every_operation_of_a_workload_has_a_gpu_kernel(name, where):
    pictures = not MODELS[name].words and len(MODELS[name].outputs) == 1
    augmentation = AUGMENTED if pictures else []
    assert unsupported(name, input=where, augmentation=augmentation, steps_per_execution=2, as_on_gpu=True) == []


SETTINGS = [
    {"steps_per_execution": 1},
    {"replicas": 2, "replication": "grouped"},
    {"replicas": 2, "replication": "devices", "devices": 2},
    {"precision": "bf16", "optimizer": "adamw", "decay": "decoupled", "gradient_clipping": 1.0, "label_smoothing": 0.1},
]


@pytest.mark.parametrize("where", ["device", "host"])
@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: " ".join(settings))
def test_so_has_every_operation_of_other_settings(settings, where):
    assert unsupported("digits_cnn", input=where, augmentation=AUGMENTED, **settings) == []


def test_an_lstm_without_cudnn_has_gpu_kernels():
    assert unsupported("imdb_lstm") == []


def test_the_check_names_operations_without_a_gpu_kernel_and_large_tensors_in_host_memory():
    found = call("tensorflow", "gpu_kernels_side:unsupported_examples")
    assert [line for line in found if not line.startswith("Identity")] == [
        "GatherV2(Taxis=int32, Tindices=int64, Tparams=uint8)",
        "Mul(T=int32): x int32[32, 64] in host memory",
        "Mul(T=int32): y int32[32, 64] in host memory",
        "Mul(T=int32): z int32[32, 64] in host memory",
    ]


def test_the_graph_of_an_lstm_is_that_of_a_gpu():
    assert "CudnnRNNV3" in call("tensorflow", "gpu_kernels_side:operation_types", name="imdb_lstm")
