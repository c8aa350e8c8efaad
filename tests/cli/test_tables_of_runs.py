"""`raybench report` and `compare` of tables with a line per run, whose truth is known."""

import pytest

pytestmark = pytest.mark.usefixtures("in_process")


@pytest.mark.parametrize("name", ["epochs", "epochs_done", "num_epochs", "steps", "num_steps", "samples", "tokens"])
def test_runs_of_unequal_work_are_not_kept(tmp_path, raybench, name):
    for file, work, took_s in (("base", 1000, 100), ("new", 500, 90), ("same", 1000, 90)):
        lines = [f"{seed},{work},{took_s + seed},0.9,done" for seed in range(4)]
        lines += [f"4,{work if name == 'epochs' else ''},,,failed"]
        (tmp_path / f"{file}.csv").write_text("\n".join([f"seed,{name},time_s,val_acc,status", *lines]))
    said = raybench("compare", "base.csv", "new.csv")
    assert said.status == 5 and "1000" in said.out and "500" in said.out
    assert raybench("compare", "base.csv", "same.csv").status == 0


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("epochs_done", "runs differ in their epochs ("),
        ("steps", "runs differ in their steps ("),
        ("examples", "examples/s"),
        ("tokens", "tokens/s"),
    ],
)
def test_a_report_of_runs_of_unequal_work_says_so(tmp_path, raybench, name, says):
    runs = [(gpu, n, n / 10 + seed) for gpu, n in (("a", 1000), ("b", 500)) for seed in range(3)]
    (tmp_path / "runs.csv").write_text("\n".join([f"gpu,{name},time_s", *(f"{g},{n},{s}" for g, n, s in runs)]))
    text = " ".join(raybench("report", "runs.csv").out.split())
    assert says in text and f"{name.replace('_', ' ')} 500" not in text, "it is no axis beside gpu"
    (tmp_path / "runs.csv").write_text("\n".join([f"{name},time_s", *(f"{n},{s}" for _, n, s in runs)]))
    assert f"{name.replace('_', ' ')} 500" in " ".join(raybench("report", "runs.csv").out.split()), "it is one alone"


def test_accuracies_in_percent_and_as_fractions_are_not_compared(tmp_path, raybench):
    for side, factor in (("a", 1), ("b", 100)):
        lines = [f"{s},{100 + s},{factor * (0.9 + s / 1000):.3f}" for s in range(3)]
        (tmp_path / f"{side}.csv").write_text("\n".join(["seed,time_s,val_acc", *lines]))
        text = "".join(
            f"Epoch {n}/5, val_acc={factor * (0.8 + n / 50):.3f}, time: {10 + n / 9}s\n" for n in range(1, 6)
        )
        (tmp_path / "logs").mkdir(exist_ok=True)
        (tmp_path / "logs" / f"{side}.log").write_text(text)
    both = [f"{side},{line}" for side in "ab" for line in (tmp_path / f"{side}.csv").read_text().split("\n")[1:]]
    (tmp_path / "both.csv").write_text("\n".join(["gpu,seed,time_s,val_acc", *both]))
    for source in ("both.csv", "logs"):
        text = " ".join(raybench("report", source).out.split())
        assert "not compared (percent against fractions)" in text and "accurate" not in text
        assert "as percent for" in text and "90." in text


@pytest.mark.parametrize("column", ["seed", "size"])
def test_copies_of_a_line_with_a_seed_are_one_run(tmp_path, raybench, column):
    lines = [f"{gpu},{seed},{took + seed}" for gpu, took in (("a", 100), ("b", 90)) for seed in range(3)]
    (tmp_path / "runs.csv").write_text("\n".join([f"gpu,{column},time_s", *lines, *lines]))
    text = raybench("report", "runs.csv").out
    assert ("Left out 6 lines equal to others" in text) is (column == "seed")
    assert column != "seed" or "3 runs each" in text


@pytest.mark.parametrize(
    ("name", "fine", "failed"),
    [
        ("error", "", "CUDA out of memory"),
        ("exit_code", "0", "137"),
        ("success", "True", "False"),
        ("ok", "1", "0"),
        ("status", "ok", "error"),
        ("State", "passed", "crashed"),
    ],
)
def test_runs_that_failed_are_not_compared(tmp_path, raybench, name, fine, failed):
    lines = [
        f"{g},{s},{t + s},{failed if (g, s) == ('b', 2) else fine}" for g, t in (("a", 9), ("b", 5)) for s in (1, 2)
    ]
    (tmp_path / "runs.csv").write_text("\n".join([f"gpu,seed,time_s,{name}", *lines]))
    text = " ".join(raybench("report", "runs.csv").out.split())
    assert "3 of 4 runs completed" in text and "1 failed" in text and f"{name} " not in text.partition("#")[2]


@pytest.mark.parametrize("head", ["model,seed,time_s,comment", "model,seed,time_s,Notes", "seed,time_s,gap"])
def test_texts_and_results_are_no_axes_and_are_said(tmp_path, raybench, head):
    last = (("", "slow fan", "", "slow fan") * 2) if "gap" not in head else [f"0.{n}" for n in range(8)]
    lines = [f"{'xy'[n % 2]},{n},{(100, 90)[n % 2] + n / 10},{text}" for n, text in enumerate(last)]
    lines = lines if "model" in head else [line[2:] for line in lines]
    (tmp_path / "runs.csv").write_text("\n".join([head, *lines]))
    text = " ".join(raybench("report", "runs.csv", "--full").out.split())
    name = head.rpartition(",")[2]
    assert f"Not used: {name} " in text and f"{name} " not in text.partition("price_per_hour)")[2]
    assert ("4 runs each" if "model" in head else "8 runs") in text


def test_a_spread_of_machines_is_a_number(tmp_path, raybench):
    lines = [
        f"{gpu},{gpu}{h},{s},{t + (18, 42)[h - 1] + s / 9}"
        for gpu, t in (("x", 100), ("y", 85))
        for h in (1, 2)
        for s in (1, 2)
    ]
    (tmp_path / "runs.csv").write_text("\n".join(["device,host,seed,time_s", *lines]))
    text = " ".join(raybench("report", "runs.csv").out.split())
    assert "differ by about" in text and "e+" not in text


@pytest.mark.parametrize(
    ("column", "good", "bad"),
    [("job_state", "COMPLETED", "FAILED"), ("outcome", "success", "failure"), ("finished", "True", "False")],
)
def test_states_are_known_by_their_words(tmp_path, raybench, column, good, bad):
    lines = [f"{gpu},{s},{100 + s},{bad if s == 3 else good}" for gpu in "ab" for s in range(4)]
    (tmp_path / "runs.csv").write_text("\n".join([f"gpu,seed,time_s,{column}", *lines]))
    assert "6 of 8 runs completed; 2 failed" in " ".join(raybench("report", "runs.csv").out.split())


def test_dates_that_are_not_read_are_named(tmp_path, raybench):
    lines = [f"{gpu},{s},03/01/2026 22:00:00,03/01/2026 23:0{s}:00,0.9" for gpu in "ab" for s in range(3)]
    (tmp_path / "runs.csv").write_text("\n".join(["gpu,seed,start_time,end_time,val_acc", *lines]))
    assert "Columns start_time and end_time" in " ".join(raybench("report", "runs.csv").out.split())


def test_a_whole_run_may_cost_more_though_its_training_is_cheaper(tmp_path, raybench):
    sides = (("a", 1000, 1100, 2.0), ("b", 700, 1300, 2.6))
    lines = [f"{gpu},{s},{train + s},{total + s},{price}" for gpu, train, total, price in sides for s in range(3)]
    (tmp_path / "runs.csv").write_text("\n".join(["gpu,seed,train_time_s,total_time_s,price_per_hour", *lines]))
    assert "run of gpu b costs 54% more" in " ".join(raybench("report", "runs.csv").out.split())
