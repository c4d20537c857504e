/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Types of Linux under the names that DAT gives them.
 */
#ifndef COHERDMA_DAT2_DAT_PLATFORM_SPECIFIC_H
#define COHERDMA_DAT2_DAT_PLATFORM_SPECIFIC_H

#include <inttypes.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h> /* nothing here needs it, but programs have always got it from us */
#include <sys/socket.h>
#include <sys/types.h>

/*
 * DAT_CAST is a C cast in C and in C++ one that -Wold-style-cast does not mind. DAT_ENUM_BASE says
 * in C++ what C compilers do anyway: every value that fits in 32 bits is a value of the
 * enumeration. So combined flags, and values of extensions, may be kept in it.
 */
#ifdef __cplusplus
extern "C++" { /* a program may have wrapped this header in extern "C" */
template <typename Type>
using dat_cast_to = Type;
}
#    define DAT_CAST(type, value) (dat_cast_to<type>(value))
#    define DAT_ENUM_BASE : unsigned int
#else
#    define DAT_CAST(type, value) ((type)(value))
#    define DAT_ENUM_BASE
#endif

/* Mere words in a prototype, for programs that write theirs so. */
#ifndef IN
#    define IN
#endif
#ifndef OUT
#    define OUT
#endif
#ifndef INOUT
#    define INOUT
#endif
#define DAT_API
#define DAT_EXPORT extern

typedef uint32_t DAT_UINT32;
typedef uint64_t DAT_UINT64;
typedef unsigned long long DAT_UVERYLONG;
typedef int DAT_COUNT;
typedef void *DAT_PVOID;
typedef DAT_UINT64 DAT_PADDR; /* a physical address */
typedef int DAT_FD;           /* a file descriptor */

#define DAT_IA_HANDLE_TO_UL(handle) DAT_CAST(unsigned long, handle)
#define DAT_UL_TO_IA_HANDLE(number) DAT_CAST(DAT_IA_HANDLE, number)

/* The address of an IA is a socket address; who passes one owns its memory. */
typedef struct sockaddr DAT_SOCK_ADDR;
typedef struct sockaddr_in6 DAT_SOCK_ADDR6;
#define DAT_AF_INET AF_INET
#define DAT_AF_INET6 AF_INET6

/* What a common service point listens on, as in socket(2). */
typedef struct dat_comm {
    int domain;
    int type;
    int protocol;
} DAT_COMM;

/* Buffers that begin at a multiple of this suit the device best. */
#ifndef DAT_OPTIMAL_ALIGNMENT
#    define DAT_OPTIMAL_ALIGNMENT 256
#endif

#endif
