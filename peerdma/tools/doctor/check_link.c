// SPDX-License-Identifier: MIT
/*
 * check_link.c - do links run as fast and as wide as both their ends can?
 */
#include "doctor.h"

static void run(struct doctor *d)
{
	for (unsigned int i = 0; i < d->machine->count; i++) {
		const struct device *x = &d->machine->devices[i];
		unsigned int speed = 0, width = 0;
		char now[32], best[32];
		struct finding *f;

		if (!device_concerned(d, i) || !x->link.known || x->kind == DEVICE_BRIDGE)
			continue;
		if (!link_is_slow(d->machine, x, &speed, &width)) {
			f = say(d, VERDICT_OK, "%s", x->label);
			evidence_device(d, f, x, "current_link_speed");
			evidence_device(d, f, x, "current_link_width");
			continue;
		}
		/* GPUs lower the speed when they have nothing to do; lanes stay. */
		f = say(d, x->link.width == width && x->kind == DEVICE_GPU ? VERDICT_UNKNOWN : VERDICT_SLOW, "%s", x->label);
		evidence(d, f, "link", "%s: runs at %s, both ends can do %s", x->name, link_text(x->link.speed, x->link.width, now),
			 link_text(speed, width, best));
		if (f->verdict == VERDICT_UNKNOWN) {
			consequence(d, f, "an idle GPU lowers its link's speed, so this may be rest or a fault");
			remedy(d, f, "look again while the GPU works");
		} else {
			consequence(d, f, "the device has less bandwidth than it and its slot could have");
			remedy(d, f, "reseat the board or its riser, clean the contacts, look for a slot shared with another device, and for "
			       "corrected errors in dmesg (AER)");
		}
	}
}

const struct check check_link = { "link", "Link", NULL, run };
