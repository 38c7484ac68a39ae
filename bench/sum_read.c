/*
 * sum_read FILE THREADS: read a file and add up its 64-bit words, as fast as a plain program does: the peer of
 * ckpt verify.  Prints the sum, so that nothing is optimised away.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE ((size_t)256 << 10)
#define PART ((off_t)32 << 20)
#define THREADS 64

static int fd;
static _Atomic long next;
static _Atomic uint64_t total;

static void *work(void *arg)
{
	static _Thread_local uint64_t room[PIECE / sizeof(uint64_t)];
	uint64_t sum = 0;
	ssize_t n = 1;

	(void)arg;
	for (off_t part = next++; n > 0; part = next++)
		for (off_t at = part * PART; at < (part + 1) * PART; at += n) {
			n = pread(fd, room, PIECE, at);
			if (n <= 0)
				break;
			for (size_t i = 0; i < (size_t)n / sizeof(*room); i++)
				sum += room[i];
		}
	total += sum;
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	int n = argc == 3 ? atoi(argv[2]) : 0;

	fd = argc == 3 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0 || n < 1 || n > THREADS) {
		fprintf(stderr, "usage: sum_read FILE THREADS\n");
		return 2;
	}
	for (int i = 1; i < n; i++)
		if (pthread_create(&threads[i], NULL, work, NULL))
			return 1;
	work(NULL);
	for (int i = 1; i < n; i++)
		pthread_join(threads[i], NULL);
	printf("%llu\n", (unsigned long long)total);
	return 0;
}
