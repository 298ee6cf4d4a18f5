# shellcheck shell=bash
# What up, down, exec and fault share: errors, settings, where things lie, the lock, and how a command gets onto a host.
# It does not know what a testbed consists of. What exec calls starts few programs: tests call it thousands of times.

PROGRAM=testbed/${0##*/}
HERE=${BASH_SOURCE[0]%/parts/common.sh}
BASE=/run/rakuda-testbed
STORE=/var/lib/rakuda-testbed
# The daemons stand in sbin, which not every user's PATH has.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

fail() {
    echo "$PROGRAM: $*" >&2
    exit 1
}

say() { echo "$PROGRAM: $*" >&2; }

# Takes the leading KEY=value words off the arguments; what is left stands in REST.
take_settings() {
    local known=" NAME HOSTS CPUS OWN_CPUS GFARM SLURM HOME_FOLDER MEMORY CPU_TIME DISK DISK_READ DISK_WRITE DISK_TOTAL RATE WAN_MS WAN_BACK_MS WAN_MBIT VISIBLE NET LOST_AFTER "
    while [[ ${1-} =~ ^([A-Z_]+)=(.*)$ ]]; do
        [[ $known == *" ${BASH_REMATCH[1]} "* ]] ||
            fail "unknown setting ${BASH_REMATCH[1]}; there are:$known(see testbed/settings)"
        printf -v "${BASH_REMATCH[1]}" %s "${BASH_REMATCH[2]}"
        shift
    done
    # shellcheck disable=SC2034 # for the caller
    REST=("$@")
    # shellcheck source=/dev/null
    . "$HERE/settings"
    [[ $NAME =~ ^[a-z0-9]{1,8}$ ]] || fail "NAME=$NAME: 1 to 8 characters of a-z and 0-9 are expected"
    STATE=$BASE/$NAME
    DISKS=$STORE/$NAME
    HOUSE=$DISKS/home
}

# The settings that the running testbed was made with, in place of those of this command.
kept_settings() {
    [ -e "$STATE/up" ] || fail "$(what_is_wrong)"
    # shellcheck source=/dev/null
    . "$STATE/settings"
}

what_is_wrong() {
    if [ -e "$STATE" ]; then
        echo "testbed $NAME is not complete: testbed/up was cut off; run testbed/down NAME=$NAME, then testbed/up"
    else
        echo "testbed $NAME is not up: run testbed/up first (NAME=... for one of another name)"
    fi
}

expect() { # VALUE-NAME PATTERN WHAT
    [[ ${!1} =~ $2 ]] || fail "$1=${!1}: $3 is expected"
}

check_settings() {
    expect HOSTS '^[1-9][0-9]?$' "a number from 1 to 99"
    expect CPUS '^[1-9][0-9]{0,3}$' "a number of CPUs, at least 1"
    expect OWN_CPUS '^[01]$' "0 or 1"
    expect GFARM '^[01]$' "0 or 1"
    expect SLURM '^[01]$' "0 or 1"
    expect HOME_FOLDER '^(shared|private)$' "shared or private"
    expect MEMORY '^([1-9][0-9]*[KMG]?)?$' "bytes, or a number with K, M or G,"
    expect CPU_TIME '^([0-9]+(\.[0-9]+)?)?$' "a number of cores like 0.5"
    expect DISK '^([1-9][0-9]*[MG])?$' "a size like 4G"
    expect DISK_READ '^([1-9][0-9]*)?$' "a number of bytes a second"
    expect DISK_WRITE '^([1-9][0-9]*)?$' "a number of bytes a second"
    expect DISK_TOTAL '^([1-9][0-9]*)?$' "a number of bytes a second"
    expect RATE '^([1-9][0-9]*[kmg]?bit)?$' "a rate like 100mbit"
    expect WAN_MS '^([0-9]+(\.[0-9]+)?)?$' "a number of milliseconds"
    expect WAN_BACK_MS '^([0-9]+(\.[0-9]+)?)?$' "a number of milliseconds"
    [ -n "$WAN_MS" ] || [ -z "$WAN_BACK_MS" ] || fail "WAN_BACK_MS=$WAN_BACK_MS: without WAN_MS there is one site"
    expect WAN_MBIT '^[0-9]+(\.[0-9]+)?$' "a number of Mbit/s, 0 for no limit,"
    expect NET '^([0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3})?$' "three numbers like 10.99.3"
    expect LOST_AFTER '^[1-9][0-9]*$' "a number of seconds"
    if [ -n "$DISK_READ$DISK_WRITE$DISK_TOTAL" ] && [ -z "$DISK" ]; then DISK=4G; fi
}

need_root() {
    [ "$EUID" -eq 0 ] || fail "this needs root: namespaces, mounts and cgroups are made; try: sudo $PROGRAM ..."
}

# One of up, down and fault at a time, whatever the testbed's name; the lock is descriptor 9. No daemon may inherit it.
lock() {
    local held
    while :; do
        mkdir -p "$BASE"
        exec 9<"$BASE"
        flock -w 120 9 || fail "another up, down or fault has been at work for two minutes; see: fuser $BASE"
        # Whoever removed the folder while this waited has left it a lock on nothing.
        held=$(stat -Lc %i /proc/self/fd/9)
        [ "$held" = "$(stat -c %i "$BASE" 2>/dev/null)" ] && return
    done
}

# The names of all hosts, without head.
host_names() {
    local number
    for ((number = 1; number <= HOSTS; number++)); do echo "host$number"; done
}

check_host() {
    local number=${1#host}
    [ "$1" = head ] && return
    if ! [[ $1 =~ ^host[1-9][0-9]?$ ]] || ((number > HOSTS)); then
        fail "no host $1: there are head and host1 to host$HOSTS"
    fi
}

address() {
    case $1 in
    machine) echo "$NET.254" ;;
    head) echo "$NET.253" ;;
    *) echo "$NET.${1#host}" ;;
    esac
}

# When process $1 started, in the kernel's ticks; with the number this names a process for good. Its name, in
# parentheses, may hold blanks.
start_of() {
    local stat fields
    read -r stat 2>/dev/null <"/proc/$1/stat" || return 1
    read -ra fields <<<"${stat##*) }"
    echo "${fields[19]}"
}

# Number of the first process of host $1, or nothing when the host is not running.
init_of() {
    local pid start
    read -r pid start 2>/dev/null <"$STATE/pid/$1" || return 0
    if [ "$(start_of "$pid")" = "$start" ]; then echo "$pid"; fi
}

# Runs a command on host $1, from its root folder, as the daemons are. `on HOST CMD...`
on() {
    local host=$1 pid
    shift
    pid=$(init_of "$host")
    [ -n "$pid" ] || fail "$host is not running"
    (
        exec 9<&-
        join_cgroups "$host"
        HOME=$HOUSE exec "$STATE/enter" "$pid" / "$@"
    )
}

# Runs a command until it succeeds, for $1 seconds at most. `until_true SECONDS CMD...`
until_true() {
    local end=$((SECONDS + $1 + 1))
    shift
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < end)) || return 1
        sleep 0.02
    done
}
