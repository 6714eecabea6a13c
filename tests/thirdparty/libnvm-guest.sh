#!/bin/sh
# SPDX-License-Identifier: MIT
#
# In the guest: libnvm's module on softgpu and an NVMe disk. libnvm.sh has built
# it in LIBNVM and runs this.
set -u

. "$TOP/tests/vm/lib.sh"
: "${LIBNVM:?run me through tests/thirdparty/libnvm.sh}"

load_modules softgpu nvidia
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
insmod "$LIBNVM/output/libnvm.ko" || die "libnvm.ko does not load: see the kernel's log"
[ -c /dev/libnvm0 ] || die "libnvm.ko has not bound to the NVMe disk: no /dev/libnvm0"
"$LIBNVM/identify" /dev/libnvm0 nvme0 || die "identify ended with $?"
pins=$(cat /sys/kernel/debug/softgpu/*/pins | grep -c 0x)
[ "$pins" = 0 ] || die "$pins pins are left: $(cat /sys/kernel/debug/softgpu/*/pins)"
rmmod libnvm || die "libnvm.ko does not unload"
unload_modules softgpu nvidia
