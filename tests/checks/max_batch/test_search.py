"""The largest batch that fits: how it is searched for, and one real search under a limit of memory."""

import json
import shutil
import sys
from itertools import product

import pytest
from support import WORKLOADS

from raybench.checks.max_batch.search import CLOSE, BatchOutcome, BatchProbe, Search, find_max_batch
from raybench.config import load_grid
from raybench.results.journal import JOURNAL

MIB = 1 << 20
HUNGRY = WORKLOADS / "hungry_in_both.py"


def searched(room, examples=None, **how):
    """Every batch that is tried where `room` examples fit."""
    search, tried = Search(**how), []
    while (batch := search.next()) is not None:
        tried.append(batch)
        assert len(tried) < 50, "it comes to an end"
        if examples is not None and batch > examples:
            search.take(BatchProbe(batch, None), examples)
        else:
            search.take(BatchProbe(batch, batch <= room), examples)
    return search, tried


def test_what_is_found_is_near_to_what_fits():
    for room, start in product([1, 5, 64, 100, 1000, 4097, 99_999], [1, 64, 1024]):
        search, tried = searched(room, start=start)
        low, high = search.best.batch, search.worst.batch
        assert low <= room < high
        assert high - low <= max(1, low // CLOSE)
        assert len(tried) == len(set(tried)) <= 25, "each is tried once, and few are"


def test_it_doubles_and_then_bisects():
    assert searched(700, start=200)[1] == [200, 400, 800, 600, 700, 750, 725]
    assert searched(20, start=64)[1] == [64, 32, 16, 24, 20, 22, 21]


def test_a_batch_that_never_fits_is_an_answer():
    search, tried = searched(0, start=8)
    assert (search.best, search.worst.batch, tried) == (None, 1, [8, 4, 2, 1])


@pytest.mark.parametrize("known", [True, False])
def test_there_are_no_more_than_all_examples(known):
    how = {"upper_bound": 300} if known else {}
    search, tried = searched(10_000, examples=300, start=64, **how)
    assert (search.best.batch, search.worst) == (300, None)
    assert tried == [64, 128, 256, 300]


def test_a_first_batch_that_is_larger_than_all_examples_is_not_the_last():
    search, tried = searched(10_000, examples=300, start=512)
    assert (search.best.batch, tried) == (300, [512, 300])


def test_every_batch_divides_into_replicas():
    for room in (7, 8, 100, 1000, 1001):
        search, tried = searched(room, examples=4001, start=64, unit=8)
        assert all(batch % 8 == 0 for batch in tried)
        assert (search.best is None) == (room < 8)
        if search.best:
            assert search.best.batch <= room < search.worst.batch
            assert search.worst.batch - search.best.batch <= max(8, search.best.batch // CLOSE)


def test_exit_status():
    assert BatchOutcome([], []).exit_status == 0
    assert BatchOutcome([], ["tpu: no TPU"]).exit_status == 3
    assert BatchOutcome([], ["tpu: no TPU"], strict=True).exit_status == 3


GRID = """
name: largest
workload: hungry.py:hungry
devices: {cpu: {kind: cpu, memory_limit: 1GiB}}
axes:
  device: [cpu, tpu]
  batch_size: [200, 400]
  weight_decay: [0, 5e-4]
"""


@pytest.fixture
def found(tmp_path, forking_executor):
    shutil.copy(HUNGRY, tmp_path / "hungry.py")
    (tmp_path / "grid.yaml").write_text(GRID)
    heard = []
    outcome = find_max_batch(
        load_grid(tmp_path / "grid.yaml"), forking_executor, heard.append, results=tmp_path / "results"
    )
    return outcome, heard, tmp_path / "results" / "largest" / JOURNAL


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps a limit on memory")
def test_a_real_search_under_a_limit(found):
    outcome, heard, journal = found
    (one,) = outcome.results
    assert one.error is None
    assert one.about == {"device": "cpu", "framework": "torch", "precision": "fp32"}
    best, worst = one.search.best, one.search.worst
    assert 200 <= best.batch < worst.batch < 1000, "a mebibyte an example, in less than a gibibyte"
    assert worst.batch - best.batch <= best.batch // CLOSE
    assert best.batch * MIB < best.peak < best.limit == worst.limit == 1024 * MIB
    assert worst.why == "OutOfMemory"
    too_much = {found.batch: found.asked for found in one.search.tries if not found.fits}
    assert too_much[800] == 800 * MIB
    assert heard[0] == "cpu torch fp32: batch 200"
    told = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [(event["check"], event["batch_size"]) for event in told] == [
        ("max_batch", found.batch) for found in one.search.tries
    ]
    assert len(heard) == len(told), "one process a try, and nothing else is trained"
    assert (outcome.skipped, outcome.exit_status) == (["tpu: no TPU"], 0)
