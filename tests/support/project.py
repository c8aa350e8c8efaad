"""A folder with the user's files and a grid file, whose grid is run."""

import textwrap

from raybench.core.options import GridOptions
from raybench.execution.inline import InlineExecutor
from raybench.planning.grid_options import requested_grid
from raybench.run import run_grid
from support.executors import ForkingExecutor
from support.grid_files import events_of


def run_trials(folder, text=None, executor=None, view=None, **options):
    """Run `grid.yaml` of a folder, with this text if there is one; return its outcome.

    Its trials alone run, in this process, unless the executor and the options ask for more; its results are in
    the folder `results`.
    """
    if text is not None:
        (folder / "grid.yaml").write_text(text)
    chosen = {"results": folder / "results", "tracking": None, "checks": False, "report": False} | options
    spec = requested_grid(folder / "grid.yaml", GridOptions(**chosen))
    return run_grid(spec, executor or InlineExecutor(), view, GridOptions(**chosen))


class Project:
    """A user's project.

    Args:
        server: the fixture `fork_server`, for trials in processes of their own.
    """

    def __init__(self, folder, server=None):
        self.folder, self._server = folder, server

    def write(self, name, text):
        """Write a file."""
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(textwrap.dedent(text))

    def run(self, script, workload="command: python script.py\n", grid="", **options):
        """Run the grid of a script; return its outcome."""
        self.write("script.py", script)
        text = f"name: mine\nworkload:\n{textwrap.indent(textwrap.dedent(workload), '  ')}\n{grid}"
        return run_trials(self.folder, text, self._server and ForkingExecutor(self._server), **options)

    def one(self, *arguments, **options):
        """Run a grid of one trial; return its attempt."""
        (attempt,) = self.run(*arguments, **options).latest.values()
        return attempt

    def events(self, kind):
        """The events of a kind."""
        return [event for event in events_of(self.folder / "results" / "mine") if event["event"] == kind]
