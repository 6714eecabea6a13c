#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The commands that the documents print for a guest, page by page: tests/documents/run.
# The conformance tests' mistakes, and a registration that fails in docs/rdma.md.
# vm-allow: ^amdgpu: |client.nvp2p_test|rxe_mr_init_user: Unable to pin
# vm-more: --gpus 2 --cards 2 --nics 1 --timeout 600

export DOCUMENTS_BEGIN="$TOP/tests/documents/begin.sh" DOCUMENTS_BIN=/run/documents
mkdir -p "$DOCUMENTS_BIN"
# The guest's user is root.
printf '#!/bin/sh\nexec env "$@"\n' >"$DOCUMENTS_BIN/sudo"
chmod +x "$DOCUMENTS_BIN/sudo"
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
cd "$TOP" && exec python3 -S tests/documents/run vm "$@"
