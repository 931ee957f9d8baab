/*
 * Answers a question:
 *
 *     answer [--kernels NAME] [--workers N] [--context N] [-n TOKENS] IMAGE QUESTION
 *
 * The image is mapped, the arena is one allocation of the planned size, and nothing is allocated after that. The text of
 * the reply goes to stdout as it comes. C11 and C++11.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __aarch64__
#include <sys/auxv.h>
#endif

#include "pocket.h"
#include "threads.h"

static void check(const char *what, pocket_status status) {
    if (status == POCKET_OK) return;
    fprintf(stderr, "answer: %s: %s (%u)\n", what, pocket_error_text(status), (unsigned)status);
    exit(1);
}

/* With the place and the numbers, which an image that did not open and a session know. */
static void say(const char *what, pocket_status status, const char *sentence, size_t length) {
    fprintf(stderr, "answer: %s: %.*s (%u)\n", what, (int)length, sentence, (unsigned)status);
    exit(1);
}

static void check_image(const char *what, pocket_status status, const pocket_image *image) {
    char sentence[POCKET_SENTENCE_BYTES];
    size_t length = 0;
    if (status == POCKET_OK) return;
    pocket_image_error_text(image, sentence, sizeof sentence, &length);
    say(what, status, sentence, length);
}

static void check_session(const char *what, pocket_status status, const pocket_session *session) {
    char sentence[POCKET_SENTENCE_BYTES];
    size_t length = 0;
    if (status == POCKET_OK) return;
    pocket_session_error_text(session, sentence, sizeof sentence, &length);
    say(what, status, sentence, length);
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static unsigned long number(const char *text) {
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*text == '\0' || *end != '\0') {
        fprintf(stderr, "answer: %s is not a number\n", text);
        exit(2);
    }
    return value;
}

static uint32_t kernels_of(const char *name) {
    for (uint32_t kernels = POCKET_KERNELS_SCALAR; kernels <= POCKET_KERNELS_AVXVNNI; kernels++)
        if (strcmp(name, pocket_kernels_name(kernels)) == 0) return kernels;
    fprintf(stderr, "answer: this library has no kernels called %s\n", name);
    exit(2);
}

/* Takes a piece of the reply. If nobody reads it any more, the rest is not worth computing. */
static int show(void *context, const char *text, size_t length) {
    (void)context;
    return fwrite(text, 1, length, stdout) != length || fflush(stdout) != 0;
}

static pocket_session *interrupted;

static void interrupt(int signal) {
    (void)signal;
    pocket_cancel(interrupted);
}

int main(int count, char **arguments) {
    uint32_t kernels = POCKET_KERNELS_BEST;
    unsigned long workers = 1, context = 1024, tokens = 256;
    int at = 1;
    for (; at + 1 < count && arguments[at][0] == '-'; at += 2) {
        const char *option = arguments[at], *value = arguments[at + 1];
        if (strcmp(option, "--kernels") == 0) kernels = kernels_of(value);
        else if (strcmp(option, "--workers") == 0) workers = number(value);
        else if (strcmp(option, "--context") == 0) context = number(value);
        else if (strcmp(option, "-n") == 0) tokens = number(value);
        else break;
    }
    if (count - at != 2 || workers < 1 || workers > THREADS_MAX) {
        fprintf(stderr, "answer [--kernels NAME] [--workers N] [--context N] [-n TOKENS] IMAGE QUESTION\n");
        return 2;
    }
    const char *path = arguments[at], *question = arguments[at + 1];
    if (pocket_abi() != POCKET_ABI) {
        fprintf(stderr, "answer: the library is another version than the header\n");
        return 1;
    }

    /* The image, read in place; mapped memory begins at a page. */
    int file = open(path, O_RDONLY);
    struct stat info;
    if (file < 0 || fstat(file, &info) != 0) fail(path);
    size_t length = (size_t)info.st_size;
    void *bytes = mmap(NULL, length, PROT_READ, MAP_PRIVATE, file, 0);
    if (bytes == MAP_FAILED) fail(path);
    close(file);
    pocket_image image;
    check_image(path, pocket_image_open(bytes, length, &image), &image);

    /* How much memory it takes is known before any of it is taken. */
    pocket_facts facts;
    check("facts", pocket_image_facts(&image, &facts));
    pocket_limits limits = pocket_limits_new((uint32_t)(context < facts.context ? context : facts.context));
    limits.workers = (uint32_t)workers;
    pocket_plan plan;
    check("plan", pocket_plan_session(&image, &limits, &plan));
    void *arena = NULL;
    if (posix_memalign(&arena, 64, plan.arena_bytes) != 0) fail("arena");

    threads pool;
    if (threads_start(&pool, workers) != 0) fail("threads");
    pocket_machine machine;
    memset(&machine, 0, sizeof machine);
    machine.kernels = kernels;
    machine.workers = workers;
    machine.run = threads_run;
    machine.run_context = &pool;
#ifdef __aarch64__
    machine.hwcap = getauxval(AT_HWCAP);
    machine.hwcap2 = getauxval(AT_HWCAP2);
#endif
    pocket_session *session;
    check("session", pocket_session_new(&image, &limits, &machine, arena, plan.arena_bytes, &session));
    interrupted = session;
    signal(SIGINT, interrupt);

    /* The question in the model's chat template; a model without one continues the text. */
    size_t prompt_tokens = 0;
    if (facts.has_template) {
        pocket_turn turn;
        turn.role = POCKET_ROLE_USER;
        turn.content = question;
        turn.length = strlen(question);
        check_session("question",
                      pocket_prefill_chat(session, &turn, 1, POCKET_THINKING_DEFAULT, &prompt_tokens), session);
    } else {
        check_session("question",
                      pocket_prefill_text(session, question, strlen(question), POCKET_SPECIAL_AS_TEXT, &prompt_tokens),
                      session);
    }

    pocket_until until;
    memset(&until, 0, sizeof until);
    until.tokens = tokens;
    pocket_reply reply;
    check_session("reply", pocket_generate(session, &until, show, NULL, &reply), session);
    uint32_t used;
    check("kernels", pocket_session_kernels(session, &used));
    fprintf(stderr, "\n%zu tokens asked, %zu answered on %s, %lu workers; %zu bytes at most\n", prompt_tokens,
            reply.tokens, pocket_kernels_name(used), workers, plan.peak_bytes);

    signal(SIGINT, SIG_DFL);
    threads_end(&pool);
    free(arena);
    munmap(bytes, length);
    return 0;
}
