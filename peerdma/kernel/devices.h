/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* devices.h - devices that programs have mapped pins for, and their going. */
#ifndef PEERDMA_DEVICES_H
#define PEERDMA_DEVICES_H

/* From here on, mappings of programs go with their devices; and no more. */
int peerdma_devices_init(void);
void peerdma_devices_exit(void);

#endif
