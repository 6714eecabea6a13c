/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * devices.h - unmaps what programs have mapped for a device when it loses its driver or is
 * removed.
 */
#ifndef PEERDMA_DEVICES_H
#define PEERDMA_DEVICES_H

/* Between these two calls, such mappings are taken down. */
int peerdma_devices_init(void);
void peerdma_devices_exit(void);

#endif
