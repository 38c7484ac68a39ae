/* What every verb's output shares: JSON by a table of fields, and the documentation of that table. */
#ifndef API_OUTPUT_H
#define API_OUTPUT_H

#include "base/base.h"

#include <plimsoll/report.h>

/* One object: "schema", "version", then the members of `what`. */
enum plim_status output_json(struct mem *m, const char *schema, const struct field_table *table,
			     const void *what, plim_write_fn *write, void *ctx,
			     struct plim_err *err);

/* The rows as Markdown, or with `layout` the structs' layout. */
enum plim_status output_fields(const struct field_table *table, int layout, plim_write_fn *write,
			       void *ctx, struct plim_err *err);

/* Hand a finished text out and release it. */
enum plim_status output_text(struct text *t, plim_write_fn *write, void *ctx, struct plim_err *err);

#endif
