#!/bin/bash
#SBATCH --job-name=malleable
#SBATCH --nodes=2 --ntasks-per-node=1 --exclusive
#SBATCH --time=60
#SBATCH --requeue --open-mode=append
# Slurm says up to a minute early that the time is nearly up.
#SBATCH --signal=B:USR1@120

# Change these. The folder must be shared by all nodes and yours alone.
ranks=4
program=(./program --its options)
folder=$HOME/malleable-$SLURM_JOB_ID
most_restarts=50

export PCM_CLUSTER=$folder/cluster
mkdir -p -m 700 "$folder/checkpoints" && cd "$SLURM_SUBMIT_DIR" || exit 1

# What an earlier run of this job left when it was ended with its nodes. Its checkpoints stay.
pcmctl down --if-up >"$folder/before.log" 2>&1
pcmctl up || exit 1

trap 'is_over=1' USR1
pcmctl restart --newest "$folder/checkpoints" --name job -n "$ranks" --checkpoint-every 600 -- "${program[@]}" &
job=$!
wait $job; code=$?
if [ "$is_over" ] && kill -0 $job 2>/dev/null; then
    pcmctl checkpoint job --dir "$folder/checkpoints"; saved=$?
    pcmctl kill job; wait $job
    pcmctl down
    # A loop that gets nowhere ends here: no checkpoint, no next run.
    if [ $saved = 0 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt $most_restarts ]; then
        # Slurm ends this script then.
        scontrol requeue "$SLURM_JOB_ID" && exec sleep 60
    fi
    echo "not requeued: checkpoint $saved, restarts ${SLURM_RESTART_COUNT:-0}" >&2
    exit 1
fi
pcmctl down
exit $code
