# SPDX-License-Identifier: MIT
# "make" alone tells what there is to make. Everything is built below build/.

KVER	?= 6.1
# Of the guest, the libraries and the modules, if not this machine's: arm64, and PAGES=16k there (docs/arm64.md).
ARCH	=
PAGES	=
unexport ARCH
other	= $(addprefix -,$(ARCH))$(addprefix -,$(PAGES))
kernel	= $(KVER)$(other)
user-folder = build/user$(addprefix -,$(ARCH))
PREFIX	?= /usr/local
BUILD	:= $(CURDIR)/build
CC	?= cc
# Administrators' programs (depmod, modinfo) are not on every user's PATH.
export PATH := $(PATH):/usr/sbin:/sbin
SERIES	:= 6.1 6.12
say	= @echo "== $(1)"

.PHONY: help demo demo-vm demo-process check check-fast check-thirdparty check-gpu check-more debug-kernel \
	check-debug check-debug-rounds check-arm64 check-kernel mutate bench fuzz user modules modules-all kernel \
	vm-shell install install-modules style clean distclean

help:
	@echo 'peerdma: PCIe devices reach GPU memory by DMA, tried and tested without a GPU'
	@echo
	@echo '  make demo                 the whole path in a virtual machine: GPU memory, DMA card, revocation'
	@echo '  make demo MODE=process    the same story in one process, in two seconds; a compiler is enough'
	@echo '  make check                all tests, in virtual machines too (some 20 minutes on 2 cores)'
	@echo '  make check-fast           only those that need no virtual machine'
	@echo '  make check-thirdparty GDRCOPY=... LIBNVM=...   drivers of others, see docs/third-party.md'
	@echo '  make check-gpu            the tests that CUDA is enough for, on this machine'"'"'s GPU: docs/real-gpu.md'
	@echo '  make check-more           machines that are worth a run now and then: docs/testing.md'
	@echo '  make debug-kernel         build a Linux that notices more: KASAN, lockdep, kmemleak... (6 minutes)'
	@echo '  make check-debug          all tests of virtual machines on it'
	@echo '  make check-debug-rounds ROUNDS=N   random rounds on it, with revocations at random'
	@echo '  make check-kernel KVER=7.2   all tests of virtual machines on one kernel: docs/testing.md'
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
	@echo '  make install-modules      the kernel modules for KVER, below DESTDIR/lib/modules'
	@echo '  make style                checkpatch and sparse on kernel code, both compilers on the rest'
	@echo '  make clean, distclean     remove what was built; distclean: the kernels fetched, too'
	@echo
	@echo '  KVER=$(KVER)      6.1, 6.12 (kernels of Debian 12), 7.2 (of Debian 13), or a folder with kernel headers'
	@echo '  ARCH=arm64    for demo, user, modules, install, vm-shell: see docs/arm64.md'
	@echo '  DEMO_ARGS=    for the demonstration; DEMO_ARGS=--help tells'
	@echo '  VM_ARGS=      for the virtual machine, such as "--iommu on --topology switch"; vm/run --help tells'
	@echo
	@echo 'demo and check install the Debian packages that they miss; nothing else needs root.'

# ---- the demonstration ---------------------------------------------------

MODE	?= vm
demo: demo-$(MODE)

# The options that the demonstration itself needs stand in its "# vm:" line.
demo-vm:
	@vm/deps.sh user modules vm $(ARCH)
	$(call say,building libraries and programs)
	@$(MAKE) -s --no-print-directory user
	$(call say,building the kernel modules)
	@$(MAKE) -s --no-print-directory modules
	$(call say,booting Linux $(kernel) with software GPUs and DMA cards (a few seconds))
	@mkdir -p $(BUILD)/logs
	@vm/run --kernel $(kernel) --timeout 300 --log $(BUILD)/logs/demo.log \
		$$(sed -n 's/^# vm: *//p' peers/fpga/demo.sh) $(VM_ARGS) \
		--env BUILD=$(CURDIR)/$(user-folder) --env MODDIR=$(BUILD)/modules/$(kernel) --env TOP=$(CURDIR) \
		-- peers/fpga/demo.sh $(DEMO_ARGS)

# One call of the compiler, from nothing each time: it takes a second.
-include softgpu/core/files.mk
-include peers/fpga/process.mk
PROCESS_SRCS ?= $(addprefix softgpu/core/,$(CORE_SRCS)) softgpu/user/os.c peers/fpga/process_demo.c
PROCESS_FLAGS ?= -Isoftgpu/core -Isoftgpu/user -Isoftgpu/include

demo-process:
	@vm/deps.sh process
	@mkdir -p $(BUILD)
	@$(CC) -std=gnu11 -D_GNU_SOURCE -O0 -Wall -Wextra $(PROCESS_FLAGS) -o $(BUILD)/process-demo \
		$(PROCESS_SRCS) -pthread
	@$(BUILD)/process-demo $(DEMO_ARGS)

# ---- building --------------------------------------------------------------

user:
	@vm/deps.sh user $(ARCH)
	@mkdir -p $(BUILD)
	@test -e $(user-folder)/build.ninja || \
		{ cross=$(if $(ARCH),$$(vm/fetch-arch $(ARCH) --cross-file)) && \
		meson setup $${cross:+--cross-file $$cross} $(user-folder) >$(user-folder)-setup.log 2>&1; } || \
		{ cat $(user-folder)-setup.log; exit 1; }
	@ninja -C $(user-folder) $$(test -t 1 || echo --quiet)

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

# Those of softgpu go where other drivers look for NVIDIA's; modules that only tests load stay here.
install-modules: modules
	@DESTDIR=$(DESTDIR) softgpu/install/install.sh build/modules/$(kernel)
	@release=$$(modinfo -F vermagic build/modules/$(kernel)/peerdma.ko | cut -d' ' -f1) && \
	place=$(DESTDIR)/lib/modules/$$release/updates/peerdma && \
	install -d $$place && cd build/modules/$(kernel) && \
	install -m 644 peerdma.ko peerdma_nvidia.ko peerdma_amd.ko peerdma_tegra.ko peerdma_fpga.ko $$place && \
	echo "installed to $$place" && { test -n "$(DESTDIR)" || depmod $$release; }

# ---- checking --------------------------------------------------------------

check:
	@vm/deps.sh check
	@tests/run

# Other people's drivers and programs on softgpu: docs/third-party.md.
check-thirdparty:
	@KVER=$(KVER) tests/thirdparty/all

debug-kernel:
	@vm/build-debug-kernel

check-debug: user debug-kernel
	@vm/deps.sh check
	@tests/run --kernel debug 'build modules debug' vm/

check-more: user modules-all
	@vm/deps.sh check
	@tests/run --more vm/doctor

# On this machine's GPU, with NVIDIA's driver: docs/real-gpu.md.
check-gpu: user
	@tests/gpu/run

ROUNDS	?= 1000
check-debug-rounds: user debug-kernel
	@vm/deps.sh vm
	@vm/build-modules debug
	@mkdir -p $(BUILD)/logs
	@vm/run --kernel debug --timeout 0 --log $(BUILD)/logs/debug-rounds.log --cards 2 --gpus 2 --vram 32M \
		--dmesg-max info $(VM_ARGS) --env BUILD=$(BUILD)/user \
		--env MODDIR=$(BUILD)/modules/debug --env TOP=$(CURDIR) \
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

check-fast:
	@vm/deps.sh check
	@tests/run --no-vm

mutate:
	@vm/deps.sh check
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
	rm -rf build/user build/user-* build/fuzz build/modules build/logs build/process-demo build/check build/mutate

distclean:
	rm -rf build
