// Text from elsewhere made fit to stand between HTML's tags and within quoted attributes.
#pragma once

#include <string>
#include <string_view>

namespace kvconform {

std::string html_text(std::string_view raw);

}  // namespace kvconform
