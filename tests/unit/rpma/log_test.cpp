// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The log: which messages are logged, what the program's function gets, and the lines of the
// default one in stderr and in the system's log.

#include "fake/rdma.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <netdb.h>
#include <regex>
#include <sys/mman.h>
#include <syslog.h>
#include <unistd.h>

using namespace fake;

namespace {

struct message {
    rpma_log_level level;
    std::string file, function, text;
    int line;
};
std::vector<message> messages; ///< that the program's function got

struct system_message {
    int priority;
    std::string text;
};
std::vector<system_message> system_messages;

[[gnu::format(printf, 1, 0)]] std::string format(const char *text, std::va_list args) {
    char line[4096];
    std::vsnprintf(line, sizeof line, text, args);
    return line;
}

[[gnu::format(printf, 5, 6)]] void log_function(rpma_log_level level, const char *file_name,
                                                const int line_no, const char *function_name,
                                                const char *message_format, ...) {
    std::va_list args;
    va_start(args, message_format);
    messages.push_back({level, file_name, function_name, format(message_format, args), line_no});
    va_end(args);
    errno = EXDEV; // The library keeps the program's.
}

/// stderr while it lives.
class captured_stderr {
  public:
    captured_stderr()
        : file_(memfd_create("stderr", MFD_CLOEXEC))
        , saved_(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)) {
        std::fflush(stderr);
        dup2(file_, STDERR_FILENO);
    }
    ~captured_stderr() {
        std::fflush(stderr);
        dup2(saved_, STDERR_FILENO);
        close(saved_);
        close(file_);
    }
    captured_stderr(const captured_stderr &) = delete;

    std::string text() const {
        std::fflush(stderr);
        char bytes[8192];
        const ssize_t size = pread(file_, bytes, sizeof bytes, 0);
        return {bytes, static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
    }

  private:
    int file_, saved_;
};

void set_threshold(rpma_log_threshold threshold, rpma_log_level level) {
    assert_int_equal(rpma_log_set_threshold(threshold, level), 0);
}

/// The library logs one message of this level.
void log_error() {
    rpma_mr_remote *mr = nullptr;
    assert_int_equal(rpma_mr_remote_from_descriptor("", 0, &mr), RPMA_E_INVAL);
}
void log_info() {
    rpma_peer_cfg *cfg = nullptr;
    assert_int_equal(rpma_peer_cfg_from_descriptor("\1", 1, &cfg), 0);
    assert_int_equal(rpma_peer_cfg_delete(&cfg), 0);
}
void log_debug() {
    char desc[21];
    std::memset(desc, 1, sizeof desc);
    rpma_mr_remote *mr = nullptr;
    assert_int_equal(rpma_mr_remote_from_descriptor(desc, sizeof desc, &mr), 0);
    assert_int_equal(rpma_mr_remote_delete(&mr), 0);
}
void log_notice() {
    rpma_peer *peer = create_peer(); // without a native flush: INFO
    rpma_ep *ep = nullptr;
    messages.clear();
    system_messages.clear();
    assert_int_equal(rpma_ep_listen(peer, "192.0.2.1", "7204", &ep), 0);
    assert_int_equal(rpma_ep_shutdown(&ep), 0);
    assert_int_equal(rpma_peer_delete(&peer), 0);
}
const std::pair<rpma_log_level, void (*)()> loggers[] = {
    {RPMA_LOG_LEVEL_ERROR, log_error},
    {RPMA_LOG_LEVEL_NOTICE, log_notice},
    {RPMA_LOG_LEVEL_INFO, log_info},
    {RPMA_LOG_LEVEL_DEBUG, log_debug},
};

const rpma_log_level levels[] = {
    RPMA_LOG_DISABLED,     RPMA_LOG_LEVEL_FATAL, RPMA_LOG_LEVEL_ERROR, RPMA_LOG_LEVEL_WARNING,
    RPMA_LOG_LEVEL_NOTICE, RPMA_LOG_LEVEL_INFO,  RPMA_LOG_LEVEL_DEBUG};

int reset_log(void **) {
    assert_int_equal(rpma_log_set_function(RPMA_LOG_USE_DEFAULT_FUNCTION), 0);
    messages.clear();
    system_messages.clear();
    const int ret = reset(nullptr);
    set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_DISABLED);
    return ret;
}

// The first test: no other has set one yet.
void default_thresholds(void **) {
    rpma_log_level level = RPMA_LOG_LEVEL_DEBUG;
    assert_int_equal(rpma_log_get_threshold(RPMA_LOG_THRESHOLD, &level), 0);
    assert_int_equal(level, RPMA_LOG_LEVEL_WARNING);
    assert_int_equal(rpma_log_get_threshold(RPMA_LOG_THRESHOLD_AUX, &level), 0);
    assert_int_equal(level, RPMA_LOG_DISABLED);
}

void thresholds_are_independent(void **) {
    for (const rpma_log_level level : levels) {
        for (const rpma_log_level aux_level : levels) {
            set_threshold(RPMA_LOG_THRESHOLD, level);
            set_threshold(RPMA_LOG_THRESHOLD_AUX, aux_level);
            rpma_log_level value;
            assert_int_equal(rpma_log_get_threshold(RPMA_LOG_THRESHOLD, &value), 0);
            assert_int_equal(value, level);
            assert_int_equal(rpma_log_get_threshold(RPMA_LOG_THRESHOLD_AUX, &value), 0);
            assert_int_equal(value, aux_level);
        }
    }
}

void invalid_threshold_changes_nothing(void **) {
    set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_NOTICE);
    rpma_log_level level = RPMA_LOG_LEVEL_FATAL;
    assert_int_equal(rpma_log_get_threshold(RPMA_LOG_THRESHOLD, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_log_get_threshold(RPMA_LOG_THRESHOLD_MAX, &level), RPMA_E_INVAL);
    assert_int_equal(level, RPMA_LOG_LEVEL_FATAL);
    assert_int_equal(rpma_log_set_threshold(RPMA_LOG_THRESHOLD_MAX, level), RPMA_E_INVAL);
    // Next to the valid ones, as far as the enumeration can hold.
    assert_int_equal(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, static_cast<rpma_log_level>(-2)),
                     RPMA_E_INVAL);
    assert_int_equal(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, static_cast<rpma_log_level>(6)),
                     RPMA_E_INVAL);
    assert_int_equal(rpma_log_get_threshold(RPMA_LOG_THRESHOLD, &level), 0);
    assert_int_equal(level, RPMA_LOG_LEVEL_NOTICE);
}

void function_gets_messages_up_to_threshold(void **) {
    assert_int_equal(rpma_log_set_function(log_function), 0);
    const captured_stderr captured;
    set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_DEBUG);
    for (const rpma_log_level threshold : levels) {
        set_threshold(RPMA_LOG_THRESHOLD, threshold);
        for (const auto &[level, log] : loggers) {
            messages.clear();
            errno = ENOTTY;
            log();
            assert_int_equal(messages.size(), level <= threshold ? 1 : 0);
            if (level != RPMA_LOG_LEVEL_NOTICE) // which makes system calls of fakes
                assert_int_equal(errno, ENOTTY);
            if (messages.empty())
                continue;
            const message &entry = messages.front();
            assert_int_equal(entry.level, level);
            assert_true(entry.line > 0);
            assert_true(entry.file.find(".cpp") != std::string::npos);
            assert_int_equal(entry.function.rfind("rpma_", 0), 0);
            // One line.
            assert_int_equal(entry.text.find('\n'), entry.text.size() - 1);
            assert_true(entry.text.size() > 10);
        }
    }
    // The program's function replaces the default one.
    assert_string_equal(captured.text().c_str(), "");
    assert_true(system_messages.empty());
}

void failed_call_logs_reason_and_keeps_errno(void **) {
    assert_int_equal(rpma_log_set_function(log_function), 0);
    set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_ERROR);
    for (const char *const name : {"ibv_alloc_pd", "ibv_query_device_ex"}) {
        messages.clear();
        fail_calls(name, EACCES);
        rpma_peer *peer = nullptr;
        assert_int_equal(rpma_peer_new(context(), &peer), RPMA_E_PROVIDER);
        assert_int_equal(errno, EACCES);
        fail_none();
        assert_int_equal(messages.size(), 1);
        assert_non_null(std::strstr(messages.front().text.c_str(), name));
        assert_non_null(std::strstr(messages.front().text.c_str(), "fake0"));
        assert_non_null(std::strstr(messages.front().text.c_str(), ": Permission denied\n"));
    }
    // Those that format an address.
    rpma_peer *peer = create_peer();
    for (const char *const name : {"rdma_bind_addr", "rdma_listen"}) {
        messages.clear();
        fail_calls(name, EADDRINUSE);
        rpma_ep *ep = nullptr;
        assert_int_equal(rpma_ep_listen(peer, "192.0.2.1", "7204", &ep), RPMA_E_PROVIDER);
        assert_int_equal(errno, EADDRINUSE);
        fail_none();
        assert_int_equal(messages.size(), 1);
        assert_non_null(std::strstr(messages.front().text.c_str(), name));
        assert_non_null(std::strstr(messages.front().text.c_str(), ": Address already in use\n"));
    }
    assert_int_equal(rpma_peer_delete(&peer), 0);
}

// The errors of getaddrinfo(), which have no errno value.
void unknown_host_is_named(void **) {
    assert_int_equal(rpma_log_set_function(log_function), 0);
    set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_ERROR);
    settings.addrinfo_error = EAI_NONAME;
    ibv_context *ibv_ctx = nullptr;
    for (const rpma_util_ibv_context_type type :
         {RPMA_UTIL_IBV_CONTEXT_LOCAL, RPMA_UTIL_IBV_CONTEXT_REMOTE}) {
        messages.clear();
        assert_int_equal(rpma_utils_get_ibv_context("no.invalid", type, &ibv_ctx), RPMA_E_PROVIDER);
        assert_int_equal(messages.size(), 1);
        assert_non_null(std::strstr(messages.front().text.c_str(), "no.invalid"));
        assert_non_null(std::strstr(messages.front().text.c_str(), gai_strerror(EAI_NONAME)));
    }
}

void default_function_writes_to_system_log_and_stderr(void **) {
    const std::pair<const char *, int> names[] = {{"*ERROR* ", LOG_ERR},
                                                  {"*NOTE*  ", LOG_NOTICE},
                                                  {"*INFO*  ", LOG_INFO},
                                                  {"*DEBUG* ", LOG_DEBUG}};
    set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_DEBUG);
    for (const rpma_log_level threshold : levels) {
        set_threshold(RPMA_LOG_THRESHOLD_AUX, threshold);
        for (std::size_t i = 0; i != std::size(loggers); ++i) {
            const auto &[level, log] = loggers[i];
            const auto &[name, priority] = names[i];
            // INFO of the peer, which log_notice() creates, precedes.
            if (level == RPMA_LOG_LEVEL_NOTICE && threshold > RPMA_LOG_LEVEL_NOTICE)
                continue;
            const captured_stderr captured;
            system_messages.clear();
            log();
            assert_int_equal(system_messages.size(), 1);
            assert_int_equal(system_messages.front().priority, LOG_LOCAL7 | priority);
            const std::string &text = system_messages.front().text;
            static const std::regex location(
                R"(\*[A-Z]+\* +[a-z_]+\.cpp: [ 0-9]{3}: rpma_[a-z_]+: [^\n]+\n)");
            if (!std::regex_match(text, location))
                print_error("%s", text.c_str());
            assert_true(std::regex_match(text, location));
            assert_int_equal(text.rfind(name, 0), 0);
            const std::string line = captured.text();
            if (level > threshold) {
                assert_string_equal(line.c_str(), "");
                continue;
            }
            // "Nov 29 21:43:17.123456 [1234] ", and the same text.
            const std::regex prefix(R"([A-Z][a-z]{2} [0-9]{2} [0-9:]{8}\.[0-9]{6} \[)" +
                                    std::to_string(gettid()) + R"(\] )");
            assert_true(line.size() > text.size());
            assert_string_equal(line.substr(line.size() - text.size()).c_str(), text.c_str());
            if (!std::regex_match(line.substr(0, line.size() - text.size()), prefix))
                print_error("%s", line.c_str());
            assert_true(std::regex_match(line.substr(0, line.size() - text.size()), prefix));
        }
    }
}

void long_message_is_cut_to_one_line(void **) {
    set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_ERROR);
    set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_ERROR);
    rpma_peer *peer = create_peer();
    fail_calls("rdma_getaddrinfo", EADDRNOTAVAIL);
    for (const std::size_t length : {900U, 960U, 1000U, 1024U, 3000U}) {
        const captured_stderr captured;
        system_messages.clear();
        rpma_ep *ep = nullptr;
        assert_int_equal(rpma_ep_listen(peer, std::string(length, 'x').c_str(), "7204", &ep),
                         RPMA_E_PROVIDER);
        assert_int_equal(errno, EADDRNOTAVAIL);
        const std::string text = captured.text();
        assert_true(text.size() > 900);
        assert_true(text.size() < 1400);
        assert_int_equal(text.find('\n'), text.size() - 1);
        assert_int_equal(system_messages.size(), 1);
    }
    fail_none();
    assert_int_equal(rpma_peer_delete(&peer), 0);
}

} // namespace

extern "C" {

// syslog() of the library: the linker replaces it (--wrap).
void __wrap_syslog(int priority, const char *text, ...);
void __wrap___syslog_chk(int priority, int flag, const char *text, ...);

[[gnu::format(printf, 2, 3)]] void __wrap_syslog(int priority, const char *text, ...) {
    std::va_list args;
    va_start(args, text);
    system_messages.push_back({priority, format(text, args)});
    va_end(args);
}
[[gnu::format(printf, 3, 4)]] void __wrap___syslog_chk(int priority, int, const char *text, ...) {
    std::va_list args;
    va_start(args, text);
    system_messages.push_back({priority, format(text, args)});
    va_end(args);
}
}

int main() {
#define LOG_TEST(function) cmocka_unit_test_setup_teardown(function, reset_log, check)
    const CMUnitTest tests[] = {
        cmocka_unit_test(default_thresholds),
        LOG_TEST(thresholds_are_independent),
        LOG_TEST(invalid_threshold_changes_nothing),
        LOG_TEST(function_gets_messages_up_to_threshold),
        LOG_TEST(failed_call_logs_reason_and_keeps_errno),
        LOG_TEST(unknown_host_is_named),
        LOG_TEST(default_function_writes_to_system_log_and_stderr),
        LOG_TEST(long_message_is_cut_to_one_line),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
