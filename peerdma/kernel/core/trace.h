/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* trace.h - tracepoints: /sys/kernel/tracing/events/peerdma. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM peerdma

#if !defined(PEERDMA_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define PEERDMA_TRACE_H

#include <linux/device.h>
#include <linux/tracepoint.h>

#include "compat.h"
#include "pin_table.h"

DECLARE_EVENT_CLASS(peerdma_pin_class,
	TP_PROTO(const struct peerdma_pin *pin),
	TP_ARGS(pin),
	TP_STRUCT__entry(
		__field(u32, id)
		__field(u32, handle)
		__field(u32, generation)
		__field(pid_t, owner)
		__field(u64, addr)
		__field(u64, length)
		__field(u32, flags)
		__string(provider, pin->provider->name)
	),
	TP_fast_assign(
		__entry->id = pin->id;
		__entry->handle = pin->handle;
		__entry->generation = pin->generation;
		__entry->owner = pin->tgid;
		__entry->addr = pin->addr;
		__entry->length = pin->length;
		__entry->flags = pin->flags;
		peerdma_assign_str(provider, pin->provider->name);
	),
	TP_printk("pid=%d id=%u handle=%u generation=%u provider=%s addr=%#llx length=%#llx flags=%#x",
		  __entry->owner, __entry->id, __entry->handle, __entry->generation,
		  __get_str(provider), __entry->addr, __entry->length, __entry->flags)
);

DEFINE_EVENT(peerdma_pin_class, peerdma_pin,
	TP_PROTO(const struct peerdma_pin *pin), TP_ARGS(pin));
DEFINE_EVENT(peerdma_pin_class, peerdma_unpin,
	TP_PROTO(const struct peerdma_pin *pin), TP_ARGS(pin));
DEFINE_EVENT(peerdma_pin_class, peerdma_revoke_begin,
	TP_PROTO(const struct peerdma_pin *pin), TP_ARGS(pin));
DEFINE_EVENT(peerdma_pin_class, peerdma_revoke_end,
	TP_PROTO(const struct peerdma_pin *pin), TP_ARGS(pin));

DECLARE_EVENT_CLASS(peerdma_map_class,
	TP_PROTO(const struct peerdma_pin *pin, const struct peerdma_map *map),
	TP_ARGS(pin, map),
	TP_STRUCT__entry(
		__field(u32, id)
		__field(u32, handle)
		__field(pid_t, owner)
		__field(u64, addr)
		__field(u64, offset)
		__field(u64, length)
		__field(u64, dma_addr)
		__field(u32, segments)
		__string(provider, pin->provider->name)
		__string(device, dev_name(map->pub.dev))
	),
	TP_fast_assign(
		__entry->id = pin->id;
		__entry->handle = pin->handle;
		__entry->owner = pin->tgid;
		__entry->addr = pin->addr;
		__entry->offset = map->offset;
		__entry->length = map->length;
		__entry->dma_addr = map->nsegs ? map->segs[0].dma_addr : 0;
		__entry->segments = map->nsegs;
		peerdma_assign_str(provider, pin->provider->name);
		peerdma_assign_str(device, dev_name(map->pub.dev));
	),
	TP_printk("pid=%d id=%u handle=%u provider=%s addr=%#llx device=%s offset=%#llx length=%#llx dma_addr=%#llx segments=%u",
		  __entry->owner, __entry->id, __entry->handle, __get_str(provider), __entry->addr,
		  __get_str(device), __entry->offset, __entry->length, __entry->dma_addr,
		  __entry->segments)
);

DEFINE_EVENT(peerdma_map_class, peerdma_map,
	TP_PROTO(const struct peerdma_pin *pin, const struct peerdma_map *map),
	TP_ARGS(pin, map));
DEFINE_EVENT(peerdma_map_class, peerdma_unmap,
	TP_PROTO(const struct peerdma_pin *pin, const struct peerdma_map *map),
	TP_ARGS(pin, map));

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH core
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
