import pytest

from raybench.analysis.attribution import MEASURED, Conditions, credit
from raybench.analysis.findings import DOUBTS_RATIO
from raybench.analysis.sentences import plain


def test_every_finding_that_makes_a_ratio_doubtful_has_its_words():
    assert set(MEASURED) == DOUBTS_RATIO | {"overhead_bound"}


SENTENCES = {
    "input_bound": "gpu waited for input: this measures the host that feeds it, not the device.",
    "overhead_bound": "gpu had little to compute for each operation: this measures how fast operations are started, "
    "not "
    "the device.",
    "throttled": "gpu ran throttled: this measures a device slowed down by heat or power, not what it can do.",
    "few_threads": "gpu ran with fewer threads than cores: this measures a part of the processor, not the whole.",
    "unsynchronised_clock": "gpu had a clock that did not wait for the device: this measures how fast work is "
    "handed over "
    "to it.",
    "busy_host": "gpu shared cores with other processes: this measures what those left of them.",
    "cores_shared": "gpu shared cores with other trials: this measures what those left of them.",
    "steal": "gpu lost time to other virtual machines: this measures what those left of the cores.",
    "clock_drift": "gpu had a clock that ran fast or slow: this measures seconds of uncertain length.",
    "short_warmup": "gpu was still getting faster when counting began: this measures a part of its warm-up, not its "
    "steady "
    "pace.",
    "made_apart": "gpu ran at another time or on other software: this measures that too, not only the devices.",
    "machine_drift": "gpu changed while the grid ran: this measures the machine at different times, not only the "
    "devices.",
}
"""What is said of a side for each reason, word for word."""


@pytest.mark.parametrize("code", MEASURED)
def test_each_reason_has_its_sentence_of_one_side_and_of_both(code):
    assert says(Conditions("cpu"), Conditions("gpu", None, {code})) == [SENTENCES[code]]
    assert says(Conditions("gpu", None, {code}), Conditions("cpu")) == [SENTENCES[code]]
    _, found = SENTENCES[code].split("gpu ", 1)
    plural = f"were {found.removeprefix('was ')}" if found.startswith("was ") else found
    both = says(Conditions("cpu", None, {code}), Conditions("gpu", None, {code}))
    assert both == [f"gpu and cpu both {plural}"]


@pytest.mark.parametrize(("bound", "code"), [("input", "input_bound"), ("overhead, memory", "overhead_bound")])
def test_what_a_roofline_says_is_the_same_reason(bound, code):
    assert says(Conditions("cpu"), Conditions("gpu", bound)) == [SENTENCES[code]]
    assert says(Conditions("cpu"), Conditions("gpu", bound, {code})) == [SENTENCES[code]], "said once"


def test_several_reasons_have_a_sentence_each():
    assert says(Conditions("cpu", None, {"few_threads"}), Conditions("gpu", "input", {"throttled"})) == [
        SENTENCES["input_bound"],
        SENTENCES["throttled"],
        SENTENCES["few_threads"].replace("gpu", "cpu"),
    ]


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
