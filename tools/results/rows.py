"""The rows that src/base/fields.c emits JSON by, as a C file: a table a struct, names and plim_ENUM_name an enum;
and the tables of options."""
import options

KINDS = {"u64": "U64", "i64": "I64", "u32": "U32", "bool": "BOOL", "tri": "TRI", "double": "DOUBLE",
         "string": "STRING", "enum": "ENUM", "struct": "STRUCT", "pointer": "POINTER", "structs": "STRUCTS",
         "strings": "STRINGS", "u64s": "U64S"}


def row(struct, m):
    arguments = [f"struct plim_{struct.name}", m.name]
    if m.count:
        arguments.append(m.count)
    if m.kind == "enum":
        arguments += [f"enum plim_{m.of}", f"{m.of}_names"]
    elif m.of:
        arguments += [f"struct plim_{m.of}", f"{m.of}_table"]
    return f"\tFIELD_{KINDS[m.kind]}({', '.join(arguments)}),"


def enum_names(enum):
    lines = [f"static const char *const {enum.name}_names[] = {{"]
    for number, name in enum.names().items():
        if name is not None:
            lines.append(f'\t[{number}] = "{name}",')
    return lines + ["};", f"const char *plim_{enum.name}_name(enum plim_{enum.name} value)", "{",
                    f"\treturn (size_t)value < sizeof({enum.name}_names) / sizeof(*{enum.name}_names) ? "
                    f"{enum.name}_names[value] : NULL;", "}"]


def table(api, struct):
    schema = next((f"{name}/{number}" for name, (number, root) in api.schemas.items() if root == struct.name), None)
    told = f', "{schema}"' if schema else ", NULL"
    return ([f"static const struct field {struct.name}_rows[] = {{"] + [row(struct, m) for m in struct.shown] + ["};"] +
            [f"const struct field_table {struct.name}_table = FIELD_TABLE(struct plim_{struct.name}, {struct.name}_rows{told});"])


def source(api):
    structs = api.results()
    used = {m.of for s in structs for m in s.shown if m.kind == "enum"}
    # Those whose name is asked for alone; plim_status_name has words of its own for what is not a status.
    used |= {name for name in api.enums if name != "status" and f"plim_{name}_name" in {f.name for f in api.functions}}
    lines = ["/* Made of include/plimsoll by tools/results: change the headers. */", '#include "result_tables.h"', ""]
    for name in sorted(used):
        lines += enum_names(api.enums[name]) + [""]
    for struct in structs:
        lines += table(api, struct) + [""]
    for struct in options.options(api):
        lines += list(options.table(api, struct))
    return "\n".join(lines)


def header(api):
    names = [f"extern const struct field_table {s.name}_table;" for s in api.results()]
    names += [f"extern const struct options_table {s.name}_table;" for s in options.options(api)]
    return "\n".join(["/* Made of include/plimsoll by tools/results: the table of each struct of a result. */",
                      "#ifndef RESULT_TABLES_H", "#define RESULT_TABLES_H", "", '#include "base/fields.h"', '#include "base/options.h"', "",
                      "#include <plimsoll/plimsoll.h>", ""] +
                     names + ["", "#endif", ""])
