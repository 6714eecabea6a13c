// SPDX-License-Identifier: MIT
/*
 * checks.c - all checks.  A new one is a file check_NAME.c, a line here, one in
 * meson.build, and a test: docs/doctor.md.
 */
#include "doctor.h"

extern const struct check check_gpu, check_platform, check_board, check_driver, check_partition,
	check_path, check_reach, check_iommu, check_bus_address, check_link, check_bar_address,
	check_bar1_size, check_bar1_free, check_amd_bar, check_adapter, check_rdma, check_port,
	check_peermem, check_kernel, check_kernel_log, check_nodes, check_limits, check_peerdma,
	check_probe, check_probe_view, check_probe_nic, check_probe_nvme;

const struct check *const checks[] = {
	&check_gpu,
	&check_platform,
	&check_board,
	&check_driver,
	&check_partition,
	&check_bar_address,
	&check_bar1_size,
	&check_bar1_free,
	&check_amd_bar,
	&check_path,
	&check_reach,
	&check_iommu,
	&check_bus_address,
	&check_link,
	&check_rdma,
	&check_port,
	&check_peermem,
	&check_adapter,
	&check_kernel,
	&check_kernel_log,
	&check_nodes,
	&check_limits,
	&check_peerdma,
	&check_probe,
	&check_probe_view,
	&check_probe_nic,
	&check_probe_nvme,
	NULL,
};
