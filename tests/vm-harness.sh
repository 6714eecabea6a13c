#!/bin/sh
# SPDX-License-Identifier: MIT
#
# vm/run keeps its promises: exit codes, streams, the kernel's log, the topologies.
set -u

. "$(dirname "$0")/host.sh"

vm() { "$top/vm/run" "$@"; }
# Where the machine does not matter, the one that boots fastest.
small() { "$top/vm/run" --cpus 1 --gpus 0 --cards 0 "$@"; }

# ---- one run that sees everything of a command ------------------------------

mkdir "$work/out folder" "$work/cwd"
cat >"$work/command.sh" <<'END'
echo first
# Until the host has seen that line: it can only if lines come as they are written.
for _ in $(seq 1200); do
	[ ! -e "$OUT/seen" ] || { echo streamed; break; }
	sleep 0.1
done
echo "to stderr" >&2
echo "also to stderr" >/dev/stderr
echo "arg:$1 env:$COLOUR cwd:$(pwd) user:$(id -u) stdin:$(wc -c)"
echo "kernel:$(uname -r) modules:$(ls /lib/modules/$(uname -r)/modules.dep)"
mount | grep -q '/sys/kernel/debug ' && mount | grep -q '/sys/kernel/tracing ' && echo mounts
# Of two programs that ran before, one has copies of all that it opens, and one does not.
trace=/sys/kernel/tracing
cat /proc/uptime >/dev/null; /bin/true
echo 1 >$trace/events/9p/9p_client_req/enable
cat /proc/uptime >/dev/null; /bin/true
echo 0 >$trace/events/9p/9p_client_req/enable
grep -q ' true-.*9p_client_req' $trace/trace && echo "requests to the host: $(grep -c ' cat-.*9p_client_req' $trace/trace)"
# If the kernel uses cmpxchg16b, the instruction must change ZF and no other flag.
echo "cmpxchg16b: $(grep -qw cx16 /proc/cpuinfo || echo not used,) $("${0%/*}/flags")"
grep -q 127.0.0.1 /proc/net/fib_trie && echo loopback
echo written >/usr/vm-harness-test && echo "root is writable"
echo "from the guest" >"$OUT/file"
sleep 1000 &			# what is left running holds nothing up
# What is written through the BAR is in the host's file.
python3 "${0%/*}/write.py"
kill -TERM $$
END
cat >"$work/write.py" <<'END'
import glob, mmap, os
for device in glob.glob("/sys/bus/pci/devices/*"):
    if open(device + "/device").read().strip() == "0x1110":
        open(device + "/enable", "w").write("1")
        bar = mmap.mmap(os.open(device + "/resource2", os.O_RDWR), 1 << 20)
        bar[4096:4101] = b"hello"
END
cat >"$work/flags.c" <<'END'
#include <stdio.h>

static struct { unsigned long low, high; } __attribute__((aligned(16))) pair;

int main(void)
{
	unsigned long before, after, sum = 0, none = 0;

	/*
	 * popf makes QEMU store the flags themselves. add makes it keep the operands instead, and compute the flags when they
	 * are needed. Both numbers are equal, so cmpxchg16b must set ZF (0x40) and change no other flag.
	 */
	__asm__ volatile("pushf\n\tpopf\n\tadd %[much], %[sum]\n\tpushf\n\tpop %[before]\n\t"
			 "pushf\n\tpopf\n\tadd %[much], %[sum]\n\tcmpxchg16b %[pair]\n\tpushf\n\tpop %[after]"
			 : [before] "=&r"(before), [after] "=&r"(after), [pair] "+m"(pair), [sum] "+r"(sum), "+a"(none), "+d"(none)
			 : [much] "r"(0x04046000UL), "b"(0UL), "c"(0UL) : "cc", "memory");
	return printf("%s: %#lx, %#lx\n", after == (before | 0x40) ? "right" : "wrong", before, after) < 0;
}
END
cc -O1 -mno-red-zone -Wall -Werror -o "$work/flags" "$work/flags.c"
(
	cd "$work/cwd" || exit
	COLOUR=blue vm --vram 1M --vram-file "$work/vram" --out "$work/out folder" --env COLOUR --env "OUT=$work/out folder" --log "$work/log" \
		-- sh "$work/command.sh" "two words" 2>"$work/err"
	echo $? >"$work/code"
) | while read -r line; do
	[ "$line" != first ] || : >"$work/out folder/seen"
	echo "$line"
done >"$work/stdout"
expect "a command ended by a signal" 143 "$(cat "$work/code")"
contains "arguments, environment, folder, user, standard input" \
	"^arg:two words env:blue cwd:$work/cwd user:0 stdin:0$" "$work/stdout"
contains "the kernel's own modules" "^kernel:6.1\..* modules:/lib/modules/6.1\..*/modules.dep$" "$work/stdout"
contains "debugfs and tracefs" "^mounts$" "$work/stdout"
contains "what programs open as they start is copied up" "^requests to the host: 0$" "$work/stdout"
contains "cmpxchg16b is right, or the kernel does not use it" "^cmpxchg16b: \(not used,\| right:\)" "$work/stdout"
contains "loopback is up" "^loopback$" "$work/stdout"
contains "the guest can write everywhere" "^root is writable$" "$work/stdout"
if [ -e /usr/vm-harness-test ]; then fail "and the host does not see it"; else pass "and the host does not see it"; fi
expect "standard error apart" "to stderr also to stderr" "$(grep -v '^vm/run' "$work/err" | tr '\n' ' ' | sed 's/ $//')"
expect "--out is shared with the host" "from the guest" "$(cat "$work/out folder/file" 2>/dev/null)"
contains "--log has the boot" "Linux version 6.1" "$work/log"
contains "output is streamed" "^streamed$" "$work/stdout"
expect "--vram-file" hello "$(dd if="$work/vram/vram0" bs=1 skip=4096 count=5 2>/dev/null)"

# ---- failures ----------------------------------------------------------------

small --timeout 10 -- sh -c 'echo begun; sleep 1000' >"$work/stdout" 2>&1
expect "a timeout's exit code" 124 $?
contains "a timeout is said" "timeout: the command did not end in 10 s" "$work/stdout"

small -- sh -c 'echo "<6>all is well" >/dev/kmsg; echo "<4>the sky is falling" >/dev/kmsg; exit 3' >"$work/stdout" 2>&1
expect "a kernel warning's exit code" 126 $?
contains "a kernel warning is shown" "warning: the sky is falling" "$work/stdout"
contains "the command's own code too" "ended with 3" "$work/stdout"
if grep -q "all is well" "$work/stdout"; then fail "information is no failure"; else pass "information is no failure"; fi

small -- sh -c 'echo c >/proc/sysrq-trigger' >"$work/stdout" 2>&1
expect "a panic's exit code" 126 $?
contains "a panic's reason is shown" "sysrq triggered crash" "$work/stdout"

# What is judged how, as options say.
cat >"$work/judge.py" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
from harness.judge import Judge
from harness.options import parse

def complaints(*argv):
    options, = parse([*argv, "--", "true"])
    judge = Judge(options.dmesg_max, options.allow)
    judge.take("4,1,1,-;the boot's own")
    judge.mark = 1
    for number, record in enumerate(["4;the sky is falling", "5;a notice", "6;WARNING: CPU: 0 not fine"], 2):
        level, text = record.split(";")
        judge.take(f"{level},{number},{number},-;{text}")
    return [line.split(": ", 1)[1] for line in judge.complaints()]

both = ["the sky is falling", "WARNING: CPU: 0 not fine"]
# How an oops begins, on one kernel or the other; and what only looks alike.
oopses = ["invalid opcode: 0000 [#1] PREEMPT SMP NOPTI", "Oops: invalid opcode: 0000 [#1] SMP", "Oops: 0002 [#1] SMP",
          "divide error: 0000 [#2] SMP", "general protection fault, probably for address 0x6: 0000 [#1] SMP",
          "Internal error: Oops: 0000000096000004 [#1] SMP", "kernel BUG at lib/list_debug.c:59!",
          "traps: prog[12] general protection fault ip:401000 sp:7ffe0000 error:0 in prog[401000+1000]"]
print(Judge(5, []).faults(oopses + ["pci 0000:00:01.0: [1234:11e8] type 00", "nvme0: 0000 [#]"]) == oopses)
print(complaints() == both, complaints("--allow", "sky is") == both[1:], complaints("--dmesg-max", "warning") == both[1:],
      complaints("--dmesg-max", "info") == [both[0], "a notice", both[1]], complaints("--allow", "sky", "--allow", "not fine") == [])
END
expect "--allow, --dmesg-max, and a fault at any level" "True
True True True True True" "$(python3 "$work/judge.py" "$top/vm")"

# A report of lockdep's is left out only when it is one that is known.
cat >"$work/reports.py" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
from harness.judge import Judge

def complaints(lock):
    judge = Judge(5, [])
    judge.mark = 0
    texts = ["before", "", "=====", "WARNING: possible circular locking dependency detected", "6.1",
             "irq/25-pciehp/37 is trying to acquire lock:", f"1 ({lock}){{.+.+}}-{{3:3}}, at: pciehp_unconfigure_device+0x1",
             "but task is already holding lock:", "2 (pci_rescan_remove_lock){+.+.}-{3:3}, at: pciehp_unconfigure_device+0x2",
             "-> #1 (pci_rescan_remove_lock){+.+.}-{3:3}:", "</TASK>", "after"]
    for number, text in enumerate(texts, 1):
        judge.take(f"4,{number},{number},-;{text}")
    return [line.split(": ", 1)[1] for line in judge.complaints()]

print(complaints("&ctrl->reset_lock") == ["before", "after"], len(complaints("&other->lock")))
END
expect "reports that are known" "True 12" "$(python3 "$work/reports.py" "$top/vm")"

# Only the emulator's own fault, before the command has begun, is met with another boot.
cat >"$work/slips.py" <<'END'
import argparse, sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
from harness.session import Session

def slipped(console, started=None, accel="tcg"):
    session = Session.__new__(Session)
    session.options, session.started, session.console = argparse.Namespace(accel=accel), started, console
    return session.emulator_slipped()

oops = b"[    6.8] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI\r\n[    6.9] Kernel panic - not syncing\r\n"
print(slipped(oops), slipped(oops.replace(b"Oops: ", b"")), slipped(oops, started=1.0), slipped(oops, accel="kvm"),
      slipped(oops.replace(b"int3", b"0002")))
END
expect "whose fault an early panic is" "True True False False False" "$(python3 "$work/slips.py" "$top/vm")"

# tests/run, for the three that follow.
cat >"$work/runner.py" <<'END'
import importlib.machinery, importlib.util, sys
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("tests_run", sys.argv[1] + "/tests/run")
run = importlib.util.module_from_spec(importlib.util.spec_from_loader("tests_run", loader))
loader.exec_module(run)
END

# Tests that share a machine: whose the failure is.
cat >"$work/turns.py" <<'END'
import sys
from runner import run
run.LOGS = sys.argv[2]

def turns(text, status="PASS", reason="exit code 0"):
    with open(sys.argv[2] + "/whole.log", "w") as log:
        log.write(text)
    whole = run.Result("a", status, reason, 9, sys.argv[2] + "/whole.log", 3)
    return " ".join(result.status for result in run.in_turn(["a", "b", "c"], whole))

a, b, c = ("in-turn: begin /x.sh\n" + text for text in ("fine\nin-turn: end 0 1.5\n", "no GPU\nin-turn: end 77 0.1\n", "in-turn: end 0 2\n"))
broken, boot = ("in-turn: begin /x.sh\n" + text for text in ("in-turn: end 3 1\n", "boot-again: quiet\nin-turn: end 0 1\n"))
print(turns(a + b + c), turns(a + broken, "FAIL", "exit code 1"), turns(a + "in-turn: begin /x.sh\n", "FAIL", "exit code 124"), sep=", ")
print(turns(a + a + c, "FAIL", "exit code 126; vm/run: FAILED (126): the kernel complained"), turns("", "FAIL", "exit code 125"), sep=", ")
print(turns(a + b + c, "FAIL", "exit code 125"), turns(boot + boot + c), sep=", ")
END
mkdir "$work/logs"
expect "whose a failure is in a shared machine" "PASS SKIP PASS, PASS FAIL FAIL, PASS FAIL FAIL
FAIL FAIL FAIL, FAIL FAIL FAIL
FAIL FAIL FAIL, FAIL FAIL PASS" "$(python3 "$work/turns.py" "$top" "$work/logs")"

# A test that asks for another boot: with which words on the kernel's command line, and what comes of it.
cat >"$work/boots.py" <<'END'
import sys
from runner import run
run.LOGS = sys.argv[2]

def boots(*ends, words="quiet"):
    """ends: exit code and output of each boot; the answer has the --append and the BOOT of each, and the result."""
    seen = []

    def execute(name, argv, timeout):
        code, text = ends[len(seen)]
        seen.append(f"{argv[argv.index('--append') + 1]} {argv[argv.index('--env') + 1]}")
        with open(run.log_path(name), "w") as log:
            log.write(text)
        return run.Result(name, "FAIL" if code else "PASS", f"exit code {code}", 2, run.log_path(name), 1)
    run.execute = execute
    result = run.boots("boots", ["vm/run"], ["script"], words, most=3)
    with open(result.log) as log:
        return f"{', '.join(seen)}: {result.status}, {result.reason}, {result.seconds} s, log {log.read().split()}"

again = (0, "boot-again: iommu=pt\n")
print(boots((0, "fine\n")))
print(boots(again, (0, "boot-again: pci=a;b\n"), (0, "fine\n")))
print(boots((3, again[1])))
print(boots((0, again[1] + "fine\n"), words=""))
print(boots(again, (3, "bad\n")))
print(boots(again, again, again, words=""))
END
expect "a test that asks for another boot" "quiet BOOT=1: PASS, exit code 0, 2 s, log ['fine']
quiet BOOT=1, quiet iommu=pt BOOT=2, quiet iommu=pt pci=a;b BOOT=3: PASS, exit code 0, 6 s, log \
['boot-again:', 'iommu=pt', 'boot-again:', 'pci=a;b', 'fine']
quiet BOOT=1: FAIL, exit code 3, 2 s, log ['boot-again:', 'iommu=pt']
 BOOT=1: PASS, exit code 0, 2 s, log ['boot-again:', 'iommu=pt', 'fine']
quiet BOOT=1, quiet iommu=pt BOOT=2: FAIL, exit code 3, 4 s, log ['boot-again:', 'iommu=pt', 'bad']
 BOOT=1, iommu=pt BOOT=2, iommu=pt iommu=pt BOOT=3: FAIL, after 3 boots it asks for another, 6 s, log \
['boot-again:', 'iommu=pt', 'boot-again:', 'iommu=pt', 'boot-again:', 'iommu=pt']" "$(python3 "$work/boots.py" "$top" "$work/logs")"

# What is run now and then has two processors.
cat >"$work/processors.py" <<'END'
import sys
from runner import run
with open(sys.argv[2], "w") as script:
    script.write("# vm: --cpus 1 --gpus 2\n# vm: --gpus 1 --cpus 1\n# vm-more: --gpus 3\n")
for kernel, more in (None, False), ("7.2", False), (None, True):
    print(run.configurations(sys.argv[2], kernel, more))
# What older kernels lack.
with open(sys.argv[2], "w") as script:
    script.write("# vm: --gpus 1\n# vm-newer: --gpus {2,3}\n")
for kernel, more in (None, False), ("6.12", True), ("debug-7.2", False), (None, True):
    print(run.configurations(sys.argv[2], kernel, more))
END
expect "--cpus 1, with and without --kernel and --more" "['--cpus 1 --gpus 2', '--gpus 1 --cpus 1']
['--gpus 2 --kernel 7.2', '--gpus 1 --kernel 7.2']
['--gpus 2', '--gpus 1', '--gpus 3']
['--gpus 1']
['--gpus 1 --kernel 6.12']
['--gpus 1 --kernel debug-7.2', '--gpus 2 --kernel debug-7.2', '--gpus 3 --kernel debug-7.2']
['--gpus 1', '--gpus 2 --kernel 7.2', '--gpus 3 --kernel 7.2']" "$(python3 "$work/processors.py" "$top" "$work/script")"

vm --no-such-option -- true >"$work/stdout" 2>&1
expect "a wrong option" 125 $?
vm --vram 3M -- true >"$work/stdout" 2>&1
expect "an impossible size" 125 $?
contains "and why" "power of two" "$work/stdout"

# A killed vm/run leaves no QEMU behind. The marker is an argument of ours alone.
"$top/vm/run" --append "marker=$work" -- sleep 1000 >"$work/stdout" 2>&1 &
run=$!
# until_qemu CODE: pgrep's, 0 there is one, 1 there is none; for a minute at most
until_qemu() {
	for _ in $(seq 60); do
		pgrep -f "qemu.*marker=$work" >/dev/null
		[ $? != "$1" ] || break
		sleep 1
	done
}
until_qemu 0
kill -KILL $run
until_qemu 1
if pgrep -f "qemu.*marker=$work" >/dev/null; then fail "QEMU ends with vm/run"; else pass "QEMU ends with vm/run"; fi

# ---- devices and topologies ----------------------------------------------------

for topology in ports switch sockets; do
	vm --dry-run --topology $topology --gpus 2 --vram 64M,128M --cards 2 --iommu on >"$work/stdout" 2>&1
	expect "--dry-run, $topology" 0 $?
	expect "two GPUs and two cards, $topology" "2 2" \
		"$(grep -o ivshmem-plain "$work/stdout" | wc -l) $(grep -o edu, "$work/stdout" | wc -l)"
done

# Another user's tree: nothing in it can be written. Root can write everywhere, so root asks as another user.
mkdir "$work/tree" "$work/tree/build"
cp -r "$top/vm" "$work/tree"
chmod 755 "$work" "$work/tree/build"
find "$work/tree/vm" -exec chmod a+rX {} +
mkdir -m 755 "$work/tree/build/cache"
chmod a-w "$work/tree/build/cache"
as_other=
[ "$(id -u)" != 0 ] || as_other="setpriv --reuid 65534 --regid 65534 --clear-groups"
$as_other "$work/tree/vm/run" --dry-run >"$work/stdout" 2>&1
expect "another user's tree: exit code" 125 $?
contains "another user's tree: remedy" "cannot be written by this user; run it as the owner of $work/tree" "$work/stdout"
expect "another user's tree: one line" 1 "$(wc -l <"$work/stdout")"
chmod u+w "$work/tree/build/cache"

# In the guest: every GPU and card as "kind parent bridges node translated".
# What lies between a device and the processor: its path in sysfs tells.
cat >"$work/devices.sh" <<'END'
for device in /sys/bus/pci/devices/*; do
	# No commands: a machine has many devices, and starting a command takes long.
	read -r vendor <$device/vendor
	read -r model <$device/device
	case $vendor:$model in
	0x1af4:0x1110) kind=gpu ;;
	0x1234:0x11e8) kind=card ;;
	0x1b36:0x0010) kind=nvme ;;
	*) continue ;;
	esac
	path=$(readlink -f $device)
	echo "$kind bus=$(echo $path | cut -d/ -f4) bridges=$(echo $path | cut -d/ -f5- | tr / '\n' | wc -l)" \
		"port=$(echo $path | cut -d/ -f5) node=$(cat $device/numa_node)" \
		"domain=$(cat $device/iommu_group/type 2>/dev/null || echo none)"
done | sort
END

# check TOPOLOGY IOMMU DOMAIN KERNEL [OPTION...], with two GPUs and two cards
check() {
	out=$work/devices.$1.$2
	topology=$1 iommu=$2 domain=$3 kernel=$4
	shift 4
	vm --topology "$topology" --iommu "$iommu" --kernel "$kernel" --gpus 2 --vram 64M,128M --cards 2 "$@" -- sh "$work/devices.sh" >"$out" 2>&1
	code=$?
	expect "boots: $topology, IOMMU $iommu, $kernel" 0 $code
	[ $code = 0 ] || sed 's/^/    /' "$out"
	expect "two GPUs and two cards: $topology, IOMMU $iommu" "2 2" "$(grep -c ^gpu "$out") $(grep -c ^card "$out")"
	expect "each with its IOMMU domain: $topology, IOMMU $iommu" 4 "$(grep -c "^\(gpu\|card\) .*domain=$domain" "$out")"
	case $topology in
	switch)	# root port, upstream, downstream, device; all below one root port
		expect "one switch" "4 1" "$(grep -c bridges=4 "$out") $(grep -o 'port=[^ ]*' "$out" | sort -u | wc -l)" ;;
	sockets)
		expect "a GPU on each socket" "1 1" \
			"$(grep -c '^gpu bus=pci0000:20 .*node=0' "$out") $(grep -c '^gpu bus=pci0000:40 .*node=1' "$out")"
		expect "a card on each socket" "1 1" \
			"$(grep -c '^card bus=pci0000:20 .*node=0' "$out") $(grep -c '^card bus=pci0000:40 .*node=1' "$out")" ;;
	esac
}
newer=6.12
"$top/vm/fetch-kernel" --known 6.12 >/dev/null || newer=6.1
truncate -s 16M "$work/disk"
check sockets pt identity 6.1 --nvme "$work/disk"
expect "an NVMe disk on the second socket" 1 "$(grep -c '^nvme .*node=1' "$work/devices.sockets.pt")"
check switch on DMA $newer

# One GPU and several cards: all cards on the other socket.
vm --dry-run --topology sockets --cards 3 >"$work/stdout" 2>&1
# places DEVICE: how many of these are on which socket
places() {
	for slot in $(grep -o "$1,[^ ]*bus=slot[0-9]*" "$work/stdout" | sed 's/.*bus=//'); do
		grep -o "id=$slot,bus=socket[01]" "$work/stdout" | sed 's/.*bus=//'
	done | sort | uniq -c | xargs
}
expect "the GPU on socket 0, all cards on socket 1" "1 socket0 3 socket1" "$(places ivshmem-plain) $(places edu)"

[ $failed = 0 ] && echo "vm-harness: all ok"
exit $failed
