// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "copy_struct.hpp"
#include "cpu.hpp"
#include "probe/buffers.hpp"
#include "probe/loopback.hpp"

#include <cerrno>
#include <coherdma/coherdma.h>
#include <exception>
#include <new>
#include <system_error>

namespace {

using namespace coherdma;
using api::fail;

constexpr std::uint32_t DEFAULT_ROUNDS = 8, DEFAULT_TIMEOUT_MS = 2000;
constexpr std::uint32_t MAX_PORT = 255, MAX_ROUNDS = 1000000, MAX_TIMEOUT_MS = 600000;

/// Connects the device to itself and tests it. Returns 0 if the result is filled in, else an errno
/// value with coherdma_error() set. A timeout is a result: COHERDMA_UNKNOWN.
int run_probe(ibv_context *context, const coherdma_probe_attr &attr,
              coherdma_probe_result &result) {
    const api::ops_choice &choice = api::default_ops();
    if (!choice.ops)
        return fail(EOPNOTSUPP, "the probe requires cache maintenance, but %s", choice.problem);
    const probe::buffers buffers;
    probe::loopback_attr loopback_attr = {};
    loopback_attr.context = context;
    loopback_attr.port_num = static_cast<std::uint8_t>(attr.port_num);
    loopback_attr.source = buffers.source.words();
    loopback_attr.sink = buffers.sink.words();
    loopback_attr.timeout =
        std::chrono::milliseconds(attr.timeout_ms != 0 ? attr.timeout_ms : DEFAULT_TIMEOUT_MS);
    const auto loopback = probe::connect_to_itself(loopback_attr);
    probe::probe_counts counts;
    const int error = probe::probe_coherency(
        *loopback, loopback_attr.source, loopback_attr.sink, *choice.ops, cache::line_size(),
        attr.rounds != 0 ? attr.rounds : DEFAULT_ROUNDS, counts);
    result.rounds = counts.rounds;
    result.lines = counts.lines;
    result.device_stale = counts.device_stale;
    result.cpu_stale = counts.cpu_stale;
    if (counts.device_stale != 0 || counts.cpu_stale != 0)
        result.coherency = COHERDMA_NON_COHERENT; // even if a later round failed
    else if (error == 0)
        result.coherency = COHERDMA_COHERENT;
    if (error != 0 && error != ETIMEDOUT && result.coherency == COHERDMA_UNKNOWN)
        return fail(error, "the device did not copy memory to itself correctly");
    return 0;
}

} // namespace

int coherdma_probe(ibv_context *context, const coherdma_probe_attr *attr, size_t attr_size,
                   coherdma_probe_result *result, size_t result_size) {
    try {
        coherdma_probe_attr probe_attr = {};
        int error = attr ? api::copy_in(attr, attr_size, probe_attr) : 0;
        if (error == 0)
            error = api::check_out(result, result_size);
        if (error != 0)
            return error;
        if (!context)
            return fail(EINVAL, "context is NULL");
        if (probe_attr.port_num > MAX_PORT || probe_attr.rounds > MAX_ROUNDS ||
            probe_attr.timeout_ms > MAX_TIMEOUT_MS)
            return fail(EINVAL,
                        "port_num, rounds or timeout_ms exceeds its maximum of %u, %u or %u",
                        MAX_PORT, MAX_ROUNDS, MAX_TIMEOUT_MS);
        if (probe_attr.reserved != 0)
            return fail(EINVAL, "reserved is not 0");
        coherdma_probe_result probe_result = {};
        error = run_probe(context, probe_attr, probe_result);
        if (error == 0)
            api::fill_struct(probe_result, result, result_size);
        return error;
    } catch (const std::system_error &exception) {
        return fail(exception.code().value(), "%s", exception.what());
    } catch (const std::exception &) {
        return fail(ENOMEM, "out of memory");
    }
}
