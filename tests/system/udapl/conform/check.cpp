// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "check.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

namespace conform {

namespace {

struct notes {
    std::mutex lock; // an agent or a second thread may note something, too
    std::vector<std::string> wrongs;
    std::vector<std::string> words;
};
notes &ours() {
    static notes the;
    return the;
}

const char *base_name(const char *path) {
    const char *slash = std::strrchr(path, '/');
    return slash ? slash + 1 : path;
}

} // namespace

std::vector<std::string> &wrongs() {
    return ours().wrongs;
}

void wrong(const std::string &what, spot at) {
    const std::lock_guard hold(ours().lock);
    std::string line = text(base_name(at.file), ':', at.line, ": ");
    for (const std::string &each : ours().words)
        line += each + ": ";
    ours().wrongs.push_back(line + what);
}

saying::saying(const std::string &words) {
    const std::lock_guard hold(ours().lock);
    ours().words.push_back(words);
}
saying::~saying() {
    const std::lock_guard hold(ours().lock);
    ours().words.pop_back();
}

bool is(DAT_RETURN got, std::initializer_list<DAT_RETURN> wants, spot at) {
    if (std::find(wants.begin(), wants.end(), got) != wants.end())
        return true;
    std::string rights;
    for (const DAT_RETURN want : wants)
        rights += (rights.empty() ? "" : " or ") + name_of(want);
    wrong(text("returned ", name_of(got), ", not ", rights), at);
    return false;
}
bool is(DAT_RETURN got, DAT_RETURN want, spot at) {
    return is(got, {want}, at);
}

void done(DAT_RETURN got, spot at) {
    if (!is(got, DAT_SUCCESS, at))
        throw stopped();
}

bool is_nothing(DAT_RETURN got, spot at) {
    const DAT_RETURN type = DAT_GET_TYPE(got);
    return yes(type == DAT_QUEUE_EMPTY || type == DAT_TIMEOUT_EXPIRED,
               "returned " + name_of(got) + ", not that there is nothing", at);
}
bool is_some(DAT_RETURN got, DAT_RETURN_TYPE type, spot at) {
    return yes(DAT_GET_TYPE(got) == type && (got & DAT_CLASS_ERROR) &&
                   DAT_GET_SUBTYPE(got) != DAT_NO_SUBTYPE,
               "returned " + name_of(got) + ", not " + name_of(error(type)) + " with a subtype",
               at);
}

bool yes(bool condition, const std::string &what, spot at) {
    if (!condition)
        wrong(what, at);
    return condition;
}
void need(bool condition, const std::string &what, spot at) {
    if (!yes(condition, what, at))
        throw stopped();
}

} // namespace conform
