"""A folder with the user's files and a grid file, whose grid is run."""

import textwrap

from raybench.config import load_grid
from raybench.core.options import GridOptions
from raybench.execution.inline import InlineExecutor
from raybench.run import run_grid
from support.executors import ForkingExecutor
from support.grid_files import events_of


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
        self.write("grid.yaml", f"name: mine\nworkload:\n{textwrap.indent(textwrap.dedent(workload), '  ')}\n{grid}")
        own = GridOptions(results=self.folder / "results", tracking=None, checks=False, report=False, **options)
        executor = ForkingExecutor(self._server) if self._server else InlineExecutor()
        return run_grid(load_grid(self.folder / "grid.yaml"), executor, options=own)

    def one(self, *arguments, **options):
        """Run a grid of one trial; return its attempt."""
        (attempt,) = self.run(*arguments, **options).latest.values()
        return attempt

    def events(self, kind):
        """The events of a kind."""
        return [event for event in events_of(self.folder / "results" / "mine") if event["event"] == kind]
