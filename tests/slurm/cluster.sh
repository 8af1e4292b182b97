#!/bin/sh
# cluster.sh FOLDER CONTROLLER_PORT PORT1 PORT2: a SLURM of its own with two nodes, n1 and n2, on this machine, until it is killed. Root only.
#
# FOLDER must exist, be empty and readable by everybody; FOLDER/slurm.conf is for SLURM_CONF. All daemons and whatever they start are in
# one PID namespace, whose first process is this script: nothing outlives it, whatever ends it. The nodes have host names of their own,
# 8 CPUs, 8000 MB and 8 GPUs each, which are links to /dev/null.
set -eu
if [ "${5-}" != inside ]; then
  exec setpriv --pdeathsig KILL unshare --pid --fork --kill-child --mount --mount-proc --uts "$0" "$1" "$2" "$3" "$4" inside
fi
dir=$1
hostname controller
mkdir "$dir/munge" "$dir/state" "$dir/dev" "$dir/n1" "$dir/n2" "$dir/n1/spool" "$dir/n2/spool"
chmod 755 "$dir/munge"
(umask 077 && head -c 1024 /dev/urandom >"$dir/munge/key")
printf '127.0.0.1 localhost controller n1 n2\n::1 localhost\n' >"$dir/hosts"
mount --bind "$dir/hosts" /etc/hosts
for gpu in 0 1 2 3 4 5 6 7; do ln -s /dev/null "$dir/dev/gpu$gpu"; done
echo "Name=gpu File=$dir/dev/gpu[0-7]" >"$dir/gres.conf"

# A requeued job waits for cred_expire (120 s by default) before it may run again, and for the credential's age.
cat >"$dir/slurm.conf" <<END
ClusterName=dlrun-test
SlurmctldHost=controller(127.0.0.1)
SlurmctldPort=$2
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket,cred_expire=5
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmctldPidFile=$dir/controller.pid
SlurmctldLogFile=$dir/controller.log
SlurmdPidFile=$dir/%n/slurmd.pid
SlurmdLogFile=$dir/%n/slurmd.log
SlurmdSpoolDir=$dir/%n/spool
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=10000,bf_interval=1
GresTypes=gpu
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobRequeue=1
KillWait=2
InactiveLimit=0
ReturnToService=2
NodeName=n1 NodeAddr=127.0.0.1 Port=$3 CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=8000 Gres=gpu:8
NodeName=n2 NodeAddr=127.0.0.1 Port=$4 CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=8000 Gres=gpu:8
PartitionName=main Nodes=ALL Default=YES PriorityTier=1 GraceTime=30 DefMemPerCPU=100 State=UP MaxTime=INFINITE
PartitionName=urgent Nodes=ALL PriorityTier=10 PreemptMode=off DefMemPerCPU=100 State=UP MaxTime=INFINITE
END
export SLURM_CONF="$dir/slurm.conf"

munged --foreground --key-file="$dir/munge/key" --socket="$dir/munge/socket" --pid-file="$dir/munge/pid" --log-file="$dir/munge/log" \
  --seed-file="$dir/munge/seed" --group-update-time=-1 >"$dir/munge/out" 2>&1 &
# The daemons end if munged does not answer at their start, and nothing tells of its socket but the socket itself.
while ! munge --no-input --socket="$dir/munge/socket" >/dev/null 2>&1; do kill -0 $!; done
slurmctld -D -c >"$dir/controller.out" 2>&1 &
for node in n1 n2; do
  unshare --mount --uts sh -c "hostname $node && exec slurmd -D -N $node" >"$dir/$node/out" 2>&1 &
done
wait  # reaps orphans, too
