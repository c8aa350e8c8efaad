import os

import pytest
from support.frameworks import call

from raybench.devices import Assignment, open_device
from raybench.devices.host import usable_cores

pytestmark = [pytest.mark.slow, pytest.mark.tensorflow]


def test_cpu_trial_sees_cores_but_no_accelerator():
    found = call("tensorflow", "tensorflow_devices_side:opened")
    assert found["visible"] == ""
    assert found["runtime_conditions"] == {
        "threads": 1,
        "thread_waiting": "passive",
        "cores": [usable_cores()[0]],
        "visible": [],
        "tf32": False,
        "niceness": os.nice(0),
    }
    assert (found["cores"], found["kind"]) == (1, "cpu")
    assert (found["devices"], found["replicas"]) == (1, 1)


@pytest.mark.parametrize(("options", "result"), [({"devices": 3}, 3), ({"precision": "tf32"}, "only on cuda")])
def test_virtual_devices_and_precisions(options, result):
    found = call("tensorflow", "tensorflow_devices_side:opened", **options)
    if isinstance(result, str):
        assert result in found
    else:
        assert (found["devices"], found["replicas"]) == (result, result)


@pytest.mark.parametrize(("precision", "expected"), [("fp32", ["highest", 2]), ("bf16", ["default", 0])])
def test_fp32_on_a_tpu_multiplies_in_float32(precision, expected):
    assert list(call("tensorflow", "tensorflow_devices_side:opened_as_tpu", precision=precision)) == expected


def test_tpu_waits_for_every_replica():
    assert call("tensorflow", "tensorflow_devices_side:synchronised_as_tpu") == [1.0, 1.0]


def test_a_tpu_trial_sees_its_chip_only(monkeypatch):
    names = ("TPU_VISIBLE_CHIPS", "TPU_CHIPS_PER_PROCESS_BOUNDS", "TPU_PROCESS_BOUNDS", "TPU_PROCESS_ADDRESSES")
    for name in names:
        monkeypatch.setenv(name, "the caller's")
    pytest.importorskip("tensorflow")
    open_device("tpu", "tensorflow", Assignment([], ["2"], 1)).hide_others()
    assert [os.environ.get(name) for name in names] == ["2", "1,1,1", "1,1,1", None]
