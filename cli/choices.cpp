// The validator (see choices.h).
#include "cli/choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/words.h"
#include "reference/error.h"

namespace kvconform::cli {

CLI::Validator one_of(const std::string& option, std::vector<std::string> words) {
  return CLI::Validator(
      [option, words = std::move(words)](std::string& text) -> std::string {
        if (std::find(words.begin(), words.end(), text) != words.end()) return "";
        throw Error(
            "KV4003",
            fmt::format("{} does not take \"{}\"{}", option, text, did_you_mean(text, words)),
            fmt::format("choose one of {}", listed(words)));
      },
      "");
}

}  // namespace kvconform::cli
