/*
 * Pocket without a C library or anything else: its own entry, its own four memory functions, two system calls.
 *
 * The image (IMAGE, a file's name) is in the program, the arena is static, and the tokens are in tokens.h. Prints the
 * SHA-256 of the logits after every token, as `pocket golden` pins it, and exits with 0, or with an error's sentence and
 * 1. The system calls are those of Linux on x86-64 and AArch64; firmware has a UART instead.
 */
#include <stddef.h>
#include <stdint.h>

#include "pocket.h"
#include "sha256.h"

static const uint32_t tokens[] = {
#include "tokens.h"
};

/* As golden files of tiny models do: the tokens again and again, up to 300. */
enum { COUNT = sizeof tokens / sizeof tokens[0], STEPS = 300, CONTEXT = 304, ARENA_BYTES = 512 * 1024 };

static _Alignas(64) unsigned char arena[ARENA_BYTES];

__asm__(".section .rodata\n"
        ".balign 64\n"
        "image_start: .incbin \"" IMAGE "\"\n"
        "image_end:\n"
        ".text\n");
extern const unsigned char image_start[], image_end[];

/* What a compiler expects of its surroundings, and so does the library. */
void *memcpy(void *to, const void *from, size_t length) {
    unsigned char *t = to;
    const unsigned char *f = from;
    while (length--) *t++ = *f++;
    return to;
}

void *memmove(void *to, const void *from, size_t length) {
    unsigned char *t = to;
    const unsigned char *f = from;
    if (t <= f) return memcpy(to, from, length);
    while (length--) t[length] = f[length];
    return to;
}

void *memset(void *to, int value, size_t length) {
    unsigned char *t = to;
    while (length--) *t++ = (unsigned char)value;
    return to;
}

int memcmp(const void *a, const void *b, size_t length) {
    const unsigned char *x = a, *y = b;
    for (; length--; x++, y++)
        if (*x != *y) return *x < *y ? -1 : 1;
    return 0;
}

int bcmp(const void *a, const void *b, size_t length) { return memcmp(a, b, length); }

#if defined(__x86_64__)
__asm__(".globl _start\n_start: xor %ebp, %ebp\n and $-16, %rsp\n call start\n hlt\n");
enum { WRITE = 1, EXIT = 60 };

static long call(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
__asm__(".globl _start\n_start: mov x29, xzr\n bl start\n brk #0\n");
enum { WRITE = 64, EXIT = 93 };

static long call(long number, long a, long b, long c) {
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
}
#endif

static void finish(int status) {
    call(EXIT, status, 0, 0);
    for (;;) {
    }
}

static void print(const char *text) {
    size_t length = 0;
    while (text[length] != '\0') length++;
    call(WRITE, 1, (long)text, (long)length);
}

static void check(pocket_status status) {
    if (status == POCKET_OK) return;
    print(pocket_error_text(status));
    print("\n");
    finish(1);
}

void start(void);
void start(void) {
    static pocket_image image;
    pocket_session *session;
    pocket_limits limits = pocket_limits_new(CONTEXT);
    limits.batch = 1;
    limits.word_bytes = limits.chat_bytes = 0;
    check(pocket_image_open(image_start, (size_t)(image_end - image_start), &image));
    check(pocket_session_new(&image, &limits, NULL, arena, sizeof arena, &session));

    sha256 hash;
    sha256_start(&hash);
    for (size_t i = 0; i < STEPS; i++) {
        const float *logits;
        size_t count;
        check(pocket_decode(session, tokens[i % COUNT]));
        check(pocket_logits(session, &logits, &count));
        sha256_add(&hash, logits, count * sizeof *logits);
    }
    char digits[65];
    sha256_end(&hash, digits);
    digits[64] = '\0';
    print(digits);
    print("\n");
    finish(0);
}
