// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "fake_kernel.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <fstream>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#if __has_include(<sanitizer/asan_interface.h>)
#    include <sanitizer/asan_interface.h>
#else
#    define ASAN_POISON_MEMORY_REGION(addr, size) ((void)(addr), (void)(size))
#    define ASAN_UNPOISON_MEMORY_REGION(addr, size) ((void)(addr), (void)(size))
#endif

namespace {

constexpr std::size_t memory_size = 4 << 20;
fake::kernel *current_kernel = nullptr;
unsigned num_kernels = 0;

// Replaces verbs_context's create_cq_ex, as ibv_open_device() does: calls the driver's function and
// initializes the CQ. Driver and libibverbs are found by the layout of the installed rdma-core.
ibv_cq_ex *create_cq_ex(ibv_context *context, ibv_cq_init_attr_ex *attr) {
    using namespace coherdma::abi;
    const layout &layout = current_layout();
    const unsigned char *priv = nullptr;
    std::memcpy(&priv, reinterpret_cast<const unsigned char *>(context) - priv_before_context,
                sizeof priv);
    const std::size_t index =
        op_index_in_version(layout.version, op_index(offsetof(verbs_context_ops, create_cq_ex)));
    decltype(verbs_context_ops::create_cq_ex) driver_create_cq_ex = nullptr;
    std::memcpy(&driver_create_cq_ex,
                priv + ops_offset_in_priv + index * sizeof driver_create_cq_ex,
                sizeof driver_create_cq_ex);
    ibv_cq_ex *const cq = driver_create_cq_ex(context, attr);
    if (cq == nullptr)
        return nullptr;
    using init = void(ibv_cq *, ibv_context *, ibv_comp_channel *, void *);
    reinterpret_cast<init *>(find_libibverbs_symbol("verbs_init_cq", layout.symbol_version))(
        ibv_cq_ex_to_cq(cq), context, attr->channel, attr->cq_context);
    return cq;
}

long real_syscall(long number, long a, long b, long c, long d, long e, long f) {
    using function = long(long, long, long, long, long, long, long);
    static auto *const real = reinterpret_cast<function *>(dlsym(RTLD_NEXT, "syscall"));
    return real(number, a, b, c, d, e, f);
}

// Passes a command that libibverbs or the driver writes, with count bytes, to the kernel. Its
// header gives the sizes in words of 4 bytes, or of 8 in the extended form. Returns 0 or errno.
int receive_command(const void *bytes, std::size_t count) {
    const auto *const data = static_cast<const unsigned char *>(bytes);
    ib_uverbs_cmd_hdr hdr{};
    std::memcpy(&hdr, data, sizeof hdr);
    const bool is_extended = (hdr.command & fake::extended) != 0;
    const std::size_t word_size = is_extended ? 8 : 4;
    std::size_t hdr_size = sizeof hdr, size = count, out_words = hdr.out_words;
    std::uint64_t response = 0;
    if (is_extended) {
        ib_uverbs_ex_cmd_hdr ex_hdr{};
        std::memcpy(&ex_hdr, data + sizeof hdr, sizeof ex_hdr);
        hdr_size += sizeof ex_hdr;
        size = hdr_size + (hdr.in_words + ex_hdr.provider_in_words) * word_size;
        response = ex_hdr.response;
        out_words += ex_hdr.provider_out_words;
    } else {
        size = hdr.in_words * word_size;
        if (count >= hdr_size + sizeof response)
            std::memcpy(&response, data + hdr_size, sizeof response);
    }
    fake::command cmd{
        hdr.command, {data + hdr_size, data + count}, response, out_words * word_size};
    return size != count ? EINVAL : current_kernel->answer(cmd);
}

} // namespace

// These replace the functions of the C library, also for the driver and libibverbs. A write() to
// the fake kernel's file is a command. syscall() reads six arguments, as the C library's does.
extern "C" [[gnu::no_sanitize_address]] long syscall(long number, ...) noexcept {
    va_list ap;
    va_start(ap, number);
    std::array<long, 6> args{};
    for (long &arg : args)
        arg = va_arg(ap, long);
    va_end(ap);
    if (number != SYS_write || current_kernel == nullptr || args[0] != current_kernel->fd)
        return real_syscall(number, args[0], args[1], args[2], args[3], args[4], args[5]);
    const auto count = static_cast<std::size_t>(args[2]);
    const int error = receive_command(reinterpret_cast<const void *>(args[1]), count);
    if (error == 0)
        return args[2];
    errno = error;
    return -1;
}
extern "C" ssize_t write(int fd, const void *bytes, size_t count) {
    return syscall(SYS_write, static_cast<long>(fd), bytes, count);
}

// ThreadSanitizer calls mmap() before it is initialized.
extern "C" [[gnu::no_sanitize_thread]] void *mmap(void *addr, size_t bytes, int prot, int flags,
                                                  int fd, off_t offset) noexcept {
    if (current_kernel == nullptr || fd != current_kernel->fd)
        return mmap64(addr, bytes, prot, flags, fd, offset);
    return current_kernel->map(static_cast<std::uint64_t>(offset), bytes, prot, flags);
}
extern "C" [[gnu::no_sanitize_thread]] int munmap(void *addr, size_t bytes) noexcept {
    if (current_kernel != nullptr && current_kernel->unmap(addr, bytes))
        return 0;
    return static_cast<int>(syscall(SYS_munmap, addr, bytes));
}

namespace fake {

std::size_t kernel::round_to_pages(std::size_t bytes) {
    return (bytes + page_size - 1) / page_size * page_size;
}

kernel::kernel()
    : name_("uverbs" + std::to_string(++num_kernels))
    , memory_fd_(memfd_create(name_.c_str(), 0))
    , device_(static_cast<ibv_device *>(std::calloc(1, sizeof(coherdma::abi::verbs_device)))) {
    if (ftruncate(memory_fd_, memory_size) != 0 || device_ == nullptr)
        std::abort();
    fd = dup(memory_fd_);
    auto &device = *reinterpret_cast<coherdma::abi::verbs_device *>(device_);
    device.refcount = 1; // held by this class
    std::snprintf(device_->name, sizeof device_->name, "fake0");
    current_kernel = this;
}

kernel::~kernel() {
    current_kernel = nullptr;
    for (const shared_memory &ring : rings_)
        munmap(ring.addr, ring.size);
    close(memory_fd_);
    std::free(device_);
}

ibv_context *kernel::open() {
    if (!coherdma::abi::is_supported())
        std::abort();
    reinterpret_cast<coherdma::abi::verbs_device *>(device_)->ops = &device_ops();
    verbs_context *const vctx = device_ops().alloc_context(device_, fd, nullptr);
    if (vctx == nullptr)
        return nullptr;
    auto *const bytes = reinterpret_cast<unsigned char *>(vctx);
    auto *const context = reinterpret_cast<ibv_context *>(
        bytes + coherdma::abi::context_offset(coherdma::abi::current_layout()));
    if (verbs_context *const extended_ctx = verbs_get_ctx(context); extended_ctx != nullptr)
        extended_ctx->create_cq_ex = create_cq_ex;
    return context;
}

std::size_t kernel::mapped_bytes() const {
    std::ifstream maps("/proc/self/maps");
    std::size_t bytes = 0;
    for (std::string line; std::getline(maps, line);) {
        if (line.find("memfd:" + name_ + " ") == std::string::npos)
            continue;
        std::size_t pos = 0;
        const std::uint64_t begin = std::stoull(line, &pos, 16);
        bytes += std::stoull(line.substr(pos + 1), nullptr, 16) - begin;
    }
    return bytes - memory_end_; // without the kernel's mapping of each ring, by make_memory()
}

const kernel::shared_memory &kernel::make_memory(std::size_t bytes) {
    const std::size_t size = round_to_pages(bytes);
    void *const addr = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd_,
                            static_cast<off_t>(memory_end_));
    if (addr == MAP_FAILED || memory_end_ + size > memory_size)
        std::abort();
    rings_.push_back({static_cast<unsigned char *>(addr), memory_end_, size, bytes});
    memory_end_ += size;
    return rings_.back();
}

int kernel::check_mapping(std::uint64_t, std::size_t) {
    return 0;
}

void *kernel::map(std::uint64_t offset, std::size_t bytes, int prot, int flags) {
    mappings.emplace_back(offset, bytes);
    if (num_failing_mappings != 0) {
        --num_failing_mappings;
        errno = ENOMEM;
        return MAP_FAILED;
    }
    if (const int mapping_error = check_mapping(offset, bytes)) {
        errno = mapping_error;
        return MAP_FAILED;
    }
    const std::size_t size = round_to_pages(bytes);
    const auto is_mapped = [&](const shared_memory &each) {
        return each.offset == offset && each.size == size;
    };
    const auto ring = std::find_if(rings_.begin(), rings_.end(), is_mapped);
    if (shares_mappings && ring != rings_.end()) {
        mapped_[ring->addr] = size;
        return ring->addr;
    }
    void *const area = mmap64(nullptr, size + 2 * page_size, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (area == MAP_FAILED)
        return MAP_FAILED;
    auto *const addr = static_cast<unsigned char *>(area) + page_size;
    if (mmap64(addr, bytes, prot, flags | MAP_FIXED, fd, static_cast<off_t>(offset)) ==
        MAP_FAILED) {
        const int mmap_error = errno;
        syscall(SYS_munmap, area, size + 2 * page_size);
        errno = mmap_error;
        return MAP_FAILED;
    }
    mapped_[addr] = size;
    if (ring != rings_.end())
        ASAN_POISON_MEMORY_REGION(addr + ring->used, size - ring->used);
    return addr;
}

bool kernel::unmap(void *addr, std::size_t bytes) {
    const auto mapping = mapped_.find(addr);
    if (mapping == mapped_.end())
        return false;
    const std::size_t size = mapping->second;
    if (round_to_pages(bytes) != size)
        std::abort();
    mapped_.erase(mapping);
    if (shares_mappings)
        return mprotect(addr, size, PROT_NONE) == 0;
    ASAN_UNPOISON_MEMORY_REGION(addr, size);
    syscall(SYS_munmap, static_cast<unsigned char *>(addr) - page_size, size + 2 * page_size);
    return true;
}

std::size_t kernel::count_commands(std::uint32_t number) const noexcept {
    return static_cast<std::size_t>(
        std::count_if(commands.begin(), commands.end(),
                      [number](const command &cmd) { return cmd.number == number; }));
}

const command &kernel::find_command(std::uint32_t number, std::size_t nth) const {
    for (const command &cmd : commands)
        if (cmd.number == number && nth-- == 0)
            return cmd;
    std::abort();
}

std::uint32_t kernel::add_object(const command &cmd) {
    objects[++last_handle_] = cmd.number & 0xff;
    return last_handle_;
}

int kernel::remove_object(std::uint32_t handle) {
    return objects.erase(handle) == 1 ? 0 : ENOENT;
}

int kernel::answer(const command &cmd) {
    commands.push_back(cmd);
    if (commands.size() - 1 == failing_command)
        return error;
    switch (cmd.number) {
    case IB_USER_VERBS_CMD_ALLOC_PD:
        respond(cmd, std::array{add_object(cmd)});
        return 0;
    case IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL:
        respond(cmd,
                std::array{static_cast<std::uint32_t>(::open("/dev/null", O_RDONLY | O_CLOEXEC))});
        return 0;
    case IB_USER_VERBS_CMD_DEALLOC_PD:
    case IB_USER_VERBS_CMD_DEREG_MR:
    case IB_USER_VERBS_CMD_DEALLOC_MW:
    case IB_USER_VERBS_CMD_DESTROY_AH:
        return remove_object(cmd.read<std::uint32_t>());
    case IB_USER_VERBS_CMD_DESTROY_CQ:
        respond(cmd, std::array<std::uint32_t, 2>{});
        return remove_object(cmd.read<std::uint32_t>(8));
    case IB_USER_VERBS_CMD_DESTROY_QP:
    case IB_USER_VERBS_CMD_DESTROY_SRQ:
        respond(cmd, std::uint32_t{0});
        return remove_object(cmd.read<std::uint32_t>(8));
    default:
        return answer_driver(cmd);
    }
}

} // namespace fake
