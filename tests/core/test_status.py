"""What follows from how a trial ended, and words that are no status of ours."""

import pytest
from support.attempts import attempts

from raybench.core import events
from raybench.core.status import TrialStatus
from raybench.tracking import mapping


@pytest.mark.parametrize("status", TrialStatus)
def test_results_are_not_failures_nor_run_again(status):
    assert not (status.is_result and (status.is_failure or status.is_rerun))
    assert (mapping.mlflow_status(str(status)) == "FINISHED") == status.is_result


def test_unknown_status_is_kept_and_failed_in_mlflow():
    told = [events.trial_ended("a-r0", number, word) for number, word in ((1, "preempted"), (2, TrialStatus.LOST))]
    foreign, lost = attempts(told).values()
    assert foreign.status == "preempted"
    assert foreign.precedence > lost.precedence, "what was lost is run again"
    assert mapping.mlflow_status("preempted") == "FAILED"
