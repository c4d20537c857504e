// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Functions of drivers by which a program gets a queue's memory, or creates queues that libibverbs
// does not know. It posts to them and polls them itself: that these requests are not observed is
// said once.

#include "calls.hpp"
#include "observers.hpp"

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>

using namespace coherdma::interposer;

namespace {

/// As the drivers' headers declare them, which not every machine has.
using init_obj_function = int(void *objects, std::uint64_t types);
using devx_obj_create_function = void *(ibv_context *, const void *input, std::size_t input_size,
                                        void *out, std::size_t out_size);

template <class function>
struct direct_function {
    const char *library; ///< its soname
    const char *name, *version;
    std::atomic<function *> driver = nullptr;
    std::atomic<bool> is_said = false;

    /// nullptr: the library is not loaded, or does not have it.
    function *find() noexcept {
        // Once, as the library's symbol may be redirected later. Relaxed: it points to code.
        function *match = driver.load(std::memory_order_relaxed);
        if (match == nullptr) {
            symbol_table(library).find(match, name, version);
            driver.store(match, std::memory_order_relaxed);
        }
        return match;
    }

    /// That the program gets a queue by it.
    void say() noexcept {
        if (loaded_observers().empty() || is_said.exchange(true, std::memory_order_relaxed))
            return;
        const unobserved_scope scope; // the thread is not cancelled here
        std::fprintf(stderr,
                     "coherdma: this program calls %s() of %s: requests of queues that it gets "
                     "by that are not observed\n",
                     name, library);
    }
};

constinit direct_function<init_obj_function>
    mlx4_init_obj = {.library = "libmlx4.so.1", .name = "mlx4dv_init_obj", .version = "MLX4_1.0"},
    mlx5_init_obj = {.library = "libmlx5.so.1", .name = "mlx5dv_init_obj", .version = "MLX5_1.2"},
    mana_init_obj = {.library = "libmana.so.1", .name = "manadv_init_obj", .version = "MANA_1.0"};
constinit direct_function<devx_obj_create_function> mlx5_devx_obj_create = {
    .library = "libmlx5.so.1", .name = "mlx5dv_devx_obj_create", .version = "MLX5_1.7"};

} // namespace

std::array<const void *, 4> coherdma::interposer::find_direct_functions() noexcept {
    return {reinterpret_cast<const void *>(mlx4_init_obj.find()),
            reinterpret_cast<const void *>(mlx5_init_obj.find()),
            reinterpret_cast<const void *>(mlx5_devx_obj_create.find()),
            reinterpret_cast<const void *>(mana_init_obj.find())};
}

namespace {

int init_obj(direct_function<init_obj_function> &called, void *objects,
             std::uint64_t types) noexcept {
    constexpr std::uint64_t QUEUES = 0xf; // QP, CQ, SRQ and WQ, as each driver numbers them
    init_obj_function *const driver = called.find();
    if (driver == nullptr)
        return EOPNOTSUPP; // a program may look for the function to see whether there is a library
    if ((types & QUEUES) != 0)
        called.say();
    return driver(objects, types);
}

/// Whether the command of a DEVX object creates a queue.
bool creates_queue(const void *input, std::size_t input_size) noexcept {
    constexpr unsigned CREATE_CQ = 0x400, CREATE_QP = 0x500, CREATE_SRQ = 0x700, CREATE_DCT = 0x710,
                       CREATE_XRQ = 0x717, CREATE_SQ = 0x904, CREATE_RQ = 0x908, CREATE_RMP = 0x90c;
    const auto *const bytes = static_cast<const unsigned char *>(input);
    const unsigned opcode =
        input_size >= 2 ? static_cast<unsigned>(bytes[0] << CHAR_BIT | bytes[1]) : 0;
    return opcode == CREATE_CQ || opcode == CREATE_QP || opcode == CREATE_SRQ ||
           opcode == CREATE_DCT || opcode == CREATE_XRQ || opcode == CREATE_SQ ||
           opcode == CREATE_RQ || opcode == CREATE_RMP;
}

} // namespace

extern "C" {

int mlx4dv_init_obj(void *objects, std::uint64_t types) {
    return init_obj(mlx4_init_obj, objects, types);
}
int mlx5dv_init_obj(void *objects, std::uint64_t types) {
    return init_obj(mlx5_init_obj, objects, types);
}
int manadv_init_obj(void *objects, std::uint64_t types) {
    return init_obj(mana_init_obj, objects, types);
}
void *mlx5dv_devx_obj_create(ibv_context *context, const void *input, std::size_t input_size,
                             void *out, std::size_t out_size) {
    devx_obj_create_function *const driver = mlx5_devx_obj_create.find();
    if (driver == nullptr) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    if (creates_queue(input, input_size))
        mlx5_devx_obj_create.say();
    return driver(context, input, input_size, out, out_size);
}

} // extern "C"
