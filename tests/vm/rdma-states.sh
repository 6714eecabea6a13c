#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Queue pairs of the software RDMA adapter that change their state, or begin again, while requests wait, fail or are repeated,
# and while packets arrive.
# vm-allow: rxe0: cq#[0-9]+ .*queue full
# vm-allow: rxe0: qp#[0-9]+ .*qp not ready to send
# vm-allow: rxe0: qp#[0-9]+ .*non-flush error status = 4
# vm: --nics 1 --cards 0 --gpus 1 --timeout 300 --kernel 6.12 --env SECONDS_EACH=3
# vm-more: --nics 1 --cards 0 --gpus 1 --timeout 3000 --kernel {6.1,6.12,7.2} --env SECONDS_EACH=60

. "$TOP/tests/vm/lib.sh"
. "$TOP/tests/vm/rdma.sh"

rdma_start
with_verbs rdma_states rxe0 "${SECONDS_EACH:-3}" || die "states"
rdma_stop
