"""Whatever is done to a journal: what is whole of it is read, and no finished trial is lost whose lines are."""

from __future__ import annotations

import json
import random
import time

import pytest

from raybench.analysis.estimate import Estimator
from raybench.analysis.results import latest
from raybench.analysis.table import text
from raybench.datasets import data_root
from raybench.evidence import Evidence
from raybench.execution.inline import InlineExecutor
from raybench.plan import make_plan
from raybench.reports import of_events
from raybench.resume import missing, recovered
from raybench.run import Options, run_grid
from raybench.spec import load_grid
from raybench.tracking import projection
from raybench.tracking.executions import recall
from raybench.wanted import wanted_by

GRID = """
name: digits
workload: digits_cnn
epochs: 2
steps_per_epoch: 3
examples: {train: 256, val: 64}
target: {metric: val/accuracy, at_least: 0.1}
axes:
  device: [cpu, tpu]
  batch_size: [32, 64]
repeats: 2
"""
JUNK = (b"", b"\0" * 512, b"{}", b"[]", b"null", b'{"event":"trial_ended"}', b"\xff\xfe", b"[" * 20_000, b"9" * 5_000)
VALUES = (
    None,
    True,
    -1,
    10**400,
    1.5,
    "",
    "é\x1b[2J",
    [],
    {},
    [[]],
    {"a": None},
    "../../x",
    "completed",
    "trial_ended",
)


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """The journal of a real grid, with its plan."""
    folder = tmp_path_factory.mktemp("real")
    (folder / "grid.yaml").write_text(GRID)
    spec = load_grid(folder / "grid.yaml")
    executor = InlineExecutor()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        outcome = run_grid(spec, executor, options=Options(results=folder / "results"))
    plan = make_plan(spec, executor.nodes(), data_root(), (), executor.isolation)
    return outcome.journal.read_bytes().splitlines(keepends=True), plan


def mutated_lines(lines, chance):
    """Lines taken away, doubled, moved, torn, joined, and things that are no lines of a journal."""
    lines = list(lines)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(lines))
        match chance.randrange(6):
            case 0 if len(lines) > 1:
                del lines[at]
            case 1:
                lines.insert(chance.randrange(len(lines)), lines[at])
            case 2:
                lines.insert(chance.randrange(len(lines)), lines.pop(at))
            case 3:
                lines[at] = lines[at][: chance.randrange(len(lines[at]))]
            case 4:
                lines[at] = lines[at].rstrip(b"\n")
            case _:
                lines.insert(at, chance.choice(JUNK) + b"\n")
    return b"".join(lines)


def mutated_bytes(lines, chance):
    """A few bytes of the file changed, taken away or put in; or its end cut off, or zero."""
    content = bytearray(b"".join(lines))
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(content))
        match chance.randrange(5):
            case 0:
                content[at] = chance.randrange(256)
            case 1:
                del content[at : at + chance.randint(1, 40)]
            case 2:
                content[at:at] = chance.choice(JUNK)
            case 3:
                content[at:at] = content[chance.randrange(len(content)) :][: chance.randint(1, 400)]
            case _:
                tail = chance.randrange(min(len(content), 3000))
                content[len(content) - tail :] = chance.choice((b"", b"\0" * tail))
    return bytes(content)


def mutated_values(lines, chance):
    """Values of events replaced by others, as a fault of ours, or somebody's hand, would leave them."""
    told = [json.loads(line) for line in lines]
    for _ in range(chance.randint(1, 4)):
        node = chance.choice(told)
        while node:
            step = chance.choice(list(node) if isinstance(node, dict) else range(len(node)))
            if isinstance(node[step], (dict, list)) and chance.random() < 0.7:
                node = node[step]
                continue
            if chance.random() < 0.2:
                del node[step]
            else:
                node[step] = chance.choice(VALUES)
            break
    return b"".join(json.dumps(event).encode() + b"\n" for event in told)


def everything_of(plan, earlier, journal, also_without_plan):
    """All that a grid's command does with what it read, but to run trials."""
    known = earlier.attempts
    todo = missing(plan, known.values(), Options())
    evidence = Evidence(earlier.events)
    evidence.with_checks(todo)
    for wanted in [wanted_by(plan), None][: 1 + also_without_plan]:
        report = of_events("digits", earlier.events, wanted)
        text(report.standing.rows)
    Estimator(known.values())
    for attempt in known.values():
        assert projection.run_name(attempt)
        projection.parameters(attempt), projection.tags(attempt, "digits"), projection.data_set(attempt)
        projection.summary_metrics(attempt)
        for epoch in attempt.epochs:
            projection.epoch_metrics(epoch)
    for event in earlier.events:
        recall(journal, event)
    return {work.trial.trial_id for work in todo}


@pytest.mark.parametrize(("mutate", "count"), [(mutated_lines, 340), (mutated_bytes, 330), (mutated_values, 330)])
def test_nothing_that_is_whole_is_lost_and_nothing_breaks(real, tmp_path, mutate, count):
    lines, plan = real
    own: dict[str, set[bytes]] = {}
    for line in lines:
        event = json.loads(line)
        if event["event"] in ("trial_started", "epoch_ended", "trial_ended"):
            own.setdefault(event["trial"], set()).add(json.dumps(event).encode())
    assert len(own) == 4
    journal = tmp_path / "digits" / "journal.jsonl"
    journal.parent.mkdir()
    whole, began = 0, time.process_time()
    for seed in range(count):
        content = mutate(lines, random.Random(f"{mutate.__name__}/{seed}"))
        journal.write_bytes(content)
        earlier = recovered(journal)
        todo = everything_of(plan, earlier, journal, seed % 5 == 0)
        there = {canonical for line in content.splitlines() if (canonical := as_written(line))}
        stands = latest(earlier.attempts.values())
        for trial, needed in own.items():
            if needed <= there:
                whole += 1
                assert stands[trial].status == "completed", f"{seed}: {trial}"
                assert len(stands[trial].epochs) == 2, f"{seed}: {trial}"
                assert trial not in todo, f"{seed}: {trial} would run again"
        again = recovered(journal)
        assert again.warnings == [], f"{seed}: told once"
        assert again.attempts.keys() == earlier.attempts.keys(), seed
    assert whole > count, "most mutations leave most trials whole"
    assert time.process_time() - began < 120, "a mutation hangs nothing"


def as_written(line):
    try:
        return json.dumps(json.loads(line)).encode()
    except (ValueError, RecursionError):
        return None
