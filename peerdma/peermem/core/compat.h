/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* compat.h - differences between the kernels that the core builds for (6.1 to 7.2). */
#ifndef PEER_CORE_COMPAT_H
#define PEER_CORE_COMPAT_H

#include <linux/ftrace.h>
#include <linux/version.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>

#ifndef CONFIG_64BIT
#error "needs a 64-bit kernel: contexts are 64 bits wide and never reused"
#endif

#if !IS_ENABLED(CONFIG_DYNAMIC_FTRACE_WITH_REGS) && !IS_ENABLED(CONFIG_DYNAMIC_FTRACE_WITH_ARGS)
#error "needs CONFIG_DYNAMIC_FTRACE_WITH_REGS or _WITH_ARGS, to redirect functions"
#endif

/* PERMANENT: the kernel refuses sysctl kernel.ftrace_enabled=0, which would disable the hooks. */
#ifdef CONFIG_DYNAMIC_FTRACE_WITH_ARGS
#define PEER_FTRACE_FLAGS	(FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_PERMANENT)
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
#define peer_ftrace_go_to(fregs, ip)	ftrace_instruction_pointer_set(fregs, ip)
#else
#define peer_ftrace_go_to(fregs, ip)	ftrace_regs_set_instruction_pointer(fregs, ip)
#endif
#else
#define PEER_FTRACE_FLAGS \
	(FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_PERMANENT | FTRACE_OPS_FL_SAVE_REGS)
#define peer_ftrace_go_to(fregs, ip)	instruction_pointer_set(ftrace_get_regs(fregs), ip)
#endif

/*
 * PEER_UMEM_GET: the function that drivers call for a range of addresses.
 * DEFINE_INSTEAD_OF_GET() defines a function of the same type that asks from_peers() first
 * and then drops the hook's reference to the module. Since 7.2 drivers call
 * ib_umem_get_attr_or_va(), which takes the range from an attribute if there is one.
 */
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 2, 0)
#define PEER_UMEM_GET	ib_umem_get
#define peer_umem_get_va(device, addr, size, access)	ib_umem_get(device, addr, size, access)
#define DEFINE_INSTEAD_OF_GET(name, from_peers) \
static struct ib_umem *name(struct ib_device *device, unsigned long addr, size_t size, int access) \
{ \
	struct ib_umem *umem = from_peers(device, addr, size, access); \
	if (!umem) \
		umem = ib_umem_get(device, addr, size, access); \
	module_put(THIS_MODULE); \
	return umem; \
}
#else
#define PEER_UMEM_GET	ib_umem_get_attr_or_va
#define peer_umem_get_va(device, addr, size, access)	ib_umem_get_va(device, addr, size, access)
#define DEFINE_INSTEAD_OF_GET(name, from_peers) \
static struct ib_umem *name(struct ib_device *device, const struct uverbs_attr_bundle *attrs, \
			    u16 attr_id, u64 addr, size_t size, int access) \
{ \
	struct ib_umem *umem = attrs ? NULL : from_peers(device, addr, size, access); \
	if (!umem) \
		umem = ib_umem_get_attr_or_va(device, attrs, attr_id, addr, size, access); \
	module_put(THIS_MODULE); \
	return umem; \
}
#endif

#endif
