# shellcheck shell=bash
# Slurm on the testbed: slurmctld and munged on head, slurmd on each host. No accounting, so `sacct` has no answers.
# It does not know how hosts are made.

make_slurm_settings() {
    local memory
    memory=$(($(awk '/^MemTotal/ { print $2 }' /proc/meminfo) / 1024 / (HOSTS + 1)))
    mkdir -p "$STATE/etc/slurm" "$STATE/slurm" "$STATE/munge"
    cat >"$STATE/etc/slurm/slurm.conf" <<EOF
ClusterName=$NAME
SlurmctldHost=head($(address head))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$STATE/munge/socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
SlurmdParameters=config_overrides
ReturnToService=2
StateSaveLocation=$STATE/slurm
SlurmdSpoolDir=/run/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=$STATE/log/slurmctld
SlurmdLogFile=$STATE/log/slurmd.%n
SlurmctldTimeout=$LOST_AFTER
SlurmdTimeout=$LOST_AFTER
InactiveLimit=0
KillWait=5
NodeName=host[1-$HOSTS] NodeAddr=$NET.[1-$HOSTS] NodeHostname=host[1-$HOSTS] CPUs=$CPUS RealMemory=$memory State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
EOF
}

# The socket is a file that all hosts see, so one munged vouches for all of them.
start_munged() {
    head -c 128 /dev/urandom >"$STATE/munge/key"
    chmod 400 "$STATE/munge/key"
    chown -R munge: "$STATE/munge"
    on head runuser -u munge -- /usr/sbin/munged --num-threads=2 --key-file="$STATE/munge/key" --socket="$STATE/munge/socket" \
        --pid-file="$STATE/munge/pid" --log-file="$STATE/munge/log" --seed-file="$STATE/munge/seed" ||
        fail "munged did not start: $(tail -n 3 "$STATE/munge/log" 2>/dev/null)"
}

start_slurmd() { # HOST
    on "$1" slurmd -N "$1" || fail "slurmd on $1 did not start: $(tail -n 3 "$STATE/log/slurmd.$1")"
}

idle_nodes_are() { [ "$(on head sinfo -h -t idle -o %D 2>/dev/null)" = "$1" ]; }

start_slurm() {
    local host
    make_slurm_settings
    start_munged
    on head slurmctld || fail "slurmctld did not start: $(tail -n 3 "$STATE/log/slurmctld")"
    for host in $(host_names); do start_slurmd "$host"; done
    until_true 60 idle_nodes_are "$HOSTS" || fail "Slurm's nodes are not idle: $(on head sinfo -h 2>&1 | tr '\n' ' ')"
}
