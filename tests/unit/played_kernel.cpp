// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "played_kernel.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <fstream>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

constexpr std::size_t room = 4 << 20;
played::kernel *now = nullptr;
unsigned kernels = 0;

// What ibv_open_device() does for this operation besides opening: libibverbs goes by its own table,
// and completes the queue.
ibv_cq_ex *create_cq_ex(ibv_context *context, ibv_cq_init_attr_ex *wanted) {
    using namespace coherdma::abi;
    const auto *const before = reinterpret_cast<const unsigned char *>(context) - private_before;
    const unsigned char *hidden = nullptr;
    std::memcpy(&hidden, before, sizeof hidden);
    const std::size_t place = place_in(here().which, place_of(offsetof(operations, create_cq_ex)));
    decltype(operations::create_cq_ex) drivers = nullptr;
    std::memcpy(&drivers, hidden + operations_in_private + place * sizeof drivers, sizeof drivers);
    ibv_cq_ex *const made = drivers(context, wanted);
    if (made == nullptr)
        return nullptr;
    using init = void(ibv_cq *, ibv_context *, ibv_comp_channel *, void *);
    reinterpret_cast<init *>(find_symbol("verbs_init_cq", here().version))(
        ibv_cq_ex_to_cq(made), context, wanted->channel, wanted->cq_context);
    return made;
}

long real_syscall(long number, long a, long b, long c, long d, long e, long f) {
    using function = long(long, long, long, long, long, long, long);
    static auto *const real = reinterpret_cast<function *>(dlsym(RTLD_NEXT, "syscall"));
    return real(number, a, b, c, d, e, f);
}

// 0 or an errno.
int hear(const void *bytes, std::size_t count) {
    const auto *const from = static_cast<const unsigned char *>(bytes);
    ib_uverbs_cmd_hdr head{};
    std::memcpy(&head, from, sizeof head);
    const bool is_extended = (head.command & played::extended) != 0;
    const std::size_t unit = is_extended ? 8 : 4;
    std::size_t behind = sizeof head, words = count, out_words = head.out_words;
    std::uint64_t response = 0;
    if (is_extended) {
        ib_uverbs_ex_cmd_hdr more{};
        std::memcpy(&more, from + sizeof head, sizeof more);
        behind += sizeof more;
        words = behind + (head.in_words + more.provider_in_words) * unit;
        response = more.response;
        out_words += more.provider_out_words;
    } else {
        words = head.in_words * unit;
        if (count >= behind + sizeof response)
            std::memcpy(&response, from + behind, sizeof response);
    }
    played::command is{head.command, {from + behind, from + count}, response, out_words * unit};
    return words != count ? EINVAL : now->answer(is);
}

} // namespace

// Of the whole process: the driver's and libibverbs', too, by whichever name. It takes six
// arguments however many were given, as the C library's does.
extern "C" [[gnu::no_sanitize_address]] long syscall(long number, ...) noexcept {
    va_list rest;
    va_start(rest, number);
    std::array<long, 6> is{};
    for (long &each : is)
        each = va_arg(rest, long);
    va_end(rest);
    if (number != SYS_write || now == nullptr || is[0] != now->fd)
        return real_syscall(number, is[0], is[1], is[2], is[3], is[4], is[5]);
    const auto count = static_cast<std::size_t>(is[2]);
    const int error = hear(reinterpret_cast<const void *>(is[1]), count);
    if (error == 0)
        return is[2];
    errno = error;
    return -1;
}
extern "C" ssize_t write(int fd, const void *bytes, size_t count) {
    return syscall(SYS_write, static_cast<long>(fd), bytes, count);
}

extern "C" void *mmap(void *at, size_t bytes, int access, int flags, int fd,
                      off_t offset) noexcept {
    using function = void *(void *, size_t, int, int, int, off_t);
    static auto *const real = reinterpret_cast<function *>(dlsym(RTLD_NEXT, "mmap"));
    const int error =
        now == nullptr || fd != now->fd ? 0 : now->map(static_cast<std::uint64_t>(offset), bytes);
    if (error == 0)
        return real(at, bytes, access, flags, fd, offset);
    errno = error;
    return MAP_FAILED;
}

namespace played {

kernel::kernel()
    : name_("uverbs" + std::to_string(++kernels))
    , memory_(memfd_create(name_.c_str(), 0))
    , device_(static_cast<ibv_device *>(std::calloc(1, sizeof(coherdma::abi::verbs_device)))) {
    if (ftruncate(memory_, room) != 0 || device_ == nullptr)
        std::abort();
    fd = dup(memory_);
    auto &device = *reinterpret_cast<coherdma::abi::verbs_device *>(device_);
    device.refcount = 1; // ours
    std::snprintf(device_->name, sizeof device_->name, "played0");
    now = this;
}

kernel::~kernel() {
    now = nullptr;
    for (const memory &each : rings_)
        munmap(each.at, each.size);
    close(memory_);
    std::free(device_);
}

ibv_context *kernel::open() {
    if (!coherdma::abi::ready())
        std::abort();
    verbs_context *const front = open_own(device_);
    if (front == nullptr)
        return nullptr;
    auto *const bytes = reinterpret_cast<unsigned char *>(front);
    auto *const context =
        reinterpret_cast<ibv_context *>(bytes + coherdma::abi::front(coherdma::abi::here()));
    if (verbs_context *const seen = verbs_get_ctx(context); seen != nullptr)
        seen->create_cq_ex = create_cq_ex;
    return context;
}

std::size_t kernel::mapped() const {
    std::ifstream maps("/proc/self/maps");
    std::size_t bytes = 0;
    for (std::string line; std::getline(maps, line);) {
        if (line.find("memfd:" + name_ + " ") == std::string::npos)
            continue;
        std::size_t past = 0;
        const std::uint64_t begin = std::stoull(line, &past, 16);
        bytes += std::stoull(line.substr(past + 1), nullptr, 16) - begin;
    }
    return bytes - end_; // those are ours
}

const kernel::memory &kernel::make_memory(std::size_t bytes) {
    const std::size_t pages = (bytes + page - 1) / page * page;
    void *const at =
        mmap(nullptr, pages, PROT_READ | PROT_WRITE, MAP_SHARED, memory_, static_cast<off_t>(end_));
    if (at == MAP_FAILED || end_ + pages > room)
        std::abort();
    rings_.push_back({static_cast<unsigned char *>(at), end_, pages});
    end_ += pages;
    return rings_.back();
}

int kernel::may_map(std::uint64_t, std::size_t) {
    return 0;
}

int kernel::map(std::uint64_t offset, std::size_t bytes) {
    mappings.emplace_back(offset, bytes);
    return may_map(offset, bytes);
}

std::size_t kernel::count(std::uint32_t number) const noexcept {
    return static_cast<std::size_t>(std::count_if(
        heard.begin(), heard.end(), [number](const command &one) { return one.number == number; }));
}

std::uint32_t kernel::made(const command &by) {
    objects[++next_] = by.number & 0xff;
    return next_;
}

int kernel::gone(std::uint32_t handle) {
    return objects.erase(handle) == 1 ? 0 : ENOENT;
}

int kernel::answer(const command &to) {
    heard.push_back(to);
    if (heard.size() - 1 == fails)
        return error;
    switch (to.number) {
    case IB_USER_VERBS_CMD_ALLOC_PD:
        respond(to, std::array{made(to)});
        return 0;
    case IB_USER_VERBS_CMD_DEALLOC_PD:
    case IB_USER_VERBS_CMD_DEREG_MR:
    case IB_USER_VERBS_CMD_DEALLOC_MW:
    case IB_USER_VERBS_CMD_DESTROY_AH:
        return gone(to.as<std::uint32_t>());
    case IB_USER_VERBS_CMD_DESTROY_CQ:
        respond(to, std::array<std::uint32_t, 2>{});
        return gone(to.as<std::uint32_t>(8));
    case IB_USER_VERBS_CMD_DESTROY_QP:
    case IB_USER_VERBS_CMD_DESTROY_SRQ:
        respond(to, std::uint32_t{0});
        return gone(to.as<std::uint32_t>(8));
    default:
        return answer_own(to);
    }
}

} // namespace played
