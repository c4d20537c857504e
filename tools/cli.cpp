// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "cli.hpp"

#include "command.hpp"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace tools::cli {
namespace {

std::string check_not_empty(const std::string &value) {
    return value.empty() ? "must not be empty" : "";
}

/// CLI11 replaces a number that the type cannot represent by the nearest one.
template <auto parse_number>
std::string check_fits(const std::string &value) {
    if (value.empty())
        return check_not_empty(value);
    errno = 0;
    static_cast<void>(parse_number(value.c_str(), nullptr, 0));
    return errno == ERANGE ? value + " is out of range" : "";
}

/// strtoull() accepts a negative number.
std::string check_unsigned(const std::string &value) {
    return value.find('-') != std::string::npos ? value + " is out of range"
                                                : check_fits<std::strtoull>(value);
}

} // namespace

option &option::type_name(const std::string &name) {
    opt_->type_name(name);
    return *this;
}

option &option::required() {
    opt_->required();
    return *this;
}

option &option::delimiter(char separator) {
    opt_->delimiter(separator);
    return *this;
}

option &option::hide() {
    opt_->group("");
    return *this;
}

option &option::allow_extra_args(bool allowed) {
    opt_->allow_extra_args(allowed);
    return *this;
}

option &option::capture_default_str() {
    opt_->capture_default_str();
    return *this;
}

option &option::excludes(const option &other) {
    opt_->excludes(other.opt_);
    return *this;
}

option &option::check(const validator &validate, const std::string &description) {
    opt_->check(CLI::Validator(validate, description));
    return *this;
}

option &option::is_member(const std::vector<std::string> &values) {
    opt_->check(CLI::IsMember(values));
    return *this;
}

option &option::range(int min, int max) {
    opt_->check(CLI::Range(min, max));
    return *this;
}

option &option::transform(const std::function<std::string(std::string &)> &replace) {
    opt_->transform(CLI::Validator(replace, ""));
    return *this;
}

std::size_t option::count() const {
    return opt_->count();
}

command command::add_subcommand(const std::string &name, const std::string &description) {
    return command(app_->add_subcommand(name, description));
}

option command::add_flag(const std::string &name, bool &value, const std::string &description) {
    return option(app_->add_flag(name, value, description));
}

option command::add_option(const std::string &name, std::string &value,
                           const std::string &description) {
    return option(app_->add_option(name, value, description)).check(check_not_empty);
}

option command::add_option(const std::string &name, std::vector<std::string> &values,
                           const std::string &description) {
    return option(app_->add_option(name, values, description)).check(check_not_empty);
}

option command::add_option(const std::string &name, int &value, const std::string &description) {
    return option(app_->add_option(name, value, description)).check(check_not_empty);
}

option command::add_option(const std::string &name, std::int64_t &value,
                           const std::string &description) {
    return option(app_->add_option(name, value, description)).check(check_fits<std::strtoll>);
}

option command::add_option(const std::string &name, std::uint64_t &value,
                           const std::string &description) {
    return option(app_->add_option(name, value, description)).check(check_unsigned);
}

option command::add_option(const std::string &name, double &value, const std::string &description) {
    return option(app_->add_option(name, value, description)).check(check_not_empty);
}

void command::callback(const std::function<void()> &function) {
    app_->callback(function);
}

void command::footer(const std::string &text) {
    app_->footer(text);
}

void command::prefix_command() {
    app_->prefix_command();
}

std::size_t command::count(const std::string &name) const {
    return app_->count(name);
}

std::vector<std::string> command::remaining() const {
    return app_->remaining();
}

program::program(const std::string &name, const std::string &description,
                 const std::string &version, std::size_t column_width)
    : command(nullptr)
    , owned_app_(std::make_unique<CLI::App>(description))
    , name_(name) {
    app_ = owned_app_.get();
    app_->name(name);
    app_->set_version_flag("--version", version);
    app_->get_formatter()->column_width(column_width);
    app_->failure_message([name](const CLI::App *, const CLI::Error &e) {
        return name + ": " + e.what() + "; see: " + name + " --help\n";
    });
}

program::~program() = default;

void program::describe(const std::string &name, const std::string &description) {
    app_->get_option(name)->description(description);
}

std::optional<int> program::parse(int argc, char **argv,
                                  const std::optional<std::string> &default_subcommand) {
    try {
        if (default_subcommand)
            app_->require_subcommand(0, 1);
        app_->parse(argc, argv);
        if (default_subcommand && app_->get_subcommands().empty())
            app_->get_subcommand(*default_subcommand)->parse("", false);
    } catch (const CLI::ParseError &e) {
        return app_->exit(e) == 0 ? SUCCESS : USAGE_ERROR;
    } catch (const usage_error &e) {
        std::fprintf(stderr, "%s: %s; see: %s --help\n", name_.c_str(), e.what(), name_.c_str());
        return USAGE_ERROR;
    }
    return std::nullopt;
}

} // namespace tools::cli
