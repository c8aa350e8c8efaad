import pytest
from support.frameworks import call

from raybench.devices.host import usable_cores

pytestmark = [pytest.mark.slow, pytest.mark.tensorflow]


def test_cpu_trial_sees_cores_but_no_accelerator():
    found = call("tensorflow", "tensorflow_side:opened")
    assert found["visible"] == ""
    assert (found["threads"], found["own_cores"]) == (1, [usable_cores()[0]])
    assert (found["cores"], found["kind"]) == (1, "cpu")
    assert found["devices"] == 1
