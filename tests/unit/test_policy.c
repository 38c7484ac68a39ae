/* What the names in pickles are, and whether bytes begin a pickle: tables that a release of torch may change. */
#include "checkpoint/opcodes.h"
#include "checkpoint/parts.h"
#include "checkpoint/policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_names(void **state)
{
	static const struct {
		const char *name;
		enum ckpt_trust trust;
	} names[] = {
		{ "torch._utils._rebuild_tensor_v2", CKPT_PLAIN },
		{ "torch.FloatStorage", CKPT_PLAIN },
		{ "torch.bfloat16", CKPT_PLAIN },
		{ "torch.cuda.HalfStorage", CKPT_PLAIN },
		{ "torch.q4_0", CKPT_UNKNOWN }, /* a dtype of GGUF's */
		{ "argparse.Namespace", CKPT_CLASS },
		{ "torch.nn.modules.linear.Linear", CKPT_CLASS },
		{ "torch.nn.modules.module._WithMargin", CKPT_CLASS },
		{ "torch.nn.modules.utils._pair", CKPT_UNKNOWN },
		{ "torch.nn.functional.relu", CKPT_CLASS },
		{ "transformers.models.bert.modeling_bert.BertModel", CKPT_CLASS },
		{ "transformers.models.bert.modeling_bert.load", CKPT_UNKNOWN },
		{ "transformers.models.bert.modeling_bert.os.Path", CKPT_DANGEROUS },
		{ "transformers.models.xlnet.tokenization_xlnet.XLNetTokenizer", CKPT_UNKNOWN },
		{ "pandas.core.indexes.base._new_Index", CKPT_CLASS },
		{ "pandas.core.computation.eval.Eval", CKPT_DANGEROUS },
		{ "torch.distributed.checkpoint.planner.WriteItem", CKPT_CLASS },
		{ "torch.nn.functional.os.system", CKPT_DANGEROUS },
		{ "torch.distributed.checkpoint.metadata._MEM_FORMAT_ENCODING", CKPT_DATA },
		{ "__builtin__.eval", CKPT_DANGEROUS },
		{ "copy_reg._reconstructor", CKPT_CLASS },
		{ "os", CKPT_DANGEROUS },
		{ "oslo.config", CKPT_UNKNOWN },
		{ "mine.sys.path", CKPT_DANGEROUS },
		{ "mine.system.Path", CKPT_UNKNOWN },
		{ "__main__.Model", CKPT_UNKNOWN },
		{ "mine.__main__.Model", CKPT_UNKNOWN },
		{ "mine.__class__", CKPT_DANGEROUS },
		{ "mine.Model", CKPT_UNKNOWN },
		{ "", CKPT_UNKNOWN },
		{ ".", CKPT_UNKNOWN },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (policy_of(names[i].name).trust != names[i].trust)
			fail_msg("'%s' is %d", names[i].name, policy_of(names[i].name).trust);
}

static void test_allowed(void **state)
{
	static const char list[] =
		"mine.Model, other.* # theirs, mine.Not\n\n  third.Thing\t\r\n#all.*\nlast";

	(void)state;
	assert_true(policy_is_allowed(list, "mine.Model"));
	assert_true(policy_is_allowed(list, "other.a.B"));
	assert_true(policy_is_allowed(list, "third.Thing"));
	assert_true(policy_is_allowed(list, "last"));
	assert_false(policy_is_allowed(list, "mine.Not"));
	assert_false(policy_is_allowed(list, "mine.Models"));
	assert_false(policy_is_allowed(list, "mine.Mode"));
	assert_false(policy_is_allowed(list, "otherwise.a"));
	assert_false(policy_is_allowed(list, "all.a"));
	assert_false(policy_is_allowed(list, ""));
	assert_false(policy_is_allowed(NULL, "mine.Model"));
	assert_false(policy_is_allowed("*", "mine.Model"));
	assert_false(policy_is_allowed(".*", "mine.Model"));
}

#define PICKLE(text)                                      \
	{                                                 \
		(const uint8_t *)(text), sizeof(text) - 1 \
	}
struct bytes {
	const uint8_t *at;
	size_t n;
};

static void test_pickles(void **state)
{
	static const struct bytes are[] = {
		PICKLE("\x80\x02."),
		PICKLE("cposix\nsystem\n(X\xff"),
		PICKLE("(dp0\n."),
		PICKLE("I1\n."),
		PICKLE("(S'a'\nios\nsystem\n."),
		PICKLE("(lp1\nI1\naF2.5\naN."),
	};
	static const struct bytes are_not[] = {
		PICKLE(""),
		PICKLE("."),
		PICKLE("Not found."),
		PICKLE("I am\n."),
		PICKLE("\x80\x06."),
		PICKLE("could\nnot\n"),
		PICKLE("S no quotes\n."),
		PICKLE("PK\3\4"),
		PICKLE("c1\n2\n(X"),
		PICKLE("\0\0\0\0"),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(are) / sizeof(are[0]); i++)
		if (!opcodes_is_pickle(are[i].at, are[i].n))
			fail_msg("%zu is a pickle", i);
	for (size_t i = 0; i < sizeof(are_not) / sizeof(are_not[0]); i++)
		if (opcodes_is_pickle(are_not[i].at, are_not[i].n))
			fail_msg("%zu is no pickle", i);
}

static void test_cut(void **state)
{
	static const char whole[] = "\x80\x02}X\x01\0\0\0aK\x01s.";

	(void)state;
	for (size_t n = 2; n < sizeof(whole) - 1; n++)
		assert_true(opcodes_is_cut((const uint8_t *)whole, n));
	assert_false(opcodes_is_cut((const uint8_t *)whole, sizeof(whole) - 1));
	assert_false(opcodes_is_cut((const uint8_t *)"\x80\x02\xff", 3)); /* damaged */
}

static enum plim_status hear(void *ctx, const char *name, uint64_t offset, struct plim_err *err)
{
	char *all = ctx;

	(void)err;
	snprintf(all + strlen(all), 200 - strlen(all), "%s@%llu ", name ? name : "?",
		 (unsigned long long)offset);
	return PLIM_OK;
}

/* Names that the stack gives are followed through the memo. */
static void test_heard(void **state)
{
	static const struct {
		struct bytes pickle;
		const char *names;
	} rows[] = {
		{ PICKLE("cos\nsystem\n0cmine\nX\n."), "os.system@11 mine.X@20 " },
		{ PICKLE("\x80\x04\x8c\x02os\x94\x8c\x06system\x94\x93."), "os.system@17 " },
		{ PICKLE("\x80\x04\x8c\x02os\x94\x8c\x06system\x94NN0h\0h\1\x93."),
		  "os.system@24 " },
		{ PICKLE("Vos\nq\5Vsystem\nq\7N0h\5h\7\x93."), "os.system@23 " },
		{ PICKLE("(S'x'\nios\nsystem\n\xff"
			 "cos\nlater\n"),
		  "os.system@17 " },
		/* Python's unpicklers take a name that the bytes end in without its last letter. */
		{ PICKLE("cos"), "o.@3 " },
		{ PICKLE("cos\n"), "os.@4 " },
		{ PICKLE("ios\nsystemx"), "os.system@11 " },
		{ PICKLE("c"), "" },
		{ PICKLE("\x82\1."), "?@2 " },
		{ PICKLE("cos\0\nsystem\n."), "?@12 " },
	};
	char said[200];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		said[0] = 0;
		assert_int_equal(
			opcodes_name(rows[i].pickle.at, rows[i].pickle.n, hear, said, NULL),
			PLIM_OK);
		assert_string_equal(said, rows[i].names);
	}
}

static void test_doubt(void **state)
{
	static const struct bytes right[] = {
		PICKLE("\x80\x04\x95\2\0\0\0\0\0\0\0N."),
		PICKLE("\x80\x04N\x95\1\0\0\0\0\0\0\0."),
	};
	static const struct bytes wrong[] = {
		PICKLE("\x80\x04\x95\2\0\0\0\0\0\0\0C\1a."),
		PICKLE("\x80\x04\x95\x0a\0\0\0\0\0\0\0\x95\0\0\0\0\0\0\0\0N."),
		PICKLE("\x80\x04\x95\x7f\0\0\0\0\0\0\0N."),
		PICKLE("\x80\x02N0\x80\x02N."),
	};
	size_t at;

	(void)state;
	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++)
		assert_null(opcodes_doubt(right[i].at, right[i].n, &at));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (!opcodes_doubt(wrong[i].at, wrong[i].n, &at))
			fail_msg("%zu is doubtful", i);
}

/* A header of a tar as Python's tarfile takes one: the sum in octal, up to its NUL, or in base 256. */
static void test_tar(void **state)
{
	uint8_t head[512] = "N.";
	unsigned sum = 8 * ' ' + 'N' + '.';

	(void)state;
	assert_false(tarred_is(head, sizeof(head)));
	snprintf((char *)head + 148, 8, "%06o", sum);
	assert_true(tarred_is(head, sizeof(head)));
	assert_false(tarred_is(head, sizeof(head) - 1));
	snprintf((char *)head + 148, 8, " 0o%o", sum);
	assert_true(tarred_is(head, sizeof(head)));
	memcpy(head + 148, "\x80\0\0\0\0\0", 6);
	head[154] = (uint8_t)(sum >> 8);
	head[155] = (uint8_t)sum;
	assert_true(tarred_is(head, sizeof(head)));
	head[0] = 'M';
	assert_false(tarred_is(head, sizeof(head)));
	memset(head, 0, sizeof(head)); /* an end of an archive, and a file of zeros */
	assert_false(tarred_is(head, sizeof(head)));
}

/* ggml's blocks: bytes of a tensor, against what ggml itself says (gguf-py's GGML_QUANT_SIZES). */
static void test_blocks(void **state)
{
	static const struct {
		const char *name;
		uint64_t block, bytes;
	} blocks[] = {
		{ "q4_0", 32, 18 },   { "q5_1", 32, 24 },   { "q8_0", 32, 34 },
		{ "q2_k", 256, 84 },  { "q4_k", 256, 144 }, { "q6_k", 256, 210 },
		{ "iq4_nl", 32, 18 }, { "mxfp4", 32, 17 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
		struct ckpt_tensor t = { .dtype = ckpt_dtype_of_torch(blocks[i].name),
					 .count = 3 * blocks[i].block };

		assert_non_null(t.dtype);
		assert_int_equal(ckpt_tensor_bytes(&t), 3 * blocks[i].bytes);
		assert_true(t.dtype->bits % 8 &&
			    t.dtype->bits != 4); /* no writer takes it for a number of its own */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),   cmocka_unit_test(test_allowed),
		cmocka_unit_test(test_pickles), cmocka_unit_test(test_cut),
		cmocka_unit_test(test_heard),   cmocka_unit_test(test_doubt),
		cmocka_unit_test(test_tar),     cmocka_unit_test(test_blocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
