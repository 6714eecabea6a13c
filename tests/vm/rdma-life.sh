#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Random rounds of memory that is registered with the software RDMA adapter: processes free, deregister, destroy and are
# killed in every order while requests run, modules are unloaded and the adapter is deleted under them, and everything comes
# back.  With SEED, processes choose the same each time.
# rxe says that registrations fail (where a module is gone), and newer ones each request.
# vm-allow: ^peerdma_hca: .*Unable to pin memory region
# vm-allow: rxe0: (qp|pd|mr)#[0-9]+ 
# vm: --nics 1 --cards 0 --timeout 600 --iommu on --env SEED=20261123 --env ROUNDS=10
# vm-more: --nics 1 --cards 0 --timeout 3600 --kernel {6.1,6.12,7.2} --iommu {off,on} --env ROUNDS=1000

. "$TOP/tests/vm/lib.sh"
. "$TOP/tests/vm/rdma.sh"

modules="softgpu nvidia peerdma peerdma_nvidia peerdma_peer_core peerdma_peermem"
rdma_start
# As on users' machines.
echo 2 >/proc/sys/kernel/randomize_va_space
load_modules
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
with_verbs rdma_life rxe0 eth0 "${SEED:-$(date +%s)}" "${ROUNDS:-1000}" || exit
rdma_stop
unload_modules
