// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "fake_verbs.hpp"

#include "data.hpp"

#include <cstdlib>
#include <cstring>
#include <map>

using namespace coherdma::abi;

fake_libibverbs fake;

namespace {

constexpr std::array private_versions{34, 34, 34, 34, 57, 59, 59, 64, 65};
constexpr std::size_t v57 = 4, v59 = 5, v62 = 6, v64 = 7;

std::size_t layout_value(const char *name) {
    static const auto data = layout_data(host_arch);
    return *data.at(name)[fake.version];
}

template <class type>
std::uintptr_t to_number(type value) {
    if constexpr (std::is_pointer_v<type>)
        return reinterpret_cast<std::uintptr_t>(value);
    else
        return static_cast<std::uintptr_t>(value);
}

template <class... types>
int record_command(types... arguments) {
    fake.arguments = {to_number(arguments)...};
    return 7;
}

// With the parameters of the ABI version. any: a type that some releases lack.
using any = void *;
using size_type = std::size_t;
std::map<std::string, void *> make_commands(std::size_t version) {
    std::map<std::string, void *> functions;
    const auto add = [&](const char *name, auto *function) {
        functions[name] = reinterpret_cast<void *>(function);
    };
    using u64 = std::uint64_t;
    using attr = const ibv_cq_init_attr_ex *;
    if (version < v57)
        add("ibv_cmd_get_context", record_command<verbs_context *, any, size_type, any, size_type>);
    else
        add("ibv_cmd_get_context",
            record_command<verbs_context *, any, size_type, any, any, size_type>);
    if (version < v59)
        add("ibv_cmd_create_cq_ex", record_command<ibv_context *, attr, verbs_cq *, any, size_type,
                                                   any, size_type, std::uint32_t>);
    else
        add("ibv_cmd_create_cq_ex", record_command<ibv_context *, attr, any, verbs_cq *, any,
                                                   size_type, any, size_type, std::uint32_t>);
    using qp_attr = ibv_qp_init_attr_ex *;
    if (version < v64)
        add("ibv_cmd_create_qp_ex2",
            record_command<ibv_context *, verbs_qp *, qp_attr, any, size_type, any, size_type>);
    else
        add("ibv_cmd_create_qp_ex2", record_command<ibv_context *, verbs_qp *, qp_attr, any,
                                                    size_type, any, size_type, any>);
    if (version < v57) // some releases of v49 have the other
        add("ibv_cmd_reg_dmabuf_mr",
            record_command<ibv_pd *, u64, size_type, u64, int, int, verbs_mr *>);
    else
        add("ibv_cmd_reg_dmabuf_mr",
            record_command<ibv_pd *, u64, size_type, u64, int, int, verbs_mr *, any>);
    return functions;
}

void fake_register_driver(const verbs_device_ops *ops) {
    fake.registered = ops;
}

void some_operation() {}

void write_at(void *base, std::size_t offset, const void *value) {
    std::memcpy(static_cast<char *>(base) + offset, &value, sizeof(value));
}

void *fake_init_and_alloc_context(ibv_device *device, int, std::size_t size,
                                  verbs_context *context_offset, std::uint32_t) {
    if (context_offset != nullptr)
        return nullptr;
    void *const vctx = std::calloc(1, size);
    const std::size_t bytes = layout_value("verbs_context.sizeof") + fake.more_context;
    const std::size_t context = bytes - sizeof(ibv_context);
    const std::size_t num_ops = layout_value("verbs_context_ops.sizeof") / 8 + fake.more_operations;
    void *const priv = std::calloc(1, layout_value("verbs_ex_private.ops") + (num_ops + 1) * 8);
    for (std::size_t i = 0; i < num_ops; ++i)
        write_at(priv, layout_value("verbs_ex_private.ops") + i * 8,
                 reinterpret_cast<void *>(some_operation));
    write_at(vctx, context, device);
    // libibverbs sets ibv_context.abi_compat to this.
    write_at(vctx, bytes - 8, reinterpret_cast<void *>(~std::uintptr_t{0}));
    write_at(vctx, context - 8, reinterpret_cast<void *>(bytes));
    write_at(vctx, context - 112, priv);
    ++fake.contexts;
    return vctx;
}

void fake_uninit_context(verbs_context *vctx) {
    const std::size_t context =
        layout_value("verbs_context.sizeof") + fake.more_context - sizeof(ibv_context);
    void *priv = nullptr;
    std::memcpy(&priv, reinterpret_cast<char *>(vctx) + context - 112, sizeof(priv));
    std::free(priv);
    --fake.contexts;
}

void fake_set_ops(verbs_context *, const void *table) {
    std::memcpy(&fake.context_ops, table, layout_value("verbs_context_ops.sizeof"));
}

// As dlvsym() in the libibverbs of the release, without the hidden symbols and with the added ones.
void *fake_find_symbol(const char *symbol, const char *version) noexcept {
    static const auto symbols = symbol_data();
    const std::string name = symbol, symbol_version = version;
    if (fake.added.contains(name))
        return reinterpret_cast<void *>(some_operation);
    if (fake.hidden.contains(name))
        return nullptr;
    if ((name == "ibv_import_dm" && symbol_version == "IBVERBS_1.13") ||
        (name == "ibv_query_qp_data_in_order" && symbol_version == "IBVERBS_1.14") ||
        (name == "ibv_dm_export_dmabuf_fd" && symbol_version == "IBVERBS_1.16" &&
         fake.version >= v62))
        return reinterpret_cast<void *>(some_operation);
    const auto row = symbols.find(name);
    if (symbol_version != "IBVERBS_PRIVATE_" + std::to_string(private_versions[fake.version]) ||
        row == symbols.end() || !row->second[fake.version])
        return nullptr;
    auto commands = make_commands(fake.version);
    if (name.starts_with("verbs_register_driver_"))
        return reinterpret_cast<void *>(fake_register_driver);
    if (name == "_verbs_init_and_alloc_context")
        return reinterpret_cast<void *>(fake_init_and_alloc_context);
    if (name == "verbs_uninit_context")
        return reinterpret_cast<void *>(fake_uninit_context);
    if (name == "verbs_set_ops")
        return reinterpret_cast<void *>(fake_set_ops);
    return commands.contains(name) ? commands[name] : reinterpret_cast<void *>(some_operation);
}

// As ibv_qp_to_qp_ex() of the release: tests a bit of comp_mask, at the offsets of a test or of the
// release.
ibv_qp_ex *fake_to_qp_ex(ibv_qp *qp) {
    auto offsets = fake.comp_masks;
    if (offsets.empty())
        offsets = {layout_value("verbs_qp.comp_mask")};
    for (const std::size_t offset : offsets) {
        std::uint32_t mask = 0;
        std::memcpy(&mask, reinterpret_cast<const char *>(qp) + offset, sizeof(mask));
        if ((mask & 2) != 0)
            return reinterpret_cast<ibv_qp_ex *>(qp);
    }
    return nullptr;
}

} // namespace

const detection_functions fake_detection_functions = {fake_find_symbol, fake_to_qp_ex};

void use_release(std::size_t version) {
    fake = {};
    fake.version = version;
    reset_detection(fake_detection_functions);
}
