"""Sampler of run conditions: a thread in the trial's supervisor, never in the trial's own process."""

from __future__ import annotations

import pkgutil
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from raybench.core import events
from raybench.core.events import Event
from raybench.core.job import Job
from raybench.devices import KINDS, hosted
from raybench.devices.energy import EnergyMeter, Unavailable
from raybench.devices.host import usable_cores
from raybench.monitoring.energy_summary import EpochWindows, Reading, summarize_energy
from raybench.monitoring.host import Usage, core_times, family_usage, mhz
from raybench.monitoring.summary import Conditions, summarize


def open_sensors(kind: str, visible: Sequence[str]) -> Any:
    """The sensors of a trial's accelerators, whose `read` returns values by `id`; None for a kind without sensors."""
    if kind not in KINDS or not KINDS[kind].sensors:
        return None
    return pkgutil.resolve_name(KINDS[kind].sensors)(visible)


LATE_S = 5.0
"""Seconds by which a sample may be late; if the trial used no processor time either, the machine was stopped."""


def pause(elapsed: float, is_hosted: bool) -> float:
    """Seconds until the next sample, `elapsed` seconds into a trial.

    Usually one second or, of an accelerator, a fifth of one, since a training may take two seconds there and a sample
    takes no time of the accelerator. Shorter at first, because some trials take a second; longer later, so that a trial
    of a day has some thousands of samples. At most 30 s, in which no energy counter starts again at 0.
    """
    return min(30.0, max(min(1.0 if is_hosted else 0.2, 0.05 + elapsed), elapsed / 600))


class Monitor:
    """Samples the conditions of an attempt until the context is left."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._cores = job.cores or usable_cores()
        self._samples: list[Conditions] = []
        self._readings: list[Reading] = []
        self._missing: list[str] = []
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._epochs = EpochWindows(job)
        self._energy: EnergyMeter | None = None

    def begin(self, leader: int) -> None:
        """Start sampling."""
        self._thread = threading.Thread(target=self._work, args=(leader,), name="raybench-audit", daemon=True)
        self._thread.start()

    def see(self, event: Event) -> None:
        """Record the times of this process's epochs, to which the summary refers."""
        if event["event"] == "epoch_ended" and "of_attempt" not in event:
            self._epochs.see(event)

    def end(self) -> Event | None:
        """Stop sampling and return the summary; None if there was no process to sample.

        In addition to the summary of the samples: `energy` (`raybench.monitoring.energy_summary`); `missing`,
        unavailable quantities.
        """
        self._stop()
        if self._thread is None:
            return None
        audit = {**summarize(self._samples, self._epochs.whole), "missing": self._missing}
        audit["host"] = {"cores": len(self._cores), **audit["host"]}
        if self._energy:
            audit["energy"] = summarize_energy(self._readings, self._epochs, self._energy.missing, audit["host"])
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
            sensors = None
            try:
                sensors = open_sensors(self._job.cell.device.kind, self._job.visible)
            except Unavailable as error:
                self._missing.append(f"GPU sensors: {error}")
            self._energy = EnergyMeter(self._job.cell.device.kind, self._job.visible, self._cores)
            try:
                self._sample(leader, sensors, self._energy)
            finally:
                self._energy.close()
                if sensors:
                    sensors.close()
        except Exception as error:
            self._missing.append(f"sampling stopped: {type(error).__name__}: {error}")

    def _sample(self, leader: int, sensors: Any, energy: EnergyMeter) -> None:
        start_s = previous_s = time.perf_counter()
        self._readings.append((time.time(), energy.read()))
        previous = _counters(self._cores, family_usage(leader), energy.socket_cores)
        over, is_hosted = False, hosted(self._job.cell.device.kind)
        while not over:
            over = self._over.wait(asked_s := pause(previous_s - start_s, is_hosted))
            usage, now_s, t = family_usage(leader), time.perf_counter(), events.now()
            self._readings.append((time.time(), energy.read()))
            counters = _counters(self._cores, usage, energy.socket_cores)
            if counters.keys() < previous.keys():
                return  # the trial's process has ended, and with it its counters
            sample: dict[str, Any] = {"t": t, "seconds": round(now_s - previous_s, 4)}
            sample |= {name: round(counters[name] - previous[name], 4) for name in previous if name in counters}
            sample |= {} if (clock := mhz(self._cores)) is None else {"mhz": round(clock, 1)}
            # The machine's sleep is neither here nor in the times of epochs: `time.perf_counter` sleeps, too.
            late_s = sample["seconds"] - asked_s
            if usage and usage.stopped:
                sample["stopped_s"] = sample["seconds"]
            elif late_s > LATE_S and sample.get("own_cpu_s", late_s) < late_s / 10:
                sample["stopped_s"] = round(late_s, 2)
            if sensors:
                sample["gpus"] = sensors.read()
            self._samples.append(sample)
            previous, previous_s = counters, now_s


def _counters(cores: list[int], usage: Usage | None, socket_cores: list[int]) -> dict[str, float]:
    """Monotonic counters, in processor seconds; quantities that the system does not report are left out."""
    of_sockets = core_times(socket_cores)
    return {
        **core_times(cores),
        **({"socket_busy_s": of_sockets["busy_s"]} if of_sockets else {}),
        **({"own_cpu_s": usage.cpu_s} if usage else {}),
    }
