/*
 * Pocket: a language model of some 0.3 billion parameters inside a C or C++ program.
 *
 *     pocket_image_open      checks an image, in place
 *     pocket_plan_session    says how many bytes a session takes
 *     pocket_session_new     makes a session in as many bytes of yours
 *     pocket_prefill_chat    gives it a question
 *     pocket_generate        gives you the reply, piece by piece
 *
 * Memory. Nothing is allocated, ever. Three things are yours: the image's bytes, which are read in place and must not
 * change; the pocket_image, a small object that may be copied; and the arena, in which a session does everything. An
 * image's bytes and an arena begin at a multiple of 64. Nothing needs closing: use the memory for something else when
 * you no longer use what is in it. Besides, a call takes up to POCKET_STACK_BYTES of stack.
 *
 * Pointers. A pointer that is not null leads to as much memory as its length or type says, which nobody else writes
 * while the function runs. Null pointers, misaligned ones and absurd lengths are found and reported; others cannot be.
 * With a length of 0 a pointer may be null. Text is UTF-8 with a length in bytes and need not be terminated. Memory for
 * results need not be initialised; an arena neither.
 *
 * Errors. Functions that can fail give a pocket_status, POCKET_OK or a POCKET_ERROR_, and pocket_error_text has a
 * sentence for each; an image that did not open and a session have one with the place and the numbers besides. After an
 * error the results are not written, unless the function says so, and a session is as it was before the batch in which
 * the error appeared. No input makes the library abort, write elsewhere or call exit.
 *
 * Threads. The library has no global state. An image may be used by any number of threads. A session may move from
 * thread to thread, but one call at a time may use it: a second one, also from a callback, gets POCKET_ERROR_BUSY. Only
 * pocket_cancel may be called at any time. Callbacks return normally: no longjmp and no C++ exception through the
 * library. The floating-point mode is the default one, rounding to nearest and not flushing to zero; a thread or worker
 * that changed it changes it back before it computes here.
 *
 * Same bits. The logits do not depend on kernels, workers, batches or chip, and the same seed gives the same text.
 */


#ifndef POCKET_H
#define POCKET_H

/* Made by cbindgen from the crate pocket-c: change that instead. */

#include <stddef.h>
#include <stdint.h>

// As many bytes have room for every sentence of `pocket_image_error_text` and `pocket_session_error_text`.
#define POCKET_SENTENCE_BYTES 256

// The version of this interface. It rises when a program must be compiled again.
#define POCKET_ABI 4

// No token.
#define POCKET_NO_TOKEN 4294967295

// The most stop tokens, and the most stop strings, that one call takes.
#define POCKET_STOPS_MAX 32

// Bytes of an Ed25519 public key.
#define POCKET_PUBLIC_KEY_BYTES 32

// The attention cache holds 16-bit floats.
#define POCKET_CACHE_F16 0

// The attention cache holds 8-bit integers with scales: about half the bytes.
#define POCKET_CACHE_I8 1

// Stack that a call takes of the calling thread, at most and without what callbacks take.
#define POCKET_STACK_BYTES (40 * 1024)

// Stack that a job takes of a worker, at most.
#define POCKET_JOB_STACK_BYTES (32 * 1024)

// The fastest that this machine has and this library knows.
#define POCKET_KERNELS_BEST 0

// No vectors: the definition, everywhere, and slow.
#define POCKET_KERNELS_SCALAR 1

// x86-64: AVX2 with FMA and F16C.
#define POCKET_KERNELS_AVX2 2

// x86-64: AVX-512 (F, BW, VL) with VNNI.
#define POCKET_KERNELS_AVX512VNNI 3

// AArch64: what every such processor has.
#define POCKET_KERNELS_NEON 4

// AArch64: dot products (dotprod).
#define POCKET_KERNELS_NEON_DOT 5

// AArch64: dot products and 8-bit matrix products (dotprod, i8mm).
#define POCKET_KERNELS_NEON_I8MM 6

// x86-64: AMX with 8-bit integers, beside AVX-512. Where Linux runs the program, asking for it asks Linux for the use of tiles.
#define POCKET_KERNELS_AMX 7

// x86-64: AVX2 with FMA, F16C and AVX-VNNI.
#define POCKET_KERNELS_AVXVNNI 8

// Instructions.
#define POCKET_ROLE_SYSTEM 0

// The person.
#define POCKET_ROLE_USER 1

// The model.
#define POCKET_ROLE_ASSISTANT 2

// Thinking as the template does it by itself.
#define POCKET_THINKING_DEFAULT 0

// The model shall think, where the template has a setting for it.
#define POCKET_THINKING_ON 1

// The model shall not think, where the template has a setting for it.
#define POCKET_THINKING_OFF 2

// The most turns that one call takes.
#define POCKET_TURNS_MAX 64

// The longest stop string, in bytes.
#define POCKET_STOP_BYTES_MAX 252

// The model ended the reply, with a stop token, which is neither shown nor appended.
#define POCKET_ENDED_BY_STOP_TOKEN 1

// A stop string ended it; neither it nor what follows is shown. The session holds some of its tokens: to go on as if the
// reply had ended with what was shown, rewind to where it began and append that text.
#define POCKET_ENDED_BY_STOP_STRING 2

// It has as many tokens as it may.
#define POCKET_ENDED_BY_TOKENS 3

// The session has no room for another token.
#define POCKET_ENDED_BY_CONTEXT 4

// The callback or `pocket_cancel` ended it.
#define POCKET_ENDED_BY_CANCEL 5

// Special tokens in the text are text like any other: for all that people write.
#define POCKET_SPECIAL_AS_TEXT 0

// Special tokens in the text steer the model: only for text that the program wrote itself.
#define POCKET_SPECIAL_RECOGNISE 1

// A session: one conversation's tokens, their keys and values, the logits of what follows, and a sampler. It lives at
// the head of its arena, needs no closing, and is over when the caller uses that memory for something else.
typedef struct pocket_session pocket_session;

// What became of a call: `POCKET_OK`, or the number of an error, which stays the same in every release.
typedef uint32_t pocket_status;

// An open image. Its memory is the caller's; what is in it is the library's. It may be copied and needs no closing.
typedef struct pocket_image {
  // Not to be touched.
  uint64_t opaque[128];
} pocket_image;

// What an image says of its model.
typedef struct pocket_facts {
  // Bytes of the image, without what may follow it.
  size_t image_bytes;
  // Positions that the model was trained for: the longest context.
  uint32_t context;
  // Logits; tokens are below it.
  uint32_t vocabulary;
  // Tokens that the tokenizer has; at most `vocabulary`, 0 without a tokenizer.
  uint32_t tokenizer_tokens;
  // Transformer blocks.
  uint32_t layers;
  // Elements of the hidden state.
  uint32_t hidden;
  // Query heads.
  uint32_t heads;
  // Key and value heads.
  uint32_t kv_heads;
  // Elements of a head.
  uint32_t head_dim;
  // Elements between the feed-forward projections.
  uint32_t feed_forward;
  // The begin-of-text token, or `POCKET_NO_TOKEN`.
  uint32_t begin_token;
  // Whether a context that no template writes begins with `begin_token`: 1 or 0.
  uint32_t begins_with_it;
  // Whether text must be in Unicode normal form C, which the caller sees to: 1 or 0.
  uint32_t wants_nfc;
  // Whether there is a chat template: 1 or 0.
  uint32_t has_template;
} pocket_facts;

// How the next token is chosen. All zeros but `top_p` and `repetition_penalty`, which are 1, is greedy.
typedef struct pocket_sampling {
  // Divides the logits, 0 or more; 0 takes the most likely token.
  float temperature;
  // Keeps this many most likely tokens; 0 keeps all.
  uint32_t top_k;
  // Keeps the fewest most likely tokens whose probabilities reach this sum, above 0; 1 keeps all.
  float top_p;
  // Keeps tokens at least this fraction as likely as the most likely one, 0 to 1; 0 keeps all.
  float min_p;
  // Divides positive and multiplies negative logits of tokens seen in the window, above 0; 1 changes nothing.
  float repetition_penalty;
  // How many of the last tokens the penalty looks at; 0 means all.
  uint32_t penalty_window;
} pocket_sampling;

// A check of an image that is under way. Its memory is the caller's; what is in it is the library's. It may be copied.
typedef struct pocket_verification {
  // Not to be touched.
  uint64_t opaque[48];
} pocket_verification;

// What a session is granted. Everything that the plan counts follows from this and the model's shape.
typedef struct pocket_limits {
  // Positions: prompts and replies together, in tokens.
  uint32_t context;
  // Tokens of a prompt that are processed at once: speed and memory, never results.
  uint32_t batch;
  // Workers that may share a step, the calling thread included.
  uint32_t workers;
  // `POCKET_CACHE_F16` or `POCKET_CACHE_I8`.
  uint32_t cache;
  // The longest stretch of text without a boundary, in bytes; 0 if the session is only given tokens.
  uint32_t word_bytes;
  // The longest rendered chat of one `pocket_prefill_chat`, in bytes; 0 if it is not called.
  uint32_t chat_bytes;
} pocket_limits;

// Bytes that a session takes.
typedef struct pocket_plan {
  // Bytes of the arena, which begins at a multiple of 64. Everything is in it: the session itself, its attention
  // cache, logits and scratch. Beyond it only stacks are used.
  size_t arena_bytes;
  // Bytes of the image.
  size_t image_bytes;
  // Bytes of stack: `POCKET_STACK_BYTES`, and `POCKET_JOB_STACK_BYTES` for every worker beside the calling thread.
  size_t stack_bytes;
  // Arena, image and stacks together: the most memory that the model takes.
  size_t peak_bytes;
} pocket_plan;

// A share of a step: to be called as `job(job_context, index)`.
typedef void (*pocket_job_fn)(void *job_context, size_t index);

// Calls `job(job_context, i)` for each `i` below `count`, at the same time if it can, and returns when all these calls
// have returned; what they wrote is visible to the caller then. It is called some hundred times a token, and always by
// the thread that called the library.
//
// Every call takes work until none is left, so calls may run one behind the other, and some may be left out: that is
// slower and gives the same bits.
typedef void (*pocket_run_fn)(void *run_context, size_t count, pocket_job_fn job, void *job_context);

// What a session computes with. All zeros: the best kernels, on the calling thread alone.
typedef struct pocket_machine {
  // `POCKET_KERNELS_BEST` or the number of others. The bits of the results do not depend on it.
  uint32_t kernels;
  // Not 0: the caller promises that the processor has the instructions of `kernels`, and that whoever switches
  // contexts saves their registers. Nothing is asked then. For firmware that knows its chip.
  uint32_t promised;
  // AArch64: `getauxval(AT_HWCAP)`, for which this library has nobody to ask; 0 means what every processor has.
  // Elsewhere without effect: x86-64 is asked by CPUID and XCR0.
  uint64_t hwcap;
  // AArch64: `getauxval(AT_HWCAP2)`.
  uint64_t hwcap2;
  // How many calls of a job `run` makes; 0 and 1 are the calling thread alone.
  size_t workers;
  // Shares jobs among workers; null with more than one worker is an error.
  pocket_run_fn run;
  // Handed to `run`.
  void *run_context;
} pocket_machine;

// One turn of a chat.
typedef struct pocket_turn {
  // `POCKET_ROLE_*`.
  uint32_t role;
  // What is said, UTF-8. Special tokens in it are text.
  const char *content;
  // Bytes of it.
  size_t length;
} pocket_turn;

// Text of a stop string.
typedef struct pocket_text {
  // UTF-8, which need not be terminated.
  const char *bytes;
  // Bytes of it.
  size_t length;
} pocket_text;

// Takes a token of a reply, the `count`-th from 1 on: after the text that it completes was shown, before it is appended.
// `pocket_detokenize` has its bytes. Gives 0 to go on, and anything else to end the reply after this token.
typedef int (*pocket_token_fn)(void *context, uint32_t token, size_t count);

// What may end a reply.
typedef struct pocket_until {
  // The most tokens that it may have.
  size_t tokens;
  // Tokens that end it; null for those that `pocket_image_stop_tokens` gives.
  const uint32_t *stop_tokens;
  // How many.
  size_t stop_token_count;
  // Strings that end it.
  const struct pocket_text *stop_strings;
  // How many.
  size_t stop_string_count;
  // Takes every token; null: nobody does.
  pocket_token_fn tell;
  // Handed to `tell`.
  void *tell_context;
} pocket_until;

// Takes a piece of a reply: whole characters of UTF-8, not terminated, valid during the call. Gives 0 to go on, and
// anything else to end the reply before its next token, after which it is not called again.
typedef int (*pocket_text_fn)(void *context, const char *text, size_t length);

// A reply that has ended.
typedef struct pocket_reply {
  // Tokens appended to the session.
  size_t tokens;
  // `POCKET_ENDED_BY_*`.
  uint32_t ending;
  // The stop token that ended it, or `POCKET_NO_TOKEN`.
  uint32_t stop_token;
} pocket_reply;

// It was done.
#define POCKET_OK 0

// The model has no layers or more than 1024.
#define POCKET_ERROR_CONFIG_LAYERS 100

// The hidden size is not a multiple of 32 in 32..=1048576.
#define POCKET_ERROR_CONFIG_HIDDEN 101

// The feed-forward size is not a multiple of 32 in 32..=1048576.
#define POCKET_ERROR_CONFIG_FFN 102

// The head size is not a multiple of 32 in 32..=256.
#define POCKET_ERROR_CONFIG_HEAD_DIM 103

// Query heads cannot be shared by the KV heads.
#define POCKET_ERROR_CONFIG_HEADS 104

// The vocabulary is empty or too large.
#define POCKET_ERROR_CONFIG_VOCABULARY 105

// The trained context is empty or too large.
#define POCKET_ERROR_CONFIG_CONTEXT 106

// The norm's epsilon is not a number between 0 and 1.
#define POCKET_ERROR_CONFIG_RMS_EPS 107

// The image was cut short: transfer or pack it again.
#define POCKET_ERROR_IMAGE_TRUNCATED 200

// This is not an image.
#define POCKET_ERROR_IMAGE_MAGIC 201

// The image has the format of another release: pack it again.
#define POCKET_ERROR_IMAGE_VERSION 202

// The image does not begin at a multiple of 64.
#define POCKET_ERROR_IMAGE_MISALIGNED 203

// A checksum does not match: the image is damaged.
#define POCKET_ERROR_IMAGE_CHECKSUM 204

// The image contradicts itself.
#define POCKET_ERROR_IMAGE_FIELD 205

// The image lacks a part that is needed here, such as a tokenizer or a chat template.
#define POCKET_ERROR_IMAGE_MISSING 206

// The image has a section that this release does not know.
#define POCKET_ERROR_IMAGE_UNKNOWN_SECTION 207

// A tensor does not fit the image's configuration.
#define POCKET_ERROR_IMAGE_TENSOR 209

// The image is not signed.
#define POCKET_ERROR_IMAGE_UNSIGNED 211

// The image was signed by somebody else, or changed since: do not use it.
#define POCKET_ERROR_IMAGE_SIGNATURE 212

// The context is 0 or longer than the model was trained for.
#define POCKET_ERROR_PLAN_CONTEXT 301

// The batch is 0 or longer than the context.
#define POCKET_ERROR_PLAN_BATCH 302

// No workers, or more than 256.
#define POCKET_ERROR_PLAN_WORKERS 303

// The plan needs more bytes than can be addressed.
#define POCKET_ERROR_PLAN_TOO_LARGE 304

// The arena is smaller than planned.
#define POCKET_ERROR_ARENA_TOO_SMALL 401

// The arena does not begin at a multiple of 64.
#define POCKET_ERROR_ARENA_MISALIGNED 402

// More workers than the limits allow.
#define POCKET_ERROR_TOO_MANY_WORKERS 403

// The context cannot hold these tokens; nothing was computed.
#define POCKET_ERROR_CONTEXT_FULL 500

// A token is not in the vocabulary; nothing was computed.
#define POCKET_ERROR_UNKNOWN_TOKEN 501

// No tokens were given.
#define POCKET_ERROR_EMPTY 502

// A value that is not finite appeared: verify the image.
#define POCKET_ERROR_NON_FINITE 503

// There are no logits yet, or no longer.
#define POCKET_ERROR_NO_LOGITS 504

// A rewind to a position that was not reached.
#define POCKET_ERROR_REWIND_BEYOND 505

// Sampling settings are out of range.
#define POCKET_ERROR_SAMPLING 506

// `pocket_cancel` ended the step; the tokens that are left are computed by the next one, or by `pocket_resume`.
#define POCKET_ERROR_CANCELLED 507

// A text section is none.
#define POCKET_ERROR_TEXT_MAGIC 601

// A text section is of another release.
#define POCKET_ERROR_TEXT_VERSION 602

// A text section is not aligned.
#define POCKET_ERROR_TEXT_MISALIGNED 603

// A text section has a wrong length.
#define POCKET_ERROR_TEXT_LENGTH 604

// A table of a text section contradicts itself.
#define POCKET_ERROR_TEXT_DAMAGED 605

// The text has an unbroken run longer than `word_bytes` allows.
#define POCKET_ERROR_PIECE_TOO_LONG 606

// The text has more tokens than fit; nothing was computed.
#define POCKET_ERROR_TOO_MANY_TOKENS 607

// There is no turn to render.
#define POCKET_ERROR_NO_TURNS 609

// The template has no place for a turn of this role here.
#define POCKET_ERROR_TURN_ORDER 610

// The rendered chat does not fit.
#define POCKET_ERROR_RENDER_TOO_LONG 611

// More than `POCKET_TURNS_MAX` turns in one call.
#define POCKET_ERROR_TOO_MANY_TURNS 612

// A stop string is empty.
#define POCKET_ERROR_STOP_EMPTY 613

// A stop string is longer than `POCKET_STOP_BYTES_MAX`.
#define POCKET_ERROR_STOP_TOO_LONG 614

// A pointer is null that must not be.
#define POCKET_ERROR_NULL 701

// A pointer is not aligned for what it points to.
#define POCKET_ERROR_MISALIGNED 702

// A length is more than can be addressed.
#define POCKET_ERROR_LENGTH 703

// The object is not an open image or a session.
#define POCKET_ERROR_NOT_OPEN 704

// The session is in use: another thread's call has not returned, or this is a callback of its own.
#define POCKET_ERROR_BUSY 705

// This library or this machine has no such kernels.
#define POCKET_ERROR_KERNELS 706

// A number is none of the values that are possible there.
#define POCKET_ERROR_VALUE 707

// The text is not UTF-8.
#define POCKET_ERROR_UTF8 708

// The output is too small; the length that is needed was written.
#define POCKET_ERROR_BUFFER 709

// The arena overlaps the image.
#define POCKET_ERROR_OVERLAP 710

// More stop tokens or stop strings than `POCKET_STOPS_MAX`.
#define POCKET_ERROR_TOO_MANY_STOPS 711

// The memory for a state is too small.
#define POCKET_ERROR_STATE_ROOM 800

// A state was cut short.
#define POCKET_ERROR_STATE_TRUNCATED 801

// This is no saved state.
#define POCKET_ERROR_STATE_MAGIC 802

// A state has the format of another release.
#define POCKET_ERROR_STATE_VERSION 803

// The checksum of a state does not match: it is damaged.
#define POCKET_ERROR_STATE_CHECKSUM 804

// A state contradicts itself.
#define POCKET_ERROR_STATE_FIELD 805

// A state was saved with another model.
#define POCKET_ERROR_STATE_OTHER_MODEL 806

// A state was saved from another kind of attention cache.
#define POCKET_ERROR_STATE_OTHER_CACHE 807

// A state is longer than the context.
#define POCKET_ERROR_STATE_CONTEXT 808

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// What a status means and what to do, as an English sentence that lives for ever; never null. Where it happened and
// which numbers do not fit say `pocket_image_error_text` and `pocket_session_error_text`.
const char *pocket_error_text(pocket_status status);

// The `POCKET_ABI` of the library; compare it with the header's.
uint32_t pocket_abi(void);

// Checks and opens the image in `bytes`, which begin at a multiple of 64 and stay where and as they are while the image
// or a session of it is used. They are read in place: flash, a mapped file or RAM. No weight is touched.
//
// An image without a tokenizer or template opens; what needs one gives the error.
pocket_status pocket_image_open(const void *bytes, size_t length, struct pocket_image *image);

// Writes what is wrong with an image that `pocket_image_open` could not open, with the part and the numbers: `*length`
// bytes of UTF-8 at `text`, where there is `room` for them; not terminated. `POCKET_SENTENCE_BYTES` are always enough;
// if the room is too small, `*length` says how much it takes and the status is `POCKET_ERROR_BUFFER`.
pocket_status pocket_image_error_text(const struct pocket_image *image, char *text, size_t room, size_t *length);

// What the image says of its model.
pocket_status pocket_image_facts(const struct pocket_image *image, struct pocket_facts *facts);

// The sampling settings that the model's author recommends, or greedy ones.
pocket_status pocket_image_sampling(const struct pocket_image *image, struct pocket_sampling *sampling);

// The tokens that end a reply, those of the chat template too: `*count` of them at `*tokens`, which is inside `image`.
pocket_status pocket_image_stop_tokens(const struct pocket_image *image, const uint32_t **tokens, size_t *count);

// Where the model came from, as JSON text for people, inside the image's bytes and not terminated; empty if unknown.
pocket_status pocket_image_provenance(const struct pocket_image *image, const char **text, size_t *length);

// Checks every byte of the image, weights too: reads all of it once.
pocket_status pocket_image_verify(const struct pocket_image *image);

// Begins to check every byte of the image, in steps: `pocket_image_verify` for those who have other things to do.
pocket_status pocket_image_verify_begin(const struct pocket_image *image, struct pocket_verification *verification);

// Reads at most `bytes` more. `*done` becomes how many of the image's bytes were checked, and `*whole` 1 if that are
// all, 0 if more steps are to come; both may be null. Once a step has found damage, so do all that follow.
pocket_status pocket_image_verify_step(struct pocket_verification *verification,
                                       size_t bytes,
                                       size_t *done,
                                       uint32_t *whole);

// Whether the owner of this Ed25519 key, `POCKET_PUBLIC_KEY_BYTES` at `public_key`, signed the image's header, and with
// it the hashes of everything in it: `pocket keygen` and `pocket sign` make keys and signatures. A device does this with
// a key that it has compiled in, then verifies the image: the signature vouches for the hashes, the verification for
// the bytes.
pocket_status pocket_image_check_signature(const struct pocket_image *image,
                                           const uint8_t *public_key);

// The instructions that the image's baked prefix was computed of, inside the image's bytes and not terminated: the
// content of the first turn of a chat, which then begins behind the prefix. `POCKET_ERROR_IMAGE_MISSING` if there are
// none.
pocket_status pocket_image_system_prompt(const struct pocket_image *image, const char **text, size_t *length);

// Limits with this context: one worker, 64 tokens at a time, a 16-bit cache, words of up to 4 KiB, and four bytes of
// chat for each position.
struct pocket_limits pocket_limits_new(uint32_t context);

// Computes what a session with these limits takes. Nothing is allocated, here or later.
pocket_status pocket_plan_session(const struct pocket_image *image,
                                  const struct pocket_limits *limits,
                                  struct pocket_plan *plan);

// The name of kernels, for logs and command lines; the empty string for those that this library does not have.
const char *pocket_kernels_name(uint32_t kernels);

// Makes a session in `arena`, which begins at a multiple of 64, holds at least `arena_bytes` of the plan for these
// limits, is not the image's memory, and is the library's until the session is over. What is in it does not matter,
// nor do `image` and `machine` afterwards, only the image's bytes. `machine` may be null: the best kernels that can be
// asked for, on the calling thread.
//
// The session's sampler is greedy until `pocket_session_sampling` changes it.
pocket_status pocket_session_new(const struct pocket_image *image,
                                 const struct pocket_limits *limits,
                                 const struct pocket_machine *machine,
                                 void *arena,
                                 size_t arena_bytes,
                                 struct pocket_session **session);

// Which kernels the session computes with: `POCKET_KERNELS_*`, never `POCKET_KERNELS_BEST`.
pocket_status pocket_session_kernels(const struct pocket_session *session, uint32_t *kernels);

// Writes why the last call that failed with this session did so, with the numbers: `*length` bytes of UTF-8 at `text`,
// where there is `room` for them; not terminated. `POCKET_SENTENCE_BYTES` are always enough; if the room is too small,
// `*length` says how much it takes and the status is `POCKET_ERROR_BUFFER`.
//
// Calls that were refused with `POCKET_ERROR_BUSY`, and this one, do not count.
pocket_status pocket_session_error_text(const struct pocket_session *session, char *text, size_t room, size_t *length);

// Ends the step or the reply that the session is at, before the next half of a layer; if it is at none, the next one at
// once. A reply then ends with `POCKET_ENDED_BY_CANCEL`, a step with `POCKET_ERROR_CANCELLED`; what they left is
// computed by the next step. Any thread and any signal handler may call this at any time while the session lives.
pocket_status pocket_cancel(const struct pocket_session *session);

// Appends tokens and computes the logits of the last. Before any work it is clear whether they fit and are known.
pocket_status pocket_prefill(struct pocket_session *session, const uint32_t *tokens, size_t count);

// Turns text into tokens and appends them as `pocket_prefill` does; text that makes no token changes nothing.
//
// `special` is one of `POCKET_SPECIAL_*`. No begin-of-text token is added, see `pocket_facts`. `count`, where the number
// of tokens goes, may be null.
pocket_status pocket_prefill_text(struct pocket_session *session,
                                  const char *text,
                                  size_t length,
                                  uint32_t special,
                                  size_t *count);

// Appends one token and computes the logits of what follows.
pocket_status pocket_decode(struct pocket_session *session, uint32_t token);

// Computes the tokens that a cancelled call left, if there are any. Every other step does so first, too.
pocket_status pocket_resume(struct pocket_session *session);

// How many tokens a cancelled call left. `pocket_rewind` and `pocket_reset` forget them.
pocket_status pocket_pending(const struct pocket_session *session, size_t *count);

// Gives the session another sampler; equal seeds give equal tokens, on every chip. `sampling` may be null: the settings
// that the model's author recommends.
pocket_status pocket_session_sampling(struct pocket_session *session,
                                      const struct pocket_sampling *sampling,
                                      uint64_t seed);

// Chooses the token that follows; it is not appended.
pocket_status pocket_sample(struct pocket_session *session, uint32_t *token);

// The logits of what follows: `*count` (the vocabulary's size) at `*logits`, in the arena, until the next call that
// changes the session.
pocket_status pocket_logits(struct pocket_session *session, const float **logits, size_t *count);

// The tokens that the session holds: `*count` at `*tokens`, in the arena, until the next call that changes the session.
pocket_status pocket_tokens(struct pocket_session *session, const uint32_t **tokens, size_t *count);

// How many more tokens fit.
pocket_status pocket_room(struct pocket_session *session, size_t *tokens);

// Forgets the tokens from `position` on; the next step goes on as if they had never been.
pocket_status pocket_rewind(struct pocket_session *session, size_t position);

// Forgets everything but the sampler.
pocket_status pocket_reset(struct pocket_session *session);

// Appends turns, written as the model's chat template writes them, and what begins a reply. In an empty session they
// begin a chat; otherwise they follow the reply that the session ends with. What people say in them cannot steer the
// model by special tokens. Before any work it is clear whether they fit: rendered into `chat_bytes`, and in tokens.
//
// `thinking` is one of `POCKET_THINKING_*`; `count`, where the number of tokens goes, may be null.
pocket_status pocket_prefill_chat(struct pocket_session *session,
                                  const struct pocket_turn *turns,
                                  size_t turn_count,
                                  uint32_t thinking,
                                  size_t *count);

// Writes a chat as the model's template does, with what begins a reply, for people to look at: `*length` bytes of UTF-8
// at `text`, where there is `room` for them; not terminated. With `following` not 0, the turns follow a reply. If the
// room is too small, `*length` says how much it takes and the status is `POCKET_ERROR_BUFFER`.
//
// To give a chat to a session use `pocket_prefill_chat`, which knows what in it people wrote.
pocket_status pocket_render_chat(const struct pocket_image *image,
                                 const struct pocket_turn *turns,
                                 size_t turn_count,
                                 uint32_t thinking,
                                 uint32_t following,
                                 char *text,
                                 size_t room,
                                 size_t *length);

// Generates a reply to the tokens that the session holds, with the session's sampler, and gives its text to `show`
// (null: to nobody) as it comes. Control tokens are appended but not shown. Every token that is shown is appended, so a
// chat goes on with `pocket_prefill_chat`. `reply` may be null.
//
// `until` may ask for the tokens too: it is told all that are appended and no other. For logits, or another choice of
// tokens, call `pocket_sample` and `pocket_decode` in turn.
pocket_status pocket_generate(struct pocket_session *session,
                              const struct pocket_until *until,
                              pocket_text_fn show,
                              void *show_context,
                              struct pocket_reply *reply);

// Words of scratch with which `pocket_encode` takes text whose stretches without a boundary have at most this many
// bytes. A text of n bytes has none longer than n.
size_t pocket_encode_scratch(size_t word_bytes);

// Turns text into tokens, without a session: `*count` of them at `tokens`, where there is `room` for them. `scratch` is
// `scratch_words` words that the caller lends, see `pocket_encode_scratch`; `special` is one of `POCKET_SPECIAL_*`.
pocket_status pocket_encode(const struct pocket_image *image,
                            const char *text,
                            size_t length,
                            uint32_t special,
                            uint32_t *scratch,
                            size_t scratch_words,
                            uint32_t *tokens,
                            size_t room,
                            size_t *count);

// Turns tokens into the bytes that they stand for, one behind the other: `*length` of them at `bytes`, where there is
// `room` for them; not terminated. The first or last character may be cut, as tokens may end inside of one. With
// `skip_control` not 0, tokens that steer the model are left out. If the room is too small, `*length` says how much it
// takes and the status is `POCKET_ERROR_BUFFER`.
pocket_status pocket_detokenize(const struct pocket_image *image,
                                const uint32_t *tokens,
                                size_t count,
                                uint32_t skip_control,
                                char *bytes,
                                size_t room,
                                size_t *length);

// Whether a token steers the model and should not be shown: `*control` becomes 1 or 0.
pocket_status pocket_token_is_control(const struct pocket_image *image, uint32_t token, uint32_t *control);

// The special token that is written like this, or `POCKET_NO_TOKEN`.
pocket_status pocket_token_of(const struct pocket_image *image, const char *text, size_t length, uint32_t *token);

// How many bytes `pocket_state_save` takes now.
pocket_status pocket_state_bytes(const struct pocket_session *session, size_t *bytes);

// Saves the tokens that the session holds, with their keys and values, as `*length` bytes at `state`, where there is
// `room` for them. Pending tokens and logits are not saved. The same tokens make the same bytes on every chip, whatever
// the context, the batch and the workers.
pocket_status pocket_state_save(const struct pocket_session *session, void *state, size_t room, size_t *length);

// Takes up a saved state in place of whatever the session holds, and goes on to the same bits as if it had processed
// those tokens itself. There are no logits before the next step. The state must be of the same model and kind of cache,
// and fit the context; otherwise the session stays as it was. Its bytes may begin anywhere.
pocket_status pocket_state_restore(struct pocket_session *session, const void *state, size_t length);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* POCKET_H */
