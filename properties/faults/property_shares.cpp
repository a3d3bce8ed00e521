// Counting, and the table.
#include "properties/faults/property_shares.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvconform {
namespace {

const Catch* catch_by(const FaultResult& result, const std::string& property) {
  const auto found = std::find_if(result.catches.begin(), result.catches.end(),
                                  [&](const Catch& c) { return c.property == property; });
  return found == result.catches.end() ? nullptr : &*found;
}

bool sooner_than_others(const FaultResult& result, const Catch& own) {
  return std::all_of(result.catches.begin(), result.catches.end(),
                     [&](const Catch& c) { return &c == &own || own.cases < c.cases; });
}

std::string number_and_example(const std::vector<std::string>& faults) {
  if (faults.empty()) return "0";
  return fmt::format("{}: `{}`{}", faults.size(), faults[0], faults.size() > 1 ? ", …" : "");
}

}  // namespace

std::vector<PropertyShare> shares_of(const std::vector<FaultResult>& results) {
  std::vector<PropertyShare> shares;
  for (const auto& property : all_properties()) {
    PropertyShare share;
    share.property = property->name();
    for (const FaultResult& result : results) {
      const Catch* own = catch_by(result, share.property);
      if (own == nullptr) continue;
      ++share.caught;
      if (result.catches.size() == 1) share.alone.push_back(result.fault.name);
      if (sooner_than_others(result, *own)) share.first.push_back(result.fault.name);
    }
    shares.push_back(std::move(share));
  }
  return shares;
}

std::string shares_markdown(const std::vector<PropertyShare>& shares) {
  std::string text =
      "| property | faults caught | alone | before all others |\n|---|---:|---|---|\n";
  for (const PropertyShare& share : shares) {
    text += fmt::format("| {} | {} | {} | {} |\n", share.property, share.caught,
                        number_and_example(share.alone), number_and_example(share.first));
  }
  return text;
}

}  // namespace kvconform
