"""What an outcome of a grid has for each configuration."""


def run_counts(outcome):
    """The numbers of planned and of completed runs of each configuration."""
    return [(each.planned, each.completed) for each in outcome.report.answer.configurations]


def endings(outcome):
    """The number of other runs by status, of each configuration."""
    return [{each.status: each.runs for each in own.endings} for own in outcome.report.answer.configurations]


def skips(outcome):
    """Why each configuration cannot run here; None if it can."""
    return [each.skip for each in outcome.report.answer.configurations]
