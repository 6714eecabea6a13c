#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The OOM killer ends a process that has pins on a Tegra, and that cannot end by itself. The
# kernel then reports where memory was wanted, which is allowed here and in no other test.
# vm-allow: ^(tegra_hostile invoked oom-killer|Memory cgroup min protection |Memory cgroup out of memory: Killed process \d+ \(tegra_hostile\)|CPU: |Tainted: |Hardware name: |Call Trace:)
# vm-allow: ^ (</?TASK>|(\? )?[a-zA-Z_0-9.]+\+0x[0-9a-f]+/0x[0-9a-f]+)
# vm-allow: ^(RIP: 0033:|Code: |RSP: 002b:|RAX: |RDX: |RBP: |R10: |R13: )
# vm: --timeout 200 --cards 0 --vram 32M
# vm-more: --timeout 200 --cards 0 --vram 32M --kernel {6.12,7.2}

. "$TOP/tests/vm/lib.sh"

mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
load_modules softgpu nvidia_p2p peerdma peerdma_tegra
load_fuse
"$BUILD/tests/kernel/tegra_hostile" oom || exit
unload_modules softgpu nvidia_p2p peerdma peerdma_tegra
