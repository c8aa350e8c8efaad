"""Files of a grid's results: their events, and files made of events."""

from uuid import NAMESPACE_OID, uuid5

from raybench.core.events import events_file, to_line
from raybench.results.executions import Execution
from raybench.results.folder import ATTEMPTS, CHECKS, attempt_folder, event_files, read_events


def events_of(grid):
    """All events of attempts and checks in a grid's folder, in the order of their times."""
    paths = [path for kind in (CHECKS, ATTEMPTS) for path in event_files(grid, kind)]
    return sorted((event for path in paths for event in read_events(path, [])), key=lambda event: event["t"])


def write_events(grid, events):
    """Write events as the files of a grid; return its folder."""
    files = {}
    for event in events:
        name = f"{event['trial']} {event['attempt']}"
        files.setdefault(name, []).append(event)
    for name, own in files.items():
        first = own[0]
        run = next((event["run"] for event in own if event.get("run")), uuid5(NAMESPACE_OID, name).hex)
        kind = CHECKS if first["event"] == "check_ended" else ATTEMPTS
        path = events_file(attempt_folder(grid, first["trial"], run))
        path = grid / kind / path.relative_to(grid / ATTEMPTS)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file_of(own))
    return grid


def write_request(grid, name, data):
    """Write what an execution was asked for, from the JSON of its file, as raybench does."""
    fields = {field: value for field, value in data.items() if field != "digest"}
    Execution(**fields | {"name": name}).write(grid)


def file_of(events):
    """The content of a file of events, each line as raybench writes it: with its place and its checksum."""
    content = b""
    for event in events:
        content += to_line(event, len(content)).encode(errors="replace")
    return content
