"""Does the MLflow server cost a trial anything: where it is there, slow, or away? Epoch times with each, in turn.

    python benchmarks/store.py [--seconds 20] [--steps N] [--rounds 12] [--delay 2] [--json FILE]

One process trains digits_cnn on all of this machine's cores (torch) all the time. Around its epochs stands, in blocks:

- `none`: nothing that tracks;
- `there`: the journal, and the thread that writes to a real MLflow server (sqlite) on this machine;
- `slow`: the same, where each answer takes `--delay` seconds longer;
- `away`: the same, where nothing listens.

A block has the end of one trial to write, of 100 epochs, and the epochs of the next one while they come. It begins when
the store has been opened or has failed, as a grid's first trial does. The four are a round; which of them is first
changes every round. The server takes its processor time from the same cores: `there` is dearer here than with a server
on a machine of its own.

Printed: ratios of the blocks' mean epoch times as geometric means over the rounds, with the 95 % interval of a paired t
on logarithms; and what the longest end took, for which a grid is held up.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from pathlib import Path

from measuring import EPOCHS, WARMUP, WITHOUT, NoAudit, make_job, ratio, start_template

from raybench.core import events
from raybench.core.events import Event
from raybench.core.status import TrialStatus
from raybench.devices.host import usable_cores
from raybench.execution import process
from raybench.results.history import GridHistory
from raybench.results.journal import JOURNAL, Journal
from raybench.tracking.store import store_from_uri
from raybench.tracking.writer import PATIENCE, MlflowWriter

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from support.servers import free_port, mlflow_server, proxy

GRID = "store"
ARMS = ("none", "there", "slow", "away")
EARLIER_EPOCHS = 100
PAIRS = (("there", "none"), ("slow", "there"), ("away", "there"), ("away", "none"))


@dataclass
class Block:
    """Consecutive epochs with one kind of store."""

    arm: str
    epochs: list[float] = field(default_factory=list)
    close_s: float = 0.0
    left: int = 0


class Around:
    """What stands around one block of epochs as if they were a trial after another."""

    def __init__(self, folder: Path, uri: str, name: str, started: Event) -> None:
        self._history = GridHistory(folder / JOURNAL)
        self._journal = Journal(self._history.path)
        self._writer = MlflowWriter(store_from_uri(uri), GRID, self._history, name, warn=lambda _: None)
        self._writer.wait_open()
        self._trial = f"{name}-r1"
        earlier = started | {"trial": f"{name}-r0"}
        self._tell(earlier)
        for number in range(1, EARLIER_EPOCHS + 1):
            metrics = {"train/loss": 1.0, "val/loss": 1.0, "val/accuracy": 0.5}
            ledger = {"train": 1.0, "evaluate": 0.1}
            told = {"epoch": number, "steps": 22, "examples": 1408, "ledger": ledger, "metrics": metrics}
            self._tell(events.epoch_ended(earlier["trial"], 1, **told))
        self._tell(events.trial_ended(earlier["trial"], 1, TrialStatus.COMPLETED, wall=110.0))
        self.see(started)

    def _tell(self, event: Event) -> None:
        self._history.take(self._journal.append(event))
        self._writer.put(event)

    def see(self, event: Event) -> None:
        """Take an event as a grid would."""
        self._tell(event | {"trial": self._trial})

    def close(self) -> tuple[float, int]:
        """End as a grid does: the seconds that takes, and how many runs are left to `raybench sync`."""
        self._tell(events.trial_ended(self._trial, 1, TrialStatus.COMPLETED, wall=1.0))
        begun = time.monotonic()
        left = self._writer.close()
        self._journal.close()
        return time.monotonic() - begun, left


def blocks_of(folder: Path, uris: dict[str, str], seconds: float, steps: int | None, rounds: int) -> Iterator[Block]:
    """Blocks in rounds, each of which begins with another arm."""
    template = start_template(folder)
    process.Monitor = NoAudit
    job = make_job(folder / WITHOUT, "c-r0", 1, EPOCHS, steps)
    order = [ARMS[(number + first) % len(ARMS)] for first in range(rounds) for number in range(len(ARMS))]
    started: Event = {}
    try:
        with closing(template.run(job)) as told:
            for event in told:
                if event["event"] == "trial_started":
                    started = event
                if event["event"] == "epoch_ended" and event["epoch"] == WARMUP:
                    break
            for number, arm in enumerate(order):
                block = Block(arm)
                around = Around(folder / str(number), uris[arm], f"b{number}", started) if arm in uris else None
                begun = events.now()
                over = time.monotonic() + seconds
                for event in told:
                    assert event["event"] == "epoch_ended", event
                    # Epochs that went by before are still in the pipe, and so is the one that was under way.
                    if event["t"] > begun:
                        block.epochs.append(event["ledger"]["train"] + event["ledger"]["input_wait"])
                        if around:
                            around.see(event)
                    if time.monotonic() > over and len(block.epochs) > 1:
                        break
                del block.epochs[:1]
                if around:
                    block.close_s, block.left = around.close()
                yield block
    finally:
        template.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="of a block; two passes of the writer fit in it")
    parser.add_argument("--steps", type=int, help="in an epoch; by default the whole data set, 22")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--delay", type=float, default=2.0, help="seconds by which each answer of the slow one is late")
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    options = parser.parse_args()
    os.environ.setdefault("NO_PROXY", "127.0.0.1")
    found: list[Block] = []
    with tempfile.TemporaryDirectory(prefix="rb-", ignore_cleanup_errors=True) as name, ExitStack() as stack:
        folder = Path(name)
        server = stack.enter_context(mlflow_server(folder))
        slow = stack.enter_context(proxy(server.url))
        slow.mode, slow.delay = "slow", options.delay
        uris = {"there": server.url, "slow": slow.url, "away": f"http://127.0.0.1:{free_port()}"}
        for block in blocks_of(folder, uris, options.seconds, options.steps, options.rounds):
            found.append(block)
            mean = statistics.fmean(block.epochs)
            end = f", end {block.close_s:.1f} s, {block.left} left" if block.arm in uris else ""
            print(f"{len(found)} {block.arm}: {len(block.epochs)} epochs of {mean:.4f} s{end}", file=sys.stderr)
    of_rounds = [found[at : at + len(ARMS)] for at in range(0, len(found), len(ARMS))]
    means = [{block.arm: statistics.fmean(block.epochs) for block in each} for each in of_rounds]
    cores = f"{len(usable_cores())} of {os.cpu_count()} cores"
    print(
        f"{len(means)} rounds of 4 blocks of {options.seconds:g} s on {cores}; the slow server {options.delay:g} s late"
    )
    print(f"load of the machine in the last 15 minutes, with this: {os.getloadavg()[2]:.1f}")
    for above, below in PAIRS:
        value, low, high = ratio([(each[above], each[below]) for each in means])
        print(f"mean epoch: {above} ÷ {below} {value:.4f} (95 %: {low:.4f} to {high:.4f})")
    for arm in uris:
        ends = [block for block in found if block.arm == arm]
        longest = max(block.close_s for block in ends)
        print(f"end with the server {arm}: at most {longest:.1f} s (of {PATIENCE:g}), {max(b.left for b in ends)} left")
    if options.json:
        options.json.write_text(json.dumps([asdict(block) for block in found], indent=1))


if __name__ == "__main__":
    main()
