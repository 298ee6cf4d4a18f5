# shellcheck shell=bash
# Takes a testbed away, whatever state it is in: complete, half made, half removed. It goes by what it finds (cgroups,
# the link, loop devices, folders), and not by what should be there.

remove_testbed() {
    local host device folder
    for host in "$STATE"/host/*/; do
        if [ -d "$host" ]; then free_disk "$(basename "$host")"; fi
    done
    # head, the hosts and the switch. The disks of DISK_TOTAL end by themselves when the kernel has unmounted what is on them.
    kill_processes '[hs]*'
    # It goes with the switch's namespace anyway, but the kernel takes its time for that.
    ip link delete "rakuda-$NAME" 2>/dev/null || true
    until_true 60 no_machine_link || fail "the link rakuda-$NAME cannot be removed: ip link delete rakuda-$NAME"
    if ! until_true 1 no_loop "$DISKS/"; then
        # An `up` that was killed between taking a loop device and mounting it.
        losetup --list --noheadings --output NAME,BACK-FILE | while read -r device folder; do
            if [[ $folder == "$DISKS"/* ]]; then losetup --detach "$device"; fi
        done
        until_true 60 no_loop "$DISKS/" || fail "loop devices are still in use: losetup --list"
    fi
    kill_processes '*'
    remove_cgroups
    # No mount of the hosts is seen here; but nothing may ever be removed through one.
    ! grep -qF " $DISKS/" /proc/self/mountinfo || fail "something is mounted below $DISKS: unmount it first"
    rm -rf "$STATE" "$DISKS"
    rmdir "$STORE" 2>/dev/null || true
}

no_machine_link() { ! ip link show "rakuda-$NAME"; }
