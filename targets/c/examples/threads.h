/*
 * Workers of POSIX threads: what pocket_machine.run may be.
 *
 * A job is some dozens of microseconds long, so a thread that has done its share looks for the next one for a moment
 * before it sleeps. The calling thread does a share too, and those that nobody else has begun: a worker that the system
 * keeps from running costs speed, but no wait.
 */
#ifndef THREADS_H
#define THREADS_H

#include <pthread.h>
#include <stddef.h>

#include "pocket.h"

enum { THREADS_MAX = 64, THREADS_SPINS = 4000 };

typedef struct threads {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Guarded by the lock; `round` is also looked at without it. */
    unsigned round;
    int ending;
    pocket_job_fn job;
    void *job_context;
    size_t count, begun, undone;
    /* The threads beside the calling one. */
    size_t others;
    pthread_t ids[THREADS_MAX];
} threads;

/* Does a share of the current job; gives 0 if all have begun. The lock is held before and after. */
static inline int threads_share(threads *t) {
    if (t->begun >= t->count) return 0;
    size_t index = t->begun++;
    pocket_job_fn job = t->job;
    void *context = t->job_context;
    pthread_mutex_unlock(&t->lock);
    job(context, index);
    pthread_mutex_lock(&t->lock);
    if (--t->undone == 0) pthread_cond_broadcast(&t->changed);
    return 1;
}

static inline void *threads_work(void *context) {
    threads *t = (threads *)context;
    unsigned seen = 0;
    for (;;) {
        for (int i = 0; i < THREADS_SPINS && __atomic_load_n(&t->round, __ATOMIC_ACQUIRE) == seen; i++) {
        }
        pthread_mutex_lock(&t->lock);
        while (t->round == seen && !t->ending) pthread_cond_wait(&t->changed, &t->lock);
        seen = t->round;
        int ending = t->ending;
        if (!ending) threads_share(t);
        pthread_mutex_unlock(&t->lock);
        if (ending) return NULL;
    }
}

/* A pocket_run_fn; its context is a `threads`. */
static inline void threads_run(void *run_context, size_t count, pocket_job_fn job, void *job_context) {
    threads *t = (threads *)run_context;
    pthread_mutex_lock(&t->lock);
    t->job = job;
    t->job_context = job_context;
    t->count = t->undone = count;
    t->begun = 0;
    __atomic_store_n(&t->round, t->round + 1, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&t->changed);
    while (threads_share(t)) {
    }
    while (t->undone > 0) pthread_cond_wait(&t->changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

/* Ends the threads. */
static inline void threads_end(threads *t) {
    pthread_mutex_lock(&t->lock);
    t->ending = 1;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    for (size_t i = 0; i < t->others; i++) pthread_join(t->ids[i], NULL);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
}

/* Starts `count - 1` threads; gives 0, or what pthread_create gave. */
static inline int threads_start(threads *t, size_t count) {
    t->round = 0;
    t->ending = 0;
    t->count = t->begun = t->undone = 0;
    t->others = 0;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    while (t->others + 1 < count && t->others < THREADS_MAX) {
        int error = pthread_create(&t->ids[t->others], NULL, threads_work, t);
        if (error != 0) {
            threads_end(t);
            return error;
        }
        t->others++;
    }
    return 0;
}

#endif
