// SPDX-License-Identifier: MIT
/* view_doors_kvm.c - a virtual machine gets a CPU view as its memory: see view_doors.h */
#include "view_doors.h"

#if defined(__x86_64__)
#include <linux/kvm.h>

/* The guest's addresses: of its program, and of the view. */
#define CODE_AT		0x1000
#define VIEW_AT		0x10000

/* Reads the view's first byte, stops, and does so again. */
static const unsigned char program[] = {
	0xa0, 0x00, 0x00,	/* mov al, [0] */
	0xf4,			/* hlt */
	0xeb, 0xfa,		/* jmp to the beginning */
};

static int kvm, vm, cpu;
static char *code;
static struct kvm_run *state;

static const char *missing(void)
{
	if (kvm <= 0)
		kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	return kvm < 0 ? "this processor, or QEMU's, has no virtualization" : NULL;
}

static void slot(uint32_t number, uint64_t guest, void *at, size_t length)
{
	struct kvm_userspace_memory_region region = {
		.slot = number, .guest_phys_addr = guest, .memory_size = length, .userspace_addr = (uintptr_t)at,
	};

	WORKS(ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region));
}

/* In real mode, with the view as its data segment. */
static void registers(void)
{
	struct kvm_regs regs = { .rip = 0, .rflags = 2 };
	struct kvm_sregs sregs;

	WORKS(ioctl(cpu, KVM_GET_SREGS, &sregs));
	sregs.cs.selector = CODE_AT >> 4;
	sregs.cs.base = CODE_AT;
	sregs.ds.selector = VIEW_AT >> 4;
	sregs.ds.base = VIEW_AT;
	WORKS(ioctl(cpu, KVM_SET_SREGS, &sregs));
	WORKS(ioctl(cpu, KVM_SET_REGS, &regs));
}

/* What the guest reads; -1: KVM found no memory there. */
static int guest_reads(void)
{
	struct kvm_regs regs;
	int ret;

	do
		ret = ioctl(cpu, KVM_RUN, 0);
	while (ret < 0 && errno == EINTR);
	if (ret < 0) {
		CHECK(errno == EFAULT);
		return -1;
	}
	CHECK(state->exit_reason == KVM_EXIT_HLT);
	WORKS(ioctl(cpu, KVM_GET_REGS, &regs));
	return regs.rax & 0xff;
}

/* First with ordinary memory: the machine works. */
static void enter(char *view)
{
	int size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	char *memory = host_memory(PAGE);

	vm = ioctl(kvm, KVM_CREATE_VM, 0);
	cpu = ioctl(vm, KVM_CREATE_VCPU, 0);
	state = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, cpu, 0);
	code = host_memory(PAGE);
	CHECK(vm >= 0 && cpu >= 0 && state != MAP_FAILED);
	memcpy(code, program, sizeof(program));
	slot(0, CODE_AT, code, PAGE);
	memory[0] = 'm';
	slot(1, VIEW_AT, memory, PAGE);
	registers();
	CHECK(guest_reads() == 'm');
	slot(1, VIEW_AT, memory, 0);
	slot(1, VIEW_AT, view, VIEW_LENGTH);
	/* kvm_vcpu_map() of kernels before 6.13 keeps what it gets here, without a notifier. */
	CHECK(guest_reads() == -1);
	munmap(memory, PAGE);
}

static void after(char *view)
{
	CHECK(guest_reads() == -1);
	munmap(state, (size_t)ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0));
	munmap(code, PAGE);
	close(cpu);
	close(vm);
}

const struct door door_kvm = { "KVM", .missing = missing, .enter = enter, .after = after };
#else
static const char *missing(void)
{
	return "the test's guest is for x86";
}

const struct door door_kvm = { "KVM", .missing = missing };
#endif
