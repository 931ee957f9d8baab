/*
 * Pocket without a C library or anything else: its own entry, its own memory functions, two calls to what is outside.
 *
 * The image (IMAGE, a file's name) is in the program, the arena is static, and the tokens are in a file (TOKENS), with
 * commas. Prints the SHA-256 of the logits after every token, as `pocket golden` pins it, and exits with 0, or with an
 * error's sentence and 1. What is outside is Linux on x86-64 and AArch64, and nothing on a Cortex-M with an FPU: there
 * the program begins at address 0 with the vectors, and a debugger or QEMU prints for it.
 */
#include <stddef.h>
#include <stdint.h>

#include "pocket.h"
#include "sha256.h"

static const uint32_t tokens[] = {
#include TOKENS
};

/* As golden files of tiny models do: the tokens again and again, up to 300. */
#ifndef STEPS
#define STEPS 300
#endif
enum { COUNT = sizeof tokens / sizeof tokens[0] };

/* What `pocket_plan_session` says, or more: 500 KB are for a tiny model and its 300 positions. */
#ifndef ARENA_BYTES
#define ARENA_BYTES 500000
#endif

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

void start(void);

#if defined(__ARM_ARCH_7EM__)
/* What the library may take, and a kilobyte for this program. cortex-m.ld puts it where memory begins, so whoever takes
   more does not get it. */
__attribute__((section(".stack"))) static uint64_t stack[(POCKET_STACK_BYTES + 1024) / sizeof(uint64_t)];

/* As SYS_WRITE0 and SYS_EXIT_EXTENDED of Arm's semihosting. */
static void call(uint32_t number, const void *argument) {
    register uint32_t r0 __asm__("r0") = number;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt #0xab" : "+r"(r0) : "r"(r1) : "memory");
}

static void finish(int status) {
    const uint32_t reason[2] = {0x20026, (uint32_t)status};
    call(0x20, reason);
    for (;;) {
    }
}

static void print(const char *text) { call(0x04, text); }

static void fault(void) {
    print("fault\n");
    finish(1);
}

/* Switches the FPU on, of which nothing may be used before. */
void _start(void);
__attribute__((naked)) void _start(void) {
    __asm__("ldr r0, =0xe000ed88\n ldr r1, [r0]\n orr r1, r1, #0xf00000\n str r1, [r0]\n dsb\n isb\n b start\n .ltorg\n");
}

__attribute__((section(".vectors"), used)) static const struct {
    uint64_t *stack_end;
    void (*handlers[15])(void);
} vectors = {stack + sizeof stack / sizeof *stack, {_start, fault, fault, fault, fault, fault}};
#else
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
#endif

static void check(pocket_status status) {
    if (status == POCKET_OK) return;
    print(pocket_error_text(status));
    print("\n");
    finish(1);
}

void start(void) {
    static pocket_image image;
    pocket_session *session;
    pocket_limits limits = pocket_limits_new(STEPS);
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
