"""How fast the devices of this machine are, compared with the same models of other machines.

    python -m raybench.checks.machine_speed KIND FRAMEWORK PRECISION     # in a process of its own

The rates of the check before trials (`raybench.checks.roofline`), the time of an empty operation and the speed of one
core. They are kept in the results folder, whose runs (also imported ones) have those of other machines.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import msgspec

from raybench.checks import roofline
from raybench.devices import Assignment, Hardware, frameworks, hosted, open_device, probe
from raybench.devices.host import machine_id, usable_cores
from raybench.engines import FRAMEWORKS, open_module
from raybench.errors import ExecutionError
from raybench.results.datasheets import MEASURED
from raybench.results.run_table import Run

FILE = "measured.jsonl"  # the measurements of a results folder, one on a line

USUAL = 0.05
"""Largest part below the median of other machines that is normal: machines of one model differ by about 1 to 4%."""

UNITS = {"product": "TFLOP/s", "convolution": "TFLOP/s", "memory": "GB/s", "launch": "launches/ms", "core": "Mloops/s"}
_SCALES = {"product": 1e12, "convolution": 1e12, "memory": 1e9, "launch": 1e3, "core": 1e6}
LOOPS = 200_000


@dataclass(frozen=True)
class Speed:
    """The rates of one device of a machine.

    Attributes:
        machine: its name and id (`Run.machine_name`).
        threads: of a device that is the host; else 0, as its rates do not depend on them.
        rates: FLOP/s of `product` and `convolution`, bytes/s of `memory`, empty operations/s of `launch`, and rounds/s
            of a loop in Python on one `core`.
    """

    machine: str
    model: str
    framework: str
    precision: str
    threads: int
    rates: Mapping[str, float]

    @property
    def alike(self) -> tuple[str, str, str, int]:
        """What speeds that can be compared have in common."""
        return self.model, self.framework, self.precision, self.threads


def measure(kind: str, framework: str, precision: str) -> dict[str, float]:
    """Return the rates of the first device of a kind; it changes this process."""
    cores = [*usable_cores()]
    visible = next((hardware.ids[:1] for hardware in probe() if hardware.kind == kind), ())
    device = open_device(kind, framework, Assignment(cores, () if hosted(kind) else visible, len(cores)))
    device.hide_others()
    device.open(precision)
    operations = open_module(framework, "device_probes").Operations(device, precision, False)
    rates = roofline.probe(device, operations)
    empty = operations.addition(1)

    def launch() -> None:
        empty()
        device.synchronize()

    rates["launch"] = 1 / min(_seconds(launch) for _ in range(200))
    rates["core"] = LOOPS / min(_seconds(lambda: sum(range(LOOPS))) for _ in range(20))
    return rates


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measured_here(hardware: Iterable[Hardware], packages: Mapping[str, str]) -> Iterator[Speed]:
    """Yield the speeds of the devices of this machine that an installed framework can use."""
    for device in hardware:
        usable = (name for name in frameworks(device.kind) if FRAMEWORKS[name].package in packages)
        framework = next((name for name in usable if FRAMEWORKS[name].folder), "")
        if not framework:
            continue
        for precision in ("fp32",) if hosted(device.kind) else ("fp32", "bf16"):
            command = [sys.executable, "-m", __name__, device.kind, framework, precision]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise ExecutionError(f"{device.model}: {(done.stderr.strip().splitlines() or ['it was ended'])[-1]}")
            name = " ".join(filter(None, (platform.node(), machine_id())))
            threads = len(usable_cores()) if hosted(device.kind) else 0
            rates = json.loads(done.stdout.splitlines()[-1])
            yield Speed(name, device.model, framework, precision, threads, rates)


def keep(folder: Path, speed: Speed) -> None:
    """Add a measurement to a results folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / FILE).open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(speed)) + "\n")


def kept(folder: Path) -> Iterator[Speed]:
    """Yield the measurements of a results folder; damaged lines are left out."""
    path = folder / FILE
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else ():
        with suppress(msgspec.DecodeError):
            yield msgspec.json.decode(line, type=Speed)


def of_runs(runs: Iterable[Run]) -> Iterator[Speed]:
    """Yield the rates that were measured before runs, of one device each."""
    for run in runs:
        with suppress(KeyError, TypeError, ValueError, AttributeError):
            device, probes = run.cell.device, run.roofline["probes"]
            is_host = hosted(str(device.kind))
            threads, count = (int(device.threads), 1) if is_host else (0, device.known_count * device.node_count)
            rates = {name: float(rate) / count for name, rate in probes.items()}
            precision = str(run.roofline["precision"])
            yield Speed(run.machine_name, str(device.model), str(run.cell.framework), precision, threads, rates)


def verdicts(speed: Speed, measurements: Iterable[Speed]) -> Iterator[tuple[str, str, str]]:
    """Yield each rate by name, with its value and what it is compared with the other machines of the model."""
    by_machine: dict[str, dict[str, float]] = {}
    for measurement in measurements:
        if measurement.alike == speed.alike and measurement.machine != speed.machine:
            by_machine.setdefault(measurement.machine, {}).update(measurement.rates)
    for name, rate in speed.rates.items():
        rates = [rates[name] for rates in by_machine.values() if rates.get(name)]
        reference = f"the median of {len(rates)} others" if len(rates) > 1 else "the other one"
        if not rates and (peak := MEASURED.get(speed.model, {}).get((name, speed.precision))):
            rates, reference = [peak], "the one in raybench's table"
        share = rate / median(rates) - 1 if rates else 0.0
        verdict = "normal" if rates else "no other machine to compare with"
        if abs(share) > USUAL:
            verdict = f"{100 * abs(share):.0f}% {'below' if share < 0 else 'above'} {reference}"
        yield name, f"{rate / _SCALES[name]:.3g} {UNITS[name]}", verdict


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(*sys.argv[1:4])) + "\n")
