# shellcheck shell=bash
# The cgroups of the hosts: what bounds memory, CPU time and disk, what names all processes of a host, and how its page
# cache is dropped. Version 1 (a tree for each controller) and version 2 (one tree) both.
# It does not know what runs in them.

CGROUPS=/sys/fs/cgroup

# The trees in use: of version 1 the three controllers', of version 2 the one.
cgroup_trees() {
    if [ -e "$CGROUPS/cgroup.controllers" ]; then
        echo "$CGROUPS"
    else
        echo "$CGROUPS/memory" "$CGROUPS/blkio" "$CGROUPS/cpu"
    fi
}

cgroup_version() { if [ -e "$CGROUPS/cgroup.controllers" ]; then echo 2; else echo 1; fi; }

check_cgroups() {
    local tree
    for tree in $(cgroup_trees); do
        [ -e "$tree/cgroup.procs" ] || fail "no cgroup at $tree: the kernel's cgroups, version 1 (memory, blkio, cpu) or 2, must be mounted"
    done
    if [ "$(cgroup_version)" = 2 ]; then open_controllers "$CGROUPS"; fi
}

# Version 2 hands a controller to the children of a group only when told to.
open_controllers() {
    local controller
    for controller in memory io cpu; do
        echo "+$controller" >"$1/cgroup.subtree_control" 2>/dev/null ||
            grep -qw "$controller" "$1/cgroup.subtree_control" || fail "cgroup controller $controller cannot be had in $1"
    done
}

cgroup_folders() { # HOST
    local tree
    for tree in $(cgroup_trees); do echo "$tree/rakuda-testbed/$NAME/$1"; done
}

make_cgroups() { # HOST
    local folder
    for folder in $(cgroup_folders "$1"); do
        mkdir -p "$folder"
        if [ "$(cgroup_version)" = 2 ]; then
            open_controllers "$CGROUPS/rakuda-testbed"
            open_controllers "$CGROUPS/rakuda-testbed/$NAME"
        fi
    done
}

# Takes the calling (sub)shell, and what it starts, into the groups of a host, and to its processors.
join_cgroups() { # HOST
    local tree
    for tree in $(cgroup_trees); do echo "$BASHPID" >"$tree/rakuda-testbed/$NAME/$1/cgroup.procs"; done
    if [ "$OWN_CPUS" = 1 ] && [[ $1 == host* ]]; then taskset -pc "$(own_processors "${1#host}")" "$BASHPID" >/dev/null; fi
}

# The processors of host number $1, as taskset takes them.
own_processors() {
    local there number first=$((($1 - 1) * CPUS)) list=
    there=$(nproc --all)
    for ((number = first; number < first + CPUS && number < first + there; number++)); do
        list+=,$((number % there))
    done
    echo "${list#,}"
}

limit_host() { # HOST
    local groups=$CGROUPS v1=rakuda-testbed/$NAME/$1
    if [ "$(cgroup_version)" = 2 ]; then
        if [ -n "$MEMORY" ]; then echo "$MEMORY" >"$groups/$v1/memory.max"; fi
        if [ -n "$CPU_TIME" ]; then echo "$(scaled "$CPU_TIME" 100000) 100000" >"$groups/$v1/cpu.max"; fi
    else
        if [ -n "$MEMORY" ]; then echo "$MEMORY" >"$groups/memory/$v1/memory.limit_in_bytes"; fi
        if [ -n "$CPU_TIME" ]; then scaled "$CPU_TIME" 100000 >"$groups/cpu/$v1/cpu.cfs_quota_us"; fi
    fi
}

# $1 times $2, as a whole number.
scaled() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%d\n", a * b }'; }

# Bounds what host $1 reads from and writes to device $2 (MAJOR:MINOR).
limit_disk() {
    local blkio=$CGROUPS/blkio
    if [ "$(cgroup_version)" = 2 ]; then
        echo "$2 rbps=${DISK_READ:-max} wbps=${DISK_WRITE:-max}" >"$CGROUPS/rakuda-testbed/$NAME/$1/io.max"
        return
    fi
    if [ -n "$DISK_READ" ]; then echo "$2 $DISK_READ" >"$blkio/rakuda-testbed/$NAME/$1/blkio.throttle.read_bps_device"; fi
    if [ -n "$DISK_WRITE" ]; then
        echo "$2 $DISK_WRITE" >"$blkio/rakuda-testbed/$NAME/$1/blkio.throttle.write_bps_device"
        # Version 1 charges the writing back of cached pages to the root group. The device is this host's alone.
        echo "$2" >"$STATE/host/$1/throttled"
        echo "$2 $DISK_WRITE" >"$blkio/blkio.throttle.write_bps_device"
    fi
}

# Who writes to device $2 waits when a fifth of the memory of host $1 is dirty, as on a machine of that memory
# (vm.dirty_ratio). The kernel counts the memory of this machine, so that a host might have all of its own dirty.
limit_dirty() {
    local bdi=/sys/class/bdi/$2
    # Before Linux 6.2 there is no such bound in bytes.
    if [ -z "$MEMORY" ] || [ ! -e "$bdi/max_bytes" ]; then return; fi
    echo "$2" >"$STATE/host/$1/dirty"
    echo $(($(numfmt --from=iec "$MEMORY") / 5)) >"$bdi/max_bytes"
    echo 1 >"$bdi/strict_limit"
}

# The device stays when the host's disk has gone, and may be anyone's then.
free_dirty() { # HOST
    local device
    device=$(cat "$STATE/host/$1/dirty" 2>/dev/null) || return 0
    echo 0 >"/sys/class/bdi/$device/strict_limit"
    echo 100 >"/sys/class/bdi/$device/max_ratio"
    rm -f "$STATE/host/$1/dirty"
}

# Lifts the bounds of the disk of a host for good: what limit_disk has left in the root group, and DISK_TOTAL.
free_disk() { # HOST
    local device pid
    free_dirty "$1"
    for pid in $(processes_of "disk.$1"); do kill -TERM "$pid" 2>/dev/null || true; done
    device=$(cat "$STATE/host/$1/throttled" 2>/dev/null) || return 0
    echo "$device 0" >"$CGROUPS/blkio/blkio.throttle.write_bps_device" || return 0
    rm -f "$STATE/host/$1/throttled"
}

# Writes dirty pages out, then drops what the host has in the page cache. With processes in the group one pass leaves
# some of it, so it is repeated while that helps.
drop_cache() { # HOST
    local group=$CGROUPS/memory/rakuda-testbed/$NAME/$1 before=-1 now pass
    sync
    for pass in 1 2 3 4 5; do
        if [ "$(cgroup_version)" = 2 ]; then
            group=$CGROUPS/rakuda-testbed/$NAME/$1
            [ -e "$group/memory.reclaim" ] || fail "drop-cache needs memory.reclaim (Linux 5.19) in $group"
            # It says EAGAIN when less could be had than was asked for.
            cat "$group/memory.current" >"$group/memory.reclaim" 2>/dev/null || true
        else
            echo 0 >"$group/memory.force_empty" 2>/dev/null || true
        fi
        now=$(cached_bytes "$1")
        [ "$now" != "$before" ] || break
        before=$now
    done
    : "$pass"
}

# Bytes of files that are in memory on account of host $1.
cached_bytes() {
    if [ "$(cgroup_version)" = 2 ]; then
        awk '$1 == "file" { print $2 }' "$CGROUPS/rakuda-testbed/$NAME/$1/memory.stat"
    else
        awk '$1 == "total_cache" { print $2 }' "$CGROUPS/memory/rakuda-testbed/$NAME/$1/memory.stat"
    fi
}

# The processes of host $1, or of all hosts when it is `*`.
processes_of() {
    local tree
    for tree in $(cgroup_trees); do
        # shellcheck disable=SC2086 # the star is for the shell
        cat "$tree"/rakuda-testbed/"$NAME"/$1/cgroup.procs 2>/dev/null || true
    done | sort -un
}

# Kills every process of a host, or of all (`*`), and waits until none is left.
kill_processes() {
    local pids turn
    for ((turn = 0; turn < 3000; turn++)); do
        pids=$(processes_of "$1")
        [ -n "$pids" ] || return 0
        # shellcheck disable=SC2086 # one word a process
        kill -KILL $pids 2>/dev/null || true
        sleep 0.01
    done
    fail "processes that do not die: $(echo "$pids" | tr '\n' ' ')(see /proc/PID/stack)"
}

remove_cgroups() {
    local tree folder
    for tree in $(cgroup_trees); do
        [ -d "$tree/rakuda-testbed/$NAME" ] || continue
        for folder in "$tree/rakuda-testbed/$NAME"/*/ "$tree/rakuda-testbed/$NAME"; do
            [ ! -d "$folder" ] || rmdir "$folder"
        done
        # Other testbeds may have theirs in it.
        rmdir "$tree/rakuda-testbed" 2>/dev/null || true
    done
}
