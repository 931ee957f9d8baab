// From reset to Rust, at EL1: FP and vectors on, a stack, an identity map with caches, zeroed .bss.
//
// The map has two blocks of 1 GiB: devices below 0x4000_0000, normal write-back memory above. Without it memory would
// be device memory, where an access that is not aligned faults.

.section .text.boot, "ax"

.global _start
_start:
    bl   processor_on
    adrp x0, __bss_start
    add  x0, x0, :lo12:__bss_start
    adrp x1, __bss_end
    add  x1, x1, :lo12:__bss_end
1:  cmp  x0, x1
    b.hs 2f
    stp  xzr, xzr, [x0], #16
    b    1b
2:  adrp x0, __stacks_start            // paint the stacks, so that their use can be seen
    add  x0, x0, :lo12:__stacks_start
    adrp x1, __stacks_end
    add  x1, x1, :lo12:__stacks_end
    ldr  x2, =0xA5A5A5A5A5A5A5A5
3:  str  x2, [x0], #8
    cmp  x0, x1
    b.lo 3b
    mov  sp, x1
    adrp x0, translation_table
    add  x0, x0, :lo12:translation_table
    ldr  x1, =0x0060000000000405       // 0 to 1 GiB: block, attribute 1 (device), accessed, never executed
    str  x1, [x0]
    ldr  x1, =0x0000000040000701       // 1 to 2 GiB: block, attribute 0 (normal), inner shareable, accessed
    str  x1, [x0, #8]
    bl   memory_on
    bl   main_core
    b    .

// A second core begins here, called by PSCI: x0 is the top of its stack.
.global _start_second
_start_second:
    mov  x20, x0
    bl   processor_on
    mov  sp, x20
    bl   memory_on
    bl   second_core
    b    .

processor_on:
    mrs  x2, cpacr_el1
    orr  x2, x2, #(3 << 20)            // FPEN: no trap of floats and vectors
    msr  cpacr_el1, x2
    adrp x2, vectors
    add  x2, x2, :lo12:vectors
    msr  vbar_el1, x2
    isb
    msr  fpcr, xzr                     // nearest even, no flush to zero, no default NaN: the arithmetic contract
    ret

memory_on:
    adrp x0, translation_table
    add  x0, x0, :lo12:translation_table
    dsb  ish
    ldr  x1, =0x00000000000000FF       // attribute 0: normal write-back; attribute 1: device
    msr  mair_el1, x1
    ldr  x1, =0x0000000100803519       // 39-bit addresses, 4 KiB granule, write-back walks, no second table
    msr  tcr_el1, x1
    msr  ttbr0_el1, x0
    tlbi vmalle1
    dsb  ish
    isb
    mrs  x1, sctlr_el1
    orr  x1, x1, #1                    // M: translation
    orr  x1, x1, #4                    // C: data cache
    orr  x1, x1, #0x1000               // I: instruction cache
    bic  x1, x1, #2                    // A: accesses need not be aligned
    msr  sctlr_el1, x1
    isb
    ret
.ltorg

.balign 2048
vectors:
.rept 16
    b    exception_entry
    .balign 128
.endr
exception_entry:
    mrs  x0, esr_el1
    mrs  x1, elr_el1
    mrs  x2, far_el1
    bl   exception

.section .bss
.balign 4096
translation_table:
    .space 4096
