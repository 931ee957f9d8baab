/*
 * What pocket.h promises beside the bits: errors for every kind of misuse, results that are left alone, callbacks,
 * cancelling, stop strings, chats, samplers.
 *
 *     contract TINY [CHAT]     (TINY: an image without a chat template; CHAT: one with)
 *
 * `ci/c` runs it under valgrind, with the tiny image, and natively with both.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pocket.h"

static int checks;

#define EXPECT(condition)                                                                     \
    do {                                                                                      \
        checks++;                                                                             \
        if (!(condition)) {                                                                   \
            fprintf(stderr, "contract: %s:%d: %s\n", __FILE__, __LINE__, #condition);         \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

/* The call gives this status. */
#define GIVES(status, call)                                                                                   \
    do {                                                                                                      \
        pocket_status given = (call);                                                                         \
        checks++;                                                                                             \
        if (given != (status)) {                                                                              \
            fprintf(stderr, "contract: %s:%d: %s gives %u (%s), not %s\n", __FILE__, __LINE__, #call,         \
                    (unsigned)given, pocket_error_text(given), #status);                                      \
            exit(1);                                                                                          \
        }                                                                                                     \
    } while (0)

/* Memory at a multiple of 64 whose end valgrind guards. */
static void *aligned(size_t bytes) {
    void *memory = NULL;
    EXPECT(posix_memalign(&memory, 64, bytes ? bytes : 1) == 0);
    return memory;
}

static unsigned char *load(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    EXPECT(file != NULL && fseek(file, 0, SEEK_END) == 0);
    *length = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = (unsigned char *)aligned(*length);
    EXPECT(fread(bytes, 1, *length, file) == *length);
    fclose(file);
    return bytes;
}

/* The sentence of an object says this; it fits into the room that the header promises. */
#define SAYS(what, writer, object)                                                              \
    do {                                                                                        \
        char sentence[POCKET_SENTENCE_BYTES + 1];                                               \
        size_t sentence_bytes;                                                                  \
        GIVES(POCKET_OK, writer(object, sentence, POCKET_SENTENCE_BYTES, &sentence_bytes));     \
        sentence[sentence_bytes] = '\0';                                                        \
        checks++;                                                                               \
        if (strstr(sentence, what) == NULL) {                                                   \
            fprintf(stderr, "contract: %s:%d: \"%s\", not %s\n", __FILE__, __LINE__, sentence, what); \
            exit(1);                                                                            \
        }                                                                                       \
    } while (0)

/* What is on the stack where an image or session is expected. */
static uint64_t garbage[1024];

static void images(unsigned char *bytes, size_t length) {
    pocket_image image, copy;
    GIVES(POCKET_OK, pocket_image_open(bytes, length, &image));
    GIVES(POCKET_OK, pocket_image_verify(&image));
    memcpy(&copy, &image, sizeof image);
    pocket_facts facts;
    GIVES(POCKET_OK, pocket_image_facts(&copy, &facts));
    EXPECT(facts.image_bytes == length && facts.vocabulary == 1024 && facts.layers == 3 && facts.hidden == 128);
    EXPECT(facts.heads == 4 && facts.kv_heads == 2 && facts.head_dim == 32 && facts.feed_forward == 192);
    EXPECT(facts.tokenizer_tokens == 1024);

    /* Null, misaligned, absurd. */
    GIVES(POCKET_ERROR_NULL, pocket_image_open(NULL, length, &image));
    GIVES(POCKET_ERROR_NULL, pocket_image_open(bytes, length, NULL));
    GIVES(POCKET_ERROR_LENGTH, pocket_image_open(bytes, SIZE_MAX, &image));
    GIVES(POCKET_ERROR_MISALIGNED, pocket_image_open(bytes, length, (pocket_image *)((char *)garbage + 4)));
    GIVES(POCKET_ERROR_NULL, pocket_image_facts(&copy, NULL));
    GIVES(POCKET_ERROR_NULL, pocket_image_facts(NULL, &facts));
    GIVES(POCKET_ERROR_MISALIGNED, pocket_image_facts(&copy, (pocket_facts *)((char *)garbage + 1)));
    GIVES(POCKET_ERROR_NOT_OPEN, pocket_image_facts((const pocket_image *)garbage, &facts));

    /* An image that failed to open is not open, whatever it was before. */
    GIVES(POCKET_ERROR_IMAGE_TRUNCATED, pocket_image_open(bytes, 0, &image));
    GIVES(POCKET_ERROR_NOT_OPEN, pocket_image_verify(&image));
    SAYS("the image has 0 bytes and needs 384", pocket_image_error_text, &image);
    SAYS("done", pocket_image_error_text, &copy);
    char say[8];
    size_t say_bytes = 0;
    GIVES(POCKET_ERROR_NOT_OPEN, pocket_image_error_text((const pocket_image *)garbage, say, sizeof say, &say_bytes));
    GIVES(POCKET_ERROR_NULL, pocket_image_error_text(&image, NULL, 1, &say_bytes));
    GIVES(POCKET_ERROR_NULL, pocket_image_error_text(&image, say, sizeof say, NULL));
    GIVES(POCKET_ERROR_BUFFER, pocket_image_error_text(&image, say, sizeof say, &say_bytes));
    EXPECT(say_bytes > sizeof say && say_bytes <= POCKET_SENTENCE_BYTES);
    GIVES(POCKET_ERROR_NULL, pocket_image_open(NULL, 1, &image));
    SAYS("a pointer is null", pocket_image_error_text, &image);

    /* Cut at every length of the small parts and at some of the large ones, in memory that ends there. */
    for (size_t cut = 0; cut < length; cut += cut < 1024 ? 61 : 9973) {
        unsigned char *part = (unsigned char *)aligned(cut);
        memcpy(part, bytes, cut);
        GIVES(POCKET_ERROR_IMAGE_TRUNCATED, pocket_image_open(part, cut, &image));
        free(part);
    }
    unsigned char *other = (unsigned char *)aligned(length + 64);
    memcpy(other + 8, bytes, length);
    GIVES(POCKET_ERROR_IMAGE_MISALIGNED, pocket_image_open(other + 8, length, &image));
    SAYS("begins 8 bytes after a multiple of 64", pocket_image_error_text, &image);
    memcpy(other, bytes, length);
    other[0] ^= 1;
    GIVES(POCKET_ERROR_IMAGE_MAGIC, pocket_image_open(other, length, &image));
    other[0] ^= 1;
    other[24] ^= 1;
    GIVES(POCKET_ERROR_IMAGE_CHECKSUM, pocket_image_open(other, length, &image));
    SAYS("the checksum of the image's header", pocket_image_error_text, &image);
    other[24] ^= 1;
    /* One flipped bit anywhere is found, at once or by verifying, unless it is in padding. */
    int found = 0, flips = 0;
    for (size_t at = 8; at < length; at += length / 97) {
        other[at] ^= 0x10;
        pocket_status status = pocket_image_open(other, length, &image);
        if (status == POCKET_OK) status = pocket_image_verify(&image);
        found += status != POCKET_OK;
        flips++;
        other[at] ^= 0x10;
    }
    EXPECT(found >= flips - 2);
    free(other);
}

static int collect(void *context, const char *text, size_t length) {
    char *all = (char *)context;
    size_t used = strlen(all);
    EXPECT(length > 0 && used + length < 4096);
    memcpy(all + used, text, length);
    all[used + length] = '\0';
    return 0;
}

static int calls;

static int stop_at_third(void *context, const char *text, size_t length) {
    (void)context, (void)text, (void)length;
    calls++;
    EXPECT(calls <= 3);
    return calls == 3;
}

/* Tokens that a reply told, and when to have enough of them. */
typedef struct told {
    uint32_t tokens[64];
    size_t count, enough;
    pocket_session *session;
} told;

static int take(void *context, uint32_t token, size_t count) {
    told *all = (told *)context;
    EXPECT(count == all->count + 1 && count <= all->enough);
    all->tokens[all->count++] = token;
    size_t room;
    GIVES(POCKET_ERROR_BUSY, pocket_room(all->session, &room));
    return count == all->enough;
}

static int call_back(void *context, const char *text, size_t length) {
    (void)text, (void)length;
    pocket_session *session = (pocket_session *)context;
    size_t room;
    const uint32_t *tokens;
    GIVES(POCKET_ERROR_BUSY, pocket_room(session, &room));
    GIVES(POCKET_ERROR_BUSY, pocket_decode(session, 1));
    GIVES(POCKET_ERROR_BUSY, pocket_tokens(session, &tokens, &room));
    GIVES(POCKET_OK, pocket_cancel(session));
    return 0;
}

static void run_alone(void *context, size_t count, pocket_job_fn job, void *job_context) {
    (void)context;
    while (count-- > 0) job(job_context, count);
}

static void limits_and_arenas(const pocket_image *image, const unsigned char *bytes) {
    pocket_limits limits = pocket_limits_new(64);
    EXPECT(limits.context == 64 && limits.batch == 64 && limits.workers == 1 && limits.chat_bytes == 256);
    pocket_plan plan;
    GIVES(POCKET_OK, pocket_plan_session(image, &limits, &plan));
    EXPECT(plan.peak_bytes == plan.arena_bytes + plan.image_bytes + plan.stack_bytes && plan.arena_bytes % 64 == 0);
    EXPECT(plan.stack_bytes == POCKET_STACK_BYTES + (limits.workers - 1) * POCKET_JOB_STACK_BYTES);
    pocket_session *session = NULL;
    unsigned char *arena = (unsigned char *)aligned(plan.arena_bytes + 64);

    pocket_limits bad = limits;
    bad.context = 0;
    GIVES(POCKET_ERROR_PLAN_CONTEXT, pocket_plan_session(image, &bad, &plan));
    bad.context = UINT32_MAX;
    GIVES(POCKET_ERROR_PLAN_CONTEXT, pocket_plan_session(image, &bad, &plan));
    bad = limits, bad.batch = 65;
    GIVES(POCKET_ERROR_PLAN_BATCH, pocket_plan_session(image, &bad, &plan));
    bad = limits, bad.workers = 257;
    GIVES(POCKET_ERROR_PLAN_WORKERS, pocket_plan_session(image, &bad, &plan));
    bad = limits, bad.cache = 2;
    GIVES(POCKET_ERROR_VALUE, pocket_plan_session(image, &bad, &plan));
    GIVES(POCKET_ERROR_VALUE, pocket_session_new(image, &bad, NULL, arena, plan.arena_bytes, &session));
    GIVES(POCKET_ERROR_NULL, pocket_plan_session(image, NULL, &plan));
    GIVES(POCKET_ERROR_NULL, pocket_plan_session(image, &limits, NULL));

    GIVES(POCKET_ERROR_ARENA_TOO_SMALL, pocket_session_new(image, &limits, NULL, arena, plan.arena_bytes - 1, &session));
    GIVES(POCKET_ERROR_ARENA_TOO_SMALL, pocket_session_new(image, &limits, NULL, arena, 0, &session));
    GIVES(POCKET_ERROR_ARENA_MISALIGNED, pocket_session_new(image, &limits, NULL, arena + 8, plan.arena_bytes, &session));
    GIVES(POCKET_ERROR_NULL, pocket_session_new(image, &limits, NULL, NULL, plan.arena_bytes, &session));
    GIVES(POCKET_ERROR_NULL, pocket_session_new(image, &limits, NULL, arena, plan.arena_bytes, NULL));
    GIVES(POCKET_ERROR_NOT_OPEN,
          pocket_session_new((const pocket_image *)garbage, &limits, NULL, arena, plan.arena_bytes, &session));
    GIVES(POCKET_ERROR_OVERLAP, pocket_session_new(image, &limits, NULL, (void *)bytes, plan.arena_bytes, &session));
    EXPECT(session == NULL);

    pocket_machine machine;
    memset(&machine, 0, sizeof machine);
    machine.kernels = 99;
    GIVES(POCKET_ERROR_VALUE, pocket_session_new(image, &limits, &machine, arena, plan.arena_bytes, &session));
    machine.kernels = POCKET_KERNELS_BEST, machine.promised = 1;
    GIVES(POCKET_ERROR_VALUE, pocket_session_new(image, &limits, &machine, arena, plan.arena_bytes, &session));
    machine.promised = 0;
#ifdef __x86_64__
    machine.kernels = POCKET_KERNELS_NEON;
#else
    machine.kernels = POCKET_KERNELS_AVX2;
#endif
    GIVES(POCKET_ERROR_KERNELS, pocket_session_new(image, &limits, &machine, arena, plan.arena_bytes, &session));
    machine.kernels = POCKET_KERNELS_SCALAR, machine.workers = 2;
    GIVES(POCKET_ERROR_NULL, pocket_session_new(image, &limits, &machine, arena, plan.arena_bytes, &session));
    machine.run = run_alone;
    GIVES(POCKET_ERROR_TOO_MANY_WORKERS, pocket_session_new(image, &limits, &machine, arena, plan.arena_bytes, &session));
    EXPECT(session == NULL);
    GIVES(POCKET_ERROR_NULL, pocket_decode(session, 1));
    GIVES(POCKET_ERROR_NOT_OPEN, pocket_decode((pocket_session *)garbage, 1));
    GIVES(POCKET_ERROR_MISALIGNED, pocket_decode((pocket_session *)((char *)garbage + 1), 1));

    /* A session is where it was made and nowhere else. */
    GIVES(POCKET_OK, pocket_session_new(image, &limits, NULL, arena, plan.arena_bytes, &session));
    EXPECT((unsigned char *)session == arena);
    GIVES(POCKET_OK, pocket_decode(session, 1));
    memmove(arena + 64, arena, plan.arena_bytes);
    GIVES(POCKET_ERROR_NOT_OPEN, pocket_decode((pocket_session *)(arena + 64), 1));
    free(arena);
}

static void steps(const pocket_image *image, pocket_session *session, size_t context) {
    const float *logits;
    const uint32_t *tokens;
    uint32_t token;
    size_t count;
    SAYS("done", pocket_session_error_text, session);
    GIVES(POCKET_ERROR_NO_LOGITS, pocket_logits(session, &logits, &count));
    SAYS("there are no logits yet", pocket_session_error_text, session);
    GIVES(POCKET_ERROR_NO_LOGITS, pocket_sample(session, &token));
    GIVES(POCKET_ERROR_EMPTY, pocket_prefill(session, NULL, 0));
    GIVES(POCKET_ERROR_NULL, pocket_prefill(session, NULL, 1));
    GIVES(POCKET_ERROR_LENGTH, pocket_prefill(session, (const uint32_t *)garbage, SIZE_MAX / 4));
    GIVES(POCKET_ERROR_UNKNOWN_TOKEN, pocket_decode(session, 1024));
    SAYS("token 1024 is not in the vocabulary of 1024 tokens", pocket_session_error_text, session);
    /* It stays until another call fails. */
    GIVES(POCKET_OK, pocket_reset(session));
    SAYS("token 1024", pocket_session_error_text, session);
    char say[8];
    GIVES(POCKET_ERROR_BUFFER, pocket_session_error_text(session, say, sizeof say, &count));
    GIVES(POCKET_ERROR_NULL, pocket_session_error_text(session, say, sizeof say, NULL));
    SAYS("token 1024", pocket_session_error_text, session);
    uint32_t many[512];
    for (size_t i = 0; i < 512; i++) many[i] = (uint32_t)(7 * i % 1024);
    GIVES(POCKET_ERROR_CONTEXT_FULL, pocket_prefill(session, many, context + 1));
    SAYS("the context holds 96 positions and 97 are needed", pocket_session_error_text, session);
    GIVES(POCKET_OK, pocket_room(session, &count));
    EXPECT(count == context);
    GIVES(POCKET_OK, pocket_prefill(session, many, context));
    GIVES(POCKET_ERROR_CONTEXT_FULL, pocket_decode(session, 1));
    GIVES(POCKET_OK, pocket_tokens(session, &tokens, &count));
    EXPECT(count == context && memcmp(tokens, many, count * sizeof *many) == 0);
    GIVES(POCKET_ERROR_REWIND_BEYOND, pocket_rewind(session, context + 1));
    GIVES(POCKET_OK, pocket_rewind(session, 10));
    GIVES(POCKET_ERROR_NO_LOGITS, pocket_logits(session, &logits, &count));
    GIVES(POCKET_OK, pocket_decode(session, many[10]));
    GIVES(POCKET_OK, pocket_logits(session, &logits, &count));
    EXPECT(count == 1024);
    GIVES(POCKET_OK, pocket_sample(session, &token));
    for (size_t i = 0; i < count; i++) EXPECT(logits[i] <= logits[token]);
    GIVES(POCKET_ERROR_NULL, pocket_sample(session, NULL));

    /* Settings and seeds. */
    pocket_sampling sampling;
    GIVES(POCKET_OK, pocket_image_sampling(image, &sampling));
    sampling.temperature = -1;
    GIVES(POCKET_ERROR_SAMPLING, pocket_session_sampling(session, &sampling, 1));
    sampling.temperature = 2, sampling.top_k = 0, sampling.top_p = 1, sampling.min_p = 0;
    uint32_t first[16], second[16];
    int same_seed = 1, other_seed = 1;
    for (uint64_t seed = 0; seed < 3; seed++) {
        GIVES(POCKET_OK, pocket_session_sampling(session, &sampling, seed == 2 ? 99 : 5));
        for (size_t i = 0; i < 16; i++) GIVES(POCKET_OK, pocket_sample(session, &second[i]));
        if (seed == 0) memcpy(first, second, sizeof first);
        if (seed == 1) same_seed = memcmp(first, second, sizeof first) == 0;
        if (seed == 2) other_seed = memcmp(first, second, sizeof first) == 0;
    }
    EXPECT(same_seed && !other_seed);
    GIVES(POCKET_OK, pocket_session_sampling(session, NULL, 0));
    sampling.temperature = 0;
    GIVES(POCKET_OK, pocket_session_sampling(session, &sampling, 0));
    GIVES(POCKET_OK, pocket_reset(session));
    GIVES(POCKET_ERROR_NO_LOGITS, pocket_sample(session, &token));
}

static void text(const pocket_image *image, pocket_session *session, size_t context) {
    const char *words = "the fox and the <|im_end|>";
    size_t length = strlen(words), count = 0, bytes = 0;
    uint32_t tokens[64], scratch[64 * 5], control;
    EXPECT(pocket_encode_scratch(64) == sizeof scratch / sizeof *scratch);
    GIVES(POCKET_OK, pocket_encode(image, words, length, POCKET_SPECIAL_RECOGNISE, scratch, 320, tokens, 64, &count));
    EXPECT(count > 2);
    size_t recognised = count;
    GIVES(POCKET_OK, pocket_token_is_control(image, tokens[count - 1], &control));
    EXPECT(control == 1);
    uint32_t end;
    GIVES(POCKET_OK, pocket_token_of(image, "<|im_end|>", 10, &end));
    EXPECT(end == tokens[count - 1]);
    GIVES(POCKET_OK, pocket_token_of(image, "<|nothing|>", 11, &end));
    EXPECT(end == POCKET_NO_TOKEN);
    GIVES(POCKET_OK, pocket_encode(image, words, length, POCKET_SPECIAL_AS_TEXT, scratch, 320, tokens, 64, &count));
    EXPECT(count > recognised);
    char out[64];
    GIVES(POCKET_OK, pocket_detokenize(image, tokens, count, 0, out, sizeof out, &bytes));
    EXPECT(bytes == length && memcmp(out, words, length) == 0);
    GIVES(POCKET_ERROR_BUFFER, pocket_detokenize(image, tokens, count, 0, out, length - 1, &bytes));
    EXPECT(bytes == length);
    GIVES(POCKET_ERROR_BUFFER, pocket_detokenize(image, tokens, count, 0, NULL, 0, &bytes));
    tokens[0] = 1024;
    GIVES(POCKET_ERROR_UNKNOWN_TOKEN, pocket_detokenize(image, tokens, count, 0, out, sizeof out, &bytes));
    GIVES(POCKET_ERROR_VALUE, pocket_encode(image, words, length, 2, scratch, 320, tokens, 64, &count));
    GIVES(POCKET_ERROR_UTF8, pocket_encode(image, "\xff", 1, 0, scratch, 320, tokens, 64, &count));
    GIVES(POCKET_ERROR_NULL, pocket_encode(image, NULL, 1, 0, scratch, 320, tokens, 64, &count));
    GIVES(POCKET_ERROR_TOO_MANY_TOKENS, pocket_encode(image, words, length, 0, scratch, 320, tokens, 2, &count));
    GIVES(POCKET_ERROR_PIECE_TOO_LONG, pocket_encode(image, words, length, 0, scratch, 4, tokens, 64, &count));
    GIVES(POCKET_OK, pocket_encode(image, NULL, 0, 0, NULL, 0, NULL, 0, &count));
    EXPECT(count == 0);

    GIVES(POCKET_OK, pocket_prefill_text(session, words, length, POCKET_SPECIAL_AS_TEXT, NULL));
    GIVES(POCKET_OK, pocket_prefill_text(session, "", 0, POCKET_SPECIAL_AS_TEXT, &count));
    EXPECT(count == 0);
    GIVES(POCKET_OK, pocket_reset(session));
    char long_prompt[4096];
    for (size_t i = 0; i < sizeof long_prompt; i++) long_prompt[i] = " xq7"[i % 4];
    EXPECT(context < sizeof long_prompt / 4);
    GIVES(POCKET_ERROR_TOO_MANY_TOKENS, pocket_prefill_text(session, long_prompt, sizeof long_prompt, 0, &count));
    memset(long_prompt, 'a', sizeof long_prompt);
    GIVES(POCKET_ERROR_PIECE_TOO_LONG, pocket_prefill_text(session, long_prompt, sizeof long_prompt, 0, &count));
    SAYS("an unbroken run of 4096 bytes exceeds", pocket_session_error_text, session);

    /* An image without a template says so. */
    pocket_turn turn = {POCKET_ROLE_USER, words, length};
    pocket_facts facts;
    GIVES(POCKET_OK, pocket_image_facts(image, &facts));
    if (!facts.has_template) {
        GIVES(POCKET_ERROR_IMAGE_MISSING, pocket_prefill_chat(session, &turn, 1, POCKET_THINKING_DEFAULT, NULL));
        SAYS("the image has no chat template", pocket_session_error_text, session);
        GIVES(POCKET_ERROR_IMAGE_MISSING, pocket_render_chat(image, &turn, 1, 0, 0, out, sizeof out, &bytes));
    }
}

static void replies(pocket_session *session, size_t context) {
    pocket_until until;
    memset(&until, 0, sizeof until);
    until.tokens = 8;
    pocket_reply reply;
    const uint32_t none = POCKET_NO_TOKEN;
    /* A model of random weights ends when it likes; here only what is asked for ends it. */
    until.stop_tokens = &none;
    until.stop_token_count = 1;
    GIVES(POCKET_OK, pocket_reset(session));
    GIVES(POCKET_ERROR_NO_LOGITS, pocket_generate(session, &until, NULL, NULL, &reply));
    GIVES(POCKET_OK, pocket_prefill_text(session, "one two", 7, 0, NULL));
    GIVES(POCKET_ERROR_NULL, pocket_generate(session, NULL, NULL, NULL, &reply));

    /* The same reply by text, by tokens, and step by step. */
    char all[4096] = "";
    told told = {{0}, 0, 64, session};
    until.tell = take;
    until.tell_context = &told;
    GIVES(POCKET_OK, pocket_generate(session, &until, collect, all, &reply));
    EXPECT(reply.tokens == 8 && reply.ending == POCKET_ENDED_BY_TOKENS && reply.stop_token == POCKET_NO_TOKEN);
    EXPECT(strlen(all) > 0);
    const uint32_t *held;
    uint32_t said[8], token;
    size_t count;
    GIVES(POCKET_OK, pocket_tokens(session, &held, &count));
    memcpy(said, held + count - 8, sizeof said);
    EXPECT(told.count == 8 && memcmp(told.tokens, said, sizeof said) == 0);
    GIVES(POCKET_OK, pocket_reset(session));
    GIVES(POCKET_OK, pocket_prefill_text(session, "one two", 7, 0, &count));
    for (size_t i = 0; i < 8; i++) {
        GIVES(POCKET_OK, pocket_sample(session, &token));
        EXPECT(token == said[i]);
        GIVES(POCKET_OK, pocket_decode(session, token));
    }

    /* A stop token. */
    GIVES(POCKET_OK, pocket_rewind(session, count - 1));
    GIVES(POCKET_OK, pocket_prefill(session, &held[count - 1], 1));
    until.stop_tokens = &said[3];
    told.count = 0;
    GIVES(POCKET_OK, pocket_generate(session, &until, NULL, NULL, &reply));
    EXPECT(reply.ending == POCKET_ENDED_BY_STOP_TOKEN && reply.stop_token == said[3] && reply.tokens <= 3);
    EXPECT(told.count == reply.tokens && memcmp(told.tokens, said, told.count * sizeof *said) == 0);
    until.stop_tokens = &none;

    /* Who has had enough tokens gets no more, and the session holds those that were told. What of their text is complete
       has been shown; the next reply is not ended by that. */
    char some[4096] = "";
    GIVES(POCKET_OK, pocket_rewind(session, count - 1));
    GIVES(POCKET_OK, pocket_prefill(session, &held[count - 1], 1));
    told.count = 0, told.enough = 5;
    GIVES(POCKET_OK, pocket_generate(session, &until, collect, some, &reply));
    EXPECT(reply.ending == POCKET_ENDED_BY_CANCEL && reply.tokens == 5 && told.count == 5);
    EXPECT(strlen(some) > 0 && memcmp(told.tokens, said, 5 * sizeof *said) == 0);
    size_t held_count;
    GIVES(POCKET_OK, pocket_tokens(session, &held, &held_count));
    EXPECT(held_count == count + 5 && memcmp(held + count, said, 5 * sizeof *said) == 0);
    told.count = 0, told.enough = 64;
    until.tokens = 3;
    GIVES(POCKET_OK, pocket_generate(session, &until, NULL, NULL, &reply));
    EXPECT(reply.ending == POCKET_ENDED_BY_TOKENS && reply.tokens == 3);
    EXPECT(told.count == 3 && memcmp(told.tokens, said + 5, 3 * sizeof *said) == 0);
    until.tokens = 8;

    /* A stop string that ends inside of the reply: what is before it is shown, and nothing else. */
    char stop[4] = "";
    size_t from = strlen(all) / 2;
    while (((unsigned char)all[from] & 0xc0) == 0x80) from++;
    stop[0] = all[from];
    if ((unsigned char)stop[0] < 0x80) {
        pocket_text strings[1] = {{stop, 1}};
        until.stop_strings = strings;
        until.stop_string_count = 1;
        char shown[4096] = "";
        told.count = 0;
        GIVES(POCKET_OK, pocket_reset(session));
        GIVES(POCKET_OK, pocket_prefill_text(session, "one two", 7, 0, NULL));
        GIVES(POCKET_OK, pocket_generate(session, &until, collect, shown, &reply));
        EXPECT(reply.ending == POCKET_ENDED_BY_STOP_STRING && strchr(shown, stop[0]) == NULL);
        EXPECT(told.count == reply.tokens && memcmp(told.tokens, said, told.count * sizeof *said) == 0);
        EXPECT(strncmp(all, shown, strlen(shown)) == 0);
        strings[0].length = 0;
        GIVES(POCKET_ERROR_STOP_EMPTY, pocket_generate(session, &until, NULL, NULL, &reply));
        strings[0].bytes = (const char *)garbage, strings[0].length = POCKET_STOP_BYTES_MAX + 1;
        GIVES(POCKET_ERROR_STOP_TOO_LONG, pocket_generate(session, &until, NULL, NULL, &reply));
        strings[0].bytes = NULL;
        GIVES(POCKET_ERROR_NULL, pocket_generate(session, &until, NULL, NULL, &reply));
        until.stop_string_count = POCKET_STOPS_MAX + 1;
        until.stop_strings = (const pocket_text *)garbage;
        GIVES(POCKET_ERROR_TOO_MANY_STOPS, pocket_generate(session, &until, NULL, NULL, &reply));
        until.stop_string_count = 0;
        until.stop_strings = NULL;
    }

    /* The callback ends it, from inside and by its result; the next reply is not ended by that. */
    until.tell = NULL;
    until.tokens = 40;
    GIVES(POCKET_OK, pocket_reset(session));
    GIVES(POCKET_OK, pocket_prefill_text(session, "one two", 7, 0, NULL));
    GIVES(POCKET_OK, pocket_generate(session, &until, stop_at_third, NULL, &reply));
    EXPECT(calls == 3 && reply.ending == POCKET_ENDED_BY_CANCEL && reply.tokens < 40);
    GIVES(POCKET_OK, pocket_generate(session, &until, call_back, session, &reply));
    EXPECT(reply.ending == POCKET_ENDED_BY_CANCEL && reply.tokens < 40);
    GIVES(POCKET_OK, pocket_cancel(session));
    GIVES(POCKET_OK, pocket_generate(session, &until, NULL, NULL, &reply));
    EXPECT(reply.ending == POCKET_ENDED_BY_CANCEL && reply.tokens == 0);

    /* A step that is cancelled before it begins is done later, by itself or before the next, to the same bits. */
    GIVES(POCKET_OK, pocket_reset(session));
    GIVES(POCKET_OK, pocket_prefill_text(session, "one two", 7, 0, &count));
    const float *logits;
    size_t logit_count, left;
    GIVES(POCKET_OK, pocket_logits(session, &logits, &logit_count));
    float *wanted = (float *)aligned(logit_count * sizeof *wanted);
    memcpy(wanted, logits, logit_count * sizeof *wanted);
    GIVES(POCKET_OK, pocket_reset(session));
    GIVES(POCKET_OK, pocket_cancel(session));
    GIVES(POCKET_ERROR_CANCELLED, pocket_prefill_text(session, "one two", 7, 0, NULL));
    GIVES(POCKET_OK, pocket_pending(session, &left));
    EXPECT(left == count);
    GIVES(POCKET_ERROR_NO_LOGITS, pocket_logits(session, &logits, &logit_count));
    GIVES(POCKET_OK, pocket_resume(session));
    GIVES(POCKET_OK, pocket_pending(session, &left));
    EXPECT(left == 0);
    GIVES(POCKET_OK, pocket_logits(session, &logits, &logit_count));
    EXPECT(memcmp(wanted, logits, logit_count * sizeof *wanted) == 0);
    free(wanted);
    GIVES(POCKET_OK, pocket_resume(session));
    GIVES(POCKET_OK, pocket_tokens(session, &held, &held_count));
    uint32_t last = held[count - 1];
    GIVES(POCKET_OK, pocket_rewind(session, count - 1));
    GIVES(POCKET_OK, pocket_cancel(session));
    GIVES(POCKET_ERROR_CANCELLED, pocket_decode(session, last));
    until.tokens = 1;
    GIVES(POCKET_OK, pocket_generate(session, &until, NULL, NULL, &reply));
    EXPECT(reply.tokens == 1 && reply.ending == POCKET_ENDED_BY_TOKENS);
    GIVES(POCKET_OK, pocket_tokens(session, &held, &held_count));
    EXPECT(held_count == count + 1 && held[count] == said[0]);

    until.tokens = SIZE_MAX;
    GIVES(POCKET_OK, pocket_generate(session, &until, NULL, NULL, NULL));
    size_t room;
    GIVES(POCKET_OK, pocket_room(session, &room));
    EXPECT(room == 0);
    GIVES(POCKET_OK, pocket_generate(session, &until, NULL, NULL, &reply));
    EXPECT(reply.tokens == 0 && reply.ending == POCKET_ENDED_BY_CONTEXT);
    (void)context;
}

/* A chat in two pieces holds the tokens of a chat in one. */
static void chats(unsigned char *bytes, size_t length) {
    pocket_image image;
    GIVES(POCKET_OK, pocket_image_open(bytes, length, &image));
    pocket_limits limits = pocket_limits_new(128);
    pocket_plan plan;
    GIVES(POCKET_OK, pocket_plan_session(&image, &limits, &plan));
    void *arena = aligned(plan.arena_bytes);
    pocket_session *session;
    GIVES(POCKET_OK, pocket_session_new(&image, &limits, NULL, arena, plan.arena_bytes, &session));
    const char *hello = "Say <|im_end|> and 5.";
    pocket_turn turns[3] = {
        {POCKET_ROLE_USER, hello, strlen(hello)}, {POCKET_ROLE_ASSISTANT, "Five.", 5}, {POCKET_ROLE_USER, "Why?", 4}};
    char out[1024];
    size_t bytes_needed, bytes_written, count;
    GIVES(POCKET_ERROR_BUFFER, pocket_render_chat(&image, turns, 3, 0, 0, NULL, 0, &bytes_needed));
    GIVES(POCKET_OK, pocket_render_chat(&image, turns, 3, 0, 0, out, sizeof out, &bytes_written));
    EXPECT(bytes_needed == bytes_written && bytes_written > 30);
    uint32_t end;
    GIVES(POCKET_OK, pocket_token_of(&image, "<|im_end|>", 10, &end));
    EXPECT(end != POCKET_NO_TOKEN);

    /* What a person wrote is no special token: the template's own ends are the only ones. */
    const uint32_t *tokens;
    GIVES(POCKET_OK, pocket_prefill_chat(session, turns, 1, 0, &count));
    GIVES(POCKET_OK, pocket_tokens(session, &tokens, &count));
    size_t ends = 0;
    for (size_t i = 0; i < count; i++) ends += tokens[i] == end;
    GIVES(POCKET_OK, pocket_render_chat(&image, turns, 1, 0, 0, out, sizeof out, &bytes_written));
    size_t written = 0;
    for (size_t i = 0; i + 10 <= bytes_written; i++) written += memcmp(out + i, "<|im_end|>", 10) == 0;
    EXPECT(ends > 0 && ends + 1 == written);
    char back[1024];
    size_t back_bytes;
    GIVES(POCKET_OK, pocket_detokenize(&image, tokens, count, 0, back, sizeof back, &back_bytes));
    EXPECT(back_bytes == bytes_written && memcmp(back, out, back_bytes) == 0);

    /* In pieces and at once. */
    GIVES(POCKET_OK, pocket_prefill_text(session, "Five.", 5, POCKET_SPECIAL_AS_TEXT, NULL));
    GIVES(POCKET_OK, pocket_prefill_chat(session, &turns[2], 1, 0, NULL));
    uint32_t pieces[128];
    GIVES(POCKET_OK, pocket_tokens(session, &tokens, &count));
    memcpy(pieces, tokens, count * sizeof *tokens);
    size_t piece_count = count;
    GIVES(POCKET_OK, pocket_reset(session));
    GIVES(POCKET_OK, pocket_prefill_chat(session, turns, 3, 0, NULL));
    GIVES(POCKET_OK, pocket_tokens(session, &tokens, &count));
    EXPECT(count == piece_count && memcmp(pieces, tokens, count * sizeof *tokens) == 0);

    GIVES(POCKET_ERROR_NO_TURNS, pocket_prefill_chat(session, NULL, 0, 0, NULL));
    GIVES(POCKET_ERROR_VALUE, pocket_prefill_chat(session, turns, 1, 3, NULL));
    GIVES(POCKET_ERROR_TOO_MANY_TURNS, pocket_prefill_chat(session, (pocket_turn *)garbage, 65, 0, NULL));
    SAYS("65 turns need as many ranges, 64 were lent", pocket_session_error_text, session);
    turns[0].role = 3;
    GIVES(POCKET_ERROR_VALUE, pocket_prefill_chat(session, turns, 1, 0, NULL));
    turns[0].role = POCKET_ROLE_USER;
    char *essay = (char *)malloc(1000);
    memset(essay, ' ', 1000);
    turns[0].content = essay, turns[0].length = 1000;
    GIVES(POCKET_ERROR_RENDER_TOO_LONG, pocket_prefill_chat(session, turns, 1, 0, NULL));
    turns[0].content = "\xc3", turns[0].length = 1;
    GIVES(POCKET_ERROR_UTF8, pocket_prefill_chat(session, turns, 1, 0, NULL));
    free(essay);

    /* The model's own stop tokens end its replies. */
    const uint32_t *stops;
    size_t stop_count;
    GIVES(POCKET_OK, pocket_image_stop_tokens(&image, &stops, &stop_count));
    EXPECT(stop_count >= 1);
    const char *provenance;
    GIVES(POCKET_OK, pocket_image_provenance(&image, &provenance, &bytes_written));
    EXPECT(bytes_written > 2 && provenance[0] == '{');
    free(arena);
}

/* A check in steps finds what a check at once does. */
static void verification(unsigned char *bytes, size_t length) {
    pocket_image image;
    pocket_verification verification;
    GIVES(POCKET_OK, pocket_image_open(bytes, length, &image));
    memset(&verification, 0, sizeof verification);
    GIVES(POCKET_ERROR_NOT_OPEN, pocket_image_verify_step(&verification, 1, NULL, NULL));
    GIVES(POCKET_ERROR_NULL, pocket_image_verify_begin(&image, NULL));
    GIVES(POCKET_OK, pocket_image_verify_begin(&image, &verification));
    size_t done = 0, before = 0;
    for (uint32_t whole = 0; !whole; before = done) {
        GIVES(POCKET_OK, pocket_image_verify_step(&verification, 10000, &done, &whole));
        /* The first step goes on from the table, which was checked when the image was opened. */
        EXPECT(done > before && (before == 0 || done <= before + 10000));
    }
    EXPECT(done == length);
    bytes[length / 2] ^= 1;
    GIVES(POCKET_OK, pocket_image_verify_begin(&image, &verification));
    GIVES(POCKET_ERROR_IMAGE_CHECKSUM, pocket_image_verify_step(&verification, length, NULL, NULL));
    GIVES(POCKET_ERROR_IMAGE_CHECKSUM, pocket_image_verify_step(&verification, 1, NULL, NULL));
    bytes[length / 2] ^= 1;
    const unsigned char key[POCKET_PUBLIC_KEY_BYTES] = {1};
    GIVES(POCKET_ERROR_IMAGE_UNSIGNED, pocket_image_check_signature(&image, key));
    const char *prompt;
    size_t prompt_bytes;
    GIVES(POCKET_ERROR_IMAGE_MISSING, pocket_image_system_prompt(&image, &prompt, &prompt_bytes));
}

/* A signed image whose prefix was computed: `key` is hexadecimal, and `system` what the prefix was computed of. */
static void signed_image(unsigned char *bytes, size_t length, const char *hex, const char *system) {
    pocket_image image;
    GIVES(POCKET_OK, pocket_image_open(bytes, length, &image));
    GIVES(POCKET_OK, pocket_image_verify(&image));
    unsigned char key[POCKET_PUBLIC_KEY_BYTES];
    for (size_t i = 0; i < sizeof key; i++) {
        unsigned byte;
        EXPECT(sscanf(hex + 2 * i, "%2x", &byte) == 1);
        key[i] = (unsigned char)byte;
    }
    GIVES(POCKET_OK, pocket_image_check_signature(&image, key));
    GIVES(POCKET_ERROR_NULL, pocket_image_check_signature(&image, NULL));
    key[7] ^= 1;
    GIVES(POCKET_ERROR_IMAGE_SIGNATURE, pocket_image_check_signature(&image, key));
    const char *prompt;
    size_t prompt_bytes;
    GIVES(POCKET_OK, pocket_image_system_prompt(&image, &prompt, &prompt_bytes));
    EXPECT(prompt_bytes == strlen(system) && memcmp(prompt, system, prompt_bytes) == 0);

    /* A chat with it begins behind it: a step that is cancelled at once holds it already. */
    pocket_limits limits = pocket_limits_new(128);
    pocket_plan plan;
    GIVES(POCKET_OK, pocket_plan_session(&image, &limits, &plan));
    void *arena = aligned(plan.arena_bytes);
    pocket_session *session;
    GIVES(POCKET_OK, pocket_session_new(&image, &limits, NULL, arena, plan.arena_bytes, &session));
    const pocket_turn turns[] = {{POCKET_ROLE_SYSTEM, prompt, prompt_bytes}, {POCKET_ROLE_USER, "fox", 3}};
    GIVES(POCKET_OK, pocket_cancel(session));
    GIVES(POCKET_ERROR_CANCELLED, pocket_prefill_chat(session, turns, 2, 0, NULL));
    const uint32_t *tokens;
    size_t count;
    GIVES(POCKET_OK, pocket_tokens(session, &tokens, &count));
    EXPECT(count > prompt_bytes / 8);
    GIVES(POCKET_OK, pocket_resume(session));
    free(arena);
}

/* Going on from a saved state is going on. */
static void states(const pocket_image *image, pocket_session *session, size_t context) {
    const uint32_t prompt[] = {5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21};
    const size_t prompt_count = sizeof prompt / sizeof *prompt;
    GIVES(POCKET_OK, pocket_reset(session));
    GIVES(POCKET_OK, pocket_prefill(session, prompt, prompt_count));
    size_t need, length;
    GIVES(POCKET_OK, pocket_state_bytes(session, &need));
    unsigned char *state = (unsigned char *)malloc(need + 1) + 1;
    GIVES(POCKET_ERROR_STATE_ROOM, pocket_state_save(session, state, need - 1, &length));
    SAYS("lend more memory", pocket_session_error_text, session);
    GIVES(POCKET_ERROR_NULL, pocket_state_save(session, NULL, need, &length));
    GIVES(POCKET_OK, pocket_state_save(session, state, need, &length));
    EXPECT(length == need);
    const float *logits;
    size_t count;
    GIVES(POCKET_OK, pocket_decode(session, 22));
    GIVES(POCKET_OK, pocket_logits(session, &logits, &count));
    float *want = (float *)malloc(count * sizeof *want);
    memcpy(want, logits, count * sizeof *want);
    GIVES(POCKET_OK, pocket_reset(session));
    GIVES(POCKET_OK, pocket_state_restore(session, state, length));
    GIVES(POCKET_ERROR_NO_LOGITS, pocket_logits(session, &logits, &count));
    GIVES(POCKET_OK, pocket_decode(session, 22));
    GIVES(POCKET_OK, pocket_logits(session, &logits, &count));
    EXPECT(memcmp(want, logits, count * sizeof *want) == 0);

    state[length - 1] ^= 1;
    GIVES(POCKET_ERROR_STATE_CHECKSUM, pocket_state_restore(session, state, length));
    state[length - 1] ^= 1;
    GIVES(POCKET_ERROR_STATE_TRUNCATED, pocket_state_restore(session, state, length - 1));
    GIVES(POCKET_ERROR_STATE_TRUNCATED, pocket_state_restore(session, NULL, 0));
    GIVES(POCKET_ERROR_STATE_MAGIC, pocket_state_restore(session, state + 1, length - 1));

    /* Another context, and another kind of cache. */
    pocket_limits limits = pocket_limits_new((uint32_t)context);
    for (uint32_t way = 0; way < 3; way++) {
        limits.cache = way == 0 ? POCKET_CACHE_I8 : POCKET_CACHE_F16;
        limits.context = way == 1 ? 16 : 17;
        limits.batch = 4;
        pocket_plan plan;
        GIVES(POCKET_OK, pocket_plan_session(image, &limits, &plan));
        void *arena = aligned(plan.arena_bytes);
        pocket_session *other;
        GIVES(POCKET_OK, pocket_session_new(image, &limits, NULL, arena, plan.arena_bytes, &other));
        const pocket_status gives[] = {POCKET_ERROR_STATE_OTHER_CACHE, POCKET_ERROR_STATE_CONTEXT, POCKET_OK};
        GIVES(gives[way], pocket_state_restore(other, state, length));
        free(arena);
    }
    free(want);
    free(state - 1);
}

/* Two threads use one session at once: each call is done, or refused as busy, and nothing is torn. */
static void *hammer(void *context) {
    pocket_session *session = (pocket_session *)context;
    size_t done = 0;
    for (int i = 0; i < 200; i++) {
        pocket_status status = pocket_decode(session, (uint32_t)i);
        if (status == POCKET_OK) done++;
        else if (status == POCKET_ERROR_CONTEXT_FULL) pocket_reset(session);
        else EXPECT(status == POCKET_ERROR_BUSY);
    }
    return (void *)done;
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    EXPECT(pocket_abi() == POCKET_ABI);
    for (uint32_t status = 0; status < 1000; status++) EXPECT(strlen(pocket_error_text(status)) >= 4);
    size_t length;
    unsigned char *bytes = load(arguments[1], &length);
    images(bytes, length);
    verification(bytes, length);
    pocket_image image;
    GIVES(POCKET_OK, pocket_image_open(bytes, length, &image));
    limits_and_arenas(&image, bytes);

    pocket_limits limits = pocket_limits_new(96);
    limits.word_bytes = 256;
    pocket_plan plan;
    GIVES(POCKET_OK, pocket_plan_session(&image, &limits, &plan));
    void *arena = aligned(plan.arena_bytes);
    pocket_session *session;
    GIVES(POCKET_OK, pocket_session_new(&image, &limits, NULL, arena, plan.arena_bytes, &session));
    steps(&image, session, 96);
    text(&image, session, 96);
    replies(session, 96);
    states(&image, session, 96);
    GIVES(POCKET_OK, pocket_reset(session));
    pthread_t other;
    void *done;
    EXPECT(pthread_create(&other, NULL, hammer, session) == 0);
    size_t own = (size_t)hammer(session);
    EXPECT(pthread_join(other, &done) == 0);
    EXPECT(own + (size_t)done > 0);
    free(arena);
    free(bytes);

    if (count > 2) {
        bytes = load(arguments[2], &length);
        chats(bytes, length);
        free(bytes);
    }
    if (count > 5) {
        bytes = load(arguments[3], &length);
        signed_image(bytes, length, arguments[4], arguments[5]);
        free(bytes);
    }
    printf("contract: %d checks\n", checks);
    return 0;
}
