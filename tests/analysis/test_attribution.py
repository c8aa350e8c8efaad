import pytest

from raybench.analysis.attribution import MEASURED, Conditions, credit
from raybench.analysis.findings import DOUBTS_RATIO
from raybench.analysis.sentences import plain


def test_every_finding_that_makes_a_ratio_doubtful_has_its_words():
    assert set(MEASURED) == DOUBTS_RATIO | {"overhead_bound"}


def says(baseline, other):
    return [plain(told) for told in credit(baseline, other).says]


@pytest.mark.parametrize("bound", ["compute", "memory", "compute, overhead", None])
def test_a_ratio_of_two_busy_devices_is_the_hardware_s(bound):
    found = credit(Conditions("cpu", "compute"), Conditions("gpu", bound))
    assert found.hardware
    assert found.says == ()


def test_a_side_that_waits_for_its_input_measures_its_host():
    found = credit(Conditions("cpu", "compute"), Conditions("gpu", "input", {"input_bound"}))
    assert not found.hardware
    assert found.reasons == (("gpu", "input_bound"),)
    assert says(Conditions("cpu"), Conditions("gpu", "input")) == [
        "gpu waited for input: this measures the host that feeds it, not the device."
    ]


@pytest.mark.parametrize("code", ["throttled", "few_threads", "unsynchronised_clock"])
def test_so_does_each_finding_that_makes_a_time_doubtful(code):
    assert credit(Conditions("cpu", "compute", {code}), Conditions("gpu")).reasons == (("cpu", code),)
    assert credit(Conditions("cpu"), Conditions("gpu", "memory", {code})).reasons == (("gpu", code),)


def test_what_both_sides_have_is_said_once():
    assert says(Conditions("cpu", "overhead"), Conditions("gpu", "overhead, compute")) == [
        "gpu and cpu both had little to compute for each operation: this measures how fast operations are started, "
        "not the device."
    ]


def test_a_note_doubts_nothing():
    assert credit(Conditions("cpu", None, {"niceness", "no_audit"}), Conditions("gpu")).hardware
