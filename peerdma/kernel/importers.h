/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* importers.h - for who tells a pin's importers to let go: export.c.  The rest is in pin.h. */
#ifndef PEERDMA_IMPORTERS_H
#define PEERDMA_IMPORTERS_H

#include <linux/workqueue.h>

struct peerdma_pin;

/* How long importers may take, in jiffies. */
unsigned long peerdma_importers_timeout(void);

/* While this is going on, those who take longer are named. */
struct peerdma_overdue {
	struct delayed_work work;
	struct peerdma_pin *pin;
};
void peerdma_overdue_begin(struct peerdma_overdue *o, struct peerdma_pin *pin);
void peerdma_overdue_end(struct peerdma_overdue *o);

#endif
