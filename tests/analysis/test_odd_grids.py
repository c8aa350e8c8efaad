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
        "Where it is fastest: gpu trains katnoria_cnn (batch 512, decay 0) 3.90 × as fast as cpu, steady "
        "epochs, 3 runs "
        "against 2 (95 %: 3.64 to 4.17).",
        "With what is paid once (loading, start-up, compilation) counted, gpu is faster at every job length.",
        "Accuracy after 4 epochs is the same within what 3 and 2 runs can show.",
        "An epoch costs 0.898 × as much on gpu as on cpu, at 0.35 and 0.1 an hour (95 %: 0.839 to 0.962); it "
        "would cost "
        "the same at 0.390 an hour of gpu (95 %: 0.364 to 0.417).",
        "cpu: of 3 runs 2 completed and count; 1 was not run.",
    ],
    [
        "Over 3 settings tpu trains katnoria_cnn 9.63 to 9.96 × as fast as cpu, steady epochs: surely faster in 3.",
        "Where it is fastest: tpu trains katnoria_cnn (batch 512, decay 5e-4) 9.63 × as fast as cpu, steady "
        "epochs, 3 runs "
        "each (95 %: 9.31 to 9.96).",
        "With what is paid once (loading, start-up, compilation) counted, tpu is faster at every job length.",
        "Whether accuracy after 4 epochs differs is not to be told from 3 runs: 79.73 % on tpu and 79.43 % "
        "on cpu (95 %: "
        "-1.3 to 1.9 points); only 2.2 points would have shown.",
        "An epoch costs 4.67 × as much on tpu as on cpu, at 4.5 and 0.1 an hour (95 %: 4.52 to 4.83); it "
        "would cost the "
        "same at 0.963 an hour of tpu (95 %: 0.931 to 0.996).",
    ],
    [
        "On cpu, b512 wd5e-4 gets to 78 % soonest: in 13.6 s of training (95 %: 13.0 to 31.3 s), 3 of 3 runs "
        "reached it.",
        "On gpu, b256 wd5e-4 alone gets to 78 %: in 4.65 s of training (95 %: 4.57 to 10.6 s), 3 of 3 runs reached it.",
        "On tpu, b512 wd5e-4 gets to 78 % soonest: in 1.95 s of training (95 %: 1.92 to 4.46 s), 3 of 3 runs "
        "reached it.",
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
        "cpu has a mean accuracy of 77.39 % over 3 runs (95 %: 77.24 to 77.53 %): it is shown to be below 78 %.",
    ],
    "cpu b256 wd5e-4": [
        "cpu trains katnoria_cnn (batch 256, decay 5e-4) in 4.04 s an epoch, steady epochs, 3 runs (95 "
        "%: 3.91 to 4.18 s).",
        "cpu reaches 78 % in 3 of 3 runs (95 %: 44 to 100 %), after 16.8 s of training on average.",
        "cpu has a mean accuracy of 80.62 % over 3 runs (95 %: 79.94 to 81.30 %): 78 % is shown.",
    ],
    "cpu b512 wd0": [
        "cpu trains katnoria_cnn (batch 512, decay 0) in 3.22 s an epoch, steady epochs, 2 runs (95 %: "
        "2.96 to 3.50 s).",
        "cpu: of 3 runs 2 completed and count; 1 was not run.",
        "cpu reaches 78 % in 0 of 2 runs (95 %: 0 to 66 %): a success takes at least 6.37 s, with restarts (95 %).",
        "cpu has a mean accuracy of 77.05 % over 2 runs (95 %: 75.20 to 78.90 %): 78 % is not shown.",
    ],
    "cpu b512 wd5e-4": [
        "cpu trains katnoria_cnn (batch 512, decay 5e-4) in 3.25 s an epoch, steady epochs, 3 runs (95 "
        "%: 3.12 to 3.38 s).",
        "cpu reaches 78 % in 3 of 3 runs (95 %: 44 to 100 %), after 13.6 s of training on average.",
        "cpu has a mean accuracy of 79.43 % over 3 runs (95 %: 77.91 to 80.96 %): 78 % is not shown; "
        "about 4 runs like these would show it.",
    ],
    "gpu b256 wd0": [
        "gpu has no time: of 3 runs 3 diverged.",
        "gpu reaches 78 % in 0 of 3 runs (95 %: 0 to 56 %).",
        "cpu reaches 78 % in 0 of 3 runs (95 %: 0 to 56 %): a success takes at least 13.0 s, with restarts (95 %).",
    ],
    "gpu b256 wd5e-4": [
        "gpu trains katnoria_cnn (batch 256, decay 5e-4) 3.99 × as fast as cpu, steady epochs, 3 runs "
        "each (95 %: 3.88 to 4.10).",
        "With what is paid once (loading, start-up, compilation) counted, gpu is faster, surely from 4 steps on.",
        "Accuracy after 4 epochs is the same within what 3 runs can show.",
        "An epoch costs 0.877 × as much on gpu as on cpu, at 0.35 and 0.1 an hour (95 %: 0.853 to "
        "0.903); it would cost the same at 0.399 an hour of gpu (95 %: 0.388 to 0.410).",
        "gpu reaches 78 % in 3 of 3 runs (95 %: 44 to 100 %), after 4.65 s of training on average.",
        "cpu reaches 78 % in 3 of 3 runs (95 %: 44 to 100 %), after 16.8 s of training on average.",
        "To 78 % gpu is 3.61 × as fast as cpu (95 %: 3.51 to 3.71): both take as many epochs.",
        "gpu has a mean accuracy of 80.77 % over 3 runs (95 %: 80.39 to 81.15 %): 78 % is shown.",
    ],
    "gpu b512 wd0": [
        "gpu trains katnoria_cnn (batch 512, decay 0) 3.90 × as fast as cpu, steady epochs, 3 runs against "
        "2 (95 %: 3.64 to 4.17).",
        "With what is paid once (loading, start-up, compilation) counted, gpu is faster at every job length.",
        "Accuracy after 4 epochs is the same within what 3 and 2 runs can show.",
        "An epoch costs 0.898 × as much on gpu as on cpu, at 0.35 and 0.1 an hour (95 %: 0.839 to 0.962); "
        "it would cost the same at 0.390 an hour of gpu (95 %: 0.364 to 0.417).",
        "cpu: of 3 runs 2 completed and count; 1 was not run.",
        "gpu reaches 78 % in 0 of 3 runs (95 %: 0 to 56 %): a success takes at least 3.03 s, with restarts (95 %).",
        "cpu reaches 78 % in 0 of 2 runs (95 %: 0 to 66 %): a success takes at least 6.37 s, with restarts (95 %).",
        "gpu has a mean accuracy of 77.11 % over 3 runs (95 %: 76.28 to 77.93 %): it is shown to be below 78 %.",
    ],
    "gpu b512 wd5e-4": [
        "gpu has no time: of 3 runs 3 ran out of memory.",
        "gpu reaches 78 % in 0 of 3 runs (95 %: 0 to 56 %).",
        "cpu reaches 78 % in 3 of 3 runs (95 %: 44 to 100 %), after 13.6 s of training on average.",
    ],
    "tpu b256 wd0": [
        "tpu trains katnoria_cnn (batch 256, decay 0) 9.91 × as fast as cpu, steady epochs, 3 runs each "
        "(95 %: 9.74 to 10.1).",
        "With what is paid once (loading, start-up, compilation) counted, tpu is faster, surely from 2 steps on.",
        "Accuracy after 4 epochs is the same within what 3 runs can show.",
        "An epoch costs 4.54 × as much on tpu as on cpu, at 4.5 and 0.1 an hour (95 %: 4.46 to 4.62); it "
        "would cost the same at 0.991 an hour of tpu (95 %: 0.974 to 1.01).",
        "tpu reaches 78 % in 1 of 3 runs (95 %: 6 to 79 %), after 2.23 s of training: with restarts a "
        "success takes 6.70 s.",
        "cpu reaches 78 % in 0 of 3 runs (95 %: 0 to 56 %): a success takes at least 13.0 s, with restarts (95 %).",
        "tpu has a mean accuracy of 78.00 % over 3 runs (95 %: 76.50 to 79.50 %): 78 % is not shown.",
    ],
    "tpu b256 wd5e-4": [
        "tpu trains katnoria_cnn (batch 256, decay 5e-4) 9.96 × as fast as cpu, steady epochs, 3 runs "
        "each (95 %: 9.68 to 10.2).",
        "With what is paid once (loading, start-up, compilation) counted, tpu is faster, surely from 4 steps on.",
        "Whether accuracy after 4 epochs differs is not to be told from 3 runs: 81.18 % on tpu and "
        "80.62 % on cpu (95 %: -1.3 to 2.4 points); only 2.4 points would have shown.",
        "An epoch costs 4.52 × as much on tpu as on cpu, at 4.5 and 0.1 an hour (95 %: 4.39 to 4.65); "
        "it would cost the same at 0.996 an hour of tpu (95 %: 0.968 to 1.02).",
        "tpu reaches 78 % in 3 of 3 runs (95 %: 44 to 100 %), after 2.22 s of training on average.",
        "cpu reaches 78 % in 3 of 3 runs (95 %: 44 to 100 %), after 16.8 s of training on average.",
        "To 78 % tpu is 7.55 × as fast as cpu (95 %: 7.35 to 7.75): both take as many epochs.",
        "tpu has a mean accuracy of 81.18 % over 3 runs (95 %: 79.14 to 83.21 %): 78 % is shown.",
    ],
    "tpu b512 wd0": ["tpu was skipped: no node has a tpu.", "cpu: of 3 runs 2 completed and count; 1 was not run."],
    "tpu b512 wd5e-4": [
        "tpu trains katnoria_cnn (batch 512, decay 5e-4) 9.63 × as fast as cpu, steady epochs, 3 runs "
        "each (95 %: 9.31 to 9.96).",
        "With what is paid once (loading, start-up, compilation) counted, tpu is faster at every job length.",
        "Whether accuracy after 4 epochs differs is not to be told from 3 runs: 79.73 % on tpu and "
        "79.43 % on cpu (95 %: -1.3 to 1.9 points); only 2.2 points would have shown.",
        "An epoch costs 4.67 × as much on tpu as on cpu, at 4.5 and 0.1 an hour (95 %: 4.52 to 4.83); "
        "it would cost the same at 0.963 an hour of tpu (95 %: 0.931 to 0.996).",
        "tpu reaches 78 % in 3 of 3 runs (95 %: 44 to 100 %), after 1.95 s of training on average.",
        "cpu reaches 78 % in 3 of 3 runs (95 %: 44 to 100 %), after 13.6 s of training on average.",
        "To 78 % tpu is 6.96 × as fast as cpu (95 %: 6.73 to 7.20): both take as many epochs.",
        "tpu has a mean accuracy of 79.73 % over 3 runs (95 %: 77.81 to 81.66 %): 78 % is not shown; "
        "about 4 runs like these would show it.",
    ],
}

TABLES = {
    "target": [
        [
            "tpu b512 wd5e-4",
            "3 of 3",
            "44 %–100 %",
            "4.00",
            "1.95",
            "1.95",
            "1.92–4.46",
            "0.00244",
            "0.7973",
            "not shown; about 4 runs would",
        ],
        ["tpu b256 wd5e-4", "3 of 3", "44 %–100 %", "4.00", "2.23", "2.22", "2.18–5.09", "0.00278", "0.8118", "shown"],
        ["gpu b256 wd5e-4", "3 of 3", "44 %–100 %", "4.00", "4.66", "4.65", "4.57–10.6", "0.000452", "0.8077", "shown"],
        ["tpu b256 wd0", "1 of 3", "6 %–79 %", "4.00", "–", "6.70", "–", "0.00837", "0.7800", "not shown"],
        [
            "cpu b512 wd5e-4",
            "3 of 3",
            "44 %–100 %",
            "4.00",
            "13.5",
            "13.6",
            "13.0–31.3",
            "0.000377",
            "0.7943",
            "not shown; about 4 runs would",
        ],
        ["cpu b256 wd5e-4", "3 of 3", "44 %–100 %", "4.00", "16.7", "16.8", "16.2–38.6", "0.000466", "0.8062", "shown"],
        ["cpu b256 wd0", "0 of 3", "0 %–56 %", "–", "–", "–", "–", "–", "0.7739", "shown to be below"],
        ["cpu b512 wd0", "0 of 2", "0 %–66 %", "–", "–", "–", "–", "–", "0.7705", "the mean is not above it"],
        ["gpu b256 wd0", "0 of 3", "0 %–56 %", "–", "–", "–", "–", "–", "–", "–"],
        ["gpu b512 wd0", "0 of 3", "0 %–56 %", "–", "–", "–", "–", "–", "0.7711", "shown to be below"],
        ["gpu b512 wd5e-4", "0 of 3", "0 %–56 %", "–", "–", "–", "–", "–", "–", "–"],
    ],
    "lengths": [
        [
            "gpu b256 wd5e-4",
            "1.01 × (0.987–1.03)",
            "1.55 × (1.53–1.57)",
            "3.07 × (2.99–3.14)",
            "3.86 × (3.75–3.97)",
            "3.99 × (3.88–4.10)",
            "4",
        ],
        [
            "gpu b512 wd0",
            "1.00 × (1.00–1.00)",
            "1.45 × (1.40–1.50)",
            "2.87 × (2.68–3.07)",
            "3.74 × (3.50–4.01)",
            "3.90 × (3.64–4.17)",
            "1",
        ],
        [
            "tpu b256 wd0",
            "1.01 × (0.999–1.02)",
            "1.74 × (1.73–1.74)",
            "5.21 × (5.15–5.28)",
            "9.02 × (8.87–9.16)",
            "9.91 × (9.74–10.1)",
            "2",
        ],
        [
            "tpu b256 wd5e-4",
            "1.01 × (0.988–1.03)",
            "1.74 × (1.72–1.76)",
            "5.23 × (5.10–5.37)",
            "9.06 × (8.81–9.31)",
            "9.96 × (9.68–10.2)",
            "4",
        ],
        [
            "tpu b512 wd5e-4",
            "1.00 × (1.00–1.00)",
            "1.60 × (1.57–1.62)",
            "4.68 × (4.53–4.83)",
            "8.60 × (8.32–8.90)",
            "9.63 × (9.31–9.96)",
            "1",
        ],
    ],
    "jobs": [
        ["tpu", "b512 wd5e-4", "4.54", "38.3", "37.7–38.9", "0.0478"],
        ["gpu", "b512 wd0", "4.54", "87.2", "86.6–87.7", "0.00847"],
        ["cpu", "b512 wd0", "4.54", "326", "300–355", "0.00907"],
    ],
    "best": [
        ["cpu", "b256 wd5e-4", "0.806", "b512 wd0", "3.22"],
        ["gpu", "b256 wd5e-4", "0.808", "b512 wd0", "0.826"],
        ["tpu", "b256 wd5e-4", "0.812", "b512 wd5e-4", "0.337"],
    ],
    "variation": [
        ["cpu b256 wd0", "3", "0.29 (0–2.7)", "0.53 (0.34–1.2)", "–", "–"],
        ["cpu b256 wd5e-4", "3", "1.4 (0.58–9.3)", "0.62 (0.40–1.4)", "–", "–"],
        ["cpu b512 wd0", "2", "1.0 (0.41–30)", "0.26 (0.16–0.76)", "–", "–"],
        ["cpu b512 wd5e-4", "3", "1.6 (0.75–11)", "0.54 (0.35–1.2)", "–", "–"],
        ["gpu b256 wd5e-4", "3", "0.82 (0.42–5.3)", "0.11 (0.069–0.24)", "3.9 %", "3"],
        ["gpu b512 wd0", "3", "0.21 (0–2.4)", "0.53 (0.34–1.2)", "9.3 %", "3"],
        ["tpu b256 wd0", "3", "0.86 (0.26–5.8)", "0.49 (0.32–1.1)", "2.4 %", "2"],
        ["tpu b256 wd5e-4", "3", "1.0 (0.37–6.8)", "0.52 (0.34–1.2)", "3.9 %", "3"],
        ["tpu b512 wd5e-4", "3", "0.79 (0.35–5.2)", "0.32 (0.21–0.71)", "4.6 %", "3"],
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
    "No effect of device on accuracy is shown (at most tpu 0.41 points above cpu; 95 %: -0.22 to 1.0).",
    "Accuracy depends on batch (9 % of all differences): 256 is 0.96 points above 512, all else alike (95 %: 0.53 to "
    "1.4).",
    "Accuracy depends on decay (75 % of all differences): 5e-4 is 2.8 points above 0, all else alike (95 %: 2.4 to "
    "3.3).",
    "Luck: two runs of the same cell differ by up to 1.5 points (95 %).",
    "What no number of runs tells: on all examples of the kind accuracy may be up to 0.80 points higher or lower than "
    "on these 10,000 (95 %).",
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
            "An epoch costs 4.58 × as much on tpu as on cpu, at 4.5 and 0.1 an hour (95 %: 4.37 to 4.80); it would "
            "cost the same at 0.983 an hour of tpu (95 %: 0.938 to 1.03).",
            "tpu reaches 78 % in 3 of 3 runs (95 %: 44 to 100 %), after 2.24 s of training on average.",
            "cpu reaches 78 % in 3 of 3 runs (95 %: 44 to 100 %), after 16.7 s of training on average.",
            "To 78 % tpu is 7.47 × as fast as cpu (95 %: 7.18 to 7.77): both take as many epochs.",
        ],
        ["gpu has no time: of 3 runs 3 ran out of memory."],
    ]
    assert tables(found) == {
        "target": [
            ["tpu", "3 of 3", "44 %–100 %", "4.00", "2.24", "2.24", "2.15–5.16", "0.00280", "0.8080", "shown"],
            ["cpu", "3 of 3", "44 %–100 %", "4.00", "16.7", "16.7", "16.7–38.2", "0.000465", "0.8015", "shown"],
            ["gpu", "0 of 3", "0 %–56 %", "–", "–", "–", "–", "–", "–", "–"],
        ],
        "lengths": [
            [
                "tpu",
                "1.01 × (0.999–1.02)",
                "1.73 × (1.73–1.74)",
                "5.19 × (5.09–5.30)",
                "8.95 × (8.58–9.33)",
                "9.83 × (9.38–10.3)",
                "2",
            ]
        ],
        "jobs": [["tpu", "4.54", "45.6", "43.5–47.8", "0.0570"], ["cpu", "4.55", "408", "401–415", "0.0113"]],
        "variation": [
            ["cpu", "3", "0.29 (0–2.7)", "0.53 (0.34–1.2)", "–", "–"],
            ["tpu", "3", "2.2 (1.1–14)", "0.54 (0.35–1.2)", "6.4 %", "4"],
        ],
    }


def test_the_baseline_failed():
    """The first that ran stands in for it, and what to doubt says so."""
    found = report_of(made_up(("cpu", "gpu", "tpu"), ends=failed("cpu", "failed")))
    assert verdict(found) == [
        [
            "tpu trains katnoria_cnn (batch 256) 2.47 × as fast as gpu, steady epochs, 3 runs each (95 %: 2.36 to "
            "2.58).",
            "With what is paid once (loading, start-up, compilation) counted, tpu is faster, surely from 4 steps on.",
            "Accuracy after 4 epochs is the same within what 3 runs can show.",
            "An epoch costs 5.21 × as much on tpu as on gpu, at 4.5 and 0.35 an hour (95 %: 4.98 to 5.45); it would "
            "cost the same at 0.864 an hour of tpu (95 %: 0.826 to 0.904).",
            "tpu reaches 78 % in 3 of 3 runs (95 %: 44 to 100 %), after 2.24 s of training on average.",
            "gpu reaches 78 % in 3 of 3 runs (95 %: 44 to 100 %), after 4.66 s of training on average.",
            "To 78 % tpu is 2.08 × as fast as gpu (95 %: 2.00 to 2.17): both take as many epochs.",
        ],
        ["cpu has no time: of 3 runs 3 failed."],
    ]
    assert tables(found) == {
        "target": [
            ["tpu", "3 of 3", "44 %–100 %", "4.00", "2.24", "2.24", "2.15–5.16", "0.00280", "0.8080", "shown"],
            ["gpu", "3 of 3", "44 %–100 %", "4.00", "4.66", "4.66", "4.64–10.6", "0.000453", "0.8031", "shown"],
        ],
        "lengths": [
            [
                "tpu",
                "1.00 × (0.998–1.01)",
                "1.12 × (1.12–1.13)",
                "1.70 × (1.66–1.73)",
                "2.32 × (2.23–2.42)",
                "2.47 × (2.36–2.58)",
                "4",
            ]
        ],
        "jobs": [["tpu", "4.54", "45.6", "43.5–47.8", "0.0570"], ["gpu", "4.55", "106", "104–108", "0.0103"]],
        "variation": [
            ["gpu", "3", "0.46 (0–3.7)", "0.59 (0.38–1.3)", "–", "–"],
            ["tpu", "3", "2.2 (1.1–14)", "0.54 (0.35–1.2)", "6.2 %", "4"],
        ],
    }
    assert [row.is_baseline for row in found.standing.rows] == [False, True, False]
    assert [doubt.says for doubt in found.doubts] == [
        "The baseline, device cpu, has no completed run; device gpu stands in for it."
    ]
    alone = make_report(made_up(("cpu", "gpu"), ends=failed("cpu", "failed")))
    assert alone.standing.compared_with == {"device": "cpu"} and not alone.doubts, "one device is compared with none"


def test_a_target_that_none_reaches():
    found = report_of(made_up(), 0.99)
    assert verdict(found) == [
        [
            "gpu trains katnoria_cnn (batch 256) 3.97 × as fast as cpu, steady epochs, 3 runs each (95 %: 3.85 to "
            "4.08).",
            "With what is paid once (loading, start-up, compilation) counted, gpu is faster, surely from 2 steps on.",
            "Accuracy after 4 epochs is the same within what 3 runs can show.",
            "An epoch costs 0.883 × as much on gpu as on cpu, at 0.35 and 0.1 an hour (95 %: 0.858 to 0.908); it would "
            "cost the same at 0.397 an hour of gpu (95 %: 0.385 to 0.408).",
            "gpu reaches 99 % in 0 of 3 runs (95 %: 0 to 56 %): a success takes at least 3.54 s, with restarts (95 %).",
            "cpu reaches 99 % in 0 of 3 runs (95 %: 0 to 56 %): a success takes at least 13.0 s, with restarts (95 %).",
        ]
    ]
    assert tables(found) == {
        "target": [
            ["cpu", "0 of 3", "0 %–56 %", "0.8015", "shown to be below"],
            ["gpu", "0 of 3", "0 %–56 %", "0.8062", "shown to be below"],
        ],
        "lengths": [
            [
                "gpu",
                "1.00 × (0.998–1.01)",
                "1.54 × (1.54–1.55)",
                "3.05 × (2.99–3.11)",
                "3.84 × (3.74–3.94)",
                "3.97 × (3.85–4.08)",
                "2",
            ]
        ],
        "jobs": [["gpu", "4.55", "106", "103–110", "0.0103"], ["cpu", "4.55", "408", "401–415", "0.0113"]],
        "variation": [
            ["cpu", "3", "0.29 (0–2.7)", "0.53 (0.34–1.2)", "–", "–"],
            ["gpu", "3", "1.4 (0.58–9.2)", "0.61 (0.39–1.4)", "3.9 %", "3"],
        ],
    }


def test_a_target_that_some_reach():
    found = report_of(made_up(), 0.805)
    assert verdict(found) == [
        [
            "gpu trains katnoria_cnn (batch 256) 3.97 × as fast as cpu, steady epochs, 3 runs each (95 %: 3.85 to "
            "4.08).",
            "With what is paid once (loading, start-up, compilation) counted, gpu is faster, surely from 2 steps on.",
            "Accuracy after 4 epochs is the same within what 3 runs can show.",
            "An epoch costs 0.883 × as much on gpu as on cpu, at 0.35 and 0.1 an hour (95 %: 0.858 to 0.908); it would "
            "cost the same at 0.397 an hour of gpu (95 %: 0.385 to 0.408).",
            "gpu reaches 80.5 % in 2 of 3 runs (95 %: 21 to 94 %), after 4.70 s of training: with restarts "
            "a success takes 7.01 s (95 %: "
            "4.94 to 22.4 s).",
            "cpu reaches 80.5 % in 0 of 3 runs (95 %: 0 to 56 %): a success takes at least 13.0 s, with restarts (95 "
            "%).",
        ]
    ]
    assert tables(found) == {
        "target": [
            [
                "gpu",
                "2 of 3",
                "21 %–94 %",
                "4.00",
                "4.74",
                "7.01",
                "4.94–22.4",
                "0.000682",
                "0.8062",
                "not shown; about 44 runs would",
            ],
            ["cpu", "0 of 3", "0 %–56 %", "–", "–", "–", "–", "–", "0.8015", "shown to be below"],
        ],
        "lengths": [
            [
                "gpu",
                "1.00 × (0.998–1.01)",
                "1.54 × (1.54–1.55)",
                "3.05 × (2.99–3.11)",
                "3.84 × (3.74–3.94)",
                "3.97 × (3.85–4.08)",
                "2",
            ]
        ],
        "jobs": [["gpu", "4.55", "106", "103–110", "0.0103"], ["cpu", "4.55", "408", "401–415", "0.0113"]],
        "variation": [
            ["cpu", "3", "0.29 (0–2.7)", "0.53 (0.34–1.2)", "–", "–"],
            ["gpu", "3", "1.4 (0.58–9.2)", "0.61 (0.39–1.4)", "3.9 %", "3"],
        ],
    }
