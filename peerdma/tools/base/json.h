/* SPDX-License-Identifier: MIT */
/*
 * json.h - one JSON object on stdout.
 *
 * Addresses are strings, "0x7f0000000000": they may be above 2^53, where many
 * readers of JSON lose digits.  Sizes and counts are numbers.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct json_object;
struct pin;
struct phys_range;

/* {"schema": ..., "version": ...}.  Out of memory ends the program with EXIT_ERROR, in all of these. */
struct json_object *json_new(const char *schema);
void json_text(struct json_object *o, const char *key, const char *s);	/* s NULL: null */
void json_number(struct json_object *o, const char *key, uint64_t n);
void json_address(struct json_object *o, const char *key, uint64_t n);
/* A decimal; not finite: null */
void json_real(struct json_object *o, const char *key, double x);
void json_truth(struct json_object *o, const char *key, int value);
void json_null(struct json_object *o, const char *key);
struct json_object *json_object_in(struct json_object *o, const char *key);
struct json_object *json_array_in(struct json_object *o, const char *key);
struct json_object *json_append(struct json_object *array);	/* a new object at its end */
void json_append_text(struct json_object *array, const char *s);
/* [{"phys": ..., "length": ...}, ...] */
void json_ranges(struct json_object *o, const char *key, const struct phys_range *ranges,
		 size_t count);
void json_pin(struct json_object *o, const struct pin *pin);

/* Prints it and frees it.  The exit code. */
int json_print(struct json_object *o);
int json_print_line(struct json_object *o);	/* on one line, which is out when it returns */
