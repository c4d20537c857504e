/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What programs get from udat.h without including more, as on Solaris: <inttypes.h>, and
 * <netinet/in.h>, so that DAT_SOCK_ADDR6 is a complete type. The source has included udat.h.
 */

typedef char is_complete[sizeof(DAT_SOCK_ADDR6) == sizeof(struct sockaddr_in6) ? 1 : -1];

unsigned port_of(const DAT_SOCK_ADDR6 *addr);
unsigned port_of(const DAT_SOCK_ADDR6 *addr) {
    return ntohs(addr->sin6_port);
}

const char *format_of_context(void);
const char *format_of_context(void) {
    return "%" PRIx64;
}
