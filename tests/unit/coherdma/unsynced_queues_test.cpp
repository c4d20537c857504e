// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A machine with one device, which is not coherent by its devicetree: whether libcoherdma opens it,
// by the driver's queues, and what coherdma explain and doctor say. Only what reads the machine is
// a fake.

#include "../cmocka.hpp"
#include "api/cpu.hpp"
#include "api/memory.hpp"
#include "api/provider_query.hpp"
#include "coherency/bounce/confidential_guest.hpp"
#include "coherency/device.hpp"
#include "coherency/rules.hpp"
#include "command.hpp"
#include "devices/devices.hpp"
#include "doctor/host.hpp"

#include <cerrno>
#include <coherdma/experimental.h>
#include <cstdio>
#include <cstring>
#include <string>
#include <sys/utsname.h>
#include <tuple>
#include <unistd.h>

namespace {

std::string machine_driver; ///< of the device
std::string machine_release = "6.12.0";
std::uint32_t machine_coherency = COHERDMA_NON_COHERENT; ///< of the device
std::string machine_name = "aarch64";                    ///< uname -m

constexpr std::uint32_t CPU_ALIGNMENT = 512; ///< buffer_alignment() of the machine's CPU

void assert_contains(const std::string &text, const char *part) {
    if (text.find(part) == std::string::npos)
        fail_msg("'%s' is not in '%s'", part, text.c_str());
}

struct open_result {
    coherdma_device *device;
    int error;
};
open_result open_board(std::uint32_t flags = 0) {
    coherdma_open_attr attr = {};
    attr.name = "board0";
    attr.flags = flags;
    errno = 0;
    coherdma_device *const device = coherdma_open_device_ex(&attr, sizeof attr);
    return {device, errno};
}

constexpr const char *in_program = "sync is required for board0 (non-coherent), but its queues are "
                                   "in the program's memory, which no call can sync";
/// As a sync call says it.
constexpr const char *sync_problem = "sync is required for board0, but its queues are in the "
                                     "program's memory, which no call can sync";
constexpr const char *in_cached_memory =
    "sync is required for board0 (non-coherent), but the kernel maps its queues with the cache, "
    "and no call can sync them";

constexpr const char *in_unknown_memory =
    "sync is required for board0 (non-coherent), but where its queues are is not known, and a sync "
    "may not reach them; to use it nevertheless, declare it in coherdma.conf";

void refused_in_words(void **) {
    for (const auto &[driver, words] : {std::pair{"mlx5", in_program},
                                        {"efa", in_cached_memory},
                                        {"other", in_unknown_memory},
                                        {"", in_unknown_memory}}) {
        machine_driver = driver;
        const open_result opened = open_board();
        assert_null(opened.device);
        assert_int_equal(opened.error, EOPNOTSUPP);
        assert_string_equal(coherdma_error(), words);
    }
}

void opened_if_the_kernel_maps_queues_uncached(void **) {
    machine_driver = "cxgb4";
    const open_result opened = open_board();
    assert_non_null(opened.device);
    assert_int_equal(coherdma_sync_before_read(opened.device, nullptr, 0), 0);
    coherdma_close_device(opened.device);
    machine_release = "6.1.0";
    assert_null(open_board().device);
    assert_string_equal(coherdma_error(), in_cached_memory);
    machine_release = "6.12.0";
}

void opened_if_the_program_assumes_it(void **) {
    coherdma_open_attr attr = {};
    attr.flags = COHERDMA_OPEN_ASSUME;
    attr.assume = COHERDMA_NON_COHERENT;
    coherdma_device *const device = coherdma_open_device_ex(&attr, sizeof attr);
    assert_non_null(device);
    coherdma_close_device(device);
}

void opened_for_queries_without_syncs(void **) {
    machine_driver = "mlx5";
    const open_result opened = open_board(COHERDMA_OPEN_QUERY_ONLY);
    assert_non_null(opened.device);
    coherdma_device_attr attr = {};
    assert_int_equal(coherdma_query_device(opened.device, &attr, sizeof attr), 0);
    assert_int_equal(attr.coherency, COHERDMA_NON_COHERENT);
    assert_int_equal(attr.sync_required, 1);
    assert_string_equal(attr.instructions, "");
    assert_int_equal(attr.flags, 0);
    assert_string_equal(attr.sync_problem, sync_problem);
    coherdma_range range = {};
    using sync_function = decltype(coherdma_sync_before_read);
    for (sync_function *const call : {coherdma_sync_before_read, coherdma_sync_after_write}) {
        assert_int_equal(call(opened.device, &range, 1), EOPNOTSUPP);
        assert_string_equal(coherdma_error(), sync_problem);
    }
    assert_int_equal(coherdma_sync_for_device(opened.device, &range, 1, COHERDMA_TO_DEVICE),
                     EOPNOTSUPP);
    assert_int_equal(coherdma_sync_for_cpu(opened.device, &range, 1, COHERDMA_FROM_DEVICE),
                     EOPNOTSUPP);
    coherdma_close_device(opened.device);
}

/// Whatever the driver: the data does not reach the device.
void refused_if_data_is_bounced(void **) {
    machine_coherency = COHERDMA_BOUNCED;
    machine_driver = "cxgb4";
    const open_result opened = open_board();
    assert_null(opened.device);
    assert_int_equal(opened.error, EOPNOTSUPP);
    assert_string_equal(coherdma_error(),
                        "board0 is bounced: the rule's reason (/proc/cmdline: swiotlb=force); no "
                        "sync reaches the copies");
    const open_result queried = open_board(COHERDMA_OPEN_QUERY_ONLY);
    assert_non_null(queried.device);
    coherdma_device_attr attr = {};
    assert_int_equal(coherdma_query_device(queried.device, &attr, sizeof attr), 0);
    assert_int_equal(attr.coherency, COHERDMA_BOUNCED);
    assert_string_equal(coherdma_coherency_str(attr.coherency), "bounced");
    assert_int_equal(attr.strength, COHERDMA_STRENGTH_FIRMWARE);
    assert_int_equal(attr.sync_required, 1);
    const coherdma_range range = {};
    assert_int_equal(coherdma_sync_after_write(queried.device, &range, 1), EOPNOTSUPP);
    assert_string_equal(coherdma_error(),
                        "sync is required for board0, but the kernel gives the device copies of "
                        "the memory, which no sync reaches");
    coherdma_close_device(queried.device);
    machine_coherency = COHERDMA_NON_COHERENT;
}

/// What a buffer on the machine must not share, for a device that the program assumes.
std::uint32_t buffer_alignment(const char *machine, const char *release, std::uint32_t coherency) {
    machine_name = machine;
    machine_release = release;
    coherdma_open_attr attr = {};
    attr.flags = COHERDMA_OPEN_ASSUME;
    attr.assume = coherency;
    coherdma_device *const device = coherdma_open_device_ex(&attr, sizeof attr);
    assert_non_null(device);
    coherdma_device_attr device_attr = {};
    assert_int_equal(coherdma_query_device(device, &device_attr, sizeof device_attr), 0);
    coherdma_close_device(device);
    machine_name = "aarch64";
    machine_release = "6.12.0";
    return device_attr.buffer_alignment;
}

// Where deregistration discards stores to whole pages, unless the device is proven to be coherent:
// an assumption does not change what the kernel does.
void buffers_share_no_page_before_7_0(void **) {
    const auto page_size = static_cast<std::uint32_t>(sysconf(_SC_PAGESIZE));
    for (const char *machine : {"aarch64", "armv7l", "riscv64"})
        for (const char *release : {"6.1.0", "6.19.5", "no version"})
            for (const std::uint32_t coherency :
                 {COHERDMA_NON_COHERENT, COHERDMA_UNKNOWN, COHERDMA_COHERENT})
                assert_int_equal(buffer_alignment(machine, release, coherency), page_size);
}

void buffers_share_no_lines_elsewhere(void **) {
    for (const auto &[machine, release, coherency] :
         {std::tuple{"aarch64", "7.0.0", COHERDMA_NON_COHERENT},
          {"aarch64", "7.0.0", COHERDMA_COHERENT},
          {"x86_64", "6.1.0", COHERDMA_NON_COHERENT}})
        assert_int_equal(buffer_alignment(machine, release, coherency), CPU_ALIGNMENT);
}

/// What coherdma explain prints.
std::string explain(std::initializer_list<const char *> options) {
    std::FILE *const file = std::tmpfile();
    assert_non_null(file);
    std::fflush(stdout);
    const int saved_stdout = dup(STDOUT_FILENO);
    dup2(fileno(file), STDOUT_FILENO);
    std::vector<std::string> arguments = {"coherdma", "explain", "board0"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    std::vector<char *> argv;
    for (std::string &argument : arguments)
        argv.push_back(argument.data());
    int status = 0;
    tools::cli::program program("coherdma", "", "", 30);
    tools::add_explain(program, status);
    const auto exit_status = program.parse(static_cast<int>(argv.size()), argv.data());
    std::fflush(stdout);
    dup2(saved_stdout, STDOUT_FILENO);
    close(saved_stdout);
    assert_false(exit_status.has_value());
    std::string text(4096, '\0');
    std::rewind(file);
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    return text;
}

void explain_says_why(void **) {
    machine_driver = "mlx5";
    std::string text = explain({});
    for (std::size_t pos; (pos = text.find('\n')) != std::string::npos;)
        text[pos] = ' ';
    assert_contains(text, std::string("Programs cannot use it: ").append(sync_problem).c_str());
    assert_contains(explain({"--json"}),
                    std::string("\"sync_problem\": \"").append(sync_problem).c_str());
    machine_driver = "cxgb4";
    assert_null(std::strstr(explain({}).c_str(), "Programs cannot use it"));
    assert_contains(explain({"--json"}), "\"sync_problem\": \"\"");
}

void doctor_gets_the_reason(void **) {
    machine_driver = "mlx5";
    tools::doctor::coherency_result result = tools::doctor::query_coherency("board0");
    assert_string_equal(result.coherency.c_str(), "non-coherent");
    assert_string_equal(result.sync_problem.c_str(), sync_problem);
    machine_driver = "cxgb4";
    result = tools::doctor::query_coherency("board0");
    assert_string_equal(result.coherency.c_str(), "non-coherent");
    assert_string_equal(result.sync_problem.c_str(), "");
}

} // namespace

// -- the machine

extern "C" int uname(utsname *system) noexcept {
    *system = {};
    std::strcpy(system->release, machine_release.c_str());
    std::strcpy(system->machine, machine_name.c_str());
    return 0;
}

std::vector<coherdma::devices::device> coherdma::devices::list_devices() {
    return {{"board0", machine_driver, "RoCE"}};
}

coherdma::coherency::settings coherdma::coherency::read_settings() {
    return {};
}

coherdma::coherency::decision coherdma::coherency::decide(const rule_input &, rule_scope) {
    static constexpr rule RULE = {
        .name = "devicetree", .strength = COHERDMA_STRENGTH_FIRMWARE, .evaluate = nullptr};
    evidence entry;
    entry.coherency = machine_coherency;
    entry.source = "/proc/cmdline";
    entry.value = "swiotlb=force";
    entry.reason = "the rule's reason";
    return {{{&RULE, entry}}, 0};
}

int coherdma::coherency::try_reg_mr(ibv_context *) {
    return 0;
}

bool coherdma::coherency::has_dma_bounce_flag(ibv_context *) {
    return false;
}

coherdma::coherency::confidential_guest coherdma::coherency::find_x86_confidential_guest() {
    return {};
}

int coherdma::api::query_provider(ibv_context *, coherdmadv_device_attr *, std::uint32_t) noexcept {
    return ENOTSUP;
}

const coherdma::cache::emulated_cache *
coherdma::api::find_emulated_cache(const ibv_context *) noexcept {
    return nullptr;
}

int coherdma::api::check_mapped(const cache::range *, std::size_t) noexcept {
    return 0;
}

/// A CPU with cache instructions.
const coherdma::api::ops_choice &coherdma::api::default_ops() noexcept {
    static const ops_choice choice = {&cache::ordering_ops(), ""};
    return choice;
}

coherdma::api::ops_choice coherdma::api::find_ops(const char *) noexcept {
    return default_ops();
}

const char *coherdma::api::usable_ops_names() {
    return "";
}

std::size_t coherdma::api::buffer_alignment(std::size_t) noexcept {
    return CPU_ALIGNMENT;
}

int coherdma_probe(ibv_context *, const coherdma_probe_attr *, std::size_t, coherdma_probe_result *,
                   std::size_t) {
    return ENOTSUP;
}

coherdma_port *coherdma_get_port_list(std::size_t *, std::size_t) {
    return nullptr;
}

void coherdma_free_port_list(coherdma_port *) {}

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(refused_in_words),
        cmocka_unit_test(opened_if_the_kernel_maps_queues_uncached),
        cmocka_unit_test(opened_if_the_program_assumes_it),
        cmocka_unit_test(opened_for_queries_without_syncs),
        cmocka_unit_test(refused_if_data_is_bounced),
        cmocka_unit_test(buffers_share_no_page_before_7_0),
        cmocka_unit_test(buffers_share_no_lines_elsewhere),
        cmocka_unit_test(explain_says_why),
        cmocka_unit_test(doctor_gets_the_reason),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
