from collections import Counter
from dataclasses import replace

import pytest

from raybench.config import load_grid
from raybench.devices import Hardware
from raybench.engines.learning_rate import schedule
from raybench.environments import Interpreter
from raybench.errors import UsageError, WorkloadError
from raybench.execution.jobs import make_job
from raybench.execution.scheduler import AssignedWork
from raybench.planning.node import Node
from raybench.planning.placement import ResourceRequest, find_placement
from raybench.planning.plan import WorkItem, make_plan, notes
from raybench.planning.request import request_of
from raybench.planning.resume import complete_cells, done_on_other_machines
from raybench.results.attempt import Attempt
from raybench.workloads import get, names

GIB = 1024**3
EPYC = Hardware("cpu", "AMD EPYC", 2, 16 * GIB, ids=("0", "1"))
T4 = Hardware("cuda", "Tesla T4", 2, 15 * GIB, "550", ("0", "1"))
LAPTOP = Node("laptop", (EPYC,), {"torch": "2.13.0+cpu"}, "3.11.7")
SERVER = Node("server", (replace(EPYC, count=16, ids=tuple(map(str, range(16)))), T4), {"torch": "2.13.0"}, "3.11.7")

GRID = """
name: g
workload: digits_cnn
epochs: 2
axes:
  device: [cpu, cuda]
  batch_size: [32, 64]
  weight_decay: [0, 5e-4]
"""


@pytest.fixture
def plan_of(tmp_path):
    def make(text, nodes=(LAPTOP,), where=()):
        path = tmp_path / "grid.yaml"
        path.write_text(text)
        return make_plan(load_grid(path), nodes, tmp_path, where)

    return make


def placed(trial):
    return AssignedWork(WorkItem(trial), LAPTOP, (0,), (), True)


def axes(plan):
    return [tuple(cell.axes.values()) for cell in plan.cells]


def test_the_price_of_energy_changes_no_cell_and_is_in_the_request(plan_of):
    text = "name: g\nworkload: digits_cnn\naxes: {device: [cpu]}\n"
    plain, priced = plan_of(text), plan_of(text + "price_per_kwh: 0.3\ngCO2_per_kwh: 380\n")
    assert [cell.cell_id for cell in plain.cells] == [cell.cell_id for cell in priced.cells]
    request = request_of(priced)
    assert (request.price_per_kwh, request.gco2_per_kwh) == (0.3, 380)
    assert (request_of(plain).price_per_kwh, request_of(plain).gco2_per_kwh) == (None, None)


def test_the_product_in_the_order_of_the_file(plan_of):
    plan = plan_of(GRID)
    assert axes(plan) == [(d, b, w) for d in ("cpu", "cuda") for b in (32, 64) for w in (0, 5e-4)]


def test_exclude_include_and_overrides(plan_of):
    plan = plan_of(
        GRID
        + "exclude:\n- {device: cuda, batch_size: [32, 64]}\n"
        + "include:\n- {device: cpu, batch_size: 128, epochs: 5}\n"
        + "overrides:\n- when: {weight_decay: 0}\n  set: {optimizer: adam}\n"
    )
    assert axes(plan)[:4] == [("cpu", b, w) for b in (32, 64) for w in (0, 5e-4)]
    assert [cell.axes["batch_size"] for cell in plan.cells[4:]] == [128, 128]
    assert [cell.content.settings.epochs for cell in plan.cells[4:]] == [5, 5]
    names = {cell.axes["weight_decay"]: cell.content.settings.optimizer for cell in plan.cells}
    assert names == {0: "adam", 5e-4: "sgd"}


def test_a_framework_that_is_not_installed_runs_in_the_environment_built_for_it(plan_of):
    text = "name: g\nworkload: digits_cnn\nthreads: 1\naxes: {device: [cpu, xla_cpu]}\n"
    without = plan_of(text)
    assert [bool(cell.skip) for cell in without.cells] == [False, True]
    assert list(notes(without)) == []
    packages = {"torch": "2.9.1", "torch_xla": "2.9.0", "numpy": "2.2.6"}
    built = replace(LAPTOP, environments={"xla": Interpreter("/cache/xla/bin/python", "3.11.7", packages)})
    plan = plan_of(text, nodes=[built])
    assert [cell.fit.environment for cell in plan.cells] == ["", "xla"]
    assert list(notes(plan)) == [
        "torch_xla is not installed in raybench's Python; its trials run in environment xla.",
    ]


def test_environments_are_an_axis_and_their_lock_is_part_of_the_cell(plan_of):
    def plan(*locks):
        found = [Interpreter("/x/python", "3.11.7", {"torch": "2.9.0", "numpy": "2"}, lock=lock) for lock in locks]
        node = replace(LAPTOP, environments=dict(zip(("/a", "/b"), found, strict=True)))
        return plan_of("name: g\nworkload: digits_cnn\naxes: {device: [cpu], environment: [/a, /b, /c]}\n", [node])

    same, different = plan("1", "1"), plan("1", "2")
    assert [cell.fit and cell.fit.environment for cell in same.cells] == ["/a", "/b", None]
    assert same.cells[2].skip == "/c was not inspected on laptop"
    assert [one.cell_id == two.cell_id for one, two in zip(same.cells, different.cells, strict=True)] == [
        True,
        False,
        True,
    ]


def test_points_that_make_the_same_cell_are_named(plan_of):
    plan = plan_of("name: g\nworkload: digits_cnn\naxes: {device: [a, b]}\ndevices: {a: {kind: cpu}, b: {kind: cpu}}\n")
    assert len(plan.cells) == 1
    assert list(notes(plan)) == ["1 point of the grid repeats another and runs once: device b is the same as device a."]


def test_names_of_trials_begin_with_what_differs(plan_of):
    axes = "axes: {batch_size: [32, 64], label_smoothing: [0.0, 0.1]}\nrepeats: 2\n"
    plan = plan_of("name: g\nworkload: digits_cnn\nthreads: 1\n" + axes)
    names = [plan.label(trial) for trial in plan.trials]
    assert "b32 label_smoothing=0.1 r1 digits_cnn cpu torch wd0.005" in names
    assert len({name[:28] for name in names}) == len(names) == 8


def test_a_part_of_a_grid_names_its_trials_as_the_whole_does(plan_of):
    text = "name: g\nworkload: digits_cnn\nthreads: 1\naxes: {batch_size: [32, 64]}\n"
    (trial,) = (part := plan_of(text, where=[("batch_size", "64")])).trials
    assert part.label(trial) == "b64 r0 digits_cnn cpu torch wd0.005"


def test_a_profile_beats_the_grid_and_an_axis_beats_a_profile(plan_of):
    text = GRID + "threads: 1\ndevices:\n  cuda: {kind: cuda, threads: 3}\n"
    threads = {cell.axes["device"]: cell.content.device.threads for cell in plan_of(text, [SERVER]).cells}
    assert threads == {"cpu": 1, "cuda": 3}
    axis = text.replace("threads: 1\n", "").replace("axes:\n", "axes:\n  threads: [5]\n")
    assert {cell.content.device.threads for cell in plan_of(axis, [SERVER]).cells} == {5}


def test_one_whole_repeat_after_another_each_shuffled_by_the_seed(plan_of):
    text = GRID + "repeats: 3\nseed: 7\n"
    first, again = plan_of(text, [SERVER]), plan_of(text, [SERVER])
    order = [(trial.repeat, trial.cell.cell_id) for trial in first.trials]
    assert order == [(trial.repeat, trial.cell.cell_id) for trial in again.trials]
    assert [repeat for repeat, _ in order] == [0] * 8 + [1] * 8 + [2] * 8
    rounds = [[cell for repeat, cell in order if repeat == number] for number in range(3)]
    assert all(Counter(each) == Counter(rounds[0]) for each in rounds)
    assert len({tuple(each) for each in rounds}) == 3
    assert {(trial.repeat, trial.seed) for trial in first.trials} == {(0, 7), (1, 8), (2, 9)}


def test_what_no_node_has_is_skipped_with_its_reason(plan_of):
    plan = plan_of(GRID)
    assert {cell.skip for cell in plan.cells if cell.axes["device"] == "cuda"} == {"no CUDA GPU"}
    assert all(cell.skip is None for cell in plan.cells if cell.axes["device"] == "cpu")


def test_available_is_what_the_machines_have(plan_of):
    text = GRID.replace("[cpu, cuda]", "available")
    assert {cell.axes["device"] for cell in plan_of(text).cells} == {"cpu"}
    assert {cell.axes["device"] for cell in plan_of(text, [LAPTOP, SERVER]).cells} == {"cpu", "cuda"}


def test_another_machine_model_makes_other_cells(plan_of):
    other = Node("other", (replace(EPYC, model="Xeon"),), LAPTOP.packages)
    one, two = ({cell.cell_id for cell in plan_of(GRID, [node]).cells if not cell.skip} for node in (LAPTOP, other))
    assert one.isdisjoint(two)


def test_names_prices_timeouts_and_limits_make_none(plan_of):
    plain = {cell.cell_id for cell in plan_of(GRID, [SERVER]).cells}
    dressed = GRID.replace("name: g", "name: other\ndescription: d\ntimeout: 3m\nretries: 0")
    dressed += "devices: {cpu: {kind: cpu, price_per_hour: 3}}\nrepeats: 5\n"
    dressed += "overrides: [{when: {device: cpu}, set: {memory_limit: 2GiB}}]\n"
    assert {cell.cell_id for cell in plan_of(dressed, [SERVER]).cells} == plain


def test_a_memory_limit_is_the_devices_own_before_the_grids(plan_of):
    profiles = "memory_limit: 2GiB\ndevices: {small: {kind: cpu, threads: 1, memory_limit: 512MiB}}\n"
    grid = GRID.replace("[cpu, cuda]", "[cpu, small]") + profiles
    limits = {cell.profile: cell.memory_limit for cell in plan_of(grid, [SERVER]).cells}
    assert limits == {"cpu": 2 << 30, "small": 512 << 20}


def test_a_memory_limit_is_the_hosts(plan_of):
    with pytest.raises(UsageError, match="memory_limit does not apply to cuda"):
        plan_of(GRID + "memory_limit: 2GiB\n", [SERVER])


def test_where_selects(plan_of):
    assert axes(plan_of(GRID, where=[("device", "cpu"), ("weight_decay", "5e-4")])) == [
        ("cpu", 32, 5e-4),
        ("cpu", 64, 5e-4),
    ]
    with pytest.raises(UsageError, match="g has no cell left"):
        plan_of(GRID, where=[("device", "tpu")])


def test_a_target_in_percent_is_one_of_the_users_own_training(plan_of):
    grid = "name: g\nworkload: {}\ntarget: {{metric: val/accuracy, at_least: 94}}\n"
    with pytest.raises(UsageError, match=r"target: 94 is not allowed for accuracy; .* such as 0\.94"):
        plan_of(grid.format("digits_cnn"))
    assert plan_of(grid.format("{command: 'true', metrics: {val/accuracy: '(.*)'}}")).spec.target.at_least == 94


def test_more_than_there_is(plan_of):
    with pytest.raises(UsageError, match="batch_size: 2048 is larger than the training set of 1437 examples"):
        plan_of(GRID.replace("32, 64", "2048"))
    with pytest.raises(UsageError, match=r"examples\.train: 5000 is not allowed; digits has 1437"):
        plan_of(GRID + "examples: {train: 5000}\n")
    with pytest.raises(WorkloadError, match="did you mean digits_cnn"):
        plan_of(GRID.replace("digits_cnn", "digit_cnn"))


@pytest.mark.parametrize(
    ("need", "reason"),
    [
        (ResourceRequest("tpu", "torch_xla", "fp32"), "no TPU"),
        (ResourceRequest("tpu", "torch", "fp32"), "torch does not run on tpu; use torch_xla, tensorflow or torch_tpu"),
        (ResourceRequest("cuda", "torch", "fp32", accelerator_type="A100"), "needs A100; server has Tesla T4"),
        (ResourceRequest("cuda", "torch", "fp32", count=4), "needs 4 x CUDA GPU; server has 2"),
        (ResourceRequest("cpu", "torch", "fp32", cpus=64), "needs 64 cores; server has 16"),
        (ResourceRequest("cpu", "torch", "fp32", memory_gb=64), "needs 64 GiB of memory; server has 16"),
        (ResourceRequest("cpu", "torch", "tf32"), "precision tf32 is not available on cpu, only on cuda"),
        (ResourceRequest("cpu", "mindspore", "fp32"), "raybench has no engine for mindspore"),
        (
            ResourceRequest("cuda", "torch", "fp32", replicas=8, count=2),
            "8 replicas do not fit 2 devices; set replicas: 2 or count: 8",
        ),
        (
            ResourceRequest("cuda", "torch", "fp32", count=2),
            "count: 2 with replicas: 1 leaves devices idle; set replicas: 2 or replication: spmd",
        ),
        (
            ResourceRequest("cpu", "torch", "fp32", replicas=8, replication="spmd"),
            "torch has no replication: spmd; use grouped or devices",
        ),
        (ResourceRequest("cpu", "torch", "fp32", environment="xla"), "environment xla was not inspected on server"),
    ],
)
def test_why_a_trial_fits_nowhere(need, reason):
    assert find_placement(need, [SERVER]) == reason


def test_a_framework_that_is_not_installed():
    bare = Node("bare", (EPYC,), {})
    assert find_placement(ResourceRequest("cpu", "torch", "fp32"), [bare]) == "torch is not installed on bare"
    assert find_placement(ResourceRequest("cpu", "torch", "fp32"), [bare, LAPTOP]).nodes == ("laptop",)


def test_a_gpu_trial_takes_its_share_of_the_cores_and_a_cpu_trial_all():
    assert find_placement(ResourceRequest("cuda", "torch", "fp32"), [SERVER]).cpus == 8
    assert find_placement(ResourceRequest("cpu", "torch", "fp32"), [SERVER]).cpus == 16
    assert find_placement(ResourceRequest("cuda", "torch", "fp32", accelerator_type="t4", cpus=2), [SERVER]).cpus == 2


def test_nodes_of_one_model_share_a_cell():
    twin = replace(LAPTOP, name="twin")
    assert find_placement(ResourceRequest("cpu", "torch", "fp32"), [LAPTOP, twin, SERVER]).nodes == ("laptop", "twin")


def test_a_workloads_defaults_have_to_be_settings(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from raybench import Workload\n"
        "my_workload = Workload(model=print, dataset='digits', defaults={'batchsize': 99, 'optimizer': 'adm'})\n"
    )
    (tmp_path / "g.yaml").write_text("name: g\nworkload: mine.py:my_workload\n")
    with pytest.raises(WorkloadError) as caught:
        make_plan(load_grid(tmp_path / "g.yaml"), [LAPTOP], tmp_path)
    assert sorted(str(caught.value).splitlines()) == [
        f"{tmp_path}/mine.py: the defaults of my_workload: batchsize: unknown setting; did you mean batch_size?",
        f"{tmp_path}/mine.py: the defaults of my_workload: optimizer: "
        "'adm' is not one of sgd, adam, adamw; did you mean adam?",
    ]


def test_a_workload_that_is_not_there_is_told_with_its_line(plan_of, tmp_path):
    with pytest.raises(WorkloadError, match=r"grid\.yaml:3: unknown workload 'digit_cnn'; did you mean digits_cnn\?"):
        plan_of(GRID.replace("digits_cnn", "digit_cnn"))


PROFILES = """
name: g
workload: digits_cnn
axes: {device: [one]}
batch_size: 64
devices:
  one: {PROFILE}
"""


def device_of(plan):
    return plan.cells[0].content.to_json()["device"]


@pytest.mark.parametrize(
    ("profile", "made"),
    [
        ("kind: cpu, replicas: 8", ("grouped", 1)),
        ("kind: cpu, replicas: 2, replication: devices", ("devices", 2)),
        ("kind: cpu, replicas: 2, count: 2", ("devices", 2)),
        ("kind: cuda, replicas: 2, count: 2", ("devices", 2)),
        ("kind: cuda, replicas: 8", ("grouped", 1)),
        ("kind: cuda, replicas: 8, replication: grouped", ("grouped", 1)),
        ("kind: cpu, replication: grouped", (None, None)),
    ],
)
def test_how_replicas_are_made_is_in_the_cell_where_there_are_several(plan_of, profile, made):
    plan = plan_of(PROFILES.replace("PROFILE", profile), nodes=(SERVER,))
    device = device_of(plan)
    assert plan.cells[0].skip is None
    assert (device.get("replication"), device.get("devices")) == made


def test_a_batch_that_does_not_divide_into_replicas_is_refused_with_its_line(plan_of):
    with pytest.raises(UsageError, match=r"grid\.yaml:5: batch_size: 64 is not a multiple of the 6 replicas"):
        plan_of(PROFILES.replace("PROFILE", "kind: cpu, replicas: 6"))


def test_a_batch_that_does_not_divide_into_devices_is_refused_too(plan_of):
    with pytest.raises(UsageError, match=r"batch_size: 64 is not a multiple of the 3 devices"):
        plan_of(
            PROFILES.replace("PROFILE", "kind: xla_cpu, count: 3, replication: spmd"),
            nodes=(replace(SERVER, packages={"torch_xla": "2.9.0"}),),
        )


def test_what_an_engine_has_not_got_is_skipped_with_its_reason(plan_of):
    both = replace(LAPTOP, packages={"torch": "2.13.0+cpu", "torch_xla": "2.9.0"})
    grid = "name: g\nworkload: digits_cnn\ngradient_clipping: 1\nprecision: bf16\nmaster_weights: false\n"
    plan = plan_of(grid + "axes: {device: [cpu, xla_cpu]}\n", [both])
    assert [cell.skip for cell in plan.cells] == [
        None,
        "raybench's torch_xla engine has no gradient_clipping and no master_weights: false",
    ]


def test_modes_of_the_compiler_are_of_torch_alone(plan_of):
    everything = replace(LAPTOP, packages={"torch": "2.13.0", "torch_xla": "2.9.0", "tensorflow": "2.21.0"})
    grid = "name: g\nworkload: digits_cnn\naxes: {device: [FRAMEWORK], compile: [false, true, default, max-autotune]}\n"
    devices = "devices: {torch: {kind: cpu}, xla: {kind: xla_cpu}, tensorflow: {kind: cpu, framework: tensorflow}}\n"

    def cells(framework):
        return plan_of(grid.replace("FRAMEWORK", framework) + devices, [everything]).cells

    assert [(cell.content.settings.compile, cell.skip) for cell in cells("torch")] == [
        (False, None),
        ("default", None),
        ("max-autotune", None),
    ]
    refused = "raybench's tensorflow engine has no compile: max-autotune; use default"
    assert [cell.skip for cell in cells("tensorflow")] == [None, None, refused]
    assert [cell.skip for cell in cells("xla")] == [None], "it compiles everything, with any setting"


def test_a_mistyped_mode_of_the_compiler_gets_the_nearest_one(plan_of):
    with pytest.raises(UsageError, match=r"not one of false, true, default, .*; did you mean max-autotune"):
        plan_of("name: g\nworkload: digits_cnn\ncompile: max-autotun\n")


def test_gradient_clipping_is_of_a_cell_where_it_is_set_and_skipped_where_it_is_not_implemented(plan_of):
    both = replace(LAPTOP, packages={"torch": "2.13.0+cpu", "torch_xla": "2.9.0"})
    head = "name: g\nworkload: digits_cnn\n"
    axes = f"{head}axes: {{device: [KIND], gradient_clipping: [null, 1]}}\n"
    plain, clipped = plan_of(axes.replace("KIND", "cpu"), [both]).cells
    assert plain.cell_id == plan_of(head, [both]).cells[0].cell_id != clipped.cell_id
    assert [cell.skip for cell in plan_of(axes.replace("KIND", "xla_cpu"), [both]).cells] == [
        None,
        "raybench's torch_xla engine has no gradient_clipping",
    ]


def test_what_does_not_go_together_is_refused_with_its_line(plan_of):
    with pytest.raises(
        UsageError, match=r"grid\.yaml:3: label_smoothing needs cross-entropy, but imdb_cnn has its own loss"
    ):
        plan_of("name: g\nworkload: imdb_cnn\nlabel_smoothing: 0.1\n")
    grid = "name: g\nworkload: digits_cnn\noptimizer: adam\nmaster_weights: false\n"
    with pytest.raises(UsageError, match=r"grid\.yaml:4: master_weights: false needs optimizer sgd, not adam"):
        plan_of(grid + "precision: bf16\n")
    assert plan_of(grid).cells[0].skip is None, "in fp32 it says nothing"


def test_defaults_that_are_written_make_the_same_cell(plan_of):
    plain = "name: g\nworkload: digits_cnn\nepochs: 2\nprecision: bf16\naugmentation: [flip]\n"
    said = plain.replace("epochs: 2", "epochs: 2.0") + "master_weights: true\nlabel_smoothing: 0\n"
    assert plan_of(said).cells[0].content == plan_of(plain).cells[0].content
    for change in ("epochs: 2.5", "master_weights: false", "label_smoothing: 0.1", "augmentation: [{cutout: 4}]"):
        name = change.split(":")[0]
        others = "".join(f"{line}\n" for line in plain.splitlines() if not line.startswith(f"{name}:"))
        assert plan_of(others + change + "\n").cells[0].cell_id != plan_of(plain).cells[0].cell_id, change


def test_settings_without_effect_make_no_other_cell(plan_of):
    def cell(profile, more=""):
        return plan_of(PROFILES.replace("PROFILE", profile) + more).cells[0].cell_id

    plain, trap = cell("kind: cpu"), "decay_rule: sum_over_replicas\n"
    assert cell("kind: cpu", "steps_per_execution: 9\n") == cell("kind: cpu", trap) == plain
    several = "kind: cpu, replicas: 8"
    assert cell(several) == cell(several, "decay_rule: mean\n") != cell(several, trap)
    assert cell("kind: xla_cpu", "compile: true\nchannels_last: true\n") == cell("kind: xla_cpu")


def test_a_device_may_have_fewer_repeats_than_the_grid(plan_of):
    fewer = "repeats: 3\ndevices: {slow: {kind: cpu, threads: 1, repeats: 1}, fast: {kind: cpu, repeats: 9}}\n"
    plan = plan_of(
        GRID.replace("repeats: 3\n", "") + fewer + "include: [{device: slow}, {device: fast, batch_size: 8}]\n"
    )
    runs = {cell.profile: [trial.repeat for trial in plan.trials if trial.cell is cell] for cell in plan.cells}
    assert (runs["slow"], sorted(runs["fast"])) == ([0], [0, 1, 2]), "never more than the grid has"


@pytest.mark.parametrize("workload", names())
def test_a_learning_rate_axis_is_what_each_workloads_own_schedule_multiplies(plan_of, workload):
    own = get(workload).defaults.get("schedule", "constant")
    low, high = plan_of(f"name: g\nworkload: {workload}\naxes: {{device: [cpu], learning_rate: [0.1, 0.4]}}\n").cells
    assert low.cell_id != high.cell_id
    epochs = low.content.settings.epochs
    rates = [
        [cell.content.settings.learning_rate * factor(step) for step in range(0, 50, 7)]
        for cell in (low, high)
        for factor in [schedule(cell.content.settings.schedule, 10, epochs)]
    ]
    assert rates[1] == pytest.approx([4 * rate for rate in rates[0]])
    if own == "constant":
        assert set(rates[0]) == {0.1}
    plan = plan_of(f"name: g\nworkload: {workload}\naxes: {{learning_rate: [0.1, 0.4]}}\n")
    assert {plan.label(trial).split()[0] for trial in plan.trials} == {"learning_rate=0.1", "learning_rate=0.4"}


def test_a_request_is_the_same_on_machines_on_which_its_cells_differ(plan_of):
    def ids(text, nodes):
        cells = plan_of(text, nodes).cells
        return [cell.cell_id for cell in cells], [cell.request_id for cell in cells]

    newer = replace(SERVER, packages={"torch": "2.14.0"})
    (here, asked_here), (there, asked_there) = ids(GRID, (LAPTOP,)), ids(GRID, (newer,))
    assert not set(here) & set(there) and asked_here == asked_there, "a laptop knows what it asks of a GPU"
    assert len(set(asked_here)) == len(asked_here)
    assert ids(GRID + "warmup_epochs: 0\n", (LAPTOP,))[1] == asked_here
    for change in ("threads: 1\n", "examples: {train: 256}\n", "seed: 1\n", "precision: bf16\n"):
        assert not set(ids(GRID + change, (LAPTOP,))[1]) & set(asked_here), change


def test_a_job_carries_its_request(plan_of, tmp_path):
    plan = plan_of(GRID)
    trial = plan.trials[0]
    assert make_job(plan, placed(trial), tmp_path, tmp_path).labels["request_id"] == trial.cell.request_id


def test_where_available_keeps_what_can_run(plan_of):
    part = plan_of(GRID, where=[("device", "available"), ("batch_size", "32")])
    assert axes(part) == [("cpu", 32, 0), ("cpu", 32, 5e-4)] and part.left_out == 6
    assert all(
        cell.skip for cell in plan_of(GRID.replace("[cpu, cuda]", "[cuda]"), where=[("device", "available")]).cells
    )


def machine(plan, device, host, repeats=1, **fields):
    """Attempts at the trials of a device, as another machine made them."""
    return [
        Attempt(
            f"{cell.request_id}-r{repeat}",
            1,
            request_id=cell.request_id,
            host={"name": host},
            **{"status": "completed", **fields},
        )
        for cell in plan.cells
        if cell.profile == device
        for repeat in range(repeats)
    ]


def test_what_other_machines_have_done(plan_of):
    plan = plan_of(GRID + "repeats: 2\n")
    assert done_on_other_machines(plan, []) == {}
    gpus = [*machine(plan, "cuda", "gpu-box"), *machine(plan_of(GRID, nodes=(SERVER,)), "cuda", "server")]
    others = done_on_other_machines(plan, gpus)
    assert {others[cell.cell_id].repeats for cell in plan.cells if cell.skip} == {frozenset({0})}
    assert complete_cells(plan, others) == set()
    others = done_on_other_machines(plan, machine(plan, "cuda", "gpu-box", repeats=3))
    assert complete_cells(plan, others) == {cell.cell_id for cell in plan.cells if cell.skip}
    assert done_on_other_machines(plan, machine(plan, "cuda", "gpu-box", status="lost")) == {}
    assert done_on_other_machines(plan, machine(plan, "cpu", "vm-b")) == {}, "they can run here"


def test_a_request_is_the_same_on_every_machine(plan_of):
    requests = [[cell.request_id for cell in plan_of(GRID, nodes=(node,)).cells] for node in (LAPTOP, SERVER)]
    assert requests[0] == requests[1] and len(set(requests[0])) == 8
