# The core's sources, for Kbuild, Meson and a bare compiler alike.
CORE_SRCS := tree.c hash.c object.c space.c gpu.c mem.c proc.c server.c ctx.c buf.c vmm.c ipc.c phys_ipc.c pin.c keep.c query.c job.c queue.c drain.c stream.c event.c copy.c engine.c fetch.c watcher.c watch.c value.c hostfunc.c freejob.c chaos.c strict.c managed.c alias.c call.c
