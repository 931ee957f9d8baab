/*
 * How much stack calls take: each runs on a stack of its own that was painted before.
 *
 *     stack TINY [CHAT [SIGNED]]   (TINY: an image without a chat template; CHAT: one with; SIGNED: one that is signed)
 *
 * Every call twice: the calling thread alone, and with a worker, which does all that can be shared. Prints what each took
 * and last the most that a caller and a worker did, which must be within what pocket.h promises. To be linked statically:
 * the dynamic linker takes stack of whoever is the first to call a function of the C library.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#ifdef __aarch64__
#include <sys/auxv.h>
#endif

#include "pocket.h"

enum { CONTEXT = 192, STACK = 1 << 20, PAINT = 0xa7 };

static void check(const char *what, pocket_status status) {
    if (status == POCKET_OK) return;
    fprintf(stderr, "stack: %s: %s (%u)\n", what, pocket_error_text(status), (unsigned)status);
    exit(1);
}

static void *aligned(size_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, 64, bytes) != 0) exit(1);
    return memory;
}

/* A painted stack, and what is to be called on it. */
typedef struct painted {
    ucontext_t outside, inside;
    unsigned char *stack;
    void (*call)(void *);
    void *context;
} painted;

static painted caller, worker;

static void enter_caller(void) { caller.call(caller.context); }
static void enter_worker(void) { worker.call(worker.context); }

static void paint(painted *on) {
    if (on->stack == NULL) on->stack = (unsigned char *)aligned(STACK);
    memset(on->stack, PAINT, STACK);
}

static void call_on(painted *on, void (*enter)(void), void (*call)(void *), void *context) {
    on->call = call;
    on->context = context;
    getcontext(&on->inside);
    on->inside.uc_stack.ss_sp = on->stack;
    on->inside.uc_stack.ss_size = STACK;
    on->inside.uc_link = &on->outside;
    makecontext(&on->inside, enter, 0);
    swapcontext(&on->outside, &on->inside);
}

/* From the lowest byte that was written up to the top, in whole words. */
static size_t used(const painted *on) {
    size_t clean = 0;
    while (clean < STACK && on->stack[clean] == PAINT) clean++;
    return STACK - clean / 16 * 16;
}

/* What calls are about. */
static const unsigned char *bytes;
static size_t length;
static pocket_image image;
static pocket_limits limits;
static pocket_machine machine;
static pocket_plan plan;
static void *arena;
static pocket_session *session;
static size_t most_of_caller, most_of_worker;

static void nothing(void *context) { (void)context; }

/* The bytes that a call takes, without those of getting there. */
static void measure(const char *what, void (*call)(void *)) {
    paint(&caller);
    call_on(&caller, enter_caller, nothing, NULL);
    size_t around = used(&caller);
    paint(&caller);
    paint(&worker);
    call_on(&caller, enter_caller, call, NULL);
    size_t own = used(&caller) - around;
    size_t others = used(&worker) > around ? used(&worker) - around : 0;
    printf("%7zu %7zu  %-10s %s\n", own, others, pocket_kernels_name(machine.kernels), what);
    if (own > most_of_caller) most_of_caller = own;
    if (others > most_of_worker) most_of_worker = others;
}

/* The worker's share comes first and leaves nothing to do. */
typedef struct share {
    pocket_job_fn job;
    void *context;
    size_t index;
} share;

static void do_share(void *context) {
    share *s = (share *)context;
    s->job(s->context, s->index);
}

static void run(void *context, size_t count, pocket_job_fn job, void *job_context) {
    (void)context;
    for (size_t i = 1; i < count; i++) {
        share s = {job, job_context, i};
        call_on(&worker, enter_worker, do_share, &s);
    }
    job(job_context, 0);
}

static void open_image(void *context) {
    (void)context;
    check("open", pocket_image_open(bytes, length, &image));
}

static void verify(void *context) {
    (void)context;
    check("verify", pocket_image_verify(&image));
}

/* The work is the same for a good signature as for one of another key. */
static void signature(void *context) {
    (void)context;
    static const unsigned char key[POCKET_PUBLIC_KEY_BYTES] = {
        0x39, 0x96, 0x6f, 0x11, 0xe7, 0xcc, 0x27, 0xc4, 0x8c, 0xa4, 0xe4, 0x69, 0xfc, 0x7a, 0x18, 0x08,
        0x0e, 0x3f, 0xf4, 0x49, 0xbc, 0x76, 0x5b, 0x16, 0xc2, 0x3b, 0x85, 0x04, 0x4b, 0xaa, 0x3e, 0xa2};
    if (pocket_image_check_signature(&image, key) != POCKET_ERROR_IMAGE_SIGNATURE) exit(1);
}

/* Saved, and taken up again. */
static void state(void *context) {
    (void)context;
    static unsigned char room[1 << 20];
    size_t state_length;
    check("save", pocket_state_save(session, room, sizeof room, &state_length));
    check("restore", pocket_state_restore(session, room, state_length));
}

static void make(void *context) {
    (void)context;
    check("plan", pocket_plan_session(&image, &limits, &plan));
    check("session", pocket_session_new(&image, &limits, &machine, arena, plan.arena_bytes, &session));
}

static void prefill(void *context) {
    (void)context;
    uint32_t tokens[70];
    for (size_t i = 0; i < 70; i++) tokens[i] = (uint32_t)(7 * i % 1000);
    check("prefill", pocket_prefill(session, tokens, 70));
}

static void decode(void *context) {
    (void)context;
    check("decode", pocket_decode(session, 5));
}

static const char words[] = "the fox, 12 apples and naïve Straße said: «don't»";

static void prefill_text(void *context) {
    (void)context;
    check("text", pocket_prefill_text(session, words, sizeof words - 1, POCKET_SPECIAL_RECOGNISE, NULL));
}

static void text(void *context) {
    (void)context;
    static uint32_t scratch[5 * sizeof words], tokens[sizeof words];
    static char back[sizeof words];
    size_t count;
    check("encode", pocket_encode(&image, words, sizeof words - 1, POCKET_SPECIAL_RECOGNISE, scratch,
                                  sizeof scratch / sizeof *scratch, tokens, sizeof words, &count));
    check("detokenize", pocket_detokenize(&image, tokens, count, 0, back, sizeof back, &count));
}

static int show(void *context, const char *piece, size_t piece_length) {
    (void)context, (void)piece, (void)piece_length;
    return 0;
}

static int tell(void *context, uint32_t token, size_t count) {
    (void)context, (void)token, (void)count;
    return 0;
}

/* Everything that a reply can have: all stop strings, all settings of the sampler. */
static void generate(void *context) {
    (void)context;
    static pocket_text stops[POCKET_STOPS_MAX];
    for (size_t i = 0; i < POCKET_STOPS_MAX; i++) stops[i] = (pocket_text){"zebra crossing", 5 + i % 10};
    const pocket_sampling sampling = {1.5f, 40, 0.9f, 0.01f, 1.1f, 16};
    const uint32_t none = POCKET_NO_TOKEN;
    const pocket_until until = {6, &none, 1, stops, POCKET_STOPS_MAX, tell, NULL};
    check("sampling", pocket_session_sampling(session, &sampling, 1));
    check("generate", pocket_generate(session, &until, show, NULL, NULL));
    /* Without a top-k all tokens are ranked. */
    const pocket_sampling wide = {1.5f, 0, 0.9f, 0, 1.1f, 0};
    check("sampling", pocket_session_sampling(session, &wide, 1));
    check("generate", pocket_generate(session, &until, show, NULL, NULL));
}

static void sentence(void *context) {
    (void)context;
    static char why[POCKET_SENTENCE_BYTES];
    size_t count;
    if (pocket_rewind(session, CONTEXT) == POCKET_OK) exit(1);
    check("sentence", pocket_session_error_text(session, why, sizeof why, &count));
}

/* As many turns as there may be, whose tokens are too many, and a chat that is computed. */
static void chat(void *context) {
    (void)context;
    static pocket_turn turns[POCKET_TURNS_MAX];
    static char rendered[1 << 14];
    size_t count;
    for (size_t i = 0; i < POCKET_TURNS_MAX; i++)
        turns[i] = (pocket_turn){i % 2 ? POCKET_ROLE_ASSISTANT : POCKET_ROLE_USER, words, sizeof words - 1};
    check("render", pocket_render_chat(&image, turns, 63, 0, 0, rendered, sizeof rendered, &count));
    if (pocket_prefill_chat(session, turns, 63, 0, NULL) != POCKET_ERROR_TOO_MANY_TOKENS) exit(1);
    check("chat", pocket_prefill_chat(session, turns, 1, 0, NULL));
}

static void load(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) exit(1);
    length = (size_t)ftell(file);
    rewind(file);
    unsigned char *room = (unsigned char *)aligned(length);
    if (fread(room, 1, length, file) != length) exit(1);
    fclose(file);
    bytes = room;
    measure("pocket_image_open", open_image);
    limits = pocket_limits_new(CONTEXT);
    limits.workers = 2;
    limits.chat_bytes = 1 << 14;
    check("plan", pocket_plan_session(&image, &limits, &plan));
    free(arena);
    arena = aligned(plan.arena_bytes);
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    machine.run = run;
#ifdef __aarch64__
    machine.hwcap = getauxval(AT_HWCAP);
    machine.hwcap2 = getauxval(AT_HWCAP2);
#endif
    paint(&worker);
    load(arguments[1]);
    measure("pocket_image_verify", verify);
    for (uint32_t way = 2 * POCKET_KERNELS_SCALAR; way < 2 * (POCKET_KERNELS_AVXVNNI + 1); way++) {
        machine.kernels = way / 2;
        machine.workers = 1 + way % 2;
        if (pocket_session_new(&image, &limits, &machine, arena, plan.arena_bytes, &session) != POCKET_OK) continue;
        measure("pocket_session_new", make);
        measure("pocket_prefill", prefill);
        measure("pocket_state_save, pocket_state_restore", state);
        measure("pocket_decode", decode);
        measure("pocket_prefill_text", prefill_text);
        measure("pocket_generate", generate);
        measure("pocket_encode, pocket_detokenize", text);
        measure("pocket_session_error_text", sentence);
    }
    if (count > 2) {
        machine.kernels = POCKET_KERNELS_BEST;
        machine.workers = 1;
        load(arguments[2]);
        measure("pocket_session_new", make);
        measure("pocket_prefill_chat, pocket_render_chat", chat);
        measure("pocket_generate", generate);
    }
    if (count > 3) {
        load(arguments[3]);
        measure("pocket_image_check_signature", signature);
    }
    printf("most %zu %zu\n", most_of_caller, most_of_worker);
    free(arena);
    if (most_of_caller > POCKET_STACK_BYTES || most_of_worker > POCKET_JOB_STACK_BYTES) {
        fprintf(stderr, "stack: pocket.h promises %d %d\n", POCKET_STACK_BYTES, POCKET_JOB_STACK_BYTES);
        return 1;
    }
    return 0;
}
