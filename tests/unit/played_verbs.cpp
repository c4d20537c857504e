// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "played_verbs.hpp"

#include "abi_data.hpp"

#include <cstdlib>
#include <cstring>
#include <map>

using namespace coherdma::abi;

played libibverbs;

namespace {

constexpr std::array numbers{34, 34, 34, 34, 57, 59, 59, 64, 65};
constexpr std::size_t v57 = 4, v59 = 5, v62 = 6, v64 = 7;

std::size_t fact(const char *name) {
    static const auto data = layout_data(this_machine);
    return *data.at(name)[libibverbs.epoch];
}

template <class type>
std::uintptr_t word(type value) {
    if constexpr (std::is_pointer_v<type>)
        return reinterpret_cast<std::uintptr_t>(value);
    else
        return static_cast<std::uintptr_t>(value);
}

template <class... types>
int command(types... arguments) {
    libibverbs.arguments = {word(arguments)...};
    return 7;
}

// As its release declares it. any: a type that older releases have not.
using any = void *;
using size = std::size_t;
std::map<std::string, void *> commands_of(std::size_t epoch) {
    std::map<std::string, void *> is;
    const auto has = [&](const char *name, auto *function) {
        is[name] = reinterpret_cast<void *>(function);
    };
    using u64 = std::uint64_t;
    using attr = const ibv_cq_init_attr_ex *;
    if (epoch < v57)
        has("ibv_cmd_get_context", command<verbs_context *, any, size, any, size>);
    else
        has("ibv_cmd_get_context", command<verbs_context *, any, size, any, any, size>);
    if (epoch < v59)
        has("ibv_cmd_create_cq_ex",
            command<ibv_context *, attr, verbs_cq *, any, size, any, size, std::uint32_t>);
    else
        has("ibv_cmd_create_cq_ex",
            command<ibv_context *, attr, any, verbs_cq *, any, size, any, size, std::uint32_t>);
    using qp_attr = ibv_qp_init_attr_ex *;
    if (epoch < v64)
        has("ibv_cmd_create_qp_ex2",
            command<ibv_context *, verbs_qp *, qp_attr, any, size, any, size>);
    else
        has("ibv_cmd_create_qp_ex2",
            command<ibv_context *, verbs_qp *, qp_attr, any, size, any, size, any>);
    if (epoch < v57) // some of v49 have the other
        has("ibv_cmd_reg_dmabuf_mr", command<ibv_pd *, u64, size, u64, int, int, verbs_mr *>);
    else
        has("ibv_cmd_reg_dmabuf_mr", command<ibv_pd *, u64, size, u64, int, int, verbs_mr *, any>);
    return is;
}

void enlist_driver(const verbs_device_ops *driver) {
    libibverbs.registered = driver;
}

void some_operation() {}

void put(void *base, std::size_t offset, const void *value) {
    std::memcpy(static_cast<char *>(base) + offset, &value, sizeof(value));
}

void *init_and_alloc(ibv_device *device, int, std::size_t size_of_all, verbs_context *offset,
                     std::uint32_t) {
    if (offset != nullptr)
        return nullptr;
    void *const start = std::calloc(1, size_of_all);
    const std::size_t bytes = fact("verbs_context.sizeof") + libibverbs.more_context;
    const std::size_t context = bytes - sizeof(ibv_context);
    const std::size_t table = fact("verbs_context_ops.sizeof") / 8 + libibverbs.more_operations;
    void *const hidden = std::calloc(1, fact("verbs_ex_private.ops") + (table + 1) * 8);
    for (std::size_t each = 0; each < table; ++each)
        put(hidden, fact("verbs_ex_private.ops") + each * 8,
            reinterpret_cast<void *>(some_operation));
    put(start, context, device);
    put(start, bytes - 8, reinterpret_cast<void *>(~std::uintptr_t{0})); // as libibverbs does
    put(start, context - 8, reinterpret_cast<void *>(bytes));
    put(start, context - 112, hidden);
    ++libibverbs.contexts;
    return start;
}

void uninit(verbs_context *start) {
    const std::size_t context =
        fact("verbs_context.sizeof") + libibverbs.more_context - sizeof(ibv_context);
    void *hidden = nullptr;
    std::memcpy(&hidden, reinterpret_cast<char *>(start) + context - 112, sizeof(hidden));
    std::free(hidden);
    --libibverbs.contexts;
}

void set_operations(verbs_context *, const void *table) {
    std::memcpy(&libibverbs.operations, table, fact("verbs_context_ops.sizeof"));
}

void *find(const char *symbol, const char *version) noexcept {
    static const auto symbols = symbol_data();
    const std::string name = symbol, of = version;
    if (libibverbs.added.contains(name))
        return reinterpret_cast<void *>(some_operation);
    if (libibverbs.hidden.contains(name))
        return nullptr;
    if ((name == "ibv_import_dm" && of == "IBVERBS_1.13") ||
        (name == "ibv_query_qp_data_in_order" && of == "IBVERBS_1.14") ||
        (name == "ibv_dm_export_dmabuf_fd" && of == "IBVERBS_1.16" && libibverbs.epoch >= v62))
        return reinterpret_cast<void *>(some_operation);
    const auto found = symbols.find(name);
    if (of != "IBVERBS_PRIVATE_" + std::to_string(numbers[libibverbs.epoch]) ||
        found == symbols.end() || !found->second[libibverbs.epoch])
        return nullptr;
    auto known = commands_of(libibverbs.epoch);
    if (name.starts_with("verbs_register_driver_"))
        return reinterpret_cast<void *>(enlist_driver);
    if (name == "_verbs_init_and_alloc_context")
        return reinterpret_cast<void *>(init_and_alloc);
    if (name == "verbs_uninit_context")
        return reinterpret_cast<void *>(uninit);
    if (name == "verbs_set_ops")
        return reinterpret_cast<void *>(set_operations);
    return known.contains(name) ? known[name] : reinterpret_cast<void *>(some_operation);
}

ibv_qp_ex *extended(ibv_qp *qp) {
    auto places = libibverbs.comp_masks;
    if (places.empty())
        places = {fact("verbs_qp.comp_mask")};
    for (const std::size_t place : places) {
        std::uint32_t mask = 0;
        std::memcpy(&mask, reinterpret_cast<const char *>(qp) + place, sizeof(mask));
        if ((mask & 2) != 0)
            return reinterpret_cast<ibv_qp_ex *>(qp);
    }
    return nullptr;
}

} // namespace

const questions to_played = {find, extended};

void play(std::size_t epoch) {
    libibverbs = {};
    libibverbs.epoch = epoch;
    start_over(to_played);
}
