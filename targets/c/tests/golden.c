/*
 * The logits' hash of an image in every way that C can compute it:
 *
 *     golden IMAGE CACHE < tokens        (CACHE: f16 or i8; tokens: numbers between anything else)
 *
 * Prints a line for each way: the hash, the kernels, how. `ci/c` compares the hashes with host-test/fixtures/golden.json.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __aarch64__
#include <sys/auxv.h>
#endif

#include "pocket.h"
#include "sha256.h"
#include "threads.h"

enum { CONTEXT = 304 };

static void check(const char *what, pocket_status status) {
    if (status == POCKET_OK) return;
    fprintf(stderr, "golden: %s: %s (%u)\n", what, pocket_error_text(status), (unsigned)status);
    exit(1);
}

static void *aligned(size_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, 64, bytes) != 0) exit(1);
    return memory;
}

/* Workers that do one share and leave the rest undone; the bits must not show it. */
static void run_lazily(void *context, size_t count, pocket_job_fn job, void *job_context) {
    (void)context;
    job(job_context, count - 1);
}

/* Workers that do nothing at all. */
static void run_never(void *context, size_t count, pocket_job_fn job, void *job_context) {
    (void)context, (void)count, (void)job, (void)job_context;
}

static void hash(const pocket_image *image, uint32_t cache, pocket_machine machine, uint32_t batch, const char *how,
                 const uint32_t *tokens, size_t count) {
    pocket_limits limits = pocket_limits_new(CONTEXT);
    limits.cache = cache;
    limits.batch = batch;
    limits.workers = machine.workers ? (uint32_t)machine.workers : 1;
    limits.word_bytes = limits.chat_bytes = 0;
    pocket_plan plan;
    check("plan", pocket_plan_session(image, &limits, &plan));
    void *arena = aligned(plan.arena_bytes);
    memset(arena, 0xa5, plan.arena_bytes);
    pocket_session *session;
    check(how, pocket_session_new(image, &limits, &machine, arena, plan.arena_bytes, &session));
    sha256 hash;
    sha256_start(&hash);
    const float *logits;
    size_t logit_count;
    for (size_t i = 0; i < count; i++) {
        /* In between, tokens of another story come and go, a batch at a time. */
        if (i == 100) {
            check("prefill", pocket_prefill(session, tokens, 40));
            check("rewind", pocket_rewind(session, i));
        }
        check("decode", pocket_decode(session, tokens[i]));
        check("logits", pocket_logits(session, &logits, &logit_count));
        sha256_add(&hash, logits, logit_count * sizeof *logits);
    }
    char digits[65] = "";
    sha256_end(&hash, digits);

    /* All tokens at once give the last token's logits too. */
    float *last = (float *)malloc(logit_count * sizeof *logits);
    memcpy(last, logits, logit_count * sizeof *logits);
    check("reset", pocket_reset(session));
    check("prefill", pocket_prefill(session, tokens, count));
    check("logits", pocket_logits(session, &logits, &logit_count));
    if (memcmp(last, logits, logit_count * sizeof *logits) != 0) {
        fprintf(stderr, "golden: %s: a prefill has other logits than its tokens one by one\n", how);
        exit(1);
    }
    uint32_t kernels;
    check("kernels", pocket_session_kernels(session, &kernels));
    printf("%s %s %s\n", digits, pocket_kernels_name(kernels), how);
    free(last);
    free(arena);
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    FILE *file = fopen(arguments[1], "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) return 1;
    size_t length = (size_t)ftell(file);
    rewind(file);
    void *bytes = aligned(length);
    if (fread(bytes, 1, length, file) != length) return 1;
    fclose(file);
    uint32_t cache = strcmp(arguments[2], "i8") == 0 ? POCKET_CACHE_I8 : POCKET_CACHE_F16;

    uint32_t tokens[CONTEXT];
    size_t token_count = 0;
    for (int c = getchar(); c != EOF && token_count < 256;) {
        if (c < '0' || c > '9') {
            c = getchar();
            continue;
        }
        uint32_t token = 0;
        for (; c >= '0' && c <= '9'; c = getchar()) token = 10 * token + (uint32_t)(c - '0');
        tokens[token_count++] = token;
    }
    if (token_count == 0) return 1;
    /* As the fixture: the tokens again and again, so that attention has more than one chunk. */
    for (size_t i = token_count; i < 300; i++) tokens[i] = tokens[i - token_count];

    pocket_image image;
    check("open", pocket_image_open(bytes, length, &image));
    check("verify", pocket_image_verify(&image));
    pocket_machine machine;
    memset(&machine, 0, sizeof machine);
#ifdef __aarch64__
    machine.hwcap = getauxval(AT_HWCAP);
    machine.hwcap2 = getauxval(AT_HWCAP2);
#endif
    for (uint32_t kernels = POCKET_KERNELS_BEST; kernels <= POCKET_KERNELS_AVXVNNI; kernels++) {
        if (kernels != POCKET_KERNELS_BEST && *pocket_kernels_name(kernels) == '\0') continue;
        machine.kernels = kernels;
        /* Kernels that this library has may still be missing in this machine. */
        pocket_limits limits = pocket_limits_new(CONTEXT);
        pocket_plan plan;
        check("plan", pocket_plan_session(&image, &limits, &plan));
        void *arena = aligned(plan.arena_bytes);
        pocket_session *session;
        pocket_status status = pocket_session_new(&image, &limits, &machine, arena, plan.arena_bytes, &session);
        free(arena);
        if (status == POCKET_ERROR_KERNELS && kernels != POCKET_KERNELS_BEST) continue;
        check("session", status);
        hash(&image, cache, machine, 64, "alone", tokens, 300);
    }
    machine.kernels = POCKET_KERNELS_BEST;
    threads pool;
    if (threads_start(&pool, 3) != 0) return 1;
    machine.workers = 3;
    machine.run = threads_run;
    machine.run_context = &pool;
    hash(&image, cache, machine, 7, "threads", tokens, 300);
    threads_end(&pool);
    machine.run = run_lazily;
    hash(&image, cache, machine, 64, "lazy", tokens, 300);
    machine.run = run_never;
    hash(&image, cache, machine, 64, "never", tokens, 300);
    free(bytes);
    return 0;
}
