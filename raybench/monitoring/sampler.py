"""Sampler of run conditions: a thread in the trial's supervisor, never in the trial's own process."""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from raybench.core import events
from raybench.core.events import Event
from raybench.core.job import Job
from raybench.devices.host import usable_cores
from raybench.monitoring import host
from raybench.monitoring.accelerators import Sensors, Unavailable, open_sensors
from raybench.monitoring.energy import EnergyMeter
from raybench.monitoring.energy_summary import EpochWindows, summarise_energy
from raybench.monitoring.processes import Session, Usage
from raybench.monitoring.summary import Sample, Window, summarise, widen

SAMPLES = "samples.jsonl"
"""The file of an attempt's samples, one JSON object per line (`raybench.monitoring.summary.Sample`)."""

PERIOD = 1.0
QUICKEST = 0.05
MANY = 600


def pause(elapsed: float) -> float:
    """Seconds until the next sample, `elapsed` seconds into a trial.

    Usually one second. Shorter at first, because some trials take a second; longer after ten minutes, so that a trial
    of a day has some thousands of samples, each weighted by its duration.
    """
    return max(min(PERIOD, QUICKEST + elapsed), elapsed / MANY)


class Monitor:
    """Samples the conditions of an attempt until the context is left.

    Args:
        job: the attempt.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._cores = job.cores or usable_cores()
        self._samples: list[Sample] = []
        self._missing: list[str] = []
        self._window: Window | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._clock: dict[str, float] = {}
        self._epochs = EpochWindows(job)
        self._energy: EnergyMeter | None = None
        self._cost = 0.0

    def begin(self, leader: int) -> None:
        """Start sampling.

        Args:
            leader: the trial's process, which leads its own session.
        """
        self._thread = threading.Thread(target=self._work, args=(leader,), name="raybench-audit", daemon=True)
        self._thread.start()

    def see(self, event: Event) -> None:
        """Record the times of this process's epochs, to which the summary refers."""
        if event["event"] == "epoch_ended" and "of_attempt" not in event:
            self._window = widen(self._window, event)
            self._epochs.see(event)

    def end(self) -> Event | None:
        """Stop sampling and return the summary; None if there was no process to sample.

        In addition to the summary of the samples: `clock`, the sampled seconds on the monotonic clock and the
        additional advance of the wall clock (`drift_s`); `energy` (`raybench.monitoring.energy_summary`); `cost_cpu_s`,
        the cost of sampling; `missing`, unavailable quantities.
        """
        self._stop()
        if self._thread is None:
            return None
        summary = summarise(self._samples, self._window)
        summary["host"] = {"cores": len(self._cores), **summary["host"]}
        summary["clock"] = self._clock
        if self._energy:
            meter = self._energy
            summary["energy"] = summarise_energy(
                self._samples, self._epochs, meter.period_s, meter.missing, meter.no_counter
            )
        audit = {**summary, "cost_cpu_s": round(self._cost, 4), "missing": self._missing}
        return events.trial_audited(self._job.trial, self._job.attempt, **audit)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stop()

    def _stop(self) -> None:
        self._over.set()
        if self._thread:
            self._thread.join()

    def _work(self, leader: int) -> None:
        # An error in reading the system's counters must never make a trial fail.
        try:
            sensors = self._sensors()
            self._energy = EnergyMeter(self._job.cell.device.kind, self._job.visible, self._cores)
            try:
                self._sample(leader, sensors, self._energy)
            finally:
                self._energy.close()
                if sensors:
                    sensors.close()
        except Exception as error:
            self._missing.append(f"sampling stopped: {type(error).__name__}: {error}")
        self._cost = time.thread_time()

    def _sensors(self) -> Sensors | None:
        try:
            return open_sensors(self._job.cell.device.kind, self._job.visible)
        except Unavailable as error:
            self._missing.append(str(error))
            return None

    def _sample(self, leader: int, sensors: Sensors | None, energy: EnergyMeter) -> None:
        session = Session(leader)
        folder = Path(self._job.folder)
        folder.mkdir(parents=True, exist_ok=True)
        start_s = previous_s = time.perf_counter()
        wall_start = time.time()  # its drift from the monotonic clock is measured, too
        energy.read()
        previous = _counters(self._cores, session.read(), energy.socket_cores)
        with (folder / SAMPLES).open("w", encoding="utf-8", buffering=1) as file:
            over = False
            while not over:
                over = self._over.wait(min(pause(previous_s - start_s), energy.longest_pause_s))
                usage, now_s, wall_now, t = session.read(), time.perf_counter(), time.time(), events.now()
                times = {"t": t, "at": round(now_s - start_s, 3), "seconds": round(now_s - previous_s, 4)}
                energy_j = {"energy_j": joules} if (joules := energy.read()) else {}
                counters = _counters(self._cores, usage, energy.socket_cores)
                if counters.keys() < previous.keys() or not _alive(leader):
                    # The trial's process has ended, and with it its counters. Those of energy are the machine's.
                    if energy_j:
                        self._keep({**times, **energy_j}, file)
                    return
                deltas = {name: round(counters[name] - previous[name], 4) for name in previous if name in counters}
                levels = _levels(self._cores, usage)
                if sensors:
                    levels["gpus"] = sensors.read()
                self._keep({**times, **deltas, **levels, **energy_j}, file)
                self._clock = {
                    "seconds": round(now_s - start_s, 3),
                    "drift_s": round(wall_now - wall_start - (now_s - start_s), 6),
                }
                previous, previous_s = counters, now_s

    def _keep(self, sample: Sample, file: TextIO) -> None:
        self._samples.append(sample)
        file.write(json.dumps(sample, separators=(",", ":")) + "\n")


def _counters(cores: list[int], usage: Usage | None, socket_cores: list[int]) -> dict[str, float]:
    """Monotonic counters, in processor seconds; quantities that the system does not report are left out."""
    times = host.core_times(cores)
    counters = {f"{name}_s": value for name, value in asdict(times).items()} if times else {}
    if socket_cores and (socket_times := host.core_times(socket_cores)):
        counters["socket_busy_s"] = socket_times.busy
    return counters | ({"own_cpu_s": usage.cpu_s} if usage else {})


def _levels(cores: list[int], usage: Usage | None) -> dict[str, Any]:
    """Gauges, which rise and fall; quantities that the system does not report are left out."""
    load, mhz = host.load(), host.mhz(cores)
    levels: dict[str, Any] = {} if load is None else {"load_1m": round(load, 2)}
    if mhz is not None:
        levels["mhz"] = round(mhz, 1)
    if usage and usage.rss_bytes:  # an ending process has none
        levels |= {"rss_bytes": usage.rss_bytes, "peak_rss_bytes": usage.peak_rss_bytes}
    return levels


def _alive(process: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(process, 0)
        return True
    return False
