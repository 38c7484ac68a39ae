/* A library as a wheel has it, for tests/wheel_program.py: the program in it prints its arguments. */
#include <plimsoll/status.h>

#include <stdio.h>

PLIM_API int plim_program_main(int argc, char **argv);

PLIM_API const char *plim_version(void)
{
	return VERSION;
}

int plim_program_main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		puts(argv[i]);
	return argc;
}
