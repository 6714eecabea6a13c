// SPDX-License-Identifier: MIT
/* help.c - -h, and the lists of fields. */
#include <stdio.h>

#include "smi.h"

int smi_help(void)
{
	printf("nvidia-smi for softgpu, a software GPU (softgpu %s): what scripts use of NVIDIA's command,\n"
	       "on libnvidia-ml.so.1 alone. What a software GPU does not have is N/A.\n\n", SOFTGPU_VERSION);
	puts("nvidia-smi [OPTION]...\n"
	     "nvidia-smi -h | -L | --version | --help-query-gpu | --help-query-compute-apps\n"
	     "nvidia-smi topo -m [-i GPU,...]\n"
	     "nvidia-smi nvlink -s [-i GPU,...]\n\n"
	     "  without a query           a table of all GPUs\n"
	     "  -L, --list-gpus           one line for each GPU, with its UUID\n"
	     "  -q, --query               all that is known of each GPU\n"
	     "  -d, --display=SECTION,... with -q: MEMORY, UTILIZATION, ECC, TEMPERATURE, POWER, CLOCK,\n"
	     "                            COMPUTE, PIDS, PERFORMANCE\n"
	     "  --query-gpu=FIELD,...     chosen fields; --help-query-gpu lists them\n"
	     "  --query-compute-apps=FIELD,...\n"
	     "                            processes; --help-query-compute-apps lists the fields\n"
	     "  --format=csv[,noheader][,nounits]\n"
	     "                            without a first line, without units\n"
	     "  -i, --id=GPU,...          only these: numbers, UUIDs, PCI addresses\n"
	     "  -f, --filename=FILE       print to a file\n"
	     "  -l, --loop[=SECONDS]      again and again; every 5 s\n"
	     "  --version                 versions\n"
	     "  -h, --help                this text\n\n"
	     "Exit codes: 0, 2 wrong argument, 4 not permitted, 6 no such GPU, 9 no driver,\n"
	     "12 no libnvidia-ml.so.1, 13 the library lacks a function, 255 unknown option or error.");
	return SMI_OK;
}

int smi_help_fields(const struct smi_field *list)
{
	puts("Fields, and what they are:\n");
	for (const struct smi_field *f = list; f->name; f++) {
		printf("\"%s\"", f->name);
		if (f->alias)
			printf(" or \"%s\"", f->alias);
		printf("\n%s.\n\n", f->help ? f->help : "not known by this program: always N/A");
	}
	return SMI_OK;
}
