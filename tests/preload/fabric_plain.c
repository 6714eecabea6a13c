// SPDX-License-Identifier: MIT
/*
 * fabric_plain.c - a program of libfabric that knows nothing of peerdma: it registers a buffer twice, gives
 * the memory back, gets other memory at the same address, and registers that. Over verbs, whose
 * registrations libfabric caches.
 *
 *	fabric_plain [ROUNDS]	exit code 77: no such provider
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#define LENGTH	(1UL << 20)

static struct fid_domain *domain;

static int failed(const char *what, int ret)
{
	printf("fabric_plain: %s: %s\n", what, fi_strerror(-ret));
	return 1;
}

static int open_domain(void)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	struct fid_fabric *fabric;
	int ret;

	hints->ep_attr->type = FI_EP_MSG;
	hints->caps = FI_RMA;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup("verbs");
	ret = fi_getinfo(FI_VERSION(1, 14), NULL, NULL, 0, hints, &info);
	if (!ret)
		ret = fi_fabric(info->fabric_attr, &fabric, NULL);
	if (!ret)
		ret = fi_domain(fabric, info, &domain, NULL);
	fi_freeinfo(hints);
	return ret;
}

static int reg(void *buffer, uint64_t *key)
{
	struct fid_mr *mr;
	int ret = fi_mr_reg(domain, buffer, LENGTH, FI_REMOTE_WRITE | FI_WRITE, 0, 0, 0, &mr, NULL);

	if (ret)
		return ret;
	*key = fi_mr_key(mr);
	return fi_close(&mr->fid);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 20, stale = 0, again = 0, ret = open_domain();
	uint64_t one, two, three;

	if (ret == -FI_ENODATA) {
		printf("fabric_plain: no verbs device\n");
		return 77;
	}
	if (ret)
		return failed("a domain", ret);
	for (int i = 0; i < rounds; i++) {
		char *buffer = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		memset(buffer, i, LENGTH);
		ret = reg(buffer, &one);
		if (!ret)
			ret = reg(buffer, &two);
		if (ret)
			return failed("fi_mr_reg", ret);
		again += one == two;
		munmap(buffer, LENGTH);
		if (mmap(buffer, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != buffer)
			return failed("mmap", -FI_ENOMEM);
		memset(buffer, ~i, LENGTH);
		ret = reg(buffer, &three);
		if (ret)
			return failed("fi_mr_reg", ret);
		stale += three == two;
		munmap(buffer, LENGTH);
	}
	printf("fabric_plain: %d rounds, %d found again, %d stale\n", rounds, again, stale);
	return stale || again != rounds;
}
