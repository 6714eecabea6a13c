# The core's sources, a line for each layer, the lowest first: for Kbuild, Meson and a bare compiler alike.
CORE_SRCS := base/tree.c base/hash.c base/object.c base/release.c
CORE_SRCS += memory/space.c memory/gpu.c memory/key.c memory/mem.c memory/bar1.c memory/proc.c memory/slab.c memory/chaos.c memory/pin.c memory/range.c memory/alias.c memory/share.c memory/buf.c memory/place.c memory/managed.c memory/movable.c
CORE_SRCS += work/job.c work/queue.c work/fetch.c work/strict.c work/drain.c work/stream.c work/event.c work/copy.c work/watcher.c work/watch.c work/value.c work/hostfunc.c work/async_free.c work/engine.c
CORE_SRCS += clients/server.c clients/ctx.c clients/client.c clients/machine.c clients/allocate.c clients/vmm.c clients/ipc.c clients/phys.c clients/personality.c clients/query.c clients/call.c
