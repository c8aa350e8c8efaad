"""State of Tune's controller: finished trials, which it would keep, and idle actors, which it would end.

Tune is written for some hundreds of trials with equal resources. It has no settings for this.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

from ray.tune.execution.placement_groups import PlacementGroupFactory
from ray.tune.execution.tune_controller import TuneController
from ray.tune.experiment import Trial
from ray.tune.utils.object_cache import _ObjectCache

NODE = "node:"
"""Prefix of the resource that each of Ray's nodes has by its address."""

LONGEST_IDLE = 60.0
"""Seconds after which an idle actor is ended: others may want its cores, or the cluster may release its node."""


def forget_finished(controller: TuneController) -> None:
    """Remove finished trials, and the folders that Tune made for them."""
    for trial in [trial for trial in controller.get_trials() if trial.is_finished()]:
        controller.get_trials().remove(trial)
        kept = controller.get_live_trials(), controller._stopped_trials, controller._failed_trials
        for trials in (*kept, controller._trials_to_cache):
            trials.discard(trial)
        shutil.rmtree(trial.local_path, ignore_errors=True)


def withdraw(controller: TuneController, trial: Trial) -> None:
    """Stop a trial that waits for its actor; Tune would continue to count it among those."""
    controller.stop_trial(trial)
    if trial in controller._staged_trials:
        controller._unstage_trial_with_resources(trial)


def idle_actors_of(controller: TuneController) -> IdleActors:
    """The idle actors of a controller, kept by raybench's own rule from its first trial on."""
    if not isinstance(controller._actor_cache, IdleActors):
        controller._actor_cache = IdleActors()
    return controller._actor_cache


class IdleActors(_ObjectCache):  # type: ignore[misc]  # Ray has no types
    """Actors between two trials, by the resources that they hold; each has its fork servers running.

    An actor is kept until a trial on its node waits for an actor with other resources, but at most `LONGEST_IDLE`
    seconds. Tune itself keeps one actor in all, and ends those whose trials end while an actor starts on any node.

    Attributes:
        absent: the addresses of nodes that have gone, with their actors.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._idle_since: dict[Any, float] = {}
        self.absent: Collection[str] = ()

    def cache_object(self, key: PlacementGroupFactory, obj: Any) -> bool:
        """Keep an actor; return whether it is kept."""
        if self._has_to_end(key):
            return False
        self._cached_objects[key].append(obj)
        self._num_cached_objects += 1
        self._idle_since[obj] = self._clock()
        return True

    def pop_cached_object(self, key: PlacementGroupFactory) -> Any:
        """Take out an actor with these resources; None if there is none."""
        actor = super().pop_cached_object(key)
        self._idle_since.pop(actor, None)
        return actor

    def flush_cached_objects(self, force_all: bool = False) -> Iterator[Any]:
        """Take out the actors that have to end."""
        limit = self._clock() - LONGEST_IDLE
        for key, actors in self._cached_objects.items():
            while actors and (force_all or self._has_to_end(key) or self._idle_since[actors[0]] < limit):
                yield self.pop_cached_object(key)

    def _has_to_end(self, key: PlacementGroupFactory) -> bool:
        """Return whether the node has gone, or a trial there waits for an actor with other resources."""
        node = _address(key)
        waiting = (other for other, count in self._max_num_objects.items() if count > 0 and other != key)
        return node in self.absent or any(_address(other) == node for other in waiting)


def _address(key: PlacementGroupFactory) -> str:
    """The address of the node on which these resources are; empty for a local Ray."""
    return next((name.removeprefix(NODE) for name in key.bundles[0] if name.startswith(NODE)), "")
