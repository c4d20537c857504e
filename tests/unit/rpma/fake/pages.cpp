// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// mmap() and munmap() of the library: the linker replaces them (--wrap).

#include "objects.hpp"

#include <cerrno>
#include <sys/mman.h>

extern "C" {

void *__real_mmap(void *addr, std::size_t length, int prot, int flags, int fd, off_t offset);
int __real_munmap(void *addr, std::size_t length);
void *__wrap_mmap(void *addr, std::size_t length, int prot, int flags, int fd, off_t offset);
int __wrap_munmap(void *addr, std::size_t length);

void *__wrap_mmap(void *addr, std::size_t length, int prot, int flags, int fd, off_t offset) {
    if (const int error = fake::call("mmap")) {
        errno = error;
        return MAP_FAILED;
    }
    void *const memory = __real_mmap(addr, length, prot, flags, fd, offset);
    fake::add_object(memory, "mapping", {});
    return memory;
}

int __wrap_munmap(void *addr, std::size_t length) {
    fake::remove_object(addr, "mapping");
    __real_munmap(addr, length);
    if (const int error = fake::call("munmap")) {
        errno = error;
        return -1;
    }
    return 0;
}
}
