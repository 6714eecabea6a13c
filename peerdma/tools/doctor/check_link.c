// SPDX-License-Identifier: MIT
/*
 * check_link.c - do links, of devices and of switches, run as fast and as wide as both their ends can?
 */
#include "doctor.h"

static bool is_above(const struct machine *m, unsigned int bridge, unsigned int device)
{
	for (int up = m->devices[device].parent; up >= 0; up = m->devices[up].parent) {
		if (up == (int)bridge)
			return true;
	}
	return false;
}

/* The devices, and the switches above them. */
static bool concerned(const struct doctor *d, unsigned int i)
{
	const struct device *x = &d->machine->devices[i];

	if (x->kind != DEVICE_BRIDGE)
		return device_concerned(d, i);
	if (!d->chosen)
		return x->shown;
	return is_above(d->machine, i, d->pairs[0].a) || is_above(d->machine, i, d->pairs[0].b);
}

static void run(struct doctor *d)
{
	for (unsigned int i = 0; i < d->machine->count; i++) {
		const struct device *x = &d->machine->devices[i];
		unsigned int speed = 0, width = 0;
		char now[32], best[32];
		struct finding *f;

		if (!concerned(d, i) || !x->link.known || !link_is_upward(x))
			continue;
		if (!link_is_slow(d->machine, x, &speed, &width)) {
			f = say_device(d, VERDICT_OK, i, WAYS_PCI);
			evidence_device(d, f, x, "current_link_speed");
			evidence_device(d, f, x, "current_link_width");
			continue;
		}
		/* GPUs lower the speed when they have nothing to do; lanes stay. */
		f = say_device(d, x->link.width == width && x->kind == DEVICE_GPU ? VERDICT_OK :
			       VERDICT_SLOW, i, WAYS_PCI);
		evidence(d, f, "link", "%s: runs at %s, both ends can do %s", x->name,
			 link_text(x->link.speed, x->link.width, now),
			 link_text(speed, width, best));
		if (f->verdict == VERDICT_OK) {
			consequence(d, f, "an idle GPU lowers its link's speed, so this may be normal or a fault");
			remedy(d, f, "look again while the GPU works");
		} else {
			consequence(d, f, "the device has less bandwidth than it and its slot could have");
			remedy_owner(d, f, "a machine whose links run at full width",
				     "reseat the board or its riser, clean the contacts, look for a slot shared with another device, and for "
				     "corrected errors in dmesg (AER)");
		}
	}
}

const struct check check_link = { "link", "Link", NULL, run };
