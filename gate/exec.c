/*
 * rakuda-gate FILE NAME [WORD...]: waits at the gate, then executes FILE, which sees itself as NAME.
 *
 * For programs into which nothing can be preloaded: static ones, and those that run with rights of their own.
 * It has no library at all, so that it is ready at once and leaves little to tear down. Ends with 126 or 127
 * as a shell does when FILE cannot be executed.
 */
#include "cache.h"

char **environ;

void start_of_gate(long *stack) __attribute__((noreturn, used));

void start_of_gate(long *stack) {
    long count = stack[0];
    char **words = (char **)(stack + 1);
    int fields[RAKUDA_GATE_FIELDS];
    long error;
    environ = words + count + 1;
    if (count >= 3) {
        if (rakuda_gate_take(environ, fields)) {
            rakuda_gate_obey(fields);
            rakuda_gate_pass(fields, RAKUDA_GATE_EXEC);
        }
        error = rakuda_gate_call(RAKUDA_GATE_SYS_EXECVE, (long)words[1], (long)(words + 2), (long)environ, 0);
        rakuda_gate_call(RAKUDA_GATE_SYS_EXIT, error == -2 ? 127 : 126, 0, 0, 0);
    }
    for (;;) {
        rakuda_gate_call(RAKUDA_GATE_SYS_EXIT, 2, 0, 0, 0);
    }
}

#if defined(__x86_64__)
__asm__(
    ".globl _start\n_start:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall start_of_gate\n");
#else
__asm__(".globl _start\n_start:\n\tmov x29, #0\n\tmov x30, #0\n\tmov x0, sp\n\tbl start_of_gate\n");
#endif
