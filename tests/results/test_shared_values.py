from raybench.core.cell import UNKNOWN_CELL
from raybench.results import parsing, shared_values
from raybench.results.attempt import attempts


def test_trials_share_what_they_have_in_common(golden_events):
    start = golden_events[0]
    other = {**start, "trial": "e5728b716bd9-r1", "cell": {**start["cell"]}, "versions": {**start["versions"]}}
    first, second = attempts([start, other]).values()
    assert first.cell is second.cell and first.versions is second.versions and first.hardware is second.hardware


def test_only_equal_values_of_equal_types_are_shared():
    for one, another in (({"a": 1}, {"a": 1.0}), ({"a": 1}, {"a": True}), ({"a": {}}, {"a": None})):
        assert shared_values.valid_values_in(one) is shared_values.valid_values_in({**one})
        assert repr(shared_values.valid_values_in(one)) == repr(one) != repr(shared_values.valid_values_in(another))


def test_damaged_values_are_parsed_as_others():
    for damaged in (None, [], 5, "x", {"a": "\ud800"}, {"a": 10**400}, {"a": float("nan")}, {1: 2}, {"a": object()}):
        assert shared_values.valid_values_in(damaged) == parsing.valid_values_in(damaged)
        assert shared_values.flat_in(damaged) == parsing.flat_in(damaged)
    assert not shared_values.cell_in([1]) and shared_values.cell_in({"data": 5}) is UNKNOWN_CELL


def test_memory_of_values_that_nobody_shares_is_bounded():
    for number in range(shared_values.MOST + 10):
        shared_values.flat_in({"pid": number})
    assert len(shared_values._TEXTS) <= shared_values.MOST
