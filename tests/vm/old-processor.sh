#!/bin/sh
# SPDX-License-Identifier: MIT
#
# A processor without cmpxchg16b, as the first of x86-64 were: host memory is not monitored there, and the reason is said.
# vm-more: --cpus 1 --gpus 0 --cards 0 --cpu max,-erms,-fsrm,-la57,-cx16

. "$TOP/tests/vm/lib.sh"

said=$("$BUILD/tests/monitor/monitor_host" 2>&1)
[ $? = 1 ] || die "the monitor does not refuse: $said"
echo "$said" | grep "on this processor the system calls of the C library cannot be redirected" || die "another reason: $said"
