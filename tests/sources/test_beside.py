import dataclasses

from raybench.analysis.comparison import PlannedCell
from raybench.analysis.results import attempts, latest
from raybench.analysis.standing import Standing
from raybench.identity import cell_id
from raybench.sources.beside import beside
from raybench.trial import events


def standing(workload, batch_size=1024, epochs=25, steps=40):
    cell = {
        "workload": {"name": workload, "version": 1},
        "settings": {"batch_size": batch_size, "epochs": epochs, "steps_per_epoch": steps},
        "warmup_epochs": 1,
    }
    trial = f"{cell_id(cell)}-r0"
    told = [events.trial_started(trial, 1, cell=cell)]
    account = {"train": 2.0, "evaluate": 0.5}
    told += [
        events.epoch_ended(trial, 1, epoch=n + 1, steps=steps or 1, examples=8, ledger=account, metrics={})
        for n in range(epochs)
    ]
    told.append(events.trial_ended(trial, 1, "completed", ledger={"train": 2.0}, wall=100.0))
    cells = [PlannedCell(cell_id(cell), {"device": "cpu"}, 1)]
    return Standing("x", workload, cells, latest(attempts(told).values()), {})


def test_what_others_reported_of_the_same_workload():
    found = beside(standing("katnoria_cnn"))
    assert [(one["machine"], one["seconds"]) for one in found] == [
        ("GTX 1080 Ti", 32.0),
        ("K80", 86.0),
        ("Colab TPU", 136.0),
    ]
    assert all("validation inside" in one["counts"] for one in found)


def test_a_time_stands_beside_only_by_the_same_rule_and_protocol():
    found = beside(standing("katnoria_cnn"))
    assert {(one["mine"], one["cell"]) for one in found} == {(62.5, "cpu")}, "25 epochs, validation inside"
    assert {one["mine"] for one in beside(standing("katnoria_cnn", epochs=2))} == {None}, "another length"
    gtx = next(one for one in beside(standing("resnet63", 64, 4, 1)) if one["machine"] == "GTX 1080")
    assert round(gtx["seconds"], 4) == 0.1780 and gtx["rule"] == "resnet63"
    assert gtx["mine"] == 2.0


def test_nobody_has_reported_of_a_workload_of_ones_own():
    assert beside(standing("my_workload")) == []
    assert beside(dataclasses.replace(standing("davidnet"), cells=[]))[0]["mine"] is None
