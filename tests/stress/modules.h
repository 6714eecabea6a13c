/* SPDX-License-Identifier: MIT */
/* modules.h - loads and unloads the modules from the folder $MODDIR. */
#pragma once

/* Index into module_names (state.h).  0 or an errno. */
int module_load(int index);
/* Does not wait for users: EAGAIN when there are any. */
int module_unload(int index);

/* All that are not there; says what does not load, and exits. */
void modules_load_all(void);
