#!/bin/sh
# SPDX-License-Identifier: MIT
#
# MPI's demonstration in one guest, where "make demo-mpi" has built UCX, Open MPI and its programs.
# vm-more: --cards 0 --gpus 2 --vram 1G --memory 3G --timeout 3000 --kernel {6.1,6.12}

export MPI="$TOP/build/cache/mpi/root" PROGRAMS="$TOP/build/mpi"
if [ ! -e "$MPI/.openmpi" ] || [ ! -x "$PROGRAMS/oshmem" ]; then
	echo "MPI is not built: make demo-mpi"
	exit 77
fi
exec "$TOP/examples/mpi/demo.sh"
