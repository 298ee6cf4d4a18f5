# shellcheck shell=bash
# Gfarm on the testbed: gfmd on head, its metadata in memory; gfsd on each host, on its own disk; gfarm2fs at /srv/gfarm
# everywhere. It does not know how hosts are made.

make_gfarm_settings() {
    local common
    common=$(cat <<EOF
metadb_server_host head
metadb_server_port 601
auth enable sharedsecret *
sockopt keepalive
metadb_server_heartbeat_interval $LOST_AFTER
network_receive_timeout $LOST_AFTER
minimum_free_disk_space 64M
schedule_busy_load_thresh 200
EOF
    )
    # All hosts have the one kernel's load. Without these two, writers would be sent to other hosts' disks.
    cat >"$STATE/etc/gfarm2.conf" <<EOF
$common
spool_check_level display
schedule_idle_load_thresh 100
schedule_virtual_load 0
schedule_rpc_timeout $LOST_AFTER
gfsd_connection_timeout $LOST_AFTER
no_file_system_node_timeout $LOST_AFTER
gfmd_reconnection_timeout $LOST_AFTER
EOF
    cat >"$STATE/gfmd.conf" <<EOF
$common
admin_user root
metadb_journal_dir $DISKS/gfmd
synchronous_journaling disable
replica_check disable
EOF
    mkdir -p "$DISKS/gfmd" "$DISKS/gfarmfs"
    chown _gfarmfs "$DISKS/gfarmfs"
}

# Starts gfmd, and makes the keys with which users and file servers show who they are.
start_gfmd() {
    local host
    on head gfkey -f -p 31536000 >/dev/null 2>&1 || fail "gfkey made no key for Gfarm"
    on head runuser -u _gfarmfs -- env HOME="$DISKS/gfarmfs" gfkey -f -p 31536000 >/dev/null 2>&1 || fail "gfkey made no key for gfsd"
    if [ "$HOME_FOLDER" = private ]; then share_gfarm_key; fi
    on head gfmd -f "$STATE/gfmd.conf" -P /run/gfmd.pid -F "$STATE/log/gfmd"
    # Whoever comes before it listens tries again after a second.
    until_true 60 on head bash -c 'exec 3<>/dev/tcp/head/601' || fail "gfmd does not listen: $(tail -n 3 "$STATE/log/gfmd")"
    until_true 60 on head gfuser || fail "gfmd does not answer: $(tail -n 3 "$STATE/log/gfmd")"
    for host in $(host_names); do
        on head gfhost -c -a x86_64-linux -p 600 -n "$CPUS" "$host" || fail "gfmd did not take $host as a file server"
    done
}

share_gfarm_key() {
    local host
    for host in $(host_names); do
        cp -p "$DISKS/host/head/home/.gfarm_shared_key" "$DISKS/host/$host/home/"
    done
}

start_gfsd() { # HOST
    : >>"$STATE/log/gfsd.$1"
    chown _gfarmfs "$STATE/log/gfsd.$1"
    on "$1" sh -c 'chown _gfarmfs: /srv/spool && chmod 700 /srv/spool'
    on "$1" gfsd -h "$1" -l "$(address "$1")" -r /srv/spool -P /run/gfsd.pid -F "$STATE/log/gfsd.$1" ||
        fail "gfsd on $1 did not start: $(tail -n 3 "$STATE/log/gfsd.$1")"
}

stop_gfsd() { # HOST
    on "$1" pkill -TERM -x gfsd || return 0
    until_true 60 gfsd_is_gone "$1" || on "$1" pkill -KILL -x gfsd
}

gfsd_runs() { on "$1" pgrep -x gfsd >/dev/null; }

gfsd_is_gone() { ! gfsd_runs "$1"; }

# True once gfmd would send writers to as many file servers as are given, or once the one named is among them.
gfsd_count_is() { [ "$(on head gfsched -w 2>/dev/null | wc -l)" = "$1" ]; }

gfsd_is_known() { on head gfsched -w 2>/dev/null | grep -qx "$1"; }

mount_gfarm() { # HOST
    local options=()
    # Ruby code on head looks at once at what commands on other hosts have written: the kernel there must remember nothing.
    if [ "$1" = head ]; then options=(-o "attr_timeout=0,entry_timeout=0"); fi
    on "$1" gfarm2fs "${options[@]}" /srv/gfarm 2>>"$STATE/log/gfarm2fs.$1" || fail "gfarm2fs on $1: $(tail -n 3 "$STATE/log/gfarm2fs.$1")"
}

start_gfarm() {
    local host
    make_gfarm_settings
    start_gfmd
    for host in $(host_names); do start_gfsd "$host"; done
    until_true 60 gfsd_count_is "$HOSTS" || fail "gfmd does not see all file servers: $(on head gfsched -w | tr '\n' ' ')"
    for host in head $(host_names); do mount_gfarm "$host"; done
}
