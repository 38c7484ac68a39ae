/* plimsoll curves -o page.html. */
#include "base/base.h"
#include "verbs/curves/curves.h"

enum plim_status plim_curves_page(const struct plim_curves *c, const char *path,
				  struct plim_err *err)
{
	(void)c;
	return err_set(err, PLIM_E_UNSUPPORTED, "'%s': pages of curves are not there yet", path);
}
