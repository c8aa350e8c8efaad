"""A client of MLflow that waits for a busy machine."""

import os

# A grid gives up a request after ten seconds, which on a loaded machine a server that works may take.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")
