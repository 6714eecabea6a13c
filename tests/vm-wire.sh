#!/bin/sh
# SPDX-License-Identifier: MIT
#
# vm/run keeps its promises for several guests: names, addresses, the wire, meetings, labels, exit codes, ends.
set -u

. "$(dirname "$0")/host.sh"

# ---- three guests, a server in each --------------------------------------------

# Each connection gets one line.
cat >"$work/server.pl" <<'END'
use IO::Socket::INET;
my $listener = IO::Socket::INET->new(LocalPort => 7000, Listen => 5, ReuseAddr => 1) or die;
while (my $client = $listener->accept()) { print $client $client->sockhost(), " serves ", $client->peerhost(), "\n" }
END
# What begins as guest 1 ends as the others' server: its command is over, but not the guest.
cat >"$work/three.sh" <<'END'
ask() { exec 3<>"/dev/tcp/$1/7000" && read -r line <&3 && echo "$line"; }
echo "I am $GUEST of $GUESTS, $(uname -n), with $PEERS, MTU $(cat /sys/class/net/eth0/mtu)"
ls /sys/class/net | grep -c eth
perl "$WORK/server.pl" &
"$PEERDMA_VM/barrier" up --listening 7000 || exit
case $GUEST in
1)	exit 0 ;;
2)	"$PEERDMA_VM/barrier" never && exit 9
	ask guest1
	echo "<4>the sky is falling" >/dev/kmsg
	for _ in $(seq 600); do
		[ ! -e "$WORK/out/done" ] || break
		sleep 0.2
	done
	printf "no end of line"
	exit 3 ;;
3)	ask guest2
	ask guest2-eth1
	echo "to stderr" >&2
	echo >"$WORK/out/done" ;;
esac
END
mkdir "$work/out"
set -- --timeout 120 --cpus 1 --gpus 0 --cards 0 --env "WORK=$work" --out "$work/out" --log "$work/wire.log"
"$top/vm/run" "$@" -- bash "$work/three.sh" \
	--- --nics 2 --allow 'sky is' -- bash "$work/three.sh" \
	--- --nics 2 -- bash "$work/three.sh" >"$work/stdout" 2>"$work/stderr"
expect "the exit code is that of the guest that failed" 3 $?
contains "number, name, peers and MTU of guest 1" "^guest1: I am 1 of 3, guest1, with 10.77.0.2 10.77.0.3, MTU 4500$" "$work/stdout"
contains "and of guest 3" "^guest3: I am 3 of 3, guest3, with 10.77.0.1 10.77.0.2, MTU 4500$" "$work/stdout"
expect "a guest's own options" "guest1: 1 guest2: 2 guest3: 2" "$(grep '^guest.: [0-9]$' "$work/stdout" | sort | tr '\n' ' ' | sed 's/ $//')"
contains "a server outlives its command" "^guest2: 10.77.0.1 serves 10.77.0.2$" "$work/stdout"
contains "a guest that only waits for what is over is let go" "^guest2: vm/barrier: 'never': ended without it: guest1" "$work/stderr"
contains "two guests beside the first" "^guest3: 10.77.0.2 serves 10.77.0.3$" "$work/stdout"
contains "second adapters" "^guest3: 10.77.1.2 serves 10.77.1.3$" "$work/stdout"
contains "standard error has its label, too" "^guest3: to stderr$" "$work/stderr"
contains "the end of a line is made up for" "^guest2: no end of line$" "$work/stdout"
expect "who failed is said last" "vm/run: guest2 failed first (3); guest1 ended with 0, guest3 ended with 0" "$(tail -1 "$work/stderr")"
contains "a log for each guest" "the sky is falling" "$work/wire.guest2.log"
if grep -q "FAILED" "$work/stderr"; then fail "--allow of one guest"; else pass "--allow of one guest"; fi

# ---- one dies ----------------------------------------------------------------------

"$top/vm/run" "$@" -- sh -c '"$PEERDMA_VM/barrier" never; echo "left alone"; sleep 1000' \
	--- sh -c 'echo "<4>the sky is falling" >/dev/kmsg; echo o >/proc/sysrq-trigger; sleep 1000' >"$work/stdout" 2>"$work/stderr"
expect "a dead guest's exit code" 125 $?
contains "the other is not left waiting" "^guest1: left alone$" "$work/stdout"
contains "it is said who died" "^vm/run: guest2: FAILED (125): QEMU ended (0) before the command did" "$work/stderr"
# It is in the records of its log, if they came out in time, or on its console.
contains "a dead guest's last words" "the sky is falling" "$work/stderr"
expect "the other is ended" "vm/run: guest2 failed first (125); guest1 was ended" "$(tail -1 "$work/stderr")"

# ---- what needs no boot -----------------------------------------------------------------

"$top/vm/run" --guests 2 -- true --- true >"$work/stdout" 2>&1
expect "--guests and several commands" 125 $?
"$top/vm/run" --guests 2 --shell >"$work/stdout" 2>&1
expect "a shell in several guests" 125 $?
"$top/vm/run" --dry-run --guests 2 --gpus 1 --- --gpus 2 >"$work/stdout" 2>&1
expect "--guests only where there is one command" 125 $?
"$top/vm/run" --dry-run --nics 1 --gpus 1 --- --gpus 2 >"$work/stdout" 2>&1
expect "each guest has the first one's options and its own" "1 1 2 1" \
	"$(while read -r line; do echo "$line" | grep -o "ivshmem-plain,\|virtio-net-pci," | sort | uniq -c | awk '{ print $1 }'; done <"$work/stdout" | tr '\n' ' ' | sed 's/ $//')"

"$top/vm/run" --dry-run --nics 1 >"$work/stdout" 2>&1
if grep -q netdev "$work/stdout"; then fail "a lone adapter sends into the void"; else pass "a lone adapter sends into the void"; fi

[ $failed = 0 ] && echo "vm-wire: all ok"
exit $failed
