#!/bin/bash
# Run grid.yaml on three machines of each GPU model and compare the models: compare.sh A100 H100
set -euo pipefail
clusters=()
trap 'for cluster in "${clusters[@]}"; do sky down --yes "$cluster"; done' EXIT # also after an error: machines cost money
for gpu in "$@"; do
  cluster=raybench-${gpu,,}
  clusters+=("$cluster")
  sky launch --yes --cluster "$cluster" --gpus "$gpu:1" --down --idle-minutes-to-autostop 15 task.yaml > "$cluster.log" 2>&1 &
done
for job in $(jobs -p); do
  wait "$job" || echo "A task failed: see raybench-*.log." >&2
done
for cluster in "${clusters[@]}"; do
  for machine in "$cluster" "$cluster"-worker{1,2}; do # as `sky launch` names them for ssh
    scp "$machine:results.zip" "$machine.zip" || echo "$machine has no results." >&2
  done
done
raybench import raybench-*.zip
raybench report grid.yaml
