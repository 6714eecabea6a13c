// SPDX-License-Identifier: MIT
/* fake_verbs.c - see fake_verbs.h.  Names, types and errors are those of verbs. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fake_verbs.h"

static struct fake_verbs fake;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct fake_verbs *fake_verbs(void)
{
	return &fake;
}

static struct fake_mr *made(struct fake_mr mr)
{
	struct fake_mr *m;

	pthread_mutex_lock(&lock);
	for (m = fake.mrs; m < fake.mrs + FAKE_MRS && m->live; m++)
		;
	if (m == fake.mrs + FAKE_MRS) {
		pthread_mutex_unlock(&lock);
		errno = ENOMEM;
		return NULL;
	}
	*m = mr;
	m->live = 1;
	m->lkey = (uint32_t)++fake.registered;
	m->rkey = m->lkey + 1000000;
	fake.by_dmabuf += m->by_dmabuf;
	pthread_mutex_unlock(&lock);
	if (fake.at_reg)
		fake.at_reg(m);
	return m;
}

/* Mapped, and the process may not read it. */
static bool inaccessible(const char *addr)
{
	uintptr_t page = (uintptr_t)addr & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
	bool refused = false;
	unsigned char there;
	int ends[2];

	if (mincore((void *)page, 1, &there) || pipe(ends))
		return false;
	/* The system call itself: a sanitizer of addresses would look at the byte, which may not be allocated. */
	refused = syscall(SYS_write, ends[1], addr, 1) < 0;
	close(ends[0]);
	close(ends[1]);
	return refused;
}

struct fake_mr *ibv_reg_mr_iova2(void *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	bool refused = addr && !(fake.peer && fake.peer(addr)) &&
		       (addr == fake.not_memory || (fake.not_host && fake.not_host(addr)) || inaccessible(addr));

	/* Local and remote writes, atomics, binding windows. */
	errno = refused && !(fake.forces && !(access & 0x1b)) ? EFAULT : fake.error;
	if (errno)
		return NULL;
	return made((struct fake_mr){ .pd = pd, .addr = addr, .length = length, .iova = iova, .access = (int)access });
}

struct fake_mr *ibv_reg_mr(void *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

static struct fake_mr *reg_dmabuf(void *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	struct stat s;

	errno = fake.dmabuf_error;
	if (!errno && (fstat(fd, &s) || offset + length > (uint64_t)s.st_size || (offset ^ iova) % 4096))
		errno = EINVAL;
	if (errno)
		return NULL;
	return made((struct fake_mr){ .pd = pd, .offset = offset, .length = length, .iova = iova, .access = access, .by_dmabuf = 1 });
}

struct fake_mr *ibv_reg_dmabuf_mr(void *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	return reg_dmabuf(pd, offset, length, iova, fd, access);
}

int ibv_dereg_mr(struct fake_mr *mr)
{
	if (fake.dereg_error)
		return fake.dereg_error;
	if (fake.at_dereg)
		fake.at_dereg(mr);
	pthread_mutex_lock(&lock);
	mr->live = mr->live == 1 ? 0 : -1;	/* twice: it shows */
	fake.deregistered++;
	pthread_mutex_unlock(&lock);
	return 0;
}

/* ---- For libpeerdma-verbs ---- */

struct fake_mr *ibv_reg_mr_iova(void *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned int)access);
}

int ibv_rereg_mr(struct fake_mr *mr, int flags, void *pd, void *addr, size_t length, int access)
{
	fake.reregistered++;
	return 0;
}

int ibv_dealloc_pd(void *pd)
{
	for (struct fake_mr *m = fake.mrs; m < fake.mrs + FAKE_MRS; m++) {
		if (m->live && m->pd == pd)
			return EBUSY;
	}
	fake.domains_ended++;
	return 0;
}

#ifdef HAS_REG_MR_EX
/* For a provider library that has no call of its own, libibverbs calls the two that it has. A DMA handle is noted. */
struct fake_mr *ibv_reg_mr_ex(void *pd, struct ibv_mr_init_attr *attr)
{
	const uint64_t mask = attr->comp_mask & ~(uint64_t)MASK_DMAH;

	fake.by_ex++;
	if (attr->comp_mask & MASK_DMAH)
		fake.dmah = attr->dmah;
	if (mask == (MASK_FD | MASK_FD_OFFSET | MASK_IOVA))
		return reg_dmabuf(pd, attr->fd_offset, attr->length, attr->iova, attr->fd, attr->access);
	if ((mask & ~(uint64_t)MASK_IOVA) == MASK_ADDR)
		return ibv_reg_mr_iova2(pd, attr->addr, attr->length, mask & MASK_IOVA ? attr->iova : (uintptr_t)attr->addr,
					(unsigned int)attr->access);
	errno = EINVAL;
	return NULL;
}
#endif

/* What libibverbs has for provider libraries: struct verbs_mr is the MR and two numbers. */
int ibv_cmd_reg_dmabuf_mr(void *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access, struct fake_mr *mr,
			  void *attributes)
{
	if (!fake.kernel_has_dmabuf)
		return EPROTONOSUPPORT;
	if (fake.kernel_error)
		return fake.kernel_error;
	mr->addr = (void *)(uintptr_t)offset;
	mr->length = length;
	mr->lkey = 77;
	mr->rkey = 78;
	__atomic_fetch_add(&fake.by_kernel, 1, __ATOMIC_RELAXED);
	return 0;
}

int ibv_cmd_dereg_mr(struct fake_mr *mr)
{
	if (fake.dereg_error)
		return fake.dereg_error;
	__atomic_fetch_sub(&fake.by_kernel, 1, __ATOMIC_RELAXED);
	return 0;
}
