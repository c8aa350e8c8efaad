"""What a grid reports while it runs, and what its outcome has for each configuration."""

from raybench.execution.progress import ProgressListener


class RecordingListener(ProgressListener):
    """Records the callbacks."""

    def __init__(self):
        self.todo, self.events, self.warnings = [], [], []

    def begin(self, plan, todo, history, awaited=()):
        self.todo = list(todo)

    def event(self, event):
        self.events.append(event)

    def warn(self, words):
        self.warnings.append(words)


def run_counts(outcome):
    """The numbers of planned and of completed runs of each configuration."""
    return [(each.planned, each.completed) for each in outcome.report.answer.configurations]


def notes(outcome):
    """What its report says of the repeats."""
    return list(outcome.report.answer.status.repeats)


def skips(outcome):
    """Why each configuration cannot run here; None if it can."""
    return [each.skip for each in outcome.report.answer.configurations]
