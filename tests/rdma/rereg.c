// SPDX-License-Identifier: MIT
/*
 * rereg.c - registering again (ibv_rereg_mr) what is the GPU's, or was the host's and shall be the GPU's, is refused, and the
 * registration is what it was.  So is a region with windows, which have the rights that it had when they were bound.
 *
 *	rereg ADAPTER dmabuf|export|peer
 */
#include "memory.h"
#include "pair.h"

#define SIZE (1UL << 20)
#define OLD 0x11
#define SENT 0x77
#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

static struct pair p;
static struct memory subject, host, source;
static struct ibv_mr *subject_mr, *host_mr, *source_mr;
static struct ibv_pd *other;
static unsigned char seen[SIZE];

/* The errno, or 0. */
static int by_the_kernel(const struct ibv_mr *mr, uint32_t flags, const struct ibv_pd *pd, uint64_t addr, unsigned int access)
{
	return memory_reregister(mr, flags, pd, addr, SIZE, access);
}

static int holds(const struct memory *m, unsigned char byte)
{
	size_t i;

	memory_read(m, 0, seen, SIZE);
	for (i = 0; i < SIZE && seen[i] == byte; i++)
		;
	return i == SIZE;
}

/* All of it is written by its key, and `elsewhere` is not. */
static void as_it_was(const struct memory *m, const struct ibv_mr *mr, const struct memory *elsewhere, const char *what)
{
	struct request r = { .opcode = IBV_WR_RDMA_WRITE, .local = source_mr, .local_addr = source.addr, .length = SIZE,
			     .remote_addr = m->addr, .rkey = mr->rkey };

	memory_fill(&source, SENT);
	memory_fill(m, OLD);
	memory_fill(elsewhere, OLD);
	CHECK(pair_do(&p, &r) == IBV_WC_SUCCESS && holds(m, SENT) && holds(elsewhere, OLD), "%s", what);
}

static void refused(int error, const char *what)
{
	if (error != EOPNOTSUPP)
		printf("%s: %s\n", what, strerror(error));
	CHECK(error == EOPNOTSUPP, "%s", what);
}

/* Of memory of the host's, which some kernels register again. */
static void with_a_window(void)
{
	struct ibv_mr *mr = ibv_reg_mr(p.pd, (void *)(uintptr_t)host.addr, SIZE, ALL | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(p.pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = { .send_flags = IBV_SEND_SIGNALED,
				    .bind_info = { .mr = mr, .addr = host.addr, .length = SIZE, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE } };
	uint32_t flags[] = { IBV_REREG_MR_CHANGE_ACCESS, IBV_REREG_MR_CHANGE_PD };
	int without, error;
	size_t i;

	MUST(mr && mw, "a region and a window");
	without = by_the_kernel(mr, IBV_REREG_MR_CHANGE_ACCESS, p.pd, 0, ALL | IBV_ACCESS_MW_BIND);
	if (without)
		printf("no region is registered again here: %s\n", strerror(without));
	errno = ibv_bind_mw(p.qp[1], mw, &bind);
	MUST(!errno && pair_wait(&p, 1, NULL) == IBV_WC_SUCCESS, "binding a window");
	for (i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
		error = by_the_kernel(mr, flags[i], i ? other : p.pd, 0, IBV_ACCESS_LOCAL_WRITE);
		CHECK(error == (without ? without : EINVAL), "%s, with a window: refused", i ? "another protection domain" : "other rights");
	}
	MUST(!ibv_dealloc_mw(mw), "ibv_dealloc_mw");
	error = by_the_kernel(mr, IBV_REREG_MR_CHANGE_ACCESS, p.pd, 0, IBV_ACCESS_LOCAL_WRITE);
	CHECK(error == without, "not when the window has gone");
	MUST(!ibv_dereg_mr(mr), "ibv_dereg_mr");
}

int main(int argc, char **argv)
{
	int error;

	MUST(argc == 3, "usage: rereg ADAPTER dmabuf|export|peer");
	memory_alloc(&host, MEMORY_HOST, SIZE);
	memory_alloc(&source, MEMORY_HOST, SIZE);
	memory_alloc(&subject, memory_kind(argv[2]), SIZE);
	pair_open(&p, argv[1], 0);
	other = ibv_alloc_pd(p.device);
	MUST(other, "ibv_alloc_pd");
	host_mr = memory_register(&host, p.pd);
	source_mr = memory_register(&source, p.pd);
	subject_mr = memory_register(&subject, p.pd);

	refused(by_the_kernel(subject_mr, IBV_REREG_MR_CHANGE_ACCESS, p.pd, 0, IBV_ACCESS_LOCAL_WRITE), "other rights: refused");
	as_it_was(&subject, subject_mr, &host, "and it is written as before");
	refused(by_the_kernel(subject_mr, IBV_REREG_MR_CHANGE_PD, other, 0, 0), "another protection domain: refused");
	as_it_was(&subject, subject_mr, &host, "and it is written as before");
	refused(by_the_kernel(subject_mr, IBV_REREG_MR_CHANGE_TRANSLATION, p.pd, host.addr, ALL), "the host's memory instead: refused");
	as_it_was(&subject, subject_mr, &host, "and it is written as before");
	refused(by_the_kernel(host_mr, IBV_REREG_MR_CHANGE_TRANSLATION, p.pd, subject.addr, ALL),
		"the GPU's memory instead of the host's: refused");
	as_it_was(&host, host_mr, &subject, "and the host's is written as before");

	errno = 0;
	error = ibv_rereg_mr(subject_mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE);
	/* Of an MR of a dma-buf the library says EINVAL, without asking the kernel. */
	CHECK(error && errno == (subject.kind == MEMORY_PEER ? EOPNOTSUPP : EINVAL), "ibv_rereg_mr() fails, too");
	as_it_was(&subject, subject_mr, &host, "and it is written as before");

	with_a_window();

	if (ibv_dereg_mr(subject_mr) || ibv_dereg_mr(host_mr) || ibv_dereg_mr(source_mr) || ibv_dealloc_pd(other))
		die("ending the registrations");
	pair_close(&p);
	memory_release(&subject);
	memory_free(&subject);
	return check_end(NULL);
}
