/* What the parts of the doctor command share. */
#ifndef VERBS_DOCTOR_H
#define VERBS_DOCTOR_H

#include "base/base.h"

#include <plimsoll/doctor.h>

struct plim_doctor_hidden {
	struct mem mem;
	struct arena words;
	VEC(struct plim_doctor_check) checks;
};

#endif
