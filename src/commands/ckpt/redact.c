/*
 * --redact of the ckpt commands.  What a file's names are made of is looked at word by word: numbers and words that public
 * checkpoints have stay (base/redact.h).
 */
#include "commands/ckpt/ckpt.h"

#include <string.h>

void ckpt_hide_words(struct redact *h, const char **name)
{
	redact_words(h, "name", name);
}

void ckpt_hide_quoted(struct redact *h, const char **sentence)
{
	redact_sentence(h, "name", sentence);
}

/* Some sentences report a device or a class without quotation marks. */
static void hide_known(struct redact *h, const char **sentence, const char *name, const char *word)
{
	const char *at = name && *name && strcmp(name, word) != 0 && *sentence
				 ? strstr(*sentence, name)
				 : NULL;

	if (at && !h->err->status)
		*sentence = arena_text(h->arena, h->err, "%.*s%s%s", (int)(at - *sentence),
				       *sentence, word, at + strlen(name));
}

static void hide_sentence(struct redact *h, const struct plim_ckpt *c, const char **sentence)
{
	const char *was = NULL;

	hide_known(h, sentence, c->path, "checkpoint");
	for (size_t i = 0; i < c->global_count; i++) {
		const char *word = c->globals[i].name;

		ckpt_hide_words(h, &word);
		hide_known(h, sentence, c->globals[i].name, word);
		word = c->globals[i].record;
		ckpt_hide_words(h, &word);
		hide_known(h, sentence, c->globals[i].record, word);
	}
	for (size_t i = 0; i < c->tensor_count; i++) {
		const char *word = c->tensors[i].device;

		if (!word || word == was)
			continue;
		was = word;
		ckpt_hide_words(h, &word);
		hide_known(h, sentence, was, word);
	}
	ckpt_hide_quoted(h, sentence);
}

static void hide_rows(struct redact *h, struct plim_ckpt *c)
{
	for (size_t i = 0; i < c->tensor_count; i++) {
		ckpt_hide_words(h, &c->tensors[i].name);
		ckpt_hide_words(h, &c->tensors[i].device);
		ckpt_hide_words(h, &c->tensors[i].file);
	}
	for (size_t i = 0; i < c->global_count; i++) {
		ckpt_hide_words(h, &c->globals[i].name);
		ckpt_hide_words(h, &c->globals[i].record);
	}
	for (size_t i = 0; i < c->key_count; i++) {
		ckpt_hide_words(h, &c->keys[i].name);
		ckpt_hide_words(h, &c->keys[i].what);
	}
	for (size_t i = 0; i < c->required_missing_count; i++)
		ckpt_hide_words(h, &c->required_missing[i]);
	for (size_t i = 0; i < c->optimizer_count; i++)
		ckpt_hide_words(h, &c->optimizers[i].path);
	for (size_t i = 0; i < c->fact_count; i++) {
		ckpt_hide_words(h, &c->facts[i].name);
		ckpt_hide_words(h, &c->facts[i].value);
	}
	for (size_t i = 0; i < c->group_count; i++) {
		ckpt_hide_words(h, &c->groups[i].prefix);
		ckpt_hide_words(h, &c->groups[i].devices);
	}
}

enum plim_status ckpt_hide(struct plim_ckpt *c, struct intern *words, struct plim_err *err)
{
	struct redact h = { .arena = &c->hidden->arena, .words = words, .err = err };

	err->status = PLIM_OK;
	for (size_t i = 0; i < c->finding_count; i++)
		hide_sentence(&h, c, &c->findings[i].title);
	hide_sentence(&h, c, &c->headline);
	hide_rows(&h, c);
	c->path = "checkpoint";
	return err->status;
}
