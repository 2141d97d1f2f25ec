// The entry point: from the boot loader's state (32 bits, no paging) to Rust in long mode and ring 3.
//
// All Rust code runs in ring 3, with access to all ports and with write access to all memory except
// code and constants. This is fast under a hypervisor that emulates ring 0, and on any machine it
// removes privileges that are not needed once the tables are set up. Only a fault enters ring 0
// again, for a moment.

    .set PVH, 0x336ec578

    .section .multiboot1, "a"
    .balign 4
multiboot1_header:
    // Requests a memory map, and gives the addresses for loaders without support of ELF.
    .long 0x1badb002, 0x10002, 0x100000000 - (0x1badb002 + 0x10002)
    .long multiboot1_header, image_start, data_end, bss_end, _start

    .section .multiboot2, "a"
    .balign 8
multiboot2_header:
    .long 0xe85250d6, 0, multiboot2_end - multiboot2_header
    .long 0x100000000 - (0xe85250d6 + (multiboot2_end - multiboot2_header))
    // Requests a framebuffer of any size: the loader's current one, or the configured one.
    .balign 8
    .short 5, 1
    .long 20, 0, 0, 0
    .balign 8
    .short 0, 0
    .long 8
multiboot2_end:

    .section .note.pvh, "a", @note
    .balign 4
    .long 4, 8, 18
    .asciz "Xen"
    .quad pvh_start

    .section .boot.text, "ax"
    .code32
pvh_start:
    mov eax, PVH
    .globl _start
_start:
    cli
    cld
    mov ebp, eax
    mov edi, offset bss_start
    mov ecx, offset bss_end
    sub ecx, edi
    shr ecx, 2
    xor eax, eax
    rep stosd
    mov [boot_magic], ebp
    mov [boot_info], ebx
    mov esp, offset ring0_stack_top

    mov eax, 0x80000000
    cpuid
    cmp eax, 0x80000001
    jb no_long_mode
    mov eax, 0x80000001
    cpuid
    bt edx, 29
    jnc no_long_mode
    xor eax, eax
    bt edx, 20
    jnc 1f
    mov eax, 0x80000000
1:  mov [no_execute], eax

    // Identity mapping of the first 4 GiB in pages of 2 MiB: writable, not executable.
    mov dword ptr [pml4], offset pdpt + 7
    mov eax, offset pd + 7
    mov edi, offset pdpt
    mov ecx, 4
2:  mov [edi], eax
    add eax, 4096
    add edi, 8
    loop 2b
    mov eax, 0x87
    mov edx, [no_execute]
    mov edi, offset pd
    mov ecx, 2048
3:  mov [edi], eax
    mov [edi + 4], edx
    add eax, 0x200000
    add edi, 8
    loop 3b

    // The first 4 MiB in small pages: code is executable and not writable, constants are neither.
    mov dword ptr [pd], offset pt + 7
    mov dword ptr [pd + 4], 0
    mov dword ptr [pd + 8], offset pt + 4096 + 7
    mov dword ptr [pd + 12], 0
    xor eax, eax
    mov edi, offset pt
    mov ecx, 1024
4:  mov ebx, eax
    mov esi, edx
    or ebx, 7
    cmp eax, offset image_start
    jb 6f
    cmp eax, offset text_end
    jae 6f
    and ebx, ~2
    cmp eax, offset text_start
    jb 6f
    xor esi, esi
6:  mov [edi], ebx
    mov [edi + 4], esi
    add eax, 4096
    add edi, 8
    loop 4b
    // Unmapped guard pages: at address 0, and below the stack.
    mov dword ptr [pt], 0
    mov eax, offset stack_guard
    shr eax, 9
    mov dword ptr [eax + pt], 0

    mov eax, cr4
    or eax, (1 << 5) | (1 << 9) | (1 << 10)
    mov cr4, eax
    mov eax, offset pml4
    mov cr3, eax
    mov ecx, 0xc0000080
    rdmsr
    or eax, 1 << 8
    cmp dword ptr [no_execute], 0
    je 7f
    or eax, 1 << 11
7:  wrmsr
    mov eax, cr0
    and eax, ~((1 << 2) | (1 << 3))
    or eax, (1 << 31) | (1 << 16) | (1 << 5) | (1 << 1) | 1
    mov cr0, eax
    lgdt [gdt_pointer]
    push 8
    mov eax, offset long_mode
    push eax
    retf

no_long_mode:
    mov esi, offset no_long_mode_text
    mov edi, 0xb8000
    mov ah, 0x4f
8:  lodsb
    test al, al
    jz 9f
    stosw
    mov dx, 0x3f8
    out dx, al
    jmp 8b
9:  hlt
    jmp 9b

    .code64
long_mode:
    mov eax, 16
    mov ds, eax
    mov es, eax
    mov ss, eax
    xor eax, eax
    mov fs, eax
    mov gs, eax
    mov esp, offset ring0_stack_top

    // Enables the vector registers that the processor supports.
    mov eax, 1
    xor ecx, ecx
    cpuid
    bt ecx, 26
    jnc 2f
    mov rax, cr4
    or eax, 1 << 18
    mov cr4, rax
    mov eax, 3
    bt ecx, 28
    jnc 1f
    mov eax, 7
1:  xor edx, edx
    xor ecx, ecx
    xsetbv

2:  mov eax, offset tss
    mov [gdt_tss + 2], ax
    shr eax, 16
    mov [gdt_tss + 4], al
    mov [gdt_tss + 7], ah
    mov eax, offset ring0_stack_top
    mov [tss + 4], rax
    // The I/O permission bitmap follows the segment; its zeros allow all ports.
    mov word ptr [tss + 102], 104
    mov byte ptr [tss + 104 + 8192], 0xff
    mov eax, 40
    ltr ax

    mov eax, offset fault_stubs
    mov edi, offset idt
    mov ecx, 32
3:  mov [rdi], ax
    mov word ptr [rdi + 2], 8
    mov word ptr [rdi + 4], 0x8e00
    mov edx, eax
    shr edx, 16
    mov [rdi + 6], dx
    add eax, 16
    add edi, 16
    loop 3b
    lidt [idt_pointer]

    push 27
    mov eax, offset stack_top
    push rax
    push 2
    push 35
    mov eax, offset ring3
    push rax
    iretq

ring3:
    xor ebp, ebp
    mov edi, [boot_magic]
    mov esi, [boot_info]
    call {start}

    // A stub for each exception: it pushes the vector, and an error code if the processor pushes none.
    .balign 16
fault_stubs:
    .set vector, 0
    .rept 32
    .balign 16
    .if (vector != 8) && (vector != 10) && (vector != 11) && (vector != 12) && (vector != 13) && (vector != 14) && (vector != 17) && (vector != 21) && (vector != 29) && (vector != 30)
    push 0
    .endif
    .byte 0x6a, vector
    jmp fault
    .set vector, vector + 1
    .endr

    // Stores the exception frame, and calls the Rust handler in ring 3 on a separate stack.
fault:
    pop [fault_frame]
    pop [fault_frame + 8]
    pop [fault_frame + 16]
    pop [fault_frame + 24]
    pop [fault_frame + 32]
    pop [fault_frame + 40]
    pop [fault_frame + 48]
    mov rax, cr2
    mov [fault_frame + 56], rax
    push 27
    mov eax, offset fault_stack_top
    push rax
    push 2
    push 35
    mov eax, offset ring3_fault
    push rax
    iretq
ring3_fault:
    xor ebp, ebp
    mov edi, offset fault_frame
    call {fault}

    .section .rodata.boot, "a"
no_long_mode_text:
    .asciz "Barebell needs a 64-bit processor."
    .balign 4
gdt_pointer:
    .short gdt_end - gdt - 1
    .long gdt, 0
idt_pointer:
    .short 32 * 16 - 1
    .quad idt

    .section .data.boot, "aw"
    .balign 16
gdt:
    .quad 0
    .quad 0x00af9a000000ffff
    .quad 0x00cf92000000ffff
    .quad 0x00cff2000000ffff
    .quad 0x00affa000000ffff
gdt_tss:
    .quad 0x0000890000002068
    .quad 0
gdt_end:

    .section .bss.pages, "aw", @nobits
    .balign 4096
pml4:
    .skip 4096
pdpt:
    .skip 4096
pd:
    .skip 4 * 4096
pt:
    .skip 2 * 4096
idt:
    .skip 32 * 16
tss:
    .skip 104 + 8192 + 1
    .balign 16
boot_magic:
    .skip 4
boot_info:
    .skip 4
no_execute:
    .skip 8
fault_frame:
    .skip 64
    .balign 16
    .skip 1024
ring0_stack_top:
    .skip 8192
fault_stack_top:
    .balign 4096
stack_guard:
    .skip 4096
    .skip 256 * 1024
stack_top:
