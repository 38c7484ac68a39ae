/*
 * What the name of a series shows: "eval/loss", "train_grad_norm", "val_acc", "lm loss".
 *
 * A name is cut into lower-case words at everything that is not a letter or digit, and where a capital
 * follows a small letter.  The first row of the table whose words are all there gives the role; a row
 * for evaluations also needs a word for them, or no word for training.
 */
#include "parts.h"

#include <ctype.h>

#define WORDS 16
#define WORD_BYTES 24

struct words {
	char at[WORDS][WORD_BYTES];
	size_t n;
};

static void cut_name(const char *name, size_t n, struct words *w)
{
	size_t len = 0;

	w->n = 0;
	for (size_t i = 0; i <= n && w->n < WORDS; i++) {
		int c = i < n ? (unsigned char)name[i] : 0;
		bool hump = i && i < n && isupper(c) && islower((unsigned char)name[i - 1]);

		if (len && (hump || !isalnum(c))) {
			w->at[w->n++][len] = 0;
			len = 0;
		}
		if (w->n < WORDS && isalnum(c) && len + 1 < WORD_BYTES)
			w->at[w->n][len++] = (char)tolower(c);
	}
}

static size_t joined_word(const char *word);

/* "eprewmean", "trainloss": a word that is several known ones is cut into them. */
static void cut_joined(struct words *w)
{
	for (size_t i = 0; i < w->n; i++) {
		size_t n = joined_word(w->at[i]);

		if (!n || w->n == WORDS)
			continue;
		memmove(w->at[i + 1], w->at[i], (w->n++ - i) * WORD_BYTES);
		memmove(w->at[i + 1], w->at[i] + n, WORD_BYTES - n);
		w->at[i][n] = 0;
	}
}

static bool name_has(const struct words *w, const char *word)
{
	for (size_t i = 0; i < w->n; i++)
		if (!strcmp(w->at[i], word))
			return true;
	return false;
}

/* Is a word of the list, words parted by spaces, among them?  This is asked of each name in each line of a log. */
static bool has_any(const struct words *w, const char *list)
{
	while (*list) {
		size_t n = 0;

		while (list[n] && list[n] != ' ')
			n++;
		for (size_t i = 0; i < w->n; i++)
			if (w->at[i][0] == *list && !memcmp(w->at[i], list, n) && !w->at[i][n])
				return true;
		list += n + (list[n] == ' ');
	}
	return false;
}

/* Is the word in a list, words parted by spaces? */
static bool in_list(const char *word, const char *list)
{
	struct words one = { .n = 1 };

	(void)snprintf(one.at[0], WORD_BYTES, "%s", word);
	return has_any(&one, list);
}

#define EVALUATION_WORDS "va val valid validation eval evaluation evaluate dev test heldout"
static const char evaluation[] = EVALUATION_WORDS;
static const char evaluating[] = "evaluating testing validating tested evaluated";
static const char training[] = "train training tr learn";

/* PLAYED: collected by the training itself, so an evaluation only if the name says so. */
enum side { ANY, EVALUATION, PLAYED };

/* The first row that fits counts. */
static const struct {
	const char *one, *two; /* a word of each list must be there; two NULL: none */
	enum side side;
	enum plim_role role;
} rows[] = {
	{ "runtime seconds second sec ms time eta throughput tokens samples flops mfu tflops "
	  "utilization "
	  "temperature power temp watts watt elapsed timestamp remaining speed wps ups wpb bsz",
	  NULL, ANY, PLIM_ROLE_OTHER },
	{ "every interval freq patience", NULL, ANY, PLIM_ROLE_OTHER }, /* settings */
	{ "py", NULL, ANY, PLIM_ROLE_OTHER },                           /* a line of losses.py */
	{ "number count", "error errors", ANY, PLIM_ROLE_OTHER },
	{ "rate", "loss", ANY, PLIM_ROLE_OTHER },     /* of games, of packets */
	{ "std stddev", NULL, ANY, PLIM_ROLE_OTHER }, /* how far values spread */
	{ "max clip clipping", "norm gnorm", ANY, PLIM_ROLE_OTHER },
	{ "grad gradient gradients gnorm g", "norm gnorm total", ANY, PLIM_ROLE_GRAD_NORM },
	{ "gnorm gradnorm", NULL, ANY, PLIM_ROLE_GRAD_NORM },
	{ "lr", NULL, ANY, PLIM_ROLE_LEARNING_RATE },
	{ "learning", "rate", ANY, PLIM_ROLE_LEARNING_RATE },
	{ "scale scaler", "loss grad amp scaler", ANY, PLIM_ROLE_LOSS_SCALE },
	{ "skipped skip overflow overflows", NULL, ANY, PLIM_ROLE_SKIPPED_STEPS },
	{ "memory mem vram", NULL, ANY, PLIM_ROLE_MEMORY },
	{ "entropy", "policy actor", ANY, PLIM_ROLE_ENTROPY },
	/* Of pairs of answers: both rewards may fall while the model learns which is better. */
	{ "margins accuracies", evaluation, ANY, PLIM_ROLE_METRIC },
	{ "rewards", "margins accuracies chosen rejected", ANY, PLIM_ROLE_OTHER },
	{ "reward rewards rew", NULL, PLAYED, PLIM_ROLE_METRIC },
	{ "return returns ret",
	  EVALUATION_WORDS " train training rollout ep episode episodic mean average avg", PLAYED,
	  PLIM_ROLE_METRIC },
	{ "perplexity ppl wer cer mae mse rmse mape rmsle msle mphe merror error err fid ece brier "
	  "smape eer",
	  NULL, EVALUATION, PLIM_ROLE_ERROR },
	{ "acc accuracy f1 auc auroc auprc precision recall bleu sacrebleu rouge rouge1 rouge2 "
	  "rougel "
	  "rougelsum meteor chrf map ap map50 map5095 ap50 iou miou dice mcc matthews exact em r2 "
	  "pearson "
	  "spearman spearmanr psnr ssim top1 top5 acc1 acc5 ndcg mrr balanced kappa",
	  NULL, EVALUATION, PLIM_ROLE_METRIC },
};

static const char losses[] = "loss losses logloss mlogloss nll xent crossentropy bpb bpc";

/*
 * Names of objectives (CatBoost, LightGBM, XGBoost, Keras), their words joined, and the letter: losses if a log has no other.
 * What is behind a colon are parameters.
 */
static const char objectives[] =
	"crossentropy l l1 l2 lq huber fair hinge focal logcosh ce bce binarycrossentropy "
	"categoricalcrossentropy "
	"crossentropylambda kullbackleibler multiclass multiclassonevsall quantile multiquantile "
	"loglinquantile expectile poisson poissonnloglik gamma gammadeviance gammanloglik tweedie "
	"tweedienloglik coxnloglik aftnloglik multirmse rmsewithuncertainty queryrmse querysoftmax "
	"cewords querycrossentropy pairlogit pairlogitpairwise";

/* "mse_loss", "dice loss" and "loss_iou" are losses, "Loss/accuracy" is a metric. */
static bool is_loss_of(const struct words *w, enum plim_role role, const char *metrics)
{
	size_t metric = WORDS, loss = 0;

	if (!has_any(w, losses) || role != PLIM_ROLE_METRIC)
		return role == PLIM_ROLE_ERROR && has_any(w, losses);
	for (size_t i = 0; i < w->n; i++) {
		metric = metric == WORDS && in_list(w->at[i], metrics) ? i : metric;
		loss = in_list(w->at[i], losses) ? i : loss;
	}
	return loss > metric || has_any(w, "dice iou ssim");
}

/* Words that say how a loss was taken down, not which it is. */
static const char neutral[] =
	"loss losses lm total epoch step avg mean average iter batch running smoothed";

/* Is a name, without its sides and numbers, that of an objective? */
static bool is_objective(const struct words *w)
{
	char joined[WORDS * WORD_BYTES] = "";
	size_t k = 0;

	for (size_t i = 0; i < w->n; i++)
		if (!isdigit((unsigned char)*w->at[i]) && !in_list(w->at[i], evaluation) &&
		    !in_list(w->at[i], training) && !in_list(w->at[i], neutral) &&
		    strcmp(w->at[i], "s") != 0) /* "training's" */
			k += (size_t)snprintf(joined + k, sizeof(joined) - k, "%s", w->at[i]);
	return k < WORD_BYTES && in_list(joined, objectives);
}

/* "valid_num_updates", "eval_step": a count, whatever else it says. */
static bool is_counter(const struct words *w)
{
	return w->n && in_list(w->at[w->n - 1],
			       "step steps iter iters iteration iterations update updates");
}

static void find_role(const struct words *w, bool eval, bool train, struct series_name *out)
{
	enum plim_role loss = eval ? PLIM_ROLE_VAL_LOSS : PLIM_ROLE_TRAIN_LOSS;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (has_any(w, rows[i].one) && (!rows[i].two || has_any(w, rows[i].two)) &&
		    (rows[i].side != EVALUATION || eval || !train)) {
			out->role = is_loss_of(w, rows[i].role, rows[i].one) ? loss : rows[i].role;
			out->played = rows[i].side == PLAYED && !eval;
			return;
		} else if (rows[i].role == PLIM_ROLE_ERROR && has_any(w, rows[i].one)) {
			out->objective = true; /* of the training */
		}
	out->unknown = !has_any(w, losses);
	out->role = out->unknown ? PLIM_ROLE_OTHER : loss;
}

static bool is_known_word(const char *word)
{
	bool known = in_list(word, evaluation) || in_list(word, training) ||
		     in_list(word, losses) || in_list(word, neutral);

	for (size_t i = 0; !known && i < sizeof(rows) / sizeof(*rows); i++)
		known = in_list(word, rows[i].one) || (rows[i].two && in_list(word, rows[i].two));
	return known;
}

#define JOINED_LEAST 2 /* letters of a part */

/* The letters of the first of the known words that a word joins; 0: it is one word. */
static size_t joined_word(const char *word)
{
	size_t n = strlen(word);
	char first[WORD_BYTES];

	if (n < 2 * JOINED_LEAST || is_known_word(word))
		return 0;
	for (size_t k = n - JOINED_LEAST; k >= JOINED_LEAST; k--) {
		(void)snprintf(first, sizeof(first), "%.*s", (int)k, word);
		if (is_known_word(first) && (is_known_word(word + k) || joined_word(word + k)))
			return k;
	}
	return 0;
}

struct series_name series_name_of(const char *name, size_t n)
{
	struct series_name out = { .key = 1469598103934665603u };
	struct words w, parts; /* all; without parameters, uncut */
	const char *colon;
	bool eval, train;

	colon = n ? memchr(name, ':', n) : NULL;
	cut_name(name, colon ? (size_t)(colon - name) : n, &parts);
	cut_name(name, n, &w);
	cut_joined(&w);
	eval = has_any(&w, evaluation) || has_any(&w, evaluating);
	train = has_any(&w, training);
	find_role(&w, eval, train, &out);
	out.counter = is_counter(&w);
	out.objective |= out.unknown && (is_objective(&parts) || has_any(&w, "cost costs"));
	out.side = eval ? SERIES_EVALUATION : train ? SERIES_TRAINING : SERIES_NO_SIDE;
	out.player = has_any(&w, "discriminator disc") ? SERIES_JUDGES_ALL
		     : has_any(&w, "d critic")         ? SERIES_JUDGES
		     : has_any(&w, "g gen generator")  ? SERIES_GENERATES
						       : SERIES_NO_PLAYER;
	for (size_t i = 0; i < w.n; i++) {
		struct words one = { .n = 1 };

		memcpy(one.at[0], w.at[i], WORD_BYTES);
		if (has_any(&one, evaluation) || has_any(&one, training) || has_any(&one, neutral))
			continue;
		out.rank++;
		for (const char *c = w.at[i]; *c; c++)
			out.key = (out.key ^ (unsigned char)*c) * 1099511628211u;
	}
	/* Of two that mean the same, the one by epochs is the coarser one. */
	out.rank = 4 * out.rank + (name_has(&w, "epoch") ? 1 : 0);
	return out;
}

bool series_is_bare_side(struct series_name says)
{
	return says.unknown && says.side == SERIES_TRAINING && says.rank == 0;
}

enum series_side series_side_of(const char *word, size_t n)
{
	char low[WORD_BYTES];

	if (n >= sizeof(low))
		return SERIES_NO_SIDE;
	for (size_t i = 0; i <= n; i++)
		low[i] = (char)(i < n ? tolower((unsigned char)word[i]) : 0);
	return in_list(low, evaluation) || in_list(low, evaluating) ? SERIES_EVALUATION
	       : in_list(low, training)                             ? SERIES_TRAINING
								    : SERIES_NO_SIDE;
}

/* One of a list of names, which is asked for each value of a log. */
struct known_name {
	const char *at;
	size_t n;
};
#define NAME(text)                     \
	{                              \
		text, sizeof(text) - 1 \
	}

/* "misc/total_timesteps": the part behind the last slash. */
static const char *behind_slash(const char *name, size_t *n)
{
	const char *slash = memrchr(name, '/', *n);

	*n -= slash ? (size_t)(slash + 1 - name) : 0;
	return slash ? slash + 1 : name;
}

/* "valid_num_updates": the part behind a word of a side. */
static const char *behind_side(const char *name, size_t *n)
{
	const char *end = memchr(name, '_', *n);
	size_t k = end ? (size_t)(end - name) : 0;

	if (!series_side_of(name, k))
		return name;
	*n -= k + 1;
	return end + 1;
}

static unsigned place_in(const struct known_name *list, size_t count, const char *name, size_t n)
{
	for (unsigned i = 0; i < count; i++)
		if (list[i].n == n && !strncasecmp(name, list[i].at, n))
			return i + 1;
	return 0;
}

bool series_counts_updates(const char *name, size_t n)
{
	struct words w;

	cut_name(name, n, &w);
	return is_counter(&w) && has_any(&w, "num global total updates training");
}

unsigned series_is_step(const char *name, size_t n)
{
	static const struct known_name steps[] = {
		NAME("global_step"),  NAME("_step"),         NAME("step"),
		NAME("global_steps"), NAME("iteration"),     NAME("iter"),
		NAME("iters"),        NAME("num_updates"),   NAME("update"),
		NAME("up."),          NAME("updates"),       NAME("n_iter"),
		NAME("global step"),  NAME("training_step"), NAME("total_timesteps"),
		NAME("episode"),      NAME("steps"), /* next to an episode: how long it was */
	};
	unsigned rank;

	name = behind_slash(name, &n);
	rank = place_in(steps, sizeof(steps) / sizeof(*steps), name, n);
	name = behind_side(name, &n);
	if (!rank && series_counts_updates(name, n))
		rank = place_in(steps, sizeof(steps) / sizeof(*steps), name, n);
	return rank;
}

bool series_is_epoch(const char *name, size_t n)
{
	static const struct known_name epochs[] = { NAME("epoch"), NAME("epochs"), NAME("ep"),
						    NAME("ep."), NAME("current_epoch") };

	name = behind_slash(name, &n);
	return place_in(epochs, sizeof(epochs) / sizeof(*epochs), name, n);
}

bool series_is_public_word(const char *word, size_t n)
{
	char low[WORD_BYTES];
	size_t letters = n;
	bool known = false;

	while (letters && isdigit((unsigned char)word[letters - 1]))
		letters--;
	if (public_is_word(word, n) || n >= sizeof(low))
		return public_is_word(word, n);
	for (size_t i = 0; i <= n; i++)
		low[i] = (char)(i < n ? tolower((unsigned char)word[i]) : 0);
	for (int whole = 1; whole >= 0 && !known; whole--) {
		low[whole ? n : letters] = 0;
		known = is_known_word(low);
	}
	return known;
}

bool series_is_time(const char *name, size_t n)
{
	static const struct known_name times[] = { NAME("_timestamp"), NAME("timestamp"),
						   NAME("wall_time"),  NAME("walltime"),
						   NAME("created_at"), NAME("time_unix") };

	return place_in(times, sizeof(times) / sizeof(*times), name, n);
}

bool series_names_side(const char *name, size_t n)
{
	struct words w;

	cut_name(name, n, &w);
	return has_any(&w, "mode split phase stage type kind event set subset part partition");
}

enum plim_role plim_role_of(const char *name)
{
	return series_name_of(name, strlen(name)).role;
}
