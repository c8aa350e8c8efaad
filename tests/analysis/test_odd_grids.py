"""Grids in which much went wrong: every sentence and every table, word for word.

The numbers of the made-up runs are drawn with a fixed seed around a known truth (`made_up_grids`): a GPU four times as
fast as a CPU, a TPU ten times.
"""

import dataclasses

import pytest
from made_up_grids import made_up, odd

from raybench.analysis.report import make_report
from raybench.analysis.sentences import plain
from raybench.trial.job import Target


def report_of(standing, target=0.78):
    return make_report(dataclasses.replace(standing, target=Target("val/accuracy", target)))


def verdict(report):
    return [[plain(each) for each in paragraph] for paragraph in report.verdict]


def tables(report):
    return {
        section.name: [[text for _, text in section.cells(row)] for row in section.records]
        for section in report.sections
    }


def failed(device, status):
    return {(device, 256, 5e-4, repeat): status for repeat in range(3)}


@pytest.fixture(scope="module")
def report():
    """One cell out of memory, one diverged, one skipped, one repeat missing, and a target that some reach."""
    return report_of(odd())


VERDICT = [
    [
        "Over 2 settings gpu trains katnoria_cnn 3.90 to 3.99 × as fast as cpu, steady epochs: surely faster in 2.",
        "Where it is fastest: gpu trains katnoria_cnn (batch 512, decay 0) 3.90 × as fast as cpu, steady epochs, 3 "
        "runs "
        "against 2 (95 %: 3.64 to 4.17).",
        "With what is paid once (loading, start-up, compilation) counted, gpu is faster at every job length.",
        "Accuracy after 4 epochs is the same within what 3 and 2 runs can show.",
        "An epoch costs 0.898 × as much on gpu as on cpu, at 0.35 and 0.1 an hour (95 %: 0.839 to 0.962).",
        "cpu: of 3 runs 2 completed and count; 1 was not run.",
    ],
    [
        "Over 3 settings tpu trains katnoria_cnn 9.63 to 9.96 × as fast as cpu, steady epochs: surely faster in 3.",
        "Where it is fastest: tpu trains katnoria_cnn (batch 512, decay 5e-4) 9.63 × as fast as cpu, steady epochs, 3 "
        "runs "
        "each (95 %: 9.31 to 9.96).",
        "With what is paid once (loading, start-up, compilation) counted, tpu is faster at every job length.",
        "Accuracy after 4 epochs is the same within what 3 runs can show.",
        "An epoch costs 4.67 × as much on tpu as on cpu, at 4.5 and 0.1 an hour (95 %: 4.52 to 4.83).",
    ],
    [
        "On cpu, b512 wd5e-4 gets to 78 % soonest: in 13.6 s (95 %: 13.0 to 31.3 s), 3 of 3 runs reached it.",
        "On gpu, b256 wd5e-4 alone gets to 78 %: in 4.65 s (95 %: 4.57 to 10.6 s), 3 of 3 runs reached it.",
        "On tpu, b512 wd5e-4 gets to 78 % soonest: in 1.95 s (95 %: 1.92 to 4.46 s), 3 of 3 runs reached it.",
    ],
    [
        "gpu b256 wd0 has no time: of 3 runs 3 diverged.",
        "gpu b512 wd5e-4 has no time: of 3 runs 3 ran out of memory.",
        "tpu b512 wd0 was skipped: no node has a tpu.",
        "One cell lacks some of the planned runs.",
    ],
]

CELLS = {
    "cpu b256 wd0": [
        "cpu trains katnoria_cnn (batch 256, decay 0) in 4.04 s an epoch, steady epochs, 3 runs (95 %: "
        "3.97 to 4.11 s).",
        "cpu reaches 78 % in 0 of 3 runs (95 %: 0 to 56 %): a success takes at least 13.0 s, with restarts (95 %).",
    ],
    "cpu b256 wd5e-4": [
        "cpu trains katnoria_cnn (batch 256, decay 5e-4) in 4.04 s an epoch, steady epochs, 3 runs (95 "
        "%: 3.91 to 4.18 s).",
        "cpu reaches 78 % in 3 of 3 runs (95 %: 44 to 100 %), after 16.8 s of training on average.",
    ],
    "cpu b512 wd0": [
        "cpu trains katnoria_cnn (batch 512, decay 0) in 3.22 s an epoch, steady epochs, 2 runs (95 %: "
        "2.96 to 3.50 s).",
        "cpu: of 3 runs 2 completed and count; 1 was not run.",
        "cpu reaches 78 % in 0 of 2 runs (95 %: 0 to 66 %): a success takes at least 6.37 s, with restarts (95 %).",
    ],
    "cpu b512 wd5e-4": [
        "cpu trains katnoria_cnn (batch 512, decay 5e-4) in 3.25 s an epoch, steady epochs, 3 runs (95 "
        "%: 3.12 to 3.38 s).",
        "cpu reaches 78 % in 3 of 3 runs (95 %: 44 to 100 %), after 13.6 s of training on average.",
    ],
    "gpu b256 wd0": [
        "gpu has no time: of 3 runs 3 diverged.",
        "gpu reaches 78 % in 0 of 3 runs (95 %: 0 to 56 %): a success takes at least 1.23 s, with restarts (95 %).",
        "cpu reaches 78 % in 0 of 3 runs (95 %: 0 to 56 %): a success takes at least 13.0 s, with restarts (95 %).",
    ],
    "gpu b256 wd5e-4": [
        "gpu trains katnoria_cnn (batch 256, decay 5e-4) 3.99 × as fast as cpu, steady epochs, 3 runs "
        "each (95 %: 3.88 to 4.10).",
        "With what is paid once (loading, start-up, compilation) counted, gpu is faster, surely from 4 steps on.",
        "Accuracy after 4 epochs is the same within what 3 runs can show.",
        "An epoch costs 0.877 × as much on gpu as on cpu, at 0.35 and 0.1 an hour (95 %: 0.853 to 0.903).",
        "gpu reaches 78 % in 3 of 3 runs (95 %: 44 to 100 %), after 4.65 s of training on average.",
        "cpu reaches 78 % in 3 of 3 runs (95 %: 44 to 100 %), after 16.8 s of training on average.",
        "To 78 % gpu is 3.61 × as fast as cpu (95 %: 3.51 to 3.71): both take as many epochs.",
    ],
    "gpu b512 wd0": [
        "gpu trains katnoria_cnn (batch 512, decay 0) 3.90 × as fast as cpu, steady epochs, 3 runs against "
        "2 (95 %: 3.64 to 4.17).",
        "With what is paid once (loading, start-up, compilation) counted, gpu is faster at every job length.",
        "Accuracy after 4 epochs is the same within what 3 and 2 runs can show.",
        "An epoch costs 0.898 × as much on gpu as on cpu, at 0.35 and 0.1 an hour (95 %: 0.839 to 0.962).",
        "cpu: of 3 runs 2 completed and count; 1 was not run.",
        "gpu reaches 78 % in 0 of 3 runs (95 %: 0 to 56 %): a success takes at least 3.03 s, with restarts (95 %).",
        "cpu reaches 78 % in 0 of 2 runs (95 %: 0 to 66 %): a success takes at least 6.37 s, with restarts (95 %).",
    ],
    "gpu b512 wd5e-4": [
        "gpu has no time: of 3 runs 3 ran out of memory.",
        "gpu reaches 78 % in 0 of 3 runs (95 %: 0 to 56 %): a success takes at least 1.09 s, with restarts (95 %).",
        "cpu reaches 78 % in 3 of 3 runs (95 %: 44 to 100 %), after 13.6 s of training on average.",
    ],
    "tpu b256 wd0": [
        "tpu trains katnoria_cnn (batch 256, decay 0) 9.91 × as fast as cpu, steady epochs, 3 runs each "
        "(95 %: 9.74 to 10.1).",
        "With what is paid once (loading, start-up, compilation) counted, tpu is faster, surely from 2 steps on.",
        "Accuracy after 4 epochs is the same within what 3 runs can show.",
        "An epoch costs 4.54 × as much on tpu as on cpu, at 4.5 and 0.1 an hour (95 %: 4.46 to 4.62).",
        "tpu reaches 78 % in 1 of 3 runs (95 %: 6 to 79 %), after 2.23 s: with restarts a success takes 6.70 s.",
        "cpu reaches 78 % in 0 of 3 runs (95 %: 0 to 56 %): a success takes at least 13.0 s, with restarts (95 %).",
    ],
    "tpu b256 wd5e-4": [
        "tpu trains katnoria_cnn (batch 256, decay 5e-4) 9.96 × as fast as cpu, steady epochs, 3 runs "
        "each (95 %: 9.68 to 10.2).",
        "With what is paid once (loading, start-up, compilation) counted, tpu is faster, surely from 4 steps on.",
        "Accuracy after 4 epochs is the same within what 3 runs can show.",
        "An epoch costs 4.52 × as much on tpu as on cpu, at 4.5 and 0.1 an hour (95 %: 4.39 to 4.65).",
        "tpu reaches 78 % in 3 of 3 runs (95 %: 44 to 100 %), after 2.22 s of training on average.",
        "cpu reaches 78 % in 3 of 3 runs (95 %: 44 to 100 %), after 16.8 s of training on average.",
        "To 78 % tpu is 7.55 × as fast as cpu (95 %: 7.35 to 7.75): both take as many epochs.",
    ],
    "tpu b512 wd0": ["tpu was skipped: no node has a tpu.", "cpu: of 3 runs 2 completed and count; 1 was not run."],
    "tpu b512 wd5e-4": [
        "tpu trains katnoria_cnn (batch 512, decay 5e-4) 9.63 × as fast as cpu, steady epochs, 3 runs "
        "each (95 %: 9.31 to 9.96).",
        "With what is paid once (loading, start-up, compilation) counted, tpu is faster at every job length.",
        "Accuracy after 4 epochs is the same within what 3 runs can show.",
        "An epoch costs 4.67 × as much on tpu as on cpu, at 4.5 and 0.1 an hour (95 %: 4.52 to 4.83).",
        "tpu reaches 78 % in 3 of 3 runs (95 %: 44 to 100 %), after 1.95 s of training on average.",
        "cpu reaches 78 % in 3 of 3 runs (95 %: 44 to 100 %), after 13.6 s of training on average.",
        "To 78 % tpu is 6.96 × as fast as cpu (95 %: 6.73 to 7.20): both take as many epochs.",
    ],
}

TABLES = {
    "target": [
        ["tpu b512 wd5e-4", "3 of 3", "44 %–100 %", "4.00", "1.95", "1.92–4.46", "0.00244"],
        ["tpu b256 wd5e-4", "3 of 3", "44 %–100 %", "4.00", "2.22", "2.18–5.09", "0.00278"],
        ["gpu b256 wd5e-4", "3 of 3", "44 %–100 %", "4.00", "4.65", "4.57–10.6", "0.000452"],
        ["tpu b256 wd0", "1 of 3", "6 %–79 %", "4.00", "6.70", "–", "0.00837"],
        ["cpu b512 wd5e-4", "3 of 3", "44 %–100 %", "4.00", "13.6", "13.0–31.3", "0.000377"],
        ["cpu b256 wd5e-4", "3 of 3", "44 %–100 %", "4.00", "16.8", "16.2–38.6", "0.000466"],
        ["cpu b256 wd0", "0 of 3", "0 %–56 %", "–", "–", "–", "–"],
        ["cpu b512 wd0", "0 of 2", "0 %–66 %", "–", "–", "–", "–"],
        ["gpu b256 wd0", "0 of 3", "0 %–56 %", "–", "–", "–", "–"],
        ["gpu b512 wd0", "0 of 3", "0 %–56 %", "–", "–", "–", "–"],
        ["gpu b512 wd5e-4", "0 of 3", "0 %–56 %", "–", "–", "–", "–"],
    ],
    "jobs": [
        ["tpu", "b512 wd5e-4", "4.54", "38.3", "37.7–38.9", "0.0478"],
        ["gpu", "b512 wd0", "4.54", "87.2", "86.6–87.7", "0.00847"],
        ["cpu", "b512 wd0", "4.54", "326", "300–355", "0.00907"],
    ],
    "best": [
        ["cpu", "b256 wd5e-4", "0.806", "b512 wd0", "3.22"],
        ["gpu", "b256 wd5e-4", "0.808", "b512 wd0", "0.827"],
        ["tpu", "b256 wd5e-4", "0.812", "b512 wd5e-4", "0.337"],
    ],
}

STATUSES = {
    "cpu b256 wd0": "3/3 completed",
    "cpu b256 wd5e-4": "3/3 completed",
    "cpu b512 wd0": "2/3 completed, 1 not run",
    "cpu b512 wd5e-4": "3/3 completed",
    "gpu b256 wd0": "0/3 completed, 3 diverged",
    "gpu b256 wd5e-4": "3/3 completed",
    "gpu b512 wd0": "3/3 completed",
    "gpu b512 wd5e-4": "0/3 completed, 3 oom in train",
    "tpu b256 wd0": "3/3 completed",
    "tpu b256 wd5e-4": "3/3 completed",
    "tpu b512 wd0": "skipped: no node has a tpu",
    "tpu b512 wd5e-4": "3/3 completed",
}

DECIDING = [
    "No effect of device on accuracy is shown (0.41 points; 95 %: -0.083 to 0.90).",
    "Accuracy depends on batch (9 % of all differences): 256 is 0.96 points above 512, all else alike (95 %: 0.53 to "
    "1.4).",
    "Accuracy depends on decay (75 % of all differences): 5e-4 is 2.8 points above 0, all else alike (95 %: 2.4 to "
    "3.3).",
    "Luck: two runs of the same cell differ by up to 1.5 points (95 %).",
]


def test_the_verdict(report):
    assert verdict(report) == VERDICT


def test_every_cell_in_words(report):
    assert {label: [plain(each) for each in said] for label, said in report.comparisons} == CELLS


def test_every_table(report):
    assert tables(report) == TABLES
    labels = {cell.cell_id: report.standing.label(cell) for cell in report.standing.cells}
    assert {labels[row.cell_id]: row.status for row in report.standing.rows} == STATUSES
    assert [trouble["status"] for trouble in report.troubles] == ["diverged"] * 3 + ["oom"] * 3


def test_what_decides(report):
    assert [plain(each) for each in report.deciding] == DECIDING


def test_all_of_one_device_out_of_memory():
    found = report_of(made_up(("cpu", "gpu", "tpu"), ends=failed("gpu", "oom")))
    assert verdict(found) == [
        [
            "tpu trains katnoria_cnn (batch 256) 9.83 × as fast as cpu, steady epochs, 3 runs each (95 %: 9.38 to "
            "10.3).",
            "With what is paid once (loading, start-up, compilation) counted, tpu is faster, surely from 2 steps on.",
            "Accuracy after 4 epochs is the same within what 3 runs can show.",
            "An epoch costs 4.58 × as much on tpu as on cpu, at 4.5 and 0.1 an hour (95 %: 4.37 to 4.80).",
            "tpu reaches 78 % in 3 of 3 runs (95 %: 44 to 100 %), after 2.24 s of training on average.",
            "cpu reaches 78 % in 3 of 3 runs (95 %: 44 to 100 %), after 16.7 s of training on average.",
            "To 78 % tpu is 7.47 × as fast as cpu (95 %: 7.18 to 7.77): both take as many epochs.",
        ],
        ["gpu has no time: of 3 runs 3 ran out of memory."],
    ]
    assert tables(found) == {
        "target": [
            ["tpu", "3 of 3", "44 %–100 %", "4.00", "2.24", "2.15–5.16", "0.00280"],
            ["cpu", "3 of 3", "44 %–100 %", "4.00", "16.7", "16.7–38.2", "0.000465"],
            ["gpu", "0 of 3", "0 %–56 %", "–", "–", "–", "–"],
        ],
        "jobs": [["tpu", "4.54", "45.6", "43.5–47.8", "0.0570"], ["cpu", "4.55", "408", "401–415", "0.0113"]],
    }


def test_the_baseline_failed():
    found = report_of(made_up(("cpu", "gpu", "tpu"), ends=failed("cpu", "failed")))
    assert verdict(found) == [
        [
            "gpu trains katnoria_cnn (batch 256) in 1.01 s an epoch, steady epochs, 3 runs (95 %: 0.994 to 1.04 s).",
            "cpu has no time: of 3 runs 3 failed.",
        ],
        ["tpu trains katnoria_cnn (batch 256) in 0.411 s an epoch, steady epochs, 3 runs (95 %: 0.390 to 0.433 s)."],
        [
            "On gpu, katnoria_cnn gets to 78 %: in 4.66 s (95 %: 4.64 to 10.6 s), 3 of 3 runs reached it.",
            "On tpu, katnoria_cnn gets to 78 %: in 2.24 s (95 %: 2.15 to 5.16 s), 3 of 3 runs reached it.",
        ],
    ]
    assert tables(found) == {
        "target": [
            ["tpu", "3 of 3", "44 %–100 %", "4.00", "2.24", "2.15–5.16", "0.00280"],
            ["gpu", "3 of 3", "44 %–100 %", "4.00", "4.66", "4.64–10.6", "0.000453"],
        ],
        "jobs": [["tpu", "4.54", "45.6", "43.5–47.8", "0.0570"], ["gpu", "4.55", "106", "104–108", "0.0103"]],
    }


def test_a_target_that_none_reaches():
    found = report_of(made_up(), 0.99)
    assert verdict(found) == [
        [
            "gpu trains katnoria_cnn (batch 256) 3.97 × as fast as cpu, steady epochs, 3 runs each (95 %: 3.85 to "
            "4.08).",
            "With what is paid once (loading, start-up, compilation) counted, gpu is faster, surely from 2 steps on.",
            "Accuracy after 4 epochs is the same within what 3 runs can show.",
            "An epoch costs 0.883 × as much on gpu as on cpu, at 0.35 and 0.1 an hour (95 %: 0.858 to 0.908).",
            "gpu reaches 99 % in 0 of 3 runs (95 %: 0 to 56 %): a success takes at least 3.54 s, with restarts (95 %).",
            "cpu reaches 99 % in 0 of 3 runs (95 %: 0 to 56 %): a success takes at least 13.0 s, with restarts (95 %).",
        ]
    ]
    assert tables(found) == {
        "target": [["cpu", "0 of 3", "0 %–56 %"], ["gpu", "0 of 3", "0 %–56 %"]],
        "jobs": [["gpu", "4.55", "106", "103–110", "0.0103"], ["cpu", "4.55", "408", "401–415", "0.0113"]],
    }


def test_a_target_that_some_reach():
    found = report_of(made_up(), 0.805)
    assert verdict(found) == [
        [
            "gpu trains katnoria_cnn (batch 256) 3.97 × as fast as cpu, steady epochs, 3 runs each (95 %: 3.85 to "
            "4.08).",
            "With what is paid once (loading, start-up, compilation) counted, gpu is faster, surely from 2 steps on.",
            "Accuracy after 4 epochs is the same within what 3 runs can show.",
            "An epoch costs 0.883 × as much on gpu as on cpu, at 0.35 and 0.1 an hour (95 %: 0.858 to 0.908).",
            "gpu reaches 80.5 % in 2 of 3 runs (95 %: 21 to 94 %), after 4.70 s: with restarts a success takes 7.01 s "
            "(95 %: "
            "4.94 to 22.4 s).",
            "cpu reaches 80.5 % in 0 of 3 runs (95 %: 0 to 56 %): a success takes at least 13.0 s, with restarts (95 "
            "%).",
        ]
    ]
    assert tables(found) == {
        "target": [
            ["gpu", "2 of 3", "21 %–94 %", "4.00", "7.01", "4.94–22.4", "0.000682"],
            ["cpu", "0 of 3", "0 %–56 %", "–", "–", "–", "–"],
        ],
        "jobs": [["gpu", "4.55", "106", "103–110", "0.0103"], ["cpu", "4.55", "408", "401–415", "0.0113"]],
    }
