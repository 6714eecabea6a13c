#!/bin/sh
# SPDX-License-Identifier: MIT
#
# MPI's demonstration, in one guest and in two, where "make demo-mpi" has built UCX, Open MPI and its programs.
# vm-needs: build/cache/mpi/root/.openmpi: Open MPI is not built: make demo-mpi
# vm-needs: build/mpi/oshmem: the programs are not built: make demo-mpi
# vm-allow: rxe0: (qp|pd|mr)#[0-9]+ 
# vm-more: --cards 0 --gpus 2 --vram 1G --memory 3G --timeout 3000 --kernel {6.1,6.12}
# vm-more: --guests 2 --cards 0 --gpus 1 --vram 1G --memory 3G --timeout 3000 --iommu on --kernel {6.1,7.2}

export MPI="$TOP/build/cache/mpi/root" PROGRAMS="$TOP/build/mpi"
exec "$TOP/examples/mpi/demo.sh"
