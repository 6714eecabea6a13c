// SPDX-License-Identifier: MIT
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "modules.h"
#include "state.h"

int module_load(int index)
{
	const char *folder = getenv("MODDIR");
	char path[4096];
	int fd, err;

	snprintf(path, sizeof(path), "%s/%s.ko", folder ? folder : ".", module_names[index]);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	err = syscall(SYS_finit_module, fd, "", 0) ? errno : 0;
	close(fd);
	return err;
}

int module_unload(int index)
{
	return syscall(SYS_delete_module, module_names[index], O_NONBLOCK) ? errno : 0;
}

void modules_load_all(void)
{
	int i, err;

	for (i = 0; i < MODULES; i++) {
		err = module_load(i);
		if (!err || err == EEXIST)
			continue;
		fprintf(stderr, "stress: %s.ko does not load from MODDIR=%s: %s; build it with \"make modules\"\n",
			module_names[i], getenv("MODDIR") ? getenv("MODDIR") : "(not set)",
			strerror(err));
		exit(1);
	}
}
