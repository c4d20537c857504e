// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "copy_out.hpp"
#include "cpu.hpp"
#include "probe/loopback.hpp"

#include <cerrno>
#include <coherdma/coherdma.h>
#include <exception>
#include <new>
#include <sys/mman.h>
#include <system_error>

namespace {

using namespace coherdma;
using api::fail;

// Enough lines to be sure, few enough to be still in the cache when the device comes.
constexpr std::size_t REGION = 65536;

// Pages of their own: lines beside them must be nobody's.
class pages {
  public:
    pages()
        : begin(mmap(nullptr, 2 * REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                     0)) {
        if (begin == MAP_FAILED)
            throw std::bad_alloc();
    }
    ~pages() { munmap(begin, 2 * REGION); }
    pages(const pages &) = delete;
    pages &operator=(const pages &) = delete;
    std::span<std::uint64_t> half(std::size_t which) const {
        constexpr std::size_t WORDS = REGION / sizeof(std::uint64_t);
        return {static_cast<std::uint64_t *>(begin) + which * WORDS, WORDS};
    }

  private:
    void *begin;
};

std::uint8_t first_active_port(ibv_context *context) {
    ibv_device_attr device = {};
    ibv_port_attr about = {};
    if (ibv_query_device(context, &device) == 0) {
        for (std::uint8_t port = 1; port <= device.phys_port_cnt && port != 0; ++port) {
            if (ibv_query_port(context, port, &about) == 0 && about.state == IBV_PORT_ACTIVE)
                return port;
        }
    }
    throw std::system_error(ENETDOWN, std::generic_category(), "looking for an active port");
}

int try_it(ibv_context *context, const coherdma_probe_attr &wanted, coherdma_probe_result &result) {
    const api::way &way = api::usual();
    if (!way.path)
        return fail(EOPNOTSUPP, "to try it, what is in the cache must be known, but %s",
                    way.problem);
    const pages memory;
    probe::wish wish = {};
    wish.context = context;
    wish.port =
        wanted.port != 0 ? static_cast<std::uint8_t>(wanted.port) : first_active_port(context);
    wish.source = memory.half(0);
    wish.sink = memory.half(1);
    wish.patience = std::chrono::milliseconds(wanted.timeout_ms != 0 ? wanted.timeout_ms : 2000);
    const auto connection = context->device->transport_type == IBV_TRANSPORT_IWARP
                                ? probe::connect_by_cm(wish)
                                : probe::connect_by_verbs(wish);
    probe::count seen;
    const int error = probe::look(*connection, wish.source, wish.sink, *way.path,
                                  cache::line_size(), wanted.rounds != 0 ? wanted.rounds : 8, seen);
    result.rounds = seen.rounds;
    result.lines = seen.lines;
    result.device_stale = seen.device_stale;
    result.cpu_stale = seen.cpu_stale;
    if (seen.device_stale != 0 || seen.cpu_stale != 0)
        result.verdict = COHERDMA_NON_COHERENT; // once is enough, whatever came after
    else if (error == 0)
        result.verdict = COHERDMA_COHERENT;
    if (error != 0 && error != ETIMEDOUT && result.verdict == COHERDMA_UNKNOWN)
        return fail(error, "the device did not copy memory to itself as it should");
    return 0;
}

} // namespace

int coherdma_probe(ibv_context *context, const coherdma_probe_attr *attr, size_t attr_size,
                   coherdma_probe_result *result, size_t result_size) {
    try {
        coherdma_probe_attr wanted = {};
        if (const int error = attr ? api::copy_in(attr, attr_size, wanted) : 0)
            return error;
        if (!context || wanted.port > 255 || wanted.rounds > 1000000 || wanted.timeout_ms > 600000)
            return fail(EINVAL, context ? "port, rounds or timeout_ms is beyond reason"
                                        : "no device is given");
        coherdma_probe_result found = {};
        const int error = try_it(context, wanted, found);
        return error != 0 ? error : api::copy_out(found, result, result_size);
    } catch (const std::system_error &problem) {
        return fail(problem.code().value(), "%s", problem.what());
    } catch (const std::exception &) {
        return fail(ENOMEM, "no memory left");
    }
}
