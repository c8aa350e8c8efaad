"""The cells and trials of a grid on given machines."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from raybench import datasets
from raybench.core.options import PlanOptions
from raybench.devices import Hardware
from raybench.engines import FRAMEWORKS
from raybench.engines.learning_rate import schedule
from raybench.environments import Interpreter
from raybench.errors import UsageError
from raybench.execution.jobs import make_job
from raybench.execution.schedule import ScheduledTrial
from raybench.planning.grid_options import requested_grid
from raybench.planning.node import Node
from raybench.planning.placement import ResourceRequest, find_placements
from raybench.planning.plan import WorkItem, make_plan, notes, plan_warnings, skip_lines
from raybench.planning.resume import done_on_other_machines, missing_work
from raybench.results.history import GridHistory
from raybench.results.run_table import Run
from raybench.workloads import names

GIB = 1024**3
EPYC = Hardware("cpu", "AMD EPYC", 2, 16 * GIB, ids=("0", "1"))
T4 = Hardware("cuda", "Tesla T4", 2, 15 * GIB, "550", ("0", "1"))
LAPTOP = Node("laptop", (EPYC,), {"torch": "2.13.0+cpu"}, "3.11.7")
SERVER = Node("server", (replace(EPYC, count=16, ids=tuple(map(str, range(16)))), T4), {"torch": "2.13.0"}, "3.11.7")
FULL = replace(LAPTOP, packages={"torch": "2.13.0", "torch_xla": "2.9.0", "tensorflow": "2.21.0"})

HEAD = "name: g\nworkload: digits_cnn\n"
AXES = "axes: {device: [cpu, cuda], batch_size: [32, 64], weight_decay: [0, 5e-4]}\n"
GRID = HEAD + "epochs: 2\n" + AXES


@pytest.fixture
def plan_of(tmp_path):
    def make(text, nodes=(LAPTOP,), where=()):
        path = tmp_path / "grid.yaml"
        path.write_text(text)
        return make_plan(requested_grid(path, PlanOptions(where=where)), nodes, tmp_path)

    return make


def axes(plan):
    return [tuple(cell.axes.values()) for cell in plan.cells]


def ids(plan):
    return [cell.cell_id for cell in plan.cells]


def test_product_exclude_include_and_overrides(plan_of):
    product = [(device, batch, decay) for device in ("cpu", "cuda") for batch in (32, 64) for decay in (0, 5e-4)]
    assert axes(plan_of(GRID)) == product
    plan = plan_of(
        GRID
        + "exclude: [{device: cuda, batch_size: [32, 64]}]\n"
        + "include: [{device: cpu, batch_size: 128, epochs: 5}]\n"
        + "overrides: [{when: {weight_decay: 0}, set: {optimizer: adam}}]\n"
    )
    assert axes(plan) == [*product[:4], ("cpu", 128, 0, 5), ("cpu", 128, 5e-4, 5)]
    assert [cell.content.settings.epochs for cell in plan.cells] == [2, 2, 2, 2, 5, 5]
    assert [cell.content.settings.optimizer for cell in plan.cells] == ["adam", "sgd"] * 3


def test_where_selects_cells(plan_of):
    assert axes(plan_of(GRID, where={"device": "cpu", "weight_decay": 5e-4})) == [
        ("cpu", 32, 5e-4),
        ("cpu", 64, 5e-4),
    ]
    part = plan_of(GRID, where=["device=available", "batch_size=32"])
    assert axes(part) == [("cpu", 32, 0), ("cpu", 32, 5e-4)] and part.left_out == 6
    gpus = plan_of(GRID.replace("[cpu, cuda]", "[cuda]"), where=["device=available"])
    assert all(cell.skip for cell in gpus.cells), "if nothing can run, each cell has its reason"


def test_available_devices_are_those_of_the_machines(plan_of):
    text = GRID.replace("[cpu, cuda]", "available")
    assert {cell.axes["device"] for cell in plan_of(text).cells} == {"cpu"}
    assert {cell.axes["device"] for cell in plan_of(text, [LAPTOP, SERVER]).cells} == {"cpu", "cuda"}


def test_repeats_run_in_turn_shuffled_by_the_seed(plan_of):
    text = GRID + "repeats: 3\nseed: 7\n"
    first, again = plan_of(text, [SERVER]), plan_of(text, [SERVER])
    order = [(trial.repeat, trial.cell.cell_id) for trial in first.trials]
    assert order == [(trial.repeat, trial.cell.cell_id) for trial in again.trials]
    assert [repeat for repeat, _ in order] == [0] * 8 + [1] * 8 + [2] * 8
    rounds = [[cell for repeat, cell in order if repeat == number] for number in range(3)]
    assert rounds[1] == rounds[0][::-1], "a steady drift affects all cells alike"
    assert Counter(rounds[2]) == Counter(rounds[0]) and rounds[2] not in rounds[:2]
    assert {(trial.repeat, trial.seed) for trial in first.trials} == {(0, 7), (1, 8), (2, 9)}


def test_a_device_may_have_fewer_repeats(plan_of):
    devices = "repeats: 3\ndevices: {slow: {kind: cpu, threads: 1, repeats: 1}, fast: {kind: cpu, repeats: 9}}\n"
    plan = plan_of(HEAD + "axes: {device: [slow, fast]}\n" + devices)
    repeats = {"slow": [0], "fast": [0, 1, 2]}
    assert {cell.profile: [t.repeat for t in plan.trials if t.cell is cell] for cell in plan.cells} == repeats


def test_labels_have_the_values_that_vary(plan_of):
    axes = "threads: 1\nrepeats: 2\naxes: {device: [cpu, tpu], batch_size: [32, 64]}\n"
    more = "include: [{device: cpu, batch_size: 32, precision: bf16}]\ndevices: {tpu: {kind: tpu, repeats: 1}}\n"
    for where, number in ([], 8), (["batch_size=64"], 3):
        plan = plan_of(HEAD + axes + more, [SERVER], where=where)
        labels = {plan.label(trial) for trial in plan.trials}
        assert len(labels) == len(plan.trials) == number
        assert {"cpu, batch 64, repeat 1", "tpu, batch 64"} <= labels
        assert ("cpu, batch 32, bf16, repeat 2" in labels) == (not where)


def test_profiles_override_the_grid(plan_of):
    devices = "devices:\n  cuda: {kind: cuda, threads: 3}\n  cpu: {kind: cpu, memory_limit: 512MiB, epochs: 9}\n"
    plan = plan_of(GRID + "threads: 1\n" + devices, [SERVER])
    assert {
        cell.profile: (cell.content.device.threads, cell.content.settings.epochs, cell.memory_limit)
        for cell in plan.cells
    } == {"cpu": (1, 9, 512 << 20), "cuda": (3, 2, 0)}


def test_repeats_go_to_different_machines(plan_of):
    nodes = [replace(LAPTOP, name=f"node-{number}") for number in range(7)]

    def runs(repeats, count=7, axes="{device: [cpu], batch_size: [32, 64]}"):
        plan = plan_of(f"{HEAD}repeats: {repeats}\naxes: {axes}\n", nodes[:count])
        by_cell = {}
        for work in missing_work(plan, GridHistory(tmp)):
            by_cell.setdefault(work.trial.cell.cell_id, []).append((work.trial.repeat, work.nodes))
        hosts = [[" ".join(name[-1] for name in names) for _, names in sorted(own)] for own in by_cell.values()]
        return hosts, [line for line in plan_warnings(plan) if "machine" in line]

    tmp = Path("nowhere")
    assert runs(4, count=2) == ([["0", "1", "0", "1"]] * 2, []), "each configuration on each machine"
    assert runs("{machines: 3, at_least: 6}") == ([["0", "1", "2"] * 2] * 2, [])
    assert runs("{machines: 3}", 3, "{device: [cpu], nodes: [1, 2]}")[0] == [["0", "1", "2"], ["0 1"] * 3]
    (first, second), (note,) = runs(3)
    assert first == ["0", "1", "2"] and second == ["3", "4", "5"]
    assert "2 sets of them" in note and "`repeats: {machines: 3}` all run on the same 3" in note
    hosts, (note,) = runs("{machines: 3}", 1)
    assert hosts == [["0"] * 3] * 2 and note.startswith("1 machine of AMD EPYC instead of 3; run the grid on others")


SAME = [
    "description: d\ntimeout: 3m\nretries: 0\nrepeats: 5\n",
    "devices: {cpu: {kind: cpu, price_per_hour: 3}}\ncurrency: EUR\n",
    "overrides: [{when: {device: cpu}, set: {memory_limit: 2GiB}}]\n",
    "warmup_epochs: 0\n",
    "optimizer: sgd\nlabel_smoothing: 0\ncompile: false\ngradient_clipping: null\n",
    "decay_rule: sum_over_replicas\n",
]
OTHER = [
    "threads: 1\n",
    "examples: {train: 256}\n",
    "seed: 1\n",
    "precision: bf16\n",
    "label_smoothing: 0.1\n",
    "augmentation: [{cutout: 4}]\n",
    "gradient_clipping: 1\n",
    "optimizer: adam\n",
    "decay: decoupled\n",
    "schedule: {name: exponential, decay_steps: 2000}\n",
    "channels_last: true\n",
    "evaluation_batch_size: 500\n",
    "stop_at_target: true\ntarget: {metric: val/accuracy, at_least: 0.9}\n",
    "budget: {time: 5m}\nschedule: constant\n",
    "devices: {cpu: {kind: cpu, replicas: 2}}\n",
]
NOTATIONS = [
    ("epochs: 2", "epochs: 2.0"),
    ("compile: true", "compile: default"),
    ("augmentation: [crop]", "augmentation: [{crop: 4}]"),
    ("momentum: 0", "momentum: 0.0\nnesterov: false"),
    (
        "schedule: {name: piecewise_linear, points: [[0, 0], [5, 1]]}",
        "schedule: {name: piecewise_linear, points: [[0.0, 0], [5, 1]], stretch: false}",
    ),
    ("axes: {weight_decay: [0]}", "axes: {weight_decay: [0.0]}"),
    ("optimizer: adam", "optimizer: adam\nmomentum: 0.5"),
]


@pytest.mark.parametrize("change", SAME)
def test_changes_without_effect_keep_cells(plan_of, change):
    text = GRID.replace("[cpu, cuda]", "[cpu]")
    assert ids(plan_of(text + change)) == ids(plan_of(text))


@pytest.mark.parametrize("change", OTHER)
def test_changes_of_results_make_cells(plan_of, change):
    text = GRID.replace("[cpu, cuda]", "[cpu]")
    plain, changed = plan_of(text), plan_of(text + change)
    assert not set(ids(plain)) & set(ids(changed))
    assert not {cell.request_id for cell in plain.cells} & {cell.request_id for cell in changed.cells}


@pytest.mark.parametrize(("one", "other"), NOTATIONS)
def test_two_notations_make_one_cell(plan_of, one, other):
    assert ids(plan_of(f"{HEAD}{one}\n")) == ids(plan_of(f"{HEAD}{other}\n")) != ids(plan_of(HEAD))


def test_settings_that_a_framework_ignores_keep_cells(plan_of):
    text = HEAD + "axes: {device: [xla_cpu]}\n"
    assert ids(plan_of(text + "compile: true\nchannels_last: true\n")) == ids(plan_of(text))
    replicas = "batch_size: 64\ndevices: {cpu: {kind: cpu, replicas: 8}}\n"
    trap, mean = (ids(plan_of(HEAD + replicas + f"decay_rule: {rule}\n")) for rule in ("sum_over_replicas", "mean"))
    assert trap != mean == ids(plan_of(HEAD + replicas))


def test_requests_are_equal_on_machines_whose_cells_differ(plan_of, tmp_path):
    newer = replace(SERVER, packages={"torch": "2.14.0"})
    here, there = plan_of(GRID), plan_of(GRID, (newer,))
    assert not set(ids(here)) & set(ids(there))
    requests = [cell.request_id for cell in here.cells]
    assert requests == [cell.request_id for cell in there.cells] and len(set(requests)) == 8
    placed = ScheduledTrial(WorkItem(here.trials[0]), (LAPTOP,))
    assert make_job(here, placed, tmp_path, tmp_path).labels["request_id"] == here.trials[0].cell.request_id


OWN = "name: g\nworkload: {command: 'true {size}'}\nparams: {size: 1000}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GRID.replace("32, 64", "2048"), "batch_size: 2048 is larger than the training set of 1437 examples"),
        (GRID + "examples: {train: 5000}\n", "grid.yaml:5:1: examples.train: 5000 is not allowed; digits has 1437"),
        (GRID.replace("digits_cnn", "digit_cnn"), "grid.yaml:2:1: unknown workload 'digit_cnn'"),
        (GRID + "memory_limit: 2GiB\n", "grid.yaml:5:1: memory_limit: does not apply to cuda"),
        (
            HEAD + "target: {metric: val/accuracy, at_least: 94}\n",
            "grid.yaml:3:1: target: 94 is not allowed for accuracy",
        ),
        (HEAD + "batch_size: 64\nreplicas: 6\n", "grid.yaml:3:1: batch_size: 64 is not a multiple of the 6 replicas"),
        (HEAD + "batch_size: 64\nper_device_batch_size: 6\n", "grid.yaml:4:1: per_device_batch_size: batch_size"),
        (
            HEAD.replace("digits", "imdb") + "label_smoothing: 0.1\n",
            "grid.yaml:3:1: label_smoothing: needs cross-entropy",
        ),
        (OWN + "flops_per_token: 6 * {sizes}\n", "grid.yaml:4:1: flops_per_token: no value for {sizes}"),
        (OWN + "flops_per_token: 6 * {size} - 6000\n", "flops_per_token: 6 * 1000 - 6000 is not a number above 0"),
        (OWN + "flops_per_token: 6\nflops_precision: fp8\n", "grid.yaml:5:1: flops_precision: fp8 is not a precision"),
        (GRID + "exclude: [{device: [cpu, cuda]}]\n", "g has no configuration left; change --where or exclude"),
    ],
)
def test_impossible_settings_are_refused_with_their_line(plan_of, text, words):
    with pytest.raises(UsageError) as caught:
        plan_of(text, [replace(SERVER, packages=FULL.packages)])
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        ("{tokens: 1e6}", {"work": 1e6, "unit": "tokens"}),
        ("{examples: 500}", {"work": 500.0, "unit": "examples"}),
        ("{flops: 6e9}\nflops_per_example: 3e6", {"work": 2000.0, "unit": "examples"}),
        ("{energy: 500J}", {"joules": 500.0}),
        ("{energy: 1.5MJ}", {"joules": 1.5e6}),
        ("{energy: 0.5kWh}", {"joules": 1.8e6}),
    ],
)
def test_a_budget_of_work_or_energy(plan_of, budget, expected):
    (cell,) = plan_of(f"{HEAD}schedule: constant\nbudget: {budget}\n").cells
    assert cell.content.budget == expected


def test_a_budget_of_flops_needs_those_of_the_model(plan_of):
    with pytest.raises(UsageError, match="flops_per_token"):
        plan_of(f"{HEAD}schedule: constant\nbudget: {{flops: 6e9}}\n")


def test_a_budget_of_money_is_seconds_at_the_price(plan_of):
    text = f"{HEAD}schedule: constant\nbudget: {{price: 0.1}}\ndevices: {{cpu: {{kind: cpu, price_per_hour: 3.6}}}}\n"
    assert [cell.content.budget for cell in plan_of(text).cells] == [{"seconds": 100.0}]


def test_settings_that_do_not_matter_are_not_refused(plan_of):
    own = "name: g\nworkload: {command: 'true', metrics: {val/accuracy: '(.*)'}}\n"
    assert plan_of(own + "target: {metric: val/accuracy, at_least: 94}\n").spec.target.at_least == 94


def test_target_may_be_a_metric_of_a_workloads_own(plan_of, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from raybench import Workload\nmine = Workload(model=print, dataset='digits', metrics=print)\n"
    )
    plan = plan_of("name: g\nworkload: mine.py:mine\nepochs: 1\ntarget: {metric: val/auc, at_least: 0.1}\n")
    assert plan.spec.target.metric == "val/auc" and not plan.cells[0].skip


def test_invalid_defaults_of_a_workload(plan_of, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from raybench import Workload\n"
        "mine = Workload(model=print, dataset='digits', defaults={'batchsize': 99, 'optimizer': 'adm'})\n"
    )
    with pytest.raises(UsageError) as caught:
        plan_of("name: g\nworkload: mine.py:mine\n")
    prefix = f"{tmp_path}/mine.py: the defaults of mine: "
    assert sorted(str(caught.value).splitlines()) == [
        f"{prefix}batchsize: unknown setting; did you mean batch_size?",
        f"{prefix}optimizer: 'adm' is not one of sgd, adam, adamw; did you mean adam?",
    ]


@pytest.mark.parametrize(
    ("text", "node", "skips"),
    [
        ("axes: {device: [cpu, cuda]}", LAPTOP, [None, "no CUDA GPU"]),
        ("framework: tensorflow\nreplicas: 2", FULL, ["raybench's tensorflow engine has no replicas: 2; use 1"]),
        (
            "axes: {framework: [tensorflow], compile: [false, default, max-autotune]}",
            FULL,
            [None, None, "raybench's tensorflow engine has no compile: max-autotune; use false or default"],
        ),
        ("axes: {device: [xla_cpu], compile: [false, max-autotune]}", FULL, [None]),
    ],
)
def test_reasons_of_skipped_cells(plan_of, text, node, skips):
    assert [cell.skip for cell in plan_of(f"{HEAD}{text}\n", [node]).cells] == skips


def test_cells_with_a_setting_that_their_engine_lacks_are_skipped(plan_of, monkeypatch):
    record = FRAMEWORKS["tensorflow"]
    declared = {name: values for name, values in record.settings.items() if name != "label_smoothing"}
    monkeypatch.setitem(FRAMEWORKS, "tensorflow", replace(record, settings=declared))
    plan = plan_of(f"{HEAD}axes: {{framework: [torch, tensorflow], label_smoothing: [0, 0.1]}}\n", [FULL])
    reason = "raybench's tensorflow engine has no label_smoothing; remove it"
    assert [cell.skip for cell in plan.cells] == [None, None, None, reason]


def test_a_missing_framework_runs_in_its_environment(plan_of):
    text = HEAD + "threads: 1\naxes: {device: [cpu, xla_cpu]}\n"
    packages = {"torch": "2.9.1", "torch_xla": "2.9.0", "numpy": "2.2.6"}
    built = replace(LAPTOP, environments={"xla": Interpreter("/cache/xla/bin/python", "3.11.7", packages)})
    assert [bool(cell.skip) for cell in plan_of(text).cells] == [False, True]
    plan = plan_of(text, nodes=[built])
    assert [cell.fit.environment for cell in plan.cells] == ["", "xla"]
    message = "torch_xla is not installed in raybench's Python; its trials run in environment xla."
    assert list(notes(plan)) == [message]


def test_the_cell_has_the_digest_of_its_data_and_the_minor_version_of_its_framework(plan_of):
    (cell,) = plan_of(HEAD).cells
    assert cell.content.engine.framework_version == "2.13"
    assert cell.content.data.digest == datasets.get("digits").official_digest


def test_environment_lock_is_part_of_the_cell(plan_of):
    def plan(*locks):
        found = [Interpreter("/x/python", "3.11.7", {"torch": "2.9.0", "numpy": "2"}, lock=lock) for lock in locks]
        node = replace(LAPTOP, environments=dict(zip(("/a", "/b"), found, strict=True)))
        return plan_of(HEAD + "axes: {environment: [/a, /b, /c]}\n", [node])

    same, different = plan("1", "1"), plan("1", "2")
    assert [cell.fit and cell.fit.environment for cell in same.cells] == ["/a", "/b", None]
    assert same.cells[2].skip == "/c was not inspected on laptop"
    assert [a == b for a, b in zip(ids(same), ids(different), strict=True)] == [True, False, True]


def test_points_that_make_the_same_cell_are_named(plan_of):
    plan = plan_of(HEAD + "axes: {device: [a, b]}\ndevices: {a: {kind: cpu}, b: {kind: cpu}}\n")
    assert len(plan.cells) == 1
    assert list(notes(plan)) == [
        "Not run again: 1 combination with the same settings as an earlier one (b is the same device as a)."
    ]

    by_resource = "devices: {a: {kind: cpu, resources: {a: 1}}, b: {kind: cpu, resources: {b: 1}}}\n"
    nodes = [replace(LAPTOP, name=name, resources={name: 1.0}) for name in "ab"]
    plan = plan_of(HEAD + "axes: {device: [a, b]}\n" + by_resource, nodes)
    assert [cell.fit.nodes for cell in plan.cells] == [("a",), ("b",)], "another placement is another device"
    assert list(notes(plan)) == []


def test_nodes_of_two_models_are_two_devices(plan_of):
    plan = plan_of(HEAD + "axes: {device: [cpu], batch_size: [32, 64]}\n", (LAPTOP, SERVER))
    labels = [plan.label(trial) for trial in plan.trials]
    assert {*labels} == {f"cpu (threads {cores}), batch {size}" for cores in (2, 16) for size in (32, 64)}


@pytest.mark.parametrize(
    ("need", "reason"),
    [
        ({"kind": "tpu", "framework": "torch_xla"}, "no TPU"),
        ({"kind": "tpu"}, "framework torch does not run on tpu; use torch_xla or torch_tpu"),
        ({"kind": "cuda", "accelerator_type": "A100"}, "needs A100; server has Tesla T4"),
        ({"kind": "cuda", "count": 4}, "needs 4 x CUDA GPU; server has 2"),
        ({"cpus": 64}, "needs 64 cores; server has 16"),
        ({"precision": "tf32"}, "precision tf32 is not available on cpu, only on cuda"),
        ({"framework": "jax"}, "raybench has no engine for jax"),
        (
            {"kind": "cuda", "replicas": 1, "count": 2},
            "replicas: 1 is not a multiple of the 2 devices; use one, or remove replicas",
        ),
        ({"framework": "tensorflow", "count": 2}, "count 2 is not possible with framework tensorflow on cpu; use 1"),
        ({"environment": "xla"}, "environment xla was not inspected on server"),
    ],
)
def test_reasons_of_missing_placements(need, reason):
    request = ResourceRequest(**{"kind": "cpu", "framework": "torch", "precision": "fp32", **need})
    assert find_placements(request, [SERVER]) == reason


def test_placements(plan_of):
    cpu, gpu = (ResourceRequest(kind, "torch", "fp32") for kind in ("cpu", "cuda"))
    bare, twin = Node("bare", (EPYC,), {}), replace(LAPTOP, name="twin")
    assert find_placements(cpu, [bare]) == "torch is not installed on bare"
    assert [fit.nodes for fit in find_placements(cpu, [bare, LAPTOP, twin, SERVER])] == [
        ("laptop", "twin"),
        ("server",),
    ]
    needs = gpu, replace(gpu, count=2), cpu, replace(gpu, accelerator_type="t4", cpus=2)
    cores = [find_placements(need, [SERVER])[0].cpus for need in needs]
    assert cores == [8, 16, 16, 2], "the share of one GPU and of two, all, and the requested number"


@pytest.mark.parametrize(
    ("profile", "more", "shares"),
    [
        ("kind: cpu, replicas: 8", "", (8, None, 64, 16)),
        ("kind: cpu, count: 2", "", (2, 2, 64, 16)),
        ("kind: cpu, count: 2, replicas: 4", "", (4, 2, 64, 16)),
        ("kind: cuda, count: 2", "", (2, 2, 64, 2)),
        ("kind: cuda", "count: 2\n", (2, 2, 64, 2)),
        ("kind: cuda, count: 1", "overrides: [{when: {device: one}, set: {count: 2}}]\n", (2, 2, 64, 2)),
        ("kind: cpu, per_device_batch_size: 16", "count: 2\n", (2, 2, 32, 16)),
    ],
)
def test_count_replicas_and_batch_in_the_cell(plan_of, profile, more, shares):
    batch = "" if "batch" in profile else "batch_size: 64\n"
    grid = HEAD + f"axes: {{device: [one]}}\n{batch}devices:\n  one: {{{profile}}}\n{more}"
    (cell,) = plan_of(grid, nodes=(SERVER,)).cells
    device = cell.content.to_json()["device"]
    batch_size, count = cell.content.settings.batch_size, device["count"]
    assert cell.skip is None
    assert (device["replicas"], device.get("devices"), batch_size, count) == shares


@pytest.mark.parametrize("workload", names())
def test_schedules_multiply_the_learning_rate(plan_of, workload):
    low, high = plan_of(f"name: g\nworkload: {workload}\naxes: {{learning_rate: [0.1, 0.4]}}\n").cells
    rates = [
        [cell.content.settings.learning_rate * factor(step) for step in range(0, 50, 7)]
        for cell in (low, high)
        for factor in [schedule(cell.content.settings.schedule, 10, 10 * cell.content.settings.epochs)]
    ]
    assert rates[1] == pytest.approx([4 * rate for rate in rates[0]])


def machine(plan, device, host, repeats=1, status="completed"):
    """Attempts at the trials of a device, as another machine made them."""
    return [
        Run(trial=f"{cell.request_id}-r{n}", request_id=cell.request_id, host={"name": host}, status=status)
        for cell in plan.cells
        if cell.profile == device
        for n in range(repeats)
    ]


def test_cells_done_on_other_machines(plan_of):
    plan = plan_of(GRID + "repeats: 2\n")
    assert done_on_other_machines(plan, []) == {}
    gpus = [*machine(plan, "cuda", "gpu-box"), *machine(plan_of(GRID, nodes=(SERVER,)), "cuda", "server")]
    others = done_on_other_machines(plan, gpus)
    assert [[*others[cell.cell_id]] for cell in plan.cells if cell.skip] == [[0]] * len(others)
    assert list(skip_lines(plan, others)) == list(skip_lines(plan))
    others = done_on_other_machines(plan, machine(plan, "cuda", "gpu-box", repeats=3))
    assert list(skip_lines(plan, others)) == []
    assert done_on_other_machines(plan, machine(plan, "cuda", "gpu-box", status="lost")) == {}
    assert done_on_other_machines(plan, machine(plan, "cpu", "vm-b")) == {}, "they can run here"
