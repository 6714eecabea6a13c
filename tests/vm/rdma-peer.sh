#!/bin/sh
# SPDX-License-Identifier: MIT
#
# ibv_reg_mr of a GPU pointer, all parts together: peerdma's peer memory core and client, and the software RDMA adapter.
# Every operation on such memory, windows and datagrams, too, and memory that is freed under requests.
# rxe logs registrations that fail, newer ones each request, too; 6.1 logs the request without an address handle that rdma_ud makes.
# vm-allow: ^peerdma_hca: qp#[0-9]+ Failed no address vector
# vm-allow: ^peerdma_hca: .*Unable to pin memory region
# vm-allow: rxe0: (qp|pd|mr)#[0-9]+ 
# vm: --nics 1 --cards 0 --timeout 300 --kernel 6.12 --iommu on --env ROUNDS=2
# vm-more: --nics 1 --cards 0 --timeout 7000 --kernel {6.1,6.12,7.2} --iommu {off,pt} --env ROUNDS=1000
# vm-more: --nics 1 --cards 0 --timeout 7000 --kernel {6.1,6.12,7.2} --iommu on --append iommu.strict={0,1} --env ROUNDS=1000

. "$TOP/tests/vm/lib.sh"
. "$TOP/tests/vm/rdma.sh"

modules="softgpu nvidia peerdma peerdma_nvidia peerdma_peer_core peerdma_peermem"
rdma_start
load_modules

# The verbs library as Debian has it: nothing of ours is loaded into the program.
for program in mrs windows ud rereg; do
	"$BUILD/tests/rdma/rdma_$program" rxe0 peer || die "$program: memory registered by its address"
done
"$BUILD/tests/rdma/rdma_mrs" rxe0 managed || die "managed memory"
for op in ${OPS:-write read atomic write-from read-into}; do
	"$BUILD/tests/rdma/rdma_revoke" rxe0 peer "$op" "${ROUNDS:-2}" || die "$op: memory was reached after its free"
done

unload_modules
rdma_stop
