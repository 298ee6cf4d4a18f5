# shellcheck shell=bash
# The network: a namespace of its own, the switch, holds the bridges and the ends of all cables. So this machine's own
# firewall has no part in it, and the death of one process takes it all away. This machine gets one link into it,
# rakuda-NAME. It does not know what the hosts do.

# Runs a command of ip, tc or bridge in the switch.
in_switch() { nsenter -t "$(init_of switch)" -n "$@"; }

# The first 10.99.X that no address or route of this machine, and no other testbed, uses.
free_net() {
    local taken number
    taken=$(ip -4 -o address; ip -4 route; cat "$BASE"/*/net 2>/dev/null || true)
    for ((number = 0; number < 256; number++)); do
        grep -qF "10.99.$number." <<<"$taken" && continue
        echo "10.99.$number"
        return
    done
    fail "no free network among 10.99.0 to 10.99.255: name one with NET="
}

start_switch() {
    ! ip link show "rakuda-$NAME" >/dev/null 2>&1 || fail "there is a link rakuda-$NAME already: remove it with ip link del rakuda-$NAME"
    start_init switch --net --pid
    ip -batch - <<EOF
link add rakuda-$NAME type veth peer name machine netns $(init_of switch)
addr add $(address machine)/24 dev rakuda-$NAME
link set rakuda-$NAME up
EOF
    in_switch ip -batch - <<EOF
link set lo up
link add site-a type bridge
link set site-a up
link set machine master site-a up
EOF
    if [ -n "$WAN_MS" ]; then start_wan; fi
}

# A second bridge, and between both a program that holds each frame back: not every kernel has tc's netem.
start_wan() {
    [ -e /dev/net/tun ] || fail "WAN_MS needs /dev/net/tun (kernel option CONFIG_TUN)"
    in_switch ip -batch - <<EOF
link add site-b type bridge
link set site-b up
tuntap add dev wan-a mode tap vnet_hdr
tuntap add dev wan-b mode tap vnet_hdr
link set wan-a master site-a up
link set wan-b master site-b up
EOF
    (
        exec 9<&-
        join_cgroups switch
        exec setsid "$STATE/enter" "$(init_of switch)" / "$STATE/wan" wan-a wan-b "$(scaled "$WAN_MS" 1000)" \
            "$(scaled "${WAN_BACK_MS:-$WAN_MS}" 1000)" "$WAN_MBIT"
    ) </dev/null >"$STATE/log/wan" 2>&1 &
    until_true 60 wan_carries || fail "the line between the sites is not up: $(tail -n 3 "$STATE/log/wan")"
}

wan_carries() { in_switch ip link show wan-b | grep -q LOWER_UP; }

site_of() { # HOST
    if [ -n "$WAN_MS" ] && [ "$1" != head ] && ((${1#host} > (HOSTS + 1) / 2)); then echo site-b; else echo site-a; fi
}

# Lays a cable from the switch to a host that has started. As a real machine the host has the same hardware address after
# each start; the others would go on sending to the old one for a while.
connect() { # HOST
    local pid hardware
    pid=$(init_of "$1")
    hardware=$(printf '02:00:00:00:00:%02x' "$(address "$1" | sed 's/.*\.//')")
    in_switch ip -batch - <<EOF
link add $1 type veth peer name eth0 address $hardware netns $pid
link set $1 master $(site_of "$1") up
EOF
    nsenter -t "$pid" -n ip -batch - <<EOF
link set lo up
addr add $(address "$1")/24 dev eth0
link set eth0 up
EOF
    if [ -n "$RATE" ] && [ "$1" != head ]; then shape "$1" "$RATE"; fi
}

# Bounds what the cable of a host carries, each way. RATE `none`: no bound.
shape() { # HOST RATE
    local pid
    pid=$(init_of "$1")
    if [ "$2" = none ]; then
        in_switch tc qdisc delete dev "$1" root 2>/dev/null || true
        nsenter -t "$pid" -n tc qdisc delete dev eth0 root 2>/dev/null || true
    else
        in_switch tc qdisc replace dev "$1" root tbf rate "$2" burst 256kb latency 50ms
        nsenter -t "$pid" -n tc qdisc replace dev eth0 root tbf rate "$2" burst 256kb latency 50ms
    fi
}

# The switch drops all that comes from the host and goes to it. Both ends still see a cable, so no connection is reset.
cut_links() { printf 'link set dev %s state 0\n' "$@" | in_switch bridge -batch -; }

mend_link() { in_switch bridge link set dev "$1" state 3; }
