# shellcheck shell=bash
# A host as a machine: its folders, its namespaces, its sshd; how it starts and how it loses power.
# It does not know Gfarm and Slurm.
# shellcheck disable=SC2153 # DISKS is no misspelling of DISK

# Starts the first process of a host in new namespaces, and notes its number. The options are unshare's.
start_init() { # HOST OPTION...
    local host=$1 outer answer=
    shift
    make_cgroups "$host"
    mkdir -p "$STATE/host/$host"
    rm -f "$STATE/host/$host/ready"
    mkfifo "$STATE/host/$host/ready"
    exec 8<>"$STATE/host/$host/ready"
    (
        exec 9<&-
        join_cgroups "$host"
        TESTBED_SETTINGS=$STATE/settings exec setsid unshare "$@" --fork --propagation private \
            /bin/bash "$HERE/parts/init" "$host"
    ) </dev/null >"$STATE/log/init.$host" 2>&1 &
    outer=$!
    # The word or, should the process end before it, the end of the patience.
    read -r -t 60 -u 8 answer || true
    exec 8>&-
    rm -f "$STATE/host/$host/ready"
    [ "$answer" = ready ] || fail "$host did not start: $(tail -n 3 "$STATE/log/init.$host")"
    note_init "$host" "$(tr -d ' ' <"/proc/$outer/task/$outer/children")"
}

note_init() { echo "$2 $(start_of "$2")" >"$STATE/pid/$1"; }

make_host_folders() { # HOST
    local mine=$DISKS/host/$1
    mkdir -p "$mine"/{tmp,run,srv,home} "$STATE/host/$1"
    chmod 1777 "$mine/tmp"
    if [ "$HOME_FOLDER" = private ]; then cp -a "$HOUSE/." "$mine/home/"; fi
    if [ -n "$DISK" ] && [ "$1" != head ]; then
        truncate -s "$DISK" "$mine/disk.img"
        mkfs.ext4 -q -F -E lazy_itable_init=1,lazy_journal_init=1 "$mine/disk.img" ||
            fail "no file system could be made in $mine/disk.img"
        : >"$STATE/host/$1/disk"
    fi
}

# Lays the bound of DISK_TOTAL over the disk of a host, and takes a loop device for it. The process that does so is none of
# the host's, and has a cgroup of its own: it outlives a power cut until all is written, and no bound of the host holds for it.
# The loop device is taken in its mount namespace, so its file is found by name while the process lives.
slow_disk() { # HOST
    local image=$DISKS/host/$1/disk.img log=$STATE/log/disk.$1 pid device
    make_cgroups "disk.$1"
    pid=$(
        exec 9<&-
        join_cgroups "disk.$1"
        exec unshare --mount --propagation private "$STATE/disk" "$image" "$DISK_TOTAL" 2>"$log"
    ) || fail "the disk of $1 cannot be bounded: $(tail -n 3 "$log")"
    device=$(nsenter -t "$pid" -m losetup --find --show --direct-io=on "$image" 2>>"$log") ||
        fail "no loop device for the disk of $1: $(tail -n 3 "$log")"
    # Read through the page cache of the machine, it would be as fast as memory.
    [ "$(cat "/sys/block/${device#/dev/}/loop/dio")" = 1 ] || fail "$device, the disk of $1, goes through the page cache of this machine"
    echo "$device" >"$STATE/host/$1/disk"
}

# A host as it is after switching it on: connected, with its sshd.
start_host() { # HOST
    if [ -n "$DISK_TOTAL" ] && [ "$1" != head ]; then slow_disk "$1"; fi
    start_init "$1" --mount --uts --ipc --net --pid --mount-proc
    if [ "$1" != head ]; then
        limit_host "$1"
        if [ -n "$DISK" ]; then limit_disk "$1" "$(device_number "$(cat "$STATE/host/$1/disk")")"; fi
        if [ -n "$DISK_TOTAL" ]; then limit_dirty "$1" "$(device_number "$(cat "$STATE/host/$1/disk")")"; fi
    fi
    connect "$1"
    on "$1" /usr/sbin/sshd -f "$STATE/ssh/sshd_config.$1" -E "$STATE/log/sshd.$1" || fail "sshd on $1 did not start: $(tail -n 3 "$STATE/log/sshd.$1")"
}

# MAJOR:MINOR of a device.
device_number() { echo "$((0x$(stat -c %t "$1"))):$((0x$(stat -c %T "$1")))"; }

# As a power cut: first the cable, so that dying processes take leave of nobody, then all processes. Connections whose last
# packets find no way out would keep the network namespace for minutes; told so, they give up within seconds.
stop_host() { # HOST
    local pid
    pid=$(init_of "$1")
    if [ -n "$pid" ]; then nsenter -t "$pid" -n sysctl -q -w net.ipv4.tcp_orphan_retries=1; fi
    cut_links "$1" 2>/dev/null || true
    # What is in the page cache is written out as fast as it can be.
    free_disk "$1"
    kill_processes "$1"
    in_switch ip link delete "$1" 2>/dev/null || true
    rm -f "$STATE/pid/$1"
    # The kernel takes the mounts down after the last process.
    if [ -n "$DISK" ]; then
        until_true 60 disk_is_free "$1" || fail "the disk of $1 is still in use a minute after its last process"
    fi
}

# Nothing has the disk of host $1 open, and with DISK_TOTAL its process has seen that and has ended.
disk_is_free() { [ -z "$(processes_of "disk.$1")" ] && no_loop "$DISKS/host/$1/"; }

# No loop device has a file below folder $1.
no_loop() { ! losetup --list --noheadings --output BACK-FILE | grep -qF "$1"; }

# Keys, the servers' settings, and the users': all hosts share them, and this machine may use them with `ssh -F`. To agree on
# a secret that not even a quantum computer could find, as is the default, takes as long as the rest of a connection.
make_ssh() {
    local host
    mkdir -p "$STATE/ssh" "$HOUSE/.ssh"
    chmod 700 "$HOUSE/.ssh"
    ssh-keygen -q -t ed25519 -N '' -C "testbed-$NAME" -f "$STATE/ssh/key"
    cp "$STATE/ssh/key.pub" "$STATE/ssh/authorized_keys"
    for host in head $(host_names); do
        ssh-keygen -q -t ed25519 -N '' -C "$host" -f "$STATE/ssh/hostkey.$host"
        echo "$host,$(address "$host") $(cut -d ' ' -f 1,2 "$STATE/ssh/hostkey.$host.pub")" >>"$STATE/ssh/known_hosts"
        sshd_config "$host" >"$STATE/ssh/sshd_config.$host"
        echo "Host $host"
        echo "    HostName $(address "$host")"
        echo "    HostKeyAlias $host"
    done >"$STATE/ssh/config"
    cat >>"$STATE/ssh/config" <<EOF
Host head host*
    User root
    IdentityFile $STATE/ssh/key
    IdentitiesOnly yes
    UserKnownHostsFile $STATE/ssh/known_hosts
    StrictHostKeyChecking yes
    UpdateHostKeys no
    KexAlgorithms curve25519-sha256
EOF
    cp "$STATE/ssh/config" "$HOUSE/.ssh/config"
    chmod 600 "$HOUSE/.ssh/config"
}

sshd_config() { # HOST
    cat <<EOF
ListenAddress $(address "$1")
HostKey $STATE/ssh/hostkey.$1
PidFile /run/sshd.pid
AuthorizedKeysFile $STATE/ssh/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PrintMotd no
PrintLastLog no
AcceptEnv LANG LC_*
Subsystem sftp /usr/lib/openssh/sftp-server
EOF
}

# /etc of all hosts: a copy of this machine's, with other names and homes. Nothing is changed in the machine's own.
make_etc() {
    local host
    cp -a /etc "$STATE/etc"
    rm -f "$STATE/etc/gfarm2.conf" "$STATE/etc/hosts" "$STATE/etc/slurm/slurm.conf" "$STATE/etc/nologin"
    {
        echo "127.0.0.1 localhost"
        for host in head $(host_names) machine; do echo "$(address "$host") $host"; done
    } >"$STATE/etc/hosts"
    [ -e "$STATE/etc/hostname" ] || : >"$STATE/etc/hostname"
    sed -i 's/^hosts:.*/hosts: files/' "$STATE/etc/nsswitch.conf"
    awk -F : -v OFS=: -v home="$HOUSE" -v gfarm="$DISKS/gfarmfs" \
        '$1 == "root" { $6 = home; $7 = "/bin/bash" } $1 == "_gfarmfs" { $6 = gfarm } { print }' /etc/passwd >"$STATE/etc/passwd"
}
