"""Made-up answers, for tests of what shows them."""

from dataclasses import replace

from raybench.analysis.answer import (
    Answer,
    Best,
    Caution,
    Configuration,
    Criterion,
    Difference,
    Effect,
    EffectPart,
    Ending,
    Mfu,
    Ratio,
    RunResult,
    Status,
    Summary,
    ToTarget,
    Trust,
    TrustLevel,
    Unit,
    Verdict,
)
from raybench.core.job import Target
from raybench.core.text import format_value
from raybench.results.utilization import FlopsAndPeak


def summary(value, spread=0.02, runs=3):
    """A value with an interval of ± twice `spread` of it."""
    ends = (None, None) if runs < 2 else (value * (1 - 2 * spread), value * (1 + 2 * spread))
    return Summary(value, *ends, runs)


def ratio(value, spread=0.04, runs=3):
    """A ratio with an interval of ± `spread` of it."""
    ends = (None, None) if runs < 2 else (value * (1 - spread), value * (1 + spread))
    return Ratio(value, *ends, runs, runs)


def difference(value, half=0.003, runs=3):
    """A difference of accuracies with an interval of ± `half`."""
    ends = (None, None) if runs < 2 else (value - half, value + half)
    equal = runs > 1 and abs(value) + half < 0.01
    return Difference(value, *ends, runs, runs, is_equal=equal)


def configuration(index, label, axes, seconds, quality, reference=0, runs=3, **further):
    """A configuration whose completed runs took `seconds` with `quality`."""
    made = tuple(RunResult(f"c{index}-r{n}", seconds, None) for n in range(runs))
    return Configuration(
        index=index,
        cell_id=f"c{index}",
        label=label,
        axes=axes,
        workload="davidnet",
        reference=reference,
        planned=further.pop("planned", runs),
        completed=runs,
        runs=made,
        seconds=summary(seconds, runs=runs) if runs else None,
        quality=summary(quality, 0.002, runs) if runs else None,
        **further,
    )


def quick_start(runs=3) -> Answer:
    """Two batch sizes on one device."""
    first = configuration(0, "batch 32", {"batch_size": 32}, 2.0, 0.92, runs=runs, rank=2)
    second = configuration(
        1,
        "batch 128",
        {"batch_size": 128},
        1.0,
        0.91,
        runs=runs,
        rank=1,
        ratio=ratio(2.0, runs=runs),
        quality_difference=difference(-0.01, runs=runs),
    )
    return Answer(
        grid="quickstart",
        workload="digits_cnn",
        baseline={"batch_size": 32},
        axes={"batch_size": (32, 128)},
        unit=Unit(),
        configurations=(first, second),
        ranking=(1, 0),
        best=(Best(1, 0, {Criterion.FASTEST: ratio(2.0, runs=runs)}, difference(-0.01, runs=runs)),),
        effects=(
            Effect(
                "batch_size",
                128,
                32,
                1,
                runs,
                ratio(2.0, runs=runs),
                2.0,
                2.0,
                quality={"val/accuracy": difference(-0.01, runs=runs)},
                quality_least=-0.01,
                quality_most=-0.01,
            ),
        ),
        trust=Trust(TrustLevel.CLEAR),
        status=Status(2 * runs, 2 * runs),
        metric="val/accuracy",
    )


MFU = Mfu(Summary(0.412, 0.391, 0.434, 3), FlopsAndPeak(62e12, "product", "bf16", 6e7, "examples", "counted"), 0.22)


def three_axes() -> Answer:
    """Device x batch size x weight decay, in which the effect of the batch size depends on the device."""
    configurations = []
    speeds = {("cpu", 32): 1.0, ("cpu", 512): 1.2, ("gpu", 32): 4.4, ("gpu", 512): 9.2}
    for device in ("cpu", "gpu"):
        for batch in (32, 512):
            for decay in (0.0, 5e-4):
                speed, index = speeds[device, batch] * (1 - 40 * decay), len(configurations)
                loss = -0.004 * (batch == 512)
                configurations.append(
                    configuration(
                        index,
                        f"{device}, batch {batch}, decay {format_value(decay)}",
                        {"device": device, "batch_size": batch, "weight_decay": decay},
                        40 / speed,
                        0.95 + loss,
                        ratio=ratio(speed) if index else None,
                        quality_difference=difference(loss) if index else None,
                        mfu=MFU if device == "gpu" else None,
                        limited_by="overhead" if device == "gpu" else "compute",
                        limited_share=0.3,
                    )
                )
    ranking = sorted(range(8), key=lambda index: configurations[index].seconds.value)
    configurations = [replace(each, rank=ranking.index(each.index) + 1) for each in configurations]

    def effect(axis, value, other, speed, loss, parts=()):
        return Effect(
            axis,
            value,
            other,
            4,
            3,
            ratio(speed),
            speed * 0.7,
            speed * 1.4,
            bool(parts),
            parts,
            {"val/accuracy": difference(loss)},
            loss - 0.001,
            loss + 0.001,
        )

    parts = (EffectPart("device", "cpu", ratio(1.2)), EffectPart("device", "gpu", ratio(2.1)))
    return Answer(
        grid="three",
        workload="davidnet",
        baseline={"device": "cpu", "batch_size": 32, "weight_decay": 0.0},
        axes={"device": ("cpu", "gpu"), "batch_size": (32, 512), "weight_decay": (0.0, 5e-4)},
        unit=Unit(),
        configurations=tuple(configurations),
        ranking=tuple(ranking),
        best=(Best(ranking[0], 0, {Criterion.FASTEST: ratio(9.2)}, difference(-0.004), (ranking[1],)),),
        effects=(
            effect("device", "gpu", "cpu", 5.1, 0.0),
            effect("batch_size", 512, 32, 1.6, -0.004, parts),
            effect("weight_decay", 5e-4, 0.0, 0.98, 0.001),
        ),
        trust=Trust(TrustLevel.CLEAR),
        status=Status(24, 24),
        metric="val/accuracy",
    )


def devices_with_target() -> Answer:
    """Three devices with a target and prices: the fastest misses the target in 2 of 4 runs."""
    rows = {"cpu": (40.0, 0.946, 4, 400.0, 0.1), "gpu": (5.0, 0.939, 2, 40.6, 0.9), "tpu": (6.0, 0.947, 4, 60.0, 0.4)}
    configurations = []
    for index, (device, (seconds, quality, reached, expected, price)) in enumerate(rows.items()):
        compared = index > 0
        to_target = ToTarget(
            reached,
            4,
            expected * reached / 4,
            Summary(expected, expected * 0.6, expected * 3.4, 4),
            Summary(price, price * 0.6, price * 3.4, 4),
            ratio=ratio(400 / expected, 0.5) if compared else None,
        )
        configurations.append(
            configuration(
                index,
                device,
                {"device": device},
                seconds,
                quality,
                runs=4,
                ratio=ratio(40 / seconds) if compared else None,
                quality_difference=difference(quality - 0.946) if compared else None,
                to_target=to_target,
                price=Summary(price / 10),
                price_per_hour=price,
                rank=(3, 1, 2)[index],
                cautions=("a",) if device == "gpu" else (),
            )
        )

    def best(index, criterion, value):
        return Best(index, 0, {criterion: value}, configurations[index].quality_difference, cautions=("a",))

    gpu = ratio(9.85, 0.5, 2)
    caution = Caution(
        "input_bound",
        "the worst run waited for input during 62% of the steady epochs",
        "set `input: device`",
        "a",
        4,
        12,
        (1,),
        True,
        1.6,
    )
    return Answer(
        grid="devices",
        workload="davidnet",
        baseline={"device": "cpu"},
        axes={"device": ("cpu", "gpu", "tpu")},
        unit=Unit("examples", 1000, "examples"),
        configurations=tuple(configurations),
        ranking=(1, 2, 0),
        best=(
            replace(best(1, Criterion.FIRST_TO_TARGET, gpu), indistinguishable=(2,), verdict=Verdict.UNDECIDED),
            Best(0, 2, {Criterion.CHEAPEST: ratio(4.0)}, difference(-0.001)),
        ),
        effects=(
            Effect(
                "device",
                "gpu",
                "cpu",
                1,
                4,
                ratio(8.0),
                8.0,
                8.0,
                quality={"val/accuracy": difference(-0.007)},
                quality_least=-0.007,
                quality_most=-0.007,
                cautions=("a",),
            ),
            Effect("device", "tpu", "cpu", 1, 4, ratio(6.67), 6.67, 6.67, quality={"val/accuracy": difference(0.001)}),
        ),
        trust=Trust(TrustLevel.DOUBTFUL, (caution,)),
        status=Status(12, 12),
        metric="val/accuracy",
        target=Target("val/accuracy", 0.94),
    )


def one_run_each() -> Answer:
    """As `quick_start`, with one run each: no interval."""
    caution = Caution("one_run", "one run each: no interval", "set `repeats: 3` or more", configurations=(0, 1))
    answer = quick_start(runs=1)
    best = (replace(answer.best[0], verdict=Verdict.ONE_RUN),)
    return replace(answer, best=best, trust=Trust(TrustLevel.DOUBTFUL, (caution,)))


def several_workloads() -> Answer:
    """Two workloads on two devices, one run each: never averaged."""
    made = []
    for workload, speed in (("mlp", 0.44), ("cnn", 3.1)):
        for device in ("cpu", "gpu"):
            index = len(made)
            own = configuration(
                index,
                f"{workload}, {device}",
                {"workload": workload, "device": device},
                1.0 if device == "cpu" else 1 / speed,
                0.9,
                reference=index - index % 2,
                runs=1,
                ratio=ratio(speed, runs=1) if index % 2 else None,
                rank=1 + ((device == "gpu") != (workload == "cnn")),
            )
            made.append(replace(own, workload=workload))
    return Answer(
        grid="workloads",
        workload="mlp, cnn",
        baseline={"device": "cpu"},
        axes={"workload": ("mlp", "cnn"), "device": ("cpu", "gpu")},
        unit=Unit(),
        configurations=tuple(made),
        ranking=(0, 1, 3, 2),
        best=(
            Best(0, 1, {Criterion.FASTEST: ratio(1 / 0.44, runs=1)}, workload="mlp", verdict=Verdict.ONE_RUN),
            Best(3, 2, {Criterion.FASTEST: ratio(3.1, runs=1)}, workload="cnn", verdict=Verdict.ONE_RUN),
        ),
        effects=(Effect("device", "gpu", "cpu", 2, 1, None, 0.44, 3.1, varies=True),),
        status=Status(4, 4),
        metric="val/accuracy",
    )


def stopped() -> Answer:
    """As `three_axes`, stopped before its last four runs; one configuration ran out of memory."""
    answer = three_axes()
    *first, last = answer.configurations
    none = replace(
        last,
        completed=0,
        runs=(),
        seconds=None,
        ratio=None,
        quality=None,
        quality_difference=None,
        rank=None,
        endings=(Ending("not run", 2), Ending("oom", 1, "out of memory in train")),
    )
    ranking = tuple(index for index in answer.ranking if index != last.index)
    status = Status(24, 20, {"not run": 3, "oom": 1})
    best = (replace(answer.best[0], configuration=ranking[0], indistinguishable=()),)
    first = [replace(each, rank=ranking.index(each.index) + 1) for each in first]
    return replace(answer, configurations=(*first, none), ranking=ranking, status=status, best=best)


def busy_host() -> Answer:
    """As `three_axes`, while other programs kept the host busy."""
    answer = three_axes()
    caution = Caution(
        "busy_host",
        "other programs took 1.8 of 2 cores",
        "close other programs, and run it again with `--rerun`",
        "a",
        24,
        24,
        tuple(range(8)),
        True,
    )
    configurations = tuple(
        replace(each, cautions=("a",), limited_by="", limited_share=None) for each in answer.configurations
    )
    effects = tuple(replace(each, cautions=("a",)) for each in answer.effects)
    best = tuple(replace(each, cautions=("a",)) for each in answer.best)
    trust = Trust(TrustLevel.DOUBTFUL, (caution,))
    return replace(answer, configurations=configurations, effects=effects, best=best, trust=trust)


ANSWERS = {
    made.__name__: made
    for made in (quick_start, three_axes, devices_with_target, one_run_each, several_workloads, stopped, busy_host)
}
"""From a name to what makes the answer."""
