#!/bin/sh
# python-layouts.sh FOLDER...: rows of src/live/stacks/layouts.c, printed from CPython's own headers (a folder with Python.h and internal/).
# The compiler says where each member stands; releases of 64-bit Linux are the same on every processor.
set -eu
[ $# -gt 0 ] || {
	echo "python-layouts: which folders with Python.h?" >&2
	exit 2
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/row.c" <<'END'
#define Py_BUILD_CORE 1
#include <Python.h>
#include <frameobject.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "internal/pycore_runtime.h"
#include "internal/pycore_interp.h"
#if PY_VERSION_HEX >= 0x030b0000
#include "internal/pycore_code.h"
#include "internal/pycore_frame.h"
#endif

#define AT(member, value) printf("\t  ." #member " = %zu,\n", (size_t)(value))
#if PY_VERSION_HEX >= 0x030d0000
#define TOLD(member, in) AT(member, offsetof(_Py_DebugOffsets, in))
#endif

int main(void)
{
	/* Where the bits of a text's state are. */
	PyASCIIObject kind, compact, ascii;
	unsigned bits[3];

	memset(&kind, 0, sizeof(kind));
	memset(&compact, 0, sizeof(compact));
	memset(&ascii, 0, sizeof(ascii));
	kind.state.kind = 1;
	compact.state.compact = 1;
	ascii.state.ascii = 1;
	memcpy(&bits[0], &kind.state, sizeof(*bits));
	memcpy(&bits[1], &compact.state, sizeof(*bits));
	memcpy(&bits[2], &ascii.state, sizeof(*bits));
	printf("\t/* %s */\n\t{ .version = 0x%x,\n", PY_VERSION, (unsigned)(PY_VERSION_HEX >> 16));
#if PY_VERSION_HEX >= 0x030d0000
	TOLD(interpreters_head, runtime_state.interpreters_head);
	TOLD(interpreter_next, interpreter_state.next);
	TOLD(threads_head, interpreter_state.threads_head);
	TOLD(thread_next, thread_state.next);
	TOLD(thread_native_id, thread_state.native_thread_id);
	TOLD(thread_frame, thread_state.current_frame);
	TOLD(frame_previous, interpreter_frame.previous);
	TOLD(frame_code, interpreter_frame.executable);
	TOLD(frame_instruction, interpreter_frame.instr_ptr);
	TOLD(frame_owner, interpreter_frame.owner);
	TOLD(code_file, code_object.filename);
	TOLD(code_name, code_object.qualname);
	TOLD(code_lines, code_object.linetable);
	TOLD(code_first_line, code_object.firstlineno);
	TOLD(code_bytes, code_object.co_code_adaptive);
	TOLD(object_type, pyobject.ob_type);
	TOLD(type_name, type_object.tp_name);
	TOLD(bytes_size, bytes_object.ob_size);
	TOLD(bytes_data, bytes_object.ob_sval);
	TOLD(text_state, unicode_object.state);
	TOLD(text_length, unicode_object.length);
	TOLD(text_data, unicode_object.asciiobject_size);
	printf("\t  .told = true,\n");
#else
	AT(interpreters_head, offsetof(_PyRuntimeState, interpreters.head));
	AT(interpreter_next, offsetof(PyInterpreterState, next));
#if PY_VERSION_HEX >= 0x030b0000
	AT(threads_head, offsetof(PyInterpreterState, threads.head));
	AT(thread_native_id, offsetof(PyThreadState, native_thread_id));
	AT(thread_frame, offsetof(PyThreadState, cframe));
	printf("\t  .held = true,\n");
	AT(holder_frame, offsetof(_PyCFrame, current_frame));
	AT(frame_previous, offsetof(_PyInterpreterFrame, previous));
	AT(frame_code, offsetof(_PyInterpreterFrame, f_code));
	AT(frame_instruction, offsetof(_PyInterpreterFrame, prev_instr));
	AT(frame_owner, offsetof(_PyInterpreterFrame, owner));
	AT(code_name, offsetof(PyCodeObject, co_qualname));
	AT(code_bytes, offsetof(PyCodeObject, co_code_adaptive));
#else
	AT(threads_head, offsetof(PyInterpreterState, tstate_head));
	AT(thread_id, offsetof(PyThreadState, thread_id));
	AT(main_thread_id, offsetof(_PyRuntimeState, main_thread));
	AT(thread_frame, offsetof(PyThreadState, frame));
	AT(frame_previous, offsetof(PyFrameObject, f_back));
	AT(frame_code, offsetof(PyFrameObject, f_code));
	AT(frame_instruction, offsetof(PyFrameObject, f_lasti));
	AT(code_name, offsetof(PyCodeObject, co_name));
#endif
	AT(thread_next, offsetof(PyThreadState, next));
	AT(code_file, offsetof(PyCodeObject, co_filename));
	AT(code_lines, offsetof(PyCodeObject, co_linetable));
	AT(code_first_line, offsetof(PyCodeObject, co_firstlineno));
	AT(object_type, offsetof(PyObject, ob_type));
	AT(type_name, offsetof(PyTypeObject, tp_name));
	AT(bytes_size, offsetof(PyVarObject, ob_size));
	AT(bytes_data, offsetof(PyBytesObject, ob_sval));
	AT(text_state, offsetof(PyASCIIObject, state));
	AT(text_length, offsetof(PyASCIIObject, length));
	AT(text_data, sizeof(PyASCIIObject));
#endif
	AT(text_more, sizeof(PyCompactUnicodeObject) - sizeof(PyASCIIObject));
	printf("\t  .kind_shift = %d,\n\t  .compact = 0x%x,\n\t  .ascii = 0x%x },\n", __builtin_ctz(bits[0]), bits[1], bits[2]);
	return 0;
}
END
for folder; do
	${CC:-cc} -w -I"$folder" -I"$folder/internal" -I"$folder/.." -o "$work/row" "$work/row.c"
	"$work/row"
done
