#!/bin/bash
# One machine per job: each runs the whole grid on its own node and exports the results.
#   sbatch --array=0-2 --constraint=MODEL --gpus-per-node=1 array.sh GRID.yaml [OPTION…]
#SBATCH --job-name=raybench
#SBATCH --nodes=1
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=04:00:00
set -euo pipefail
grid=$1
shift
results=raybench-results/$SLURMD_NODENAME # a node that comes again continues
status=0
raybench grid "$grid" --results "$results" --tracking none "$@" || status=$?
raybench export "$grid" --results "$results" -o "$results.zip"
exit "$status"
