/* Threads of our own, next to pthread.h. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

/* As pthread_create; the thread watches the same task (mem_watch), and receives no signals: those are for the program's own threads. */
int thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

/* How many processors this thread may run on; at least 1. */
unsigned thread_processors(void);

#endif
