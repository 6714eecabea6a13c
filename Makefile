# SPDX-License-Identifier: MIT
# "make" alone tells what there is to make. Everything is built below build/.

KVER	?= 6.1
# Of the guest, the libraries and the modules, if not this machine's: arm64, and PAGES=16k there (docs/arm64.md).
ARCH	=
PAGES	=
unexport ARCH
other	= $(addprefix -,$(ARCH))$(addprefix -,$(PAGES))
kernel	= $(KVER)$(other)
# Which kernel KASAN and lockdep are to be in.
debug	= debug$(filter-out -6.1,-$(KVER))
user-folder = build/user$(addprefix -,$(ARCH))
PREFIX	?= /usr/local
BUILD	:= $(CURDIR)/build
CC	?= cc
# Administrators' programs (depmod, modinfo) are not on every user's PATH.
export PATH := $(PATH):/usr/sbin:/sbin
SERIES	:= 6.1 6.12

.PHONY: help demo demo-rdma demo-storage demo-capture demo-pipeline demo-mpi check check-fast check-thirdparty check-gpu check-more debug-kernel check-debug \
	check-debug-rounds check-arm64 check-kernel mutate bench fuzz user user-setup modules modules-all vm-shell install \
	install-modules install-softgpu install-peer-core uninstall-modules deb rpm site check-packages style clean distclean

help:
	@echo 'peerdma: PCIe devices reach GPU memory by DMA, tried and tested without a GPU'
	@echo
	@echo '  make demo                 the whole path in a virtual machine: GPU memory, DMA card, revocation'
	@echo '  make demo MODE=process    the same story in one process, in two seconds; a compiler is enough'
	@echo '  make demo-rdma            two machines on a wire: RDMA from GPU memory to GPU memory, and revocation'
	@echo '  make demo-rdma MODE=one   the same in one machine'
	@echo '  make demo-storage         files on an NVMe disk, read into GPU memory and written from it by the disk itself'
	@echo '  make demo-capture         frames of a camera, written into GPU memory by a frame grabber itself'
	@echo '  make demo-pipeline        two machines: camera, GPU, RDMA, GPU, file; no leg through host memory'
	@echo '  make demo-mpi             MPI and OpenSHMEM over UCX on memory of all kinds, in one machine; the first time it'
	@echo '                            builds UCX and Open MPI (half an hour); MODE=two: between two machines, over RDMA'
	@echo '  make check                all tests, in virtual machines too (about 20 minutes on 2 cores)'
	@echo '  make check-fast           only those that need no virtual machine'
	@echo '  make check-thirdparty GDRCOPY=... LIBNVM=...   drivers of others, see docs/third-party.md'
	@echo '  make check-gpu            the tests that CUDA is enough for, on this machine'"'"'s GPU: docs/real-gpu.md'
	@echo '  make check-more           machines that are worth a run now and then: docs/testing.md'
	@echo '  make debug-kernel         build a Linux that notices more: KASAN, lockdep, kmemleak... (6 minutes);'
	@echo '                            KVER=7.2, here and for the next two: one of 2026'
	@echo '  make check-debug          all tests of virtual machines on it'
	@echo '  make check-debug-rounds ROUNDS=N   random rounds on it, with revocations at random'
	@echo '  make check-kernel KVER=7.2   all tests of virtual machines on one kernel: docs/testing.md'
	@echo '  make check-packages       installs the packages in bare Debian 12 and 13: docs/install.md'
	@echo '  make check-arm64          cross-builds for arm64, and tests there, emulated: docs/arm64.md'
	@echo '  make mutate               break the code in each place that a rule stands on: docs/testing.md'
	@echo '  make fuzz FUZZ_TARGET=... SECONDS=60   looks for input that breaks something: docs/testing.md'
	@echo '  make bench                what a pin costs, and how fast copies are: bench/README.md'
	@echo
	@echo '  make user                 libraries and programs, to build/user'
	@echo '  make modules              kernel modules for Linux KVER, to build/modules/KVER'
	@echo '  make modules-all          the same for each of $(SERIES)'
	@echo '  make vm-shell             a shell in a virtual machine with the modules at hand'
	@echo '  make install              libraries, headers, programs and manual pages, to DESTDIR and PREFIX'
	@echo '  make install-modules      the bridge, for the running kernel or KVER, below DESTDIR/lib/modules: docs/install.md'
	@echo '  make uninstall-modules    takes it away again'
	@echo '  make install-softgpu      the software GPU, where other drivers look for NVIDIA'"'"'s'
	@echo '  make deb, make rpm        packages, to build/deb and build/rpm'
	@echo '  make site                 README, docs and manual pages as a static site, to build/site/html'
	@echo '  make install-peer-core    peer memory for the kernel'"'"'s RDMA core, where nv_peer_mem and nvidia-peermem look'
	@echo '  make style                checkpatch and sparse on kernel code, both compilers on the rest'
	@echo '  make clean, distclean     remove what was built; distclean: the kernels fetched, too'
	@echo
	@echo '  KVER=$(KVER)      6.1, 6.12 (kernels of Debian 12), 7.2 (of Debian 13), or a folder with kernel headers'
	@echo '  ARCH=arm64    for demo, user, modules, install, vm-shell: see docs/arm64.md'
	@echo '  DEMO_ARGS=    for the demonstration; DEMO_ARGS=--help tells'
	@echo '  VM_ARGS=      for the virtual machine, such as "--iommu on --topology switch"; vm/run --help tells'
	@echo
	@echo 'demo and check install the Debian packages that they miss; nothing else needs root.'

# ---- the demonstrations: vm/demo -------------------------------------------

MODE	?= vm
run-demo = @KVER='$(KVER)' ARCH='$(ARCH)' PAGES='$(PAGES)' CC='$(CC)' vm/demo $(1) '$(MODE)' $(VM_ARGS) -- $(DEMO_ARGS)

demo:
	$(call run-demo,gpu)

demo-rdma:
	$(call run-demo,rdma)

demo-storage:
	$(call run-demo,storage)

demo-capture:
	$(call run-demo,capture)

demo-pipeline:
	$(call run-demo,pipeline)

demo-mpi:
	$(call run-demo,mpi)

# ---- building --------------------------------------------------------------

user: user-setup
	@$$(test -t 1 || echo vm/progress) ninja -C $(user-folder)

user-setup:
	@vm/deps.sh user $(ARCH)
	@mkdir -p $(BUILD)
	@test -e $(user-folder)/build.ninja || \
		{ cross=$(if $(ARCH),$$(vm/fetch-arch $(ARCH) --cross-file)) && \
		vm/progress --log $(user-folder)-setup.log meson setup $${cross:+--cross-file $$cross} $(user-folder); } || \
		{ cat $(user-folder)-setup.log; exit 1; }

modules:
	@vm/deps.sh modules $(ARCH)
	@vm/build-modules $(kernel)

modules-all:
	@vm/deps.sh modules $(ARCH)
	@for series in $(SERIES); do vm/build-modules $$series$(other) || exit; done

vm-shell: user modules
	@vm/deps.sh vm $(ARCH)
	@vm/run --kernel $(kernel) --allow . $(VM_ARGS) --env BUILD=$(CURDIR)/$(user-folder) \
		--env MODDIR=$(BUILD)/modules/$(kernel) --shell

# ---- installing ------------------------------------------------------------

install: user
	@meson configure $(user-folder) -Dprefix=$(PREFIX)
	@meson install -C $(user-folder) $(if $(DESTDIR),--destdir $(abspath $(DESTDIR)))
	@test -n "$(DESTDIR)" || ldconfig

# The bridge, for the running kernel unless KVER says which; a GPU driver's headers are found by themselves
# (NVIDIA_SRC_DIR, AMD_RDMA_DIR: where else). softgpu is not among them.
bridge-kver = $(if $(filter file,$(origin KVER)),$(shell uname -r),$(KVER))
install-modules:
	@packaging/install-modules bridge $(bridge-kver)

# Those of softgpu go where other drivers look for NVIDIA's.
install-softgpu: modules
	@DESTDIR=$(DESTDIR) softgpu/install/install.sh build/modules/$(kernel)

uninstall-modules:
	@packaging/install-modules --uninstall bridge $(bridge-kver)

deb:
	@vm/deps.sh deb
	@packaging/build-deb

rpm:
	@packaging/build-rpm

site:
	@vm/deps.sh site
	@docs/site/build

# For builds that know OFED; peerdma/peermem/install/install.sh --help says what goes where.
install-peer-core: modules
	@DESTDIR=$(DESTDIR) peerdma/peermem/install/install.sh build/modules/$(kernel)

# ---- checking --------------------------------------------------------------

check:
	@vm/deps.sh check
	@tests/run

# Other people's drivers and programs on softgpu: docs/third-party.md.
check-thirdparty:
	@KVER=$(KVER) tests/thirdparty/all

debug-kernel:
	@vm/build-debug-kernel $(KVER)

check-debug: user debug-kernel
	@vm/deps.sh check
	@tests/run --kernel $(debug) 'build modules $(debug)' vm/

check-more: user modules-all
	@vm/deps.sh check
	@tests/run --more 'build modules 7.2' vm/doctor vm/documents vm/pair vm/pod vm/remedies

# On this machine's GPU, with NVIDIA's driver: docs/real-gpu.md.
check-gpu: user
	@tests/gpu/run

ROUNDS	?= 1000
check-debug-rounds: user debug-kernel
	@vm/deps.sh vm
	@vm/build-modules $(debug)
	@mkdir -p $(BUILD)/logs
	@vm/run --kernel $(debug) --timeout 0 --log $(BUILD)/logs/debug-rounds.log --cards 2 --gpus 2 --vram 32M \
		--dmesg-max info $(VM_ARGS) --env BUILD=$(BUILD)/user \
		--env MODDIR=$(BUILD)/modules/$(debug) --env TOP=$(CURDIR) \
		--env STRESS_ARGS="--rounds $(ROUNDS) --revoke 5 $(STRESS_ARGS)" -- tests/vm/random-rounds.sh

check-kernel: user
	@vm/deps.sh check
	@tests/run --kernel $(KVER) 'build modules $(KVER)' vm/

# The core's tests, and the cache's order, are about the processor alone, and qemu-user has that. The rest needs a kernel.
check-arm64:
	@$(MAKE) -s --no-print-directory user ARCH=arm64
	@meson test -C build/user-arm64 --no-rebuild --timeout-multiplier 20 --suite core --quiet
	@meson test -C build/user-arm64 --no-rebuild --timeout-multiplier 20 --quiet 'cache orders'
	@tests/run --kernel $(KVER)-arm64$(addprefix -,$(PAGES)) 'build modules $(KVER)-arm64$(addprefix -,$(PAGES))' vm/

# In bare systems below build/; it needs root, and what a mirror has.
check-packages:
	@vm/deps.sh deb lint bare rpm
	@packaging/build-deb
	@tests/packages/lint $(BUILD)/deb/*.changes
	@tests/packages/bridge
	@tests/packages/bare $(SUITES)
	@packaging/build-rpm
	@tests/packages/rpm

check-fast:
	@vm/deps.sh check
	@tests/run --no-vm

mutate:
	@vm/deps.sh check mutate
	@tests/mutate/run $(MUTATE_ARGS)

SECONDS	?= 60
fuzz:
	@vm/deps.sh check
	@$(MAKE) -s -j2 --no-print-directory -C tests/fuzz
	@for target in $(or $(FUZZ_TARGET),$$(tests/fuzz/run)); do \
		echo "== $$target"; tests/fuzz/run $$target $(SECONDS) || exit; done

bench: user modules
	@vm/deps.sh vm
	@bench/run $(BENCH_ARGS)

style:
	@vm/deps.sh check
	@tests/style

clean:
	rm -rf build/user build/user-* build/fuzz build/modules build/bridge build/softgpu build/deb build/rpm build/bare build/site build/logs build/process-demo build/check build/mutate

distclean:
	rm -rf build
