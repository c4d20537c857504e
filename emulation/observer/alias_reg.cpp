// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A child process maps the device's pages at the program's addresses, registers them with the
// kernel and ends. The kernel keeps the pages pinned and accounts them to the child.
//
// The child is a copy of the process, but the mappings may replace any of its memory: the stack,
// the heap, libibverbs' objects. So all that it uses is in a shared mapping made before: what to
// map, the ioctl command, a stack. It only makes system calls. The program does not notice the
// child: its end raises no signal, and it handles none.

#include "alias_reg.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <rdma/siw-abi.h>
#include <string>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace coherdma::emulation {
namespace {

// The kernel's ib_uverbs_ structs without their flexible array members.
struct ioctl_hdr {
    std::uint16_t length, object_id, method_id, num_attrs;
    std::uint64_t reserved1;
    std::uint32_t driver_id, reserved2;
};
struct reg_mr_cmd {
    std::uint64_t response, start, length, hca_va;
    std::uint32_t pd_handle, access_flags;
};
struct reg_mr_resp {
    std::uint32_t mr_handle, lkey, rkey;
};
static_assert(sizeof(ioctl_hdr) == sizeof(ib_uverbs_ioctl_hdr) &&
              sizeof(reg_mr_cmd) == sizeof(ib_uverbs_reg_mr) &&
              sizeof(reg_mr_resp) == sizeof(ib_uverbs_reg_mr_resp));

struct child_args {
    ioctl_hdr hdr;
    ib_uverbs_attr attrs[5]; ///< the kernel reads them behind hdr
    reg_mr_cmd cmd;
    reg_mr_resp resp;
    siw_ureq_reg_mr siw_cmd;
    siw_uresp_reg_mr siw_resp;
    int cmd_fd;
    long ioctl_result;                    ///< NOT_CALLED: the child did not reach the ioctl
    long mmap_error;                      ///< negative errno
    std::array<addr_range, 2> huge_pages; ///< that the range begins and ends in; or empty
    std::size_t num_mappings;
    cache_model::page_mapping *mappings; ///< behind this struct
};

constexpr long NOT_CALLED = 1;
constexpr std::size_t STACK_SIZE = 65536;

// Without libc: the child's mappings may replace its memory.
#if defined(__x86_64__)
inline long system_call(long number, long a, long b, long c, long d, long e, long f) noexcept {
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

/// clone(2): the child calls function(args) on another stack. Returns the child's PID, or a
/// negative errno.
inline long clone_process(void (*function)(child_args *), child_args *args, void *stack) noexcept {
    long result = SYS_clone;
    // The child switches the stack itself: valgrind does not support clone() with a stack here.
    register void *stack_top asm("r12") = stack;
    register child_args *child_arg asm("r13") = args;
    register void (*child_function)(child_args *) asm("r14") = function;
    register long r10 asm("r10") = 0;
    register long r8 asm("r8") = 0;
    asm volatile("syscall\n\t"
                 "test %%rax, %%rax\n\t"
                 "jnz 1f\n\t"
                 "mov %[stack_top], %%rsp\n\t"
                 "xor %%ebp, %%ebp\n\t"
                 "mov %[child_arg], %%rdi\n\t"
                 "call *%[child_function]\n\t"
                 "ud2\n"
                 "1:"
                 : "+a"(result)
                 : "D"(0L), "S"(0L), "d"(0L), "r"(r10), "r"(r8), [stack_top] "r"(stack_top),
                   [child_arg] "r"(child_arg), [child_function] "r"(child_function)
                 : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
inline long system_call(long number, long a, long b, long c, long d, long e, long f) noexcept {
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

inline long clone_process(void (*function)(child_args *), child_args *args, void *stack) noexcept {
    register long x8 asm("x8") = SYS_clone;
    register long x0 asm("x0") = 0;
    register long x1 asm("x1") = 0;
    register long x2 asm("x2") = 0;
    register long x3 asm("x3") = 0;
    register long x4 asm("x4") = 0;
    register void *stack_top asm("x19") = stack;
    register child_args *child_arg asm("x20") = args;
    register void (*child_function)(child_args *) asm("x21") = function;
    asm volatile("svc 0\n\t"
                 "cbnz x0, 1f\n\t"
                 "mov sp, %[stack_top]\n\t"
                 "mov x29, xzr\n\t"
                 "mov x0, %[child_arg]\n\t"
                 "blr %[child_function]\n\t"
                 "brk 0\n"
                 "1:"
                 : "+r"(x0)
                 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), [stack_top] "r"(stack_top),
                   [child_arg] "r"(child_arg), [child_function] "r"(child_function)
                 : "memory", "x30");
    return x0;
}
#else
#    error "the emulation supports x86-64 and arm64"
#endif

/// The child: replaces its memory by the device's pages, has the kernel register them, and kills
/// itself. args and the stack are in a shared mapping, where the program reads the results.
// A part of a page of hugetlbfs cannot be replaced, so that is unmapped first.
void child_main(child_args *args) {
    for (const addr_range &range : args->huge_pages)
        if (!range.empty())
            system_call(SYS_munmap, static_cast<long>(range.begin), static_cast<long>(range.size()),
                        0, 0, 0, 0);
    for (std::size_t i = 0; i < args->num_mappings && args->mmap_error == 0; ++i) {
        const cache_model::page_mapping &mapping = args->mappings[i];
        const long result =
            system_call(SYS_mmap, static_cast<long>(mapping.addr),
                        static_cast<long>(mapping.length), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_FIXED, mapping.fd, static_cast<long>(mapping.file_offset));
        if (result < 0 && result > -4096) // a negative errno, not an address
            args->mmap_error = result;
    }
    if (args->mmap_error == 0)
        args->ioctl_result =
            system_call(SYS_ioctl, args->cmd_fd, static_cast<long>(RDMA_VERBS_IOCTL),
                        reinterpret_cast<long>(&args->hdr), 0, 0, 0);
    // Not exit(): valgrind would run its own code at the end of the process.
    for (;;)
        system_call(SYS_kill, system_call(SYS_getpid, 0, 0, 0, 0, 0, 0), SIGKILL, 0, 0, 0, 0);
}

/// An attribute that the kernel reads. Up to 8 bytes are in the attribute itself.
void fill_attr_in(ib_uverbs_attr &attr, std::uint16_t attr_id, const void *data,
                  std::size_t length) noexcept {
    attr.attr_id = attr_id;
    attr.flags = UVERBS_ATTR_F_MANDATORY;
    attr.len = static_cast<std::uint16_t>(length);
    if (length <= sizeof attr.data)
        std::memcpy(&attr.data, data, length);
    else
        attr.data = reinterpret_cast<std::uintptr_t>(data);
}

/// An attribute that the kernel writes.
void fill_attr_out(ib_uverbs_attr &attr, std::uint16_t attr_id, void *data,
                   std::size_t length) noexcept {
    attr.attr_id = attr_id;
    attr.flags = UVERBS_ATTR_F_MANDATORY;
    attr.len = static_cast<std::uint16_t>(length);
    attr.data = reinterpret_cast<std::uintptr_t>(data);
}

/// Fills in the command that libibverbs sends in ibv_cmd_reg_mr(), since Linux 5.0.
void fill_reg_mr_cmd(child_args &args, const ibv_pd &pd, addr_range range, std::uint64_t iova,
                     int access) noexcept {
    args.cmd = {0, range.begin, range.size(), iova, pd.handle, static_cast<std::uint32_t>(access)};
    const std::uint64_t write_cmd = IB_USER_VERBS_CMD_REG_MR;
    unsigned count = 0;
    fill_attr_in(args.attrs[count++], UVERBS_ATTR_WRITE_CMD, &write_cmd, sizeof write_cmd);
    fill_attr_in(args.attrs[count++], UVERBS_ATTR_CORE_IN, &args.cmd, sizeof args.cmd);
    fill_attr_out(args.attrs[count++], UVERBS_ATTR_CORE_OUT, &args.resp, sizeof args.resp);
    // Userspace chooses 8 bits of the STag, different ones each time, as without emulation.
    static std::atomic<std::uint8_t> next_stag_key = 0;
    args.siw_cmd.stag_key = next_stag_key++;
    fill_attr_in(args.attrs[count++], UVERBS_ATTR_UHW_IN, &args.siw_cmd, sizeof args.siw_cmd);
    fill_attr_out(args.attrs[count++], UVERBS_ATTR_UHW_OUT, &args.siw_resp, sizeof args.siw_resp);
    args.hdr.object_id = UVERBS_OBJECT_DEVICE;
    args.hdr.method_id = UVERBS_METHOD_INVOKE_WRITE;
    args.hdr.num_attrs = static_cast<std::uint16_t>(count);
    args.hdr.driver_id = RDMA_DRIVER_SIW;
    args.hdr.length = static_cast<std::uint16_t>(sizeof args.hdr + count * sizeof args.attrs[0]);
    args.ioctl_result = NOT_CALLED;
}

/// The huge pages of hugetlbfs that the range begins and ends in; empty ranges, if it does not.
std::array<addr_range, 2> find_huge_pages(addr_range range) {
    std::array<addr_range, 2> pages;
    const auto min_size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    std::ifstream smaps("/proc/self/smaps");
    addr_range mapping;
    for (std::string line; std::getline(smaps, line);) {
        std::size_t kilobytes;
        if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &mapping.begin, &mapping.end) ==
                2 ||
            std::sscanf(line.c_str(), "KernelPageSize: %zu", &kilobytes) != 1 ||
            kilobytes * 1024 <= min_size)
            continue;
        const addr_range edges[] = {{range.begin, range.begin + 1}, {range.end - 1, range.end}};
        for (std::size_t i = 0; i < pages.size(); ++i)
            if (!intersection(mapping, edges[i]).empty())
                pages[i] = round_out(edges[i], kilobytes * 1024);
    }
    return pages;
}

/// Runs child_main() in a child and waits for its end. Returns 0 or an errno.
int run_child(child_args &args, unsigned char *stack) noexcept {
    sigset_t all_signals, old_mask;
    sigfillset(&all_signals);
    pthread_sigmask(SIG_SETMASK, &all_signals, &old_mask); // the child must not run handlers
    const long child = clone_process(child_main, &args, stack + STACK_SIZE - 64);
    long waited = child;
    if (child > 0)
        do
            waited = syscall(SYS_wait4, child, nullptr, __WALL, nullptr);
        while (waited < 0 && errno == EINTR);
    pthread_sigmask(SIG_SETMASK, &old_mask, nullptr);
    if (child < 0)
        return static_cast<int>(-child);
    if (args.mmap_error != 0)
        return static_cast<int>(-args.mmap_error);
    if (args.ioctl_result == NOT_CALLED)
        return EIO; // another process killed it
    return static_cast<int>(-args.ioctl_result);
}

} // namespace

/// Registers the mappings' files as if the program had mapped them in the range. Returns 0 or an
/// errno.
int register_alias(const ibv_pd &pd, const std::vector<cache_model::page_mapping> &mappings,
                   addr_range range, std::uint64_t iova, int access,
                   mr_handle_and_keys &registered) {
    const std::size_t size =
        STACK_SIZE + sizeof(child_args) + mappings.size() * sizeof(cache_model::page_mapping);
    void *const shared =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return errno;
    auto *const stack = static_cast<unsigned char *>(shared);
    child_args &args = *reinterpret_cast<child_args *>(stack + STACK_SIZE);
    fill_reg_mr_cmd(args, pd, range, iova, access);
    args.cmd_fd = pd.context->cmd_fd;
    args.num_mappings = mappings.size();
    args.mappings = reinterpret_cast<cache_model::page_mapping *>(&args + 1);
    std::copy(mappings.begin(), mappings.end(), args.mappings);
    int error = run_child(args, stack);
    if (args.mmap_error != 0) { // only looked for now, as it takes long
        args.huge_pages = find_huge_pages(range);
        args.mmap_error = 0;
        error = run_child(args, stack);
    }
    registered = {args.resp.mr_handle, args.resp.lkey, args.resp.rkey};
    munmap(shared, size);
    return error;
}

int register_range(const ibv_pd &pd, addr_range range, std::uint64_t iova, int access,
                   mr_handle_and_keys &registered) noexcept {
    child_args args = {};
    fill_reg_mr_cmd(args, pd, range, iova, access);
    if (ioctl(pd.context->cmd_fd, RDMA_VERBS_IOCTL, &args.hdr) != 0)
        return errno;
    registered = {args.resp.mr_handle, args.resp.lkey, args.resp.rkey};
    return 0;
}

int destroy_siw_mr(const ibv_context &context, std::uint32_t handle) noexcept {
    struct {
        ioctl_hdr hdr;
        ib_uverbs_attr handle; ///< the kernel reads it behind hdr
    } command = {};
    command.handle.attr_id = UVERBS_ATTR_DESTROY_MR_HANDLE;
    command.handle.flags = UVERBS_ATTR_F_MANDATORY;
    command.handle.data = handle;
    command.hdr.object_id = UVERBS_OBJECT_MR;
    command.hdr.method_id = UVERBS_METHOD_MR_DESTROY;
    command.hdr.num_attrs = 1;
    command.hdr.driver_id = RDMA_DRIVER_SIW;
    command.hdr.length = sizeof command;
    return ioctl(context.cmd_fd, RDMA_VERBS_IOCTL, &command) == 0 ? 0 : errno;
}

} // namespace coherdma::emulation
