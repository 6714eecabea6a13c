#!/bin/sh
# SPDX-License-Identifier: MIT
#
# RDMA's demonstration passes, in one guest and in two; and it notices what is broken on purpose.
# vm-allow: rxe0: (qp|pd|mr)#[0-9]+ 
# vm: --cpus 1 --nics 1 --cards 0 --gpus 2 --timeout 300 --iommu on
# vm-more: --guests 2 --cards 0 --gpus 1 --timeout 600 --iommu {on,off} --kernel {6.1,6.12,7.2}
# vm-more: --nics 1 --cards 0 --gpus 2 --timeout 300 --iommu {off,pt} --kernel {6.1,6.12}
# vm-more: --nics 1 --cards 0 --gpus 2 --timeout 600 --env BREAK=ignore-stop
# vm-more: --nics 1 --cards 0 --gpus 2 --timeout 600 --iommu on --env BREAK={flip-byte,leave-mr}

[ -n "${BREAK-}" ] || exec "$TOP/peers/hca/demo.sh"
"$TOP/peers/hca/demo.sh" --break "$BREAK"
[ $? = 1 ] || { echo "$0: $BREAK is not noticed" >&2; exit 1; }
