// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "played_kernel.hpp"

#include "rxe/objects.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <fstream>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <type_traits>
#include <unistd.h>

namespace {

constexpr std::size_t page = 4096, room = 4 << 20;
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

// The core's part, and what the driver gets behind it. libibverbs takes the kernel for an old one
// until it has seen a device in sysfs; to old ones, the core's part was only its beginning.
template <class core, class driver>
void respond(const played::command &to, const core &first, const driver &second) {
    static_assert(std::is_trivially_copyable_v<driver> && !std::is_pointer_v<driver>);
    auto *const at = reinterpret_cast<unsigned char *>(to.response);
    const std::size_t front = std::min(sizeof first, to.room - sizeof second);
    std::memcpy(at, &first, front);
    std::memcpy(at + front, &second, sizeof second);
}
template <class core>
void respond(const played::command &to, const core &all) {
    std::memcpy(reinterpret_cast<void *>(to.response), &all, std::min(sizeof all, to.room));
}

} // namespace

namespace {

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
    std::size_t behind = sizeof head, words = count;
    std::uint64_t response = 0;
    if (is_extended) {
        ib_uverbs_ex_cmd_hdr more{};
        std::memcpy(&more, from + sizeof head, sizeof more);
        behind += sizeof more;
        words = behind + (head.in_words + more.provider_in_words) * unit;
        response = more.response;
    } else {
        words = head.in_words * unit;
        if (count >= behind + sizeof response)
            std::memcpy(&response, from + behind, sizeof response);
    }
    played::command is{
        head.command, {from + behind, from + count}, response, head.out_words * unit};
    return words != count ? EINVAL : now->answer(is);
}

} // namespace

// Of the whole process: the driver's and libibverbs', too, by whichever name.
extern "C" long syscall(long number, ...) noexcept {
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
    for (std::size_t each = 0; each < rings_.size(); ++each)
        munmap(rings_[each], sizes_[each]);
    close(memory_);
    std::free(device_);
}

ibv_context *kernel::open() {
    if (!coherdma::abi::ready())
        std::abort();
    verbs_context *const front = rxe::open(device_, fd, nullptr);
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

rxe::place kernel::make_ring(std::uint32_t entries, std::size_t slot) {
    const auto shift =
        static_cast<std::uint32_t>(std::bit_width(std::max(slot, std::size_t{64}) - 1));
    const std::uint32_t slots = std::bit_ceil(entries + 1);
    const std::size_t size = sizeof(rxe::ring_head) + (std::size_t{slots} << shift);
    const std::size_t pages = (size + page - 1) / page * page;
    void *const at =
        mmap(nullptr, pages, PROT_READ | PROT_WRITE, MAP_SHARED, memory_, static_cast<off_t>(end_));
    if (at == MAP_FAILED || end_ + pages > room)
        std::abort();
    auto *const head = static_cast<rxe::ring_head *>(at);
    head->log2_slot = shift;
    head->mask = slots - 1;
    rings_.push_back(head);
    rxe::place where{end_, static_cast<std::uint32_t>(pages), 0};
    end_ += pages;
    sizes_.push_back(pages);
    if (lie)
        lie(where, *head);
    return where;
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
    if ((to.number & extended) != 0)
        return answer_extended(to);
    switch (to.number) {
    case IB_USER_VERBS_CMD_GET_CONTEXT:
        respond(to,
                std::array{static_cast<std::uint32_t>(::open("/dev/null", O_RDONLY | O_CLOEXEC)),
                           std::uint32_t{1}});
        return 0;
    case IB_USER_VERBS_CMD_ALLOC_PD:
        respond(to, std::array{made(to)});
        return 0;
    case IB_USER_VERBS_CMD_REG_MR:
        respond(to, std::array{made(to), std::uint32_t{0x11}, std::uint32_t{0x22}});
        return 0;
    case IB_USER_VERBS_CMD_ALLOC_MW:
        respond(to, std::array{made(to), std::uint32_t{0x33}});
        return 0;
    case IB_USER_VERBS_CMD_CREATE_AH: {
        const std::array<std::uint32_t, 2> number{7, 0};
        respond(to, std::array{made(to)}, number);
        return 0;
    }
    case IB_USER_VERBS_CMD_CREATE_CQ: {
        const auto asked = to.as<ib_uverbs_create_cq>();
        const rxe::place where = make_ring(asked.cqe, sizeof(rxe::completion_slot));
        respond(to, std::array{made(to), asked.cqe}, where);
        return 0;
    }
    case IB_USER_VERBS_CMD_RESIZE_CQ: {
        const auto asked = to.as<ib_uverbs_resize_cq>();
        const rxe::place where = make_ring(asked.cqe, sizeof(rxe::completion_slot));
        respond(to, std::array{asked.cqe, std::uint32_t{0}}, where);
        return 0;
    }
    case IB_USER_VERBS_CMD_CREATE_SRQ: {
        const auto asked = to.as<ib_uverbs_create_srq>();
        const rxe::place_of_shared where{
            make_ring(asked.max_wr, sizeof(rxe::receive_slot) + asked.max_sge * sizeof(ibv_sge)), 5,
            0};
        respond(to, std::array{made(to), asked.max_wr, asked.max_sge, std::uint32_t{5}}, where);
        return 0;
    }
    case IB_USER_VERBS_CMD_MODIFY_SRQ: {
        const auto asked = to.as<ib_uverbs_modify_srq>();
        if ((asked.attr_mask & IBV_SRQ_MAX_WR) == 0)
            return 0;
        const rxe::place where =
            make_ring(asked.max_wr, sizeof(rxe::receive_slot) + 2 * sizeof(ibv_sge));
        std::memcpy(reinterpret_cast<void *>(to.as<std::uint64_t>(sizeof asked)), &where,
                    sizeof where);
        return 0;
    }
    case IB_USER_VERBS_CMD_CREATE_QP: {
        const auto asked = to.as<ib_uverbs_create_qp>();
        const std::size_t data =
            std::max<std::size_t>(asked.max_send_sge * sizeof(ibv_sge), asked.max_inline_data);
        rxe::places_of_pair where{};
        if (asked.is_srq == 0)
            where.receive = make_ring(asked.max_recv_wr, sizeof(rxe::receive_slot) +
                                                             asked.max_recv_sge * sizeof(ibv_sge));
        where.send = make_ring(asked.max_send_wr, sizeof(rxe::send_slot) + data);
        const std::array<std::uint32_t, 8> granted{
            made(to),           0x123456,           asked.max_send_wr,     asked.max_recv_wr,
            asked.max_send_sge, asked.max_recv_sge, asked.max_inline_data, 0};
        respond(to, granted, where);
        return 0;
    }
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
    case IB_USER_VERBS_CMD_POST_SEND:
        respond(to, std::uint32_t{0});
        return 0;
    case IB_USER_VERBS_CMD_MODIFY_QP:
    case IB_USER_VERBS_CMD_REQ_NOTIFY_CQ:
        return 0;
    default:
        return EOPNOTSUPP;
    }
}

int kernel::answer_extended(const command &to) {
    switch (to.number & ~extended) {
    case IB_USER_VERBS_EX_CMD_CREATE_CQ: {
        const auto asked = to.as<ib_uverbs_ex_create_cq>();
        const rxe::place where = make_ring(asked.cqe, sizeof(rxe::completion_slot));
        respond(to, std::array<std::uint32_t, 4>{made(to), asked.cqe, 0, 16}, where);
        return 0;
    }
    case IB_USER_VERBS_EX_CMD_CREATE_QP: {
        const auto asked = to.as<ib_uverbs_ex_create_qp>();
        const std::size_t data =
            std::max<std::size_t>(asked.max_send_sge * sizeof(ibv_sge), asked.max_inline_data);
        rxe::places_of_pair where{};
        where.receive = make_ring(asked.max_recv_wr,
                                  sizeof(rxe::receive_slot) + asked.max_recv_sge * sizeof(ibv_sge));
        where.send = make_ring(asked.max_send_wr, sizeof(rxe::send_slot) + data);
        const std::array<std::uint32_t, 10> granted{
            made(to),           0x123456,           asked.max_send_wr,    asked.max_recv_wr,
            asked.max_send_sge, asked.max_recv_sge, asked.max_inline_data};
        respond(to, granted, where);
        return 0;
    }
    default:
        return EOPNOTSUPP;
    }
}

} // namespace played
