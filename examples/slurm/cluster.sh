#!/bin/bash
# One Ray cluster over all nodes of a job, and a grid with trials on each of them.
#   sbatch --nodes=4 --gpus-per-node=1 cluster.sh GRID.yaml [OPTION…]
#SBATCH --job-name=raybench
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=04:00:00
set -euo pipefail
grid=$1
shift
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p) # which reads all, unlike `head`
address=$head:6379
RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n') # without it, anyone in the network could run code on the nodes
export RAY_AUTH_TOKEN RAY_AUTH_MODE=token RAY_worker_niceness=0
# Starts Ray on each node, runs the command on the first one when all are there, and ends Ray.
srun --cpus-per-task="$SLURM_CPUS_ON_NODE" ray symmetric-run --address "$address" --min-nodes "$SLURM_JOB_NUM_NODES" -- \
  raybench grid "$grid" --address "$address" --tracking none "$@"
