// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// rpma_log_*(). rpma_utils_get_ibv_context() with a name that is no address logs the cause of its
// failure.

#include "../lib/invalid.hpp"
#include "../lib/run.hpp"

#include <cstdarg>
#include <cstdio>
#include <unistd.h>

namespace conform {

namespace {

struct log_message {
    rpma_log_level level;
    std::string text;
};
std::vector<log_message> g_messages;

[[gnu::format(printf, 5, 6)]] void collect_message(rpma_log_level level, const char *file_name,
                                                   const int line_no, const char *function_name,
                                                   const char *message_format, ...) {
    expect_true(!file_name || (line_no > 0 && function_name && *function_name),
                "a file without line and function");
    char text[2048];
    va_list args;
    va_start(args, message_format);
    std::vsnprintf(text, sizeof text, message_format, args);
    va_end(args);
    g_messages.push_back({level, text});
}

void fail_with_message() {
    ibv_context *ctx = nullptr;
    expect_return(rpma_utils_get_ibv_context("not an address", RPMA_UTIL_IBV_CONTEXT_LOCAL, &ctx),
                  RPMA_E_PROVIDER);
}

rpma_log_level level_of(rpma_log_threshold threshold) {
    rpma_log_level level{};
    require_ok(rpma_log_get_threshold(threshold, &level));
    return level;
}

/// What the failure writes to stderr.
std::string stderr_of_failure() {
    std::fflush(stderr);
    std::FILE *file = std::tmpfile();
    require(file != nullptr, "no temporary file");
    const int saved_fd = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    fail_with_message();
    std::fflush(stderr);
    dup2(saved_fd, STDERR_FILENO);
    close(saved_fd);
    std::rewind(file);
    char text[4096];
    const std::size_t length = std::fread(text, 1, sizeof text, file);
    std::fclose(file);
    return {text, length};
}

void add_thresholds(case_list &cases) {
    add_case(cases, "log.threshold.default", [] {
        expect_eq(level_of(RPMA_LOG_THRESHOLD), RPMA_LOG_LEVEL_WARNING, "the threshold");
        expect_eq(level_of(RPMA_LOG_THRESHOLD_AUX), RPMA_LOG_DISABLED, "the auxiliary threshold");
    });
    add_case(cases, "log.threshold.set", [] {
        for (int level = RPMA_LOG_DISABLED; level <= RPMA_LOG_LEVEL_DEBUG; ++level) {
            const int other = level == RPMA_LOG_LEVEL_DEBUG ? RPMA_LOG_DISABLED : level + 1;
            expect_return(
                rpma_log_set_threshold(RPMA_LOG_THRESHOLD, static_cast<rpma_log_level>(level)), 0);
            expect_return(
                rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, static_cast<rpma_log_level>(other)),
                0);
            expect_eq(level_of(RPMA_LOG_THRESHOLD), static_cast<rpma_log_level>(level),
                      "the threshold");
            expect_eq(level_of(RPMA_LOG_THRESHOLD_AUX), static_cast<rpma_log_level>(other),
                      "the auxiliary threshold");
        }
    });
    add_case(cases, "log.threshold.invalid", [] {
        for (const int threshold : {-1, int{RPMA_LOG_THRESHOLD_MAX}, 99}) {
            expect_return(rpma_log_set_threshold(static_cast<rpma_log_threshold>(threshold),
                                                 RPMA_LOG_LEVEL_ERROR),
                          RPMA_E_INVAL);
            expect_fails<rpma_log_level>(
                [threshold](rpma_log_level *level) {
                    return rpma_log_get_threshold(static_cast<rpma_log_threshold>(threshold),
                                                  level);
                },
                RPMA_E_INVAL);
        }
        for (const rpma_log_threshold threshold : {RPMA_LOG_THRESHOLD, RPMA_LOG_THRESHOLD_AUX}) {
            const rpma_log_level before = level_of(threshold);
            for (const int level : {RPMA_LOG_DISABLED - 1, RPMA_LOG_LEVEL_DEBUG + 1, 99})
                expect_return(rpma_log_set_threshold(threshold, static_cast<rpma_log_level>(level)),
                              RPMA_E_INVAL);
            expect_eq(level_of(threshold), before, "the threshold");
            expect_return(rpma_log_get_threshold(threshold, nullptr), RPMA_E_INVAL);
        }
    });
}

void add_functions(case_list &cases) {
    add_case(cases, "log.function", [] {
        require_ok(rpma_log_set_function(collect_message));
        fail_with_message();
        require(!g_messages.empty(), "no message");
        for (const log_message &message : g_messages) {
            expect_eq(message.level, RPMA_LOG_LEVEL_ERROR, "the level");
            expect_true(message.text.find("not an address") != std::string::npos,
                        concat("the message does not name the address: ", message.text));
        }
    });
    // Messages of a higher level than the threshold are not passed; the auxiliary one is the
    // function's.
    add_case(cases, "log.function.threshold", [] {
        require_ok(rpma_log_set_function(collect_message));
        require_ok(rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_DEBUG));
        for (const rpma_log_level level : {RPMA_LOG_DISABLED, RPMA_LOG_LEVEL_FATAL}) {
            require_ok(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, level));
            fail_with_message();
            expect_eq(g_messages.size(), 0, "the number of messages");
        }
        require_ok(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_ERROR));
        require_ok(rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_DISABLED));
        fail_with_message();
        expect_true(!g_messages.empty(), "no message");
    });
    add_case(cases, "log.function.default_again", [] {
        require_ok(rpma_log_set_function(collect_message));
        require_ok(rpma_log_set_function(RPMA_LOG_USE_DEFAULT_FUNCTION));
        fail_with_message();
        expect_eq(g_messages.size(), 0, "the number of messages");
    });
    add_case(cases, "log.stderr", [] {
        expect_eq(stderr_of_failure(), "", "stderr");
        for (const rpma_log_level level : {RPMA_LOG_LEVEL_ERROR, RPMA_LOG_LEVEL_DEBUG}) {
            require_ok(rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, level));
            const std::string text = stderr_of_failure();
            expect_true(text.find("not an address") != std::string::npos && text.ends_with('\n'),
                        concat("stderr is '", text, "'"));
        }
        require_ok(rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_FATAL));
        expect_eq(stderr_of_failure(), "", "stderr");
        require_ok(rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_DEBUG));
        require_ok(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_FATAL));
        expect_eq(stderr_of_failure(), "", "stderr");
    });
}

} // namespace

void add_log(case_list &cases) {
    add_thresholds(cases);
    add_functions(cases);
}

} // namespace conform
