// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "every_kind.hpp"

#include "optional.hpp"

#include <cstdint>
#include <cstring>
#include <dat2/dat_registry.h>
#include <netinet/in.h>
#include <sys/mman.h>

namespace conform {

unique_srq place::make_srq() const {
    DAT_SRQ_ATTR size{16, 1, DAT_SRQ_LW_DEFAULT};
    DAT_SRQ_HANDLE made = nullptr;
    require_success(dat_srq_create(pair.ia, pair.zone, &size, &made));
    return unique_srq(made);
}
unique_rsp place::make_rsp(DAT_CONN_QUAL port, DAT_EP_HANDLE handle) const {
    DAT_RSP_HANDLE made = nullptr;
    require_success(dat_rsp_create(pair.ia, port, handle, pair.arrivals, &made));
    return unique_rsp(made);
}

DAT_RETURN free_csp(DAT_CSP_HANDLE handle) {
    return EXPORTED(dat_csp_free)(handle);
}

namespace {

/// NULL if the device has no memory windows.
unique_rmr make_rmr(DAT_PZ_HANDLE zone) {
    DAT_RMR_HANDLE made = nullptr;
    return dat_rmr_create(zone, &made) == DAT_SUCCESS ? unique_rmr(made) : unique_rmr();
}

template <class Owned>
DAT_HANDLE handle_once_freed(Owned object) {
    const DAT_HANDLE handle = object;
    if (handle)
        require_success(object.free());
    return handle;
}

DAT_HANDLE closed_ia() {
    DAT_EVD_HANDLE async = nullptr;
    DAT_IA_HANDLE ia = nullptr;
    require_success(dat_ia_open(const_cast<char *>(settings().ia), 8, &async, &ia));
    require_success(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
    return ia;
}

} // namespace

every_kind::every_kind(source_location loc)
    : place{couple(nullptr, loc)}
    , window(make_rmr(pair.zone))
    , common(make_csp()) {
    make_and_free();
}

every_kind::~every_kind() {
    const DAT_RETURN rejected = dat_cr_reject(request, 0, nullptr);
    if (std::uncaught_exceptions() != 0 || !failures().empty())
        return;
    if (expect_return(rejected, DAT_SUCCESS)) {
        DAT_EVENT event{};
        DAT_COUNT more = 0;
        expect_return(dat_evd_wait(caller.connection, dat_timeout(soon), 1, &event, &more),
                      DAT_SUCCESS);
    }
}

DAT_CR_HANDLE every_kind::ask(const endpoint &from) {
    require_success(connect(from, destination(pair.ia.address()), pair.port));
    return pair.request();
}

unique_csp every_kind::make_csp() const {
    void *const create = dlsym(RTLD_DEFAULT, "dat_csp_create");
    if (!create)
        return unique_csp();
    DAT_COMM stream = {AF_INET, SOCK_STREAM, IPPROTO_TCP};
    sockaddr_in address = pair.ia.address();
    address.sin_port = htons(static_cast<std::uint16_t>(fresh_port()));
    DAT_CSP_HANDLE made = nullptr;
    const DAT_RETURN got = reinterpret_cast<decltype(&dat_csp_create)>(create)(
        pair.ia, &stream, destination(address).get(), pair.arrivals, &made);
    return got == DAT_SUCCESS ? unique_csp(made) : unique_csp();
}

// Last: an object that is made later may have the place of a freed one, whose handle is valid then.
void every_kind::make_and_free() {
    {
        endpoint gone(pair.ia, pair.zone);
        const DAT_CR_HANDLE refused = ask(gone);
        freed_[DAT_HANDLE_TYPE_CR] = refused;
        require_success(dat_cr_reject(refused, 0, nullptr));
        next_event(gone.connection);
        require_success(dat_ep_reset(gone));
        freed_[DAT_HANDLE_TYPE_RSP] = handle_once_freed(make_rsp(fresh_port(), gone));
        freed_[DAT_HANDLE_TYPE_EP] = handle_once_freed(std::move(gone.handle));
    }
    DAT_PSP_HANDLE listener = nullptr;
    require_success(
        dat_psp_create(pair.ia, fresh_port(), pair.arrivals, DAT_PSP_CONSUMER_FLAG, &listener));
    freed_[DAT_HANDLE_TYPE_PSP] = handle_once_freed(unique_psp(listener));
    freed_[DAT_HANDLE_TYPE_CSP] = handle_once_freed(make_csp());
    {
        region gone(pair.ia, pair.zone, page);
        freed_[DAT_HANDLE_TYPE_LMR] = gone;
        require_success(gone.free());
    }
    freed_[DAT_HANDLE_TYPE_RMR] = handle_once_freed(make_rmr(pair.zone));
    freed_[DAT_HANDLE_TYPE_SRQ] = handle_once_freed(make_srq());
    freed_[DAT_HANDLE_TYPE_EVD] = handle_once_freed(pair.ia.events(DAT_EVD_SOFTWARE_FLAG));
    freed_[DAT_HANDLE_TYPE_CNO] = handle_once_freed(pair.ia.notifier());
    freed_[DAT_HANDLE_TYPE_PZ] = handle_once_freed(pair.ia.zone());
    freed_[DAT_HANDLE_TYPE_IA] = closed_ia();
}

DAT_HANDLE every_kind::living(std::size_t kind) const {
    switch (kind) {
    case DAT_HANDLE_TYPE_IA:
        return pair.ia;
    case DAT_HANDLE_TYPE_EP:
        return idle;
    case DAT_HANDLE_TYPE_EVD:
        return software;
    case DAT_HANDLE_TYPE_LMR:
        return pair.memory;
    case DAT_HANDLE_TYPE_PSP:
        return pair.listener;
    case DAT_HANDLE_TYPE_RSP:
        return point;
    case DAT_HANDLE_TYPE_CSP:
        return common;
    case DAT_HANDLE_TYPE_PZ:
        return pair.zone;
    case DAT_HANDLE_TYPE_CNO:
        return pair.notifier;
    case DAT_HANDLE_TYPE_SRQ:
        return queue;
    case DAT_HANDLE_TYPE_RMR:
        return window;
    default:
        return request;
    }
}

DAT_HANDLE every_kind::address(std::size_t kind) const {
    const DAT_HANDLE handle = living(kind);
    if (kind != DAT_HANDLE_TYPE_IA)
        return handle;
    DAT_IA_HANDLE inside = nullptr;
    require_success(EXPORTED(dats_get_ia_handle)(handle, &inside));
    return inside;
}

namespace {

constexpr std::array names = {"CR", "EP",  "EVD", "IA",  "LMR", "PSP",
                              "PZ", "RMR", "RSP", "CNO", "SRQ", "CSP"};
static_assert(names.size() == every_kind::kinds);

struct alignas(64) cache_line {
    std::uintptr_t words[8];
};

DAT_HANDLE number(std::uintptr_t value) {
    return reinterpret_cast<DAT_HANDLE>(value);
}

/// A page that stays unreadable. One that was unmapped could be mapped again.
char *unreadable_page() {
    static void *const reserved =
        mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(reserved != MAP_FAILED, "mmap");
    return static_cast<char *>(reserved);
}

/// An address that the kernel has, on every machine.
DAT_HANDLE kernel_address() {
    return number(~std::uintptr_t{63});
}

// Numbers from 1 are IAs.
void add_numbers(std::vector<bogus_handle> &to, std::size_t kind) {
    if (kind != DAT_HANDLE_TYPE_IA && kind != every_kind::kinds)
        for (std::uintptr_t value = 1; value != 8; ++value)
            to.push_back({concat("the number ", value), number(value)});
    for (const std::uintptr_t value :
         {std::uintptr_t{77}, std::uintptr_t{4095}, ~std::uintptr_t{0}})
        to.push_back({concat("the number ", value), number(value)});
}

void add_objects(std::vector<bogus_handle> &to, const every_kind &all, std::size_t kind) {
    for (std::size_t other = 0; other != every_kind::kinds; ++other) {
        if (kind != every_kind::kinds && other != kind) {
            to.push_back({concat("a living ", names.at(other)), all.living(other)});
            if (other == DAT_HANDLE_TYPE_IA)
                to.push_back({"the address of an IA", all.address(other)});
        }
        to.push_back({concat("a freed ", names.at(other)), all.freed(other)});
    }
    std::erase_if(to, [](const bogus_handle &each) { return !each.handle; });
}

void add_inside(std::vector<bogus_handle> &to, char *begin) {
    if (!begin) // the provider has none of that kind
        return;
    for (const unsigned offset : {1U, 4U, 8U, 16U, 32U, 64U})
        to.push_back({concat("inside an object by ", offset), begin + offset});
    to.push_back({"a byte before an object", begin - 1});
}

} // namespace

std::vector<bogus_handle> readable_bogus_handles(const every_kind &all, std::size_t kind) {
    static cache_line zeros = {}, ones = {}, copy = {};
    for (std::uintptr_t &word : ones.words)
        word = ~std::uintptr_t{0};
    const std::size_t like = kind == every_kind::kinds ? std::size_t{DAT_HANDLE_TYPE_EP} : kind;
    auto *const object = static_cast<char *>(all.address(like));
    // As much of it as a registry and a provider look at: its table and its tag.
    if (object)
        std::memcpy(copy.words, object, 2 * sizeof copy.words[0]);
    std::vector<bogus_handle> list = {
        {"the stack", const_cast<std::uintptr_t *>(all.zeros.data())},
        {"zeros", &zeros},
        {"ones", &ones},
        {"a copy of an object", &copy},
        {"memory of the program", stray_handle()},
        {"unreadable memory, not aligned", unreadable_page() + 8},
    };
    add_numbers(list, kind);
    add_objects(list, all, kind);
    add_inside(list, object);
    return list;
}

std::vector<bogus_handle> bogus_handles(const every_kind &all, std::size_t kind) {
    std::vector<bogus_handle> list = readable_bogus_handles(all, kind);
    list.push_back({"unreadable memory", unreadable_page()});
    list.push_back({"an address of the kernel", kernel_address()});
    return list;
}

} // namespace conform
