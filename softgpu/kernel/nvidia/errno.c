// SPDX-License-Identifier: MIT OR GPL-2.0
/* errno.c - converts the core's errnos to those of NVIDIA's interface. */
#include <linux/errno.h>
#include "p2p.h"

int nvp2p_errno(int err)
{
	switch (err) {
	case 0:
		return 0;
	case -EINVAL:		/* malformed, or not such memory */
	case -ENOENT:
		return -EINVAL;
	case -ENOMEM:
	case -ENOSPC:		/* BAR1 */
		return -ENOMEM;
	case -EOPNOTSUPP:
		return -ENOTSUPP;
	case -EBUSY:
	case -ENODEV:
		return err;
	default:
		return -EIO;
	}
}
