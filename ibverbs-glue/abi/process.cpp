// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "process.hpp"

#include "log.hpp"
#include "witnesses.hpp"

#include <dlfcn.h>

namespace coherdma::abi {
namespace {

enum class state : unsigned char { unasked, unknown, known, ready, lacking };

struct {
    questions asks = {find_symbol, ibv_qp_to_qp_ex};
    state is = state::unasked;
    const layout *of = nullptr;
    commands functions = {};
} process;

bool known() noexcept {
    if (process.is == state::unasked) {
        const finding result = judge(ask(process.asks), layouts);
        dlerror(); // nobody else should meet the error of a search in vain
        process.of = result.found;
        process.is = result.found != nullptr ? state::known : state::unknown;
        if (result.found != nullptr)
            say(level::debug, "libibverbs is of rdma-core %s", result.found->releases);
        else if (result.near == nullptr)
            say(level::warning,
                "this libibverbs is not known: no verbs_register_driver is there of "
                "rdma-core 36 to 65; devices are left to other drivers");
        else
            say(level::warning,
                "this libibverbs is not known: it is most like that of rdma-core %s, but %s speaks "
                "against it; devices are left to other drivers",
                result.near->releases, result.against);
    }
    return process.of != nullptr;
}

} // namespace

// This is linked to it, so it is there, and it stays as long as this does.
void *find_symbol(const char *symbol, const char *version) noexcept {
    static void *library = nullptr;
    if (library == nullptr)
        library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
    return library != nullptr ? dlvsym(library, symbol, version) : nullptr;
}

bool enlist(const verbs_device_ops &driver) noexcept {
    if (!known())
        return false;
    auto *const call = reinterpret_cast<void (*)(const verbs_device_ops *)>(
        process.asks.find(process.of->enlist, process.of->version));
    call(&driver);
    return true;
}

bool ready() noexcept {
    if (!known())
        return false;
    if (process.is == state::known) {
        const char *missing = find_commands(process.functions, *process.of, process.asks.find);
        dlerror();
        process.is = missing == nullptr ? state::ready : state::lacking;
        if (missing != nullptr)
            say(level::warning, "this libibverbs lacks %s; devices are left to other drivers",
                missing);
    }
    return process.is == state::ready;
}

const layout &here() noexcept {
    return *process.of;
}
const commands &library() noexcept {
    return process.functions;
}

void start_over(const questions &libibverbs) noexcept {
    process.asks = libibverbs;
    process.is = state::unasked;
    process.of = nullptr;
}

} // namespace coherdma::abi
