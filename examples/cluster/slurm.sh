#!/bin/bash
#SBATCH --job-name=flashinfer-bench
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --time=12:00:00
# sbatch slurm.sh DATASET OUTPUT: every GPU of the nodes takes jobs, traces go to OUTPUT.
set -euo pipefail
dataset=$1
output=$2
port=6379

first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | awk 'NR == 1')
address=$(srun --nodes=1 --ntasks=1 --nodelist="$first" hostname --ip-address | awk '{print $1}')

# The step ends with the job; --block keeps each Ray node inside of it, so that nothing is left on a node.
srun --nodes=1 --ntasks=1 --nodelist="$first" --overlap \
    ray start --head --node-ip-address="$address" --port="$port" --block &
sleep 20
if [ "$SLURM_JOB_NUM_NODES" -gt 1 ]; then
    srun --nodes=$((SLURM_JOB_NUM_NODES - 1)) --exclude="$first" --overlap \
        ray start --address="$address:$port" --block &
    sleep 40
fi

srun --nodes=1 --ntasks=1 --nodelist="$first" --overlap \
    env RAY_ADDRESS="$address:$port" \
    flashinfer-bench run --local "$dataset" --output "$output" --pool ray --resume
