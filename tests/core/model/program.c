// SPDX-License-Identifier: MIT
/* program.c - programs: made at random, written down, read, run. */
#include "model.h"

#define OP_ENTRY(name, weight) { #name, weight, op_##name },
const struct op_kind op_table[] = { OPS(OP_ENTRY) };
const u32 op_kinds = COUNT(op_table);

struct world w;

static u32 random_kind(u64 *state)
{
	static u32 total;
	u32 i, n;

	if (!total) {
		for (i = 0; i < op_kinds; i++)
			total += op_table[i].weight;
	}
	n = (u32)(rnd_u64(state) % total);
	for (i = 0; n >= op_table[i].weight; i++)
		n -= op_table[i].weight;
	return i;
}

u32 program_length(u64 seed)
{
	return 100 + (u32)(rnd_u64(&seed) % 2200);
}

void program_random(struct program *p, u64 seed)
{
	struct config *c = &p->config;
	u64 state = seed;
	u32 i, k;

	p->count = 100 + (u32)(rnd_u64(&state) % 2200);
	c->gpus = 1 + (u32)(rnd_u64(&state) % GPUS);
	c->procs = 1 + (u32)(rnd_u64(&state) % PROCS);
	c->vram = 16 + (u32)(rnd_u64(&state) % 33);
	c->bar1 = 8 + (u32)(rnd_u64(&state) % 32);
	c->reserved = (u32)(rnd_u64(&state) % 3);
	c->window = 32 + (u32)(rnd_u64(&state) % (WINDOW_PAGES - 32));
	c->per_pin = rnd_u64(&state) % 8 == 0;
	c->mode = rnd_u64(&state) % 16 ? SOFTGPU_COMPUTE_DEFAULT : SOFTGPU_COMPUTE_EXCLUSIVE;
	c->strict = rnd_u64(&state) % 6 == 0;
	c->clients = rnd_u64(&state) % 6 ? 0 : (u32)(rnd_u64(&state) % (1u << c->procs));
	for (i = 0; i < p->count; i++) {
		p->ops[i].kind = random_kind(&state);
		for (k = 0; k < 4; k++)
			p->ops[i].arg[k] = (u32)rnd_u64(&state);
	}
}

void program_print(const struct program *p, FILE *to)
{
	const struct config *c = &p->config;
	u32 i;

	fprintf(to, "world %u %u %u %u %u %u %u %u %u %u\n", c->gpus, c->procs, c->vram, c->bar1,
		c->reserved, c->window, c->per_pin, c->mode, c->strict, c->clients);
	for (i = 0; i < p->count; i++) {
		const struct op *o = &p->ops[i];

		fprintf(to, "%s %u %u %u %u\n", op_table[o->kind].name, o->arg[0], o->arg[1], o->arg[2],
			o->arg[3]);
	}
}

static bool config_ok(const struct config *c)
{
	return c->gpus >= 1 && c->gpus <= GPUS && c->procs >= 1 && c->procs <= PROCS && c->vram &&
	       c->vram <= VRAM_MAX && c->bar1 && c->reserved <= c->bar1 && c->window &&
	       c->window <= WINDOW_PAGES && c->per_pin <= 1 && c->strict <= 1 &&
	       c->clients < 1u << PROCS;
}

static bool read_op(struct op *o, const char *line)
{
	char name[32];

	if (sscanf(line, "%31s %u %u %u %u", name, &o->arg[0], &o->arg[1], &o->arg[2], &o->arg[3]) != 5)
		return false;
	for (o->kind = 0; o->kind < op_kinds; o->kind++) {
		if (!strcmp(name, op_table[o->kind].name))
			return true;
	}
	return false;
}

u32 program_read(struct program *p, FILE *from)
{
	struct config *c = &p->config;
	char line[200];
	u32 n = 1;

	p->count = 0;
	if (!fgets(line, sizeof(line), from) ||
	    sscanf(line, "world %u %u %u %u %u %u %u %u %u %u", &c->gpus, &c->procs, &c->vram, &c->bar1,
		   &c->reserved, &c->window, &c->per_pin, &c->mode, &c->strict, &c->clients) != 10 || !config_ok(c))
		return n;
	while (fgets(line, sizeof(line), from)) {
		n++;
		if (p->count == OPS_MAX || !read_op(&p->ops[p->count++], line))
			return n;
	}
	return 0;
}

static void world_up(const struct config *c)
{
	u32 i;

	memset(&w, 0, sizeof(w));
	w.config = *c;
	MUST(!sg_create(&w.sg));
	w.chaos.strict = c->strict;
	sg_chaos_set(w.sg, &w.chaos);
	for (i = 0; i < c->gpus; i++)
		op_gpu_add((u32[4]){ 0 });
	/* Most programs go further when something is there. */
	for (i = 0; i < c->gpus + c->procs - 1; i++)
		op_open((u32[4]){ i, i, 1 });
}

static void world_down(void)
{
	u32 i;

	settle_all();
	memset(&w.chaos, 0, sizeof(w.chaos));
	sg_chaos_set(w.sg, &w.chaos);
	for (i = 0; i < CLIENTS; i++) {
		if (w.clients[i].used) {
			sg_client_close(w.clients[i].c);
			client_gone(i);
		}
	}
	compare_counts();
	for (i = 0; i < PINS; i++) {
		if (w.pins[i].used) {
			MUST(w.pins[i].persistent);
			MUST(!sg_pin_put(w.sg, &w.pins[i].t.pin, true));
			pin_ended(i, 0);
		}
	}
	compare_counts();
	for (i = 0; i < MOVABLES; i++) {
		if (w.movables[i].used)
			sg_movable_put(&w.movables[i].k);
		w.movables[i].used = false;
	}
	compare_counts();
	for (i = 0; i < GPUS; i++) {
		struct sg_gpu_stats st;

		if (!w.gpus[i].used)
			continue;
		MUST(!sg_gpu_stats(w.sg, i, &st));
		MUST(st.vram_free == st.vram_total && st.bar1_used == st.bar1_reserved);
		MUST(!st.pins && !st.clients);
		sg_gpu_remove(w.sg, i);
		vram_away(w.gpus[i].vram);
	}
	sg_destroy(w.sg);
}

void program_run(const struct program *p, u32 *step)
{
	world_up(&p->config);
	for (*step = 0; *step < p->count; (*step)++) {
		const struct op *o = &p->ops[*step];

		test_step = *step;
		op_table[o->kind].run(o->arg);
		compare_counts();
		if (*step % 64 == 63)
			check_all();
	}
	check_all();
	world_down();
}
