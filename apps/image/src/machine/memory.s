// The memory functions that the compiler calls and that a C library usually provides. They are in
// assembly, since the compiler would replace loops in Rust by calls of the same functions. They copy
// sixteen bytes at a time: a repeated move is slow on an emulated processor.

    .globl memcpy, memmove, memset, memcmp, bcmp, strlen
    .text

memmove:
    mov rax, rdi
    sub rax, rsi
    cmp rax, rdx
    jb memmove_backward
memcpy:
    mov rax, rdi
    cmp rdx, 16
    jb copy_few
    // The last sixteen bytes are read before they can be overwritten.
    movups xmm0, [rsi + rdx - 16]
    lea r8, [rdi + rdx - 16]
1:  cmp rdi, r8
    jae 2f
    movups xmm1, [rsi]
    movups [rdi], xmm1
    add rsi, 16
    add rdi, 16
    jmp 1b
2:  movups [r8], xmm0
    ret

    // Fewer than sixteen bytes: two overlapping parts, both read before either is written.
copy_few:
    cmp edx, 8
    jb 3f
    mov rcx, [rsi]
    mov r8, [rsi + rdx - 8]
    mov [rdi], rcx
    mov [rdi + rdx - 8], r8
    ret
3:  cmp edx, 4
    jb 4f
    mov ecx, [rsi]
    mov r8d, [rsi + rdx - 4]
    mov [rdi], ecx
    mov [rdi + rdx - 4], r8d
    ret
4:  test edx, edx
    jz 5f
    movzx ecx, byte ptr [rsi]
    movzx r8d, byte ptr [rsi + rdx - 1]
    mov r9d, edx
    shr r9d, 1
    movzx r10d, byte ptr [rsi + r9]
    mov [rdi], cl
    mov [rdi + r9], r10b
    mov [rdi + rdx - 1], r8b
5:  ret

memmove_backward:
    mov rax, rdi
    cmp rdx, 16
    jb copy_few
    movups xmm0, [rsi]
6:  cmp rdx, 16
    jbe 7f
    movups xmm1, [rsi + rdx - 16]
    movups [rdi + rdx - 16], xmm1
    sub rdx, 16
    jmp 6b
7:  movups [rax], xmm0
    ret

memset:
    mov rax, rdi
    movzx ecx, sil
    mov r8, 0x0101010101010101
    imul rcx, r8
    cmp rdx, 16
    jb 2f
    movq xmm0, rcx
    punpcklqdq xmm0, xmm0
    lea r8, [rdi + rdx - 16]
1:  movups [rdi], xmm0
    add rdi, 16
    cmp rdi, r8
    jb 1b
    movups [r8], xmm0
    ret
2:  cmp edx, 8
    jb 3f
    mov [rdi], rcx
    mov [rdi + rdx - 8], rcx
    ret
3:  test edx, edx
    jz 5f
4:  mov [rdi], cl
    inc rdi
    dec edx
    jnz 4b
5:  ret

memcmp:
bcmp:
1:  cmp rdx, 8
    jb 2f
    mov rax, [rdi]
    mov rcx, [rsi]
    cmp rax, rcx
    jne 4f
    add rdi, 8
    add rsi, 8
    sub rdx, 8
    jmp 1b
2:  test rdx, rdx
    jz 3f
    movzx eax, byte ptr [rdi]
    movzx ecx, byte ptr [rsi]
    sub eax, ecx
    jnz 5f
    inc rdi
    inc rsi
    dec rdx
    jmp 2b
3:  xor eax, eax
    ret
    // With the byte order reversed, the first different byte is the most significant one.
4:  bswap rax
    bswap rcx
    cmp rax, rcx
    sbb eax, eax
    or eax, 1
5:  ret

strlen:
    xor eax, eax
1:  cmp byte ptr [rdi + rax], 0
    je 2f
    inc rax
    jmp 1b
2:  ret
