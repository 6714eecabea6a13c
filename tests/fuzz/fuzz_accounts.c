// SPDX-License-Identifier: MIT
/* The table of accounts: any bytes; users that have nothing are left out. */
#include "pins/accounts.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = fuzz_copy(data, size);
	struct accounts accounts;

	if (!accounts_parse(copy, size, &accounts)) {
		MUST(accounts.count + accounts.malformed <= size);
		for (size_t i = 0; i < accounts.count; i++) {
			uint64_t all = 0;

			for (int k = 0; k < TAKEN; k++)
				all |= accounts.users[i].taken[k];
			MUST(all);
		}
		accounts_free(&accounts);
	}
	free(copy);
	return 0;
}
