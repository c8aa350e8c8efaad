#!/bin/bash
# Run a grid on a running Ray cluster, from outside: submit.sh http://HEAD:8265 GRID.yaml RESULTS [OPTION…]
# RESULTS is a folder of the head, which keeps it. The folder of GRID.yaml is sent with it. A token is read from RAY_AUTH_TOKEN.
set -euo pipefail
address=$1 grid=$2 results=$3
shift 3
exec ray job submit --address "$address" --working-dir "$(dirname "$grid")" -- \
  raybench grid "$(basename "$grid")" --results "$results" --tracking none "$@"
