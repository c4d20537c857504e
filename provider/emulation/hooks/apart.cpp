// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A child process maps the device's pages at the program's addresses and asks the kernel to
// register them. The kernel keeps the pages and counts them as the child's; the child ends at once.
//
// The child is a copy of the whole process, but whatever it looks at may be where the pages come to
// lie: the program's stack, what malloc has, libibverbs' objects. So all that it needs is
// beforehand in memory of its own: what to map, the command to the kernel, a stack. It calls
// nothing but the kernel. To the program it is invisible: it has no signal for its end, and gets
// none.

#include "apart.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <rdma/siw-abi.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace coherdma::emulation {
namespace {

// The kernel's, but for the arrays of no length at their ends.
struct header {
    std::uint16_t length, object, method, attributes;
    std::uint64_t reserved;
    std::uint32_t driver, reserved_too;
};
struct register_command {
    std::uint64_t unused, start, length, iova;
    std::uint32_t domain, access;
};
struct register_response {
    std::uint32_t handle, lkey, rkey;
};
static_assert(sizeof(header) == sizeof(ib_uverbs_ioctl_hdr) &&
              sizeof(register_command) == sizeof(ib_uverbs_reg_mr) &&
              sizeof(register_response) == sizeof(ib_uverbs_reg_mr_resp));

struct parcel {
    header head;
    ib_uverbs_attr attributes[5];
    register_command command;
    register_response response;
    siw_ureq_reg_mr siw_command;
    siw_uresp_reg_mr siw_response;
    int device;
    long error;   ///< what the kernel said; 1: it was not asked
    long mapping; ///< an error of the child before that
    std::size_t count;
    cache::piece *pieces; // behind it
};

constexpr std::size_t STACK = 65536;

#if defined(__x86_64__)
inline long call(long number, long a, long b, long c, long d, long e, long f) noexcept {
    long result;
    register long r10 asm("r10") = d;
    register long r8 asm("r8") = e;
    register long r9 asm("r9") = f;
    asm volatile("syscall"
                 : "=a"(result)
                 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                 : "rcx", "r11", "memory");
    return result;
}

/// A copy of this process calls function(with) on another stack; here its number is returned.
inline long branch(void (*function)(parcel *), parcel *with, void *stack) noexcept {
    long result = SYS_clone;
    // The stack is set by hand: not everything that runs programs (valgrind) lets clone do that.
    register void *top asm("r12") = stack;
    register parcel *what asm("r13") = with;
    register void (*work)(parcel *) asm("r14") = function;
    register long r10 asm("r10") = 0;
    register long r8 asm("r8") = 0;
    asm volatile("syscall\n\t"
                 "test %%rax, %%rax\n\t"
                 "jnz 1f\n\t"
                 "mov %[top], %%rsp\n\t"
                 "xor %%ebp, %%ebp\n\t"
                 "mov %[what], %%rdi\n\t"
                 "call *%[work]\n\t"
                 "ud2\n"
                 "1:"
                 : "+a"(result)
                 : "D"(0L), "S"(0L), "d"(0L), "r"(r10),
                   "r"(r8), [top] "r"(top), [what] "r"(what), [work] "r"(work)
                 : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
inline long call(long number, long a, long b, long c, long d, long e, long f) noexcept {
    register long x8 asm("x8") = number;
    register long x0 asm("x0") = a;
    register long x1 asm("x1") = b;
    register long x2 asm("x2") = c;
    register long x3 asm("x3") = d;
    register long x4 asm("x4") = e;
    register long x5 asm("x5") = f;
    asm volatile("svc 0"
                 : "+r"(x0)
                 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                 : "memory");
    return x0;
}

inline long branch(void (*function)(parcel *), parcel *with, void *stack) noexcept {
    register long x8 asm("x8") = SYS_clone;
    register long x0 asm("x0") = 0;
    register long x1 asm("x1") = 0;
    register long x2 asm("x2") = 0;
    register long x3 asm("x3") = 0;
    register long x4 asm("x4") = 0;
    register void *top asm("x19") = stack;
    register parcel *what asm("x20") = with;
    register void (*work)(parcel *) asm("x21") = function;
    asm volatile("svc 0\n\t"
                 "cbnz x0, 1f\n\t"
                 "mov sp, %[top]\n\t"
                 "mov x29, xzr\n\t"
                 "mov x0, %[what]\n\t"
                 "blr %[work]\n\t"
                 "brk 0\n"
                 "1:"
                 : "+r"(x0)
                 : "r"(x8), "r"(x1), "r"(x2), "r"(x3),
                   "r"(x4), [top] "r"(top), [what] "r"(what), [work] "r"(work)
                 : "memory", "x30");
    return x0;
}
#else
#    error "the emulation is for 64-bit x86 and ARM, as the plugin is"
#endif

void be_the_child(parcel *all) {
    for (std::size_t each = 0; each < all->count && all->mapping == 0; ++each) {
        const cache::piece &piece = all->pieces[each];
        const long at = call(SYS_mmap, static_cast<long>(piece.at), static_cast<long>(piece.length),
                             PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, piece.file,
                             static_cast<long>(piece.place));
        if (at < 0 && at > -4096)
            all->mapping = at;
    }
    if (all->mapping == 0)
        all->error = call(SYS_ioctl, all->device, static_cast<long>(RDMA_VERBS_IOCTL),
                          reinterpret_cast<long>(&all->head), 0, 0, 0);
    // Whoever runs the program (valgrind) would let it clean up at an exit.
    for (;;)
        call(SYS_kill, call(SYS_getpid, 0, 0, 0, 0, 0, 0), SIGKILL, 0, 0, 0, 0);
}

/// Up to 8 bytes are in the attribute itself.
void in(ib_uverbs_attr &is, std::uint16_t what, const void *data, std::size_t length) noexcept {
    is.attr_id = what;
    is.flags = UVERBS_ATTR_F_MANDATORY;
    is.len = static_cast<std::uint16_t>(length);
    if (length <= sizeof is.data)
        std::memcpy(&is.data, data, length);
    else
        is.data = reinterpret_cast<std::uintptr_t>(data);
}

void out(ib_uverbs_attr &is, std::uint16_t what, void *data, std::size_t length) noexcept {
    is.attr_id = what;
    is.flags = UVERBS_ATTR_F_MANDATORY;
    is.len = static_cast<std::uint16_t>(length);
    is.data = reinterpret_cast<std::uintptr_t>(data);
}

/// The command that registers memory, as libibverbs gives it to a kernel since 5.0.
void fill(parcel &all, const ibv_pd &domain, span where, std::uint64_t iova, int access,
          rdma_driver_id driver) noexcept {
    all.command = {0,    where.begin,   where.size(),
                   iova, domain.handle, static_cast<std::uint32_t>(access)};
    const std::uint64_t method = IB_USER_VERBS_CMD_REG_MR;
    unsigned count = 0;
    in(all.attributes[count++], UVERBS_ATTR_WRITE_CMD, &method, sizeof method);
    in(all.attributes[count++], UVERBS_ATTR_CORE_IN, &all.command, sizeof all.command);
    out(all.attributes[count++], UVERBS_ATTR_CORE_OUT, &all.response, sizeof all.response);
    if (driver == RDMA_DRIVER_SIW) {
        // Part of the key is ours to choose: another each time, as without emulation.
        static std::atomic<std::uint8_t> next_key = 0;
        all.siw_command.stag_key = next_key++;
        in(all.attributes[count++], UVERBS_ATTR_UHW_IN, &all.siw_command, sizeof all.siw_command);
        out(all.attributes[count++], UVERBS_ATTR_UHW_OUT, &all.siw_response,
            sizeof all.siw_response);
    }
    all.head.object = UVERBS_OBJECT_DEVICE;
    all.head.method = UVERBS_METHOD_INVOKE_WRITE;
    all.head.attributes = static_cast<std::uint16_t>(count);
    all.head.driver = driver;
    all.head.length =
        static_cast<std::uint16_t>(sizeof all.head + count * sizeof all.attributes[0]);
    all.error = 1;
}

/// Has a child do it. 0 or an errno.
int carry_out(parcel &all, unsigned char *stack) noexcept {
    sigset_t every, before;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before); // none is handled twice
    const long child = branch(be_the_child, &all, stack + STACK - 64);
    long ended = child;
    if (child > 0)
        do
            ended = syscall(SYS_wait4, child, nullptr, __WALL, nullptr);
        while (ended < 0 && errno == EINTR);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (child < 0)
        return static_cast<int>(-child);
    if (all.mapping != 0)
        return static_cast<int>(-all.mapping);
    if (all.error == 1)
        return EIO; // somebody has killed it
    return static_cast<int>(-all.error);
}

} // namespace

int register_apart(const ibv_pd &domain, const std::vector<cache::piece> &pieces, span where,
                   std::uint64_t iova, int access, rdma_driver_id driver, keys &into) {
    const std::size_t size = STACK + sizeof(parcel) + pieces.size() * sizeof(cache::piece);
    void *const own =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED)
        return errno;
    auto *const stack = static_cast<unsigned char *>(own);
    parcel &all = *reinterpret_cast<parcel *>(stack + STACK);
    fill(all, domain, where, iova, access, driver);
    all.device = domain.context->cmd_fd;
    all.count = pieces.size();
    all.pieces = reinterpret_cast<cache::piece *>(&all + 1);
    std::copy(pieces.begin(), pieces.end(), all.pieces);
    const int error = carry_out(all, stack);
    into = {all.response.handle, all.response.lkey, all.response.rkey};
    munmap(own, size);
    return error;
}

} // namespace coherdma::emulation
