// SPDX-License-Identifier: MIT
/*
 * test_gid_kinds.c - of which kind an address is: all that a bundle has of it.
 */
#include "../cases.h"
#include "doctor/pair_facts.h"

CASE(test_kinds)
{
	static const struct {
		const char *text;
		enum gid_kind kind;
	} gids[] = {
		{ "0000:0000:0000:0000:0000:ffff:0a00:0001\n", GID_IPV4 },
		{ "0000:0000:0000:0000:0000:0000:0a00:0001\n", GID_GLOBAL },
		{ "0000:0000:0000:0000:0001:ffff:0a00:0001\n", GID_GLOBAL },
		{ "fe80:0000:0000:0000:0202:c9ff:fe00:0001\n", GID_LINK_LOCAL },
		{ "febf:0000:0000:0000:0202:c9ff:fe00:0001\n", GID_LINK_LOCAL },
		{ "fec0:0000:0000:0000:0202:c9ff:fe00:0001\n", GID_GLOBAL },
		{ "2001:0db8:0000:0000:0000:0000:0000:0001\n", GID_GLOBAL },
		{ "0000:0000:0000:0000:0000:0000:0000:0000\n", GID_UNKNOWN },
		{ "fe80:0000:0000:0000:0202:c9ff:fe00", GID_UNKNOWN },
		{ "fe80::1", GID_UNKNOWN }, { "", GID_UNKNOWN }, { "\n", GID_UNKNOWN },
	};

	for (size_t i = 0; i < sizeof(gids) / sizeof(gids[0]); i++) {
		if (gid_kind_of(gids[i].text) != gids[i].kind)
			fail_msg("%s is %s", gids[i].text, gid_kind_word(gid_kind_of(gids[i].text)));
	}
}

MAIN(NULL, NULL)
