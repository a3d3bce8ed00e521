// What the judged cases were like: how many had which window, length, chunk size, kind of sharing,
// …. Counts for people; whether enough hard cases were met is the business of `requirements`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "properties/case.h"

namespace kvconform {

/// Quantity ("sliding window") → value or range ("8", "17-32") → cases.
using Distribution = std::map<std::string, std::map<std::string, std::int64_t>>;

/// Where a case counts: one pair of quantity and value each, a value at most once.
using Buckets = std::vector<std::pair<std::string, std::string>>;

Buckets buckets_of(const Case& test_case, const ModelConfig& config);

void add(const Buckets& buckets, Distribution& distribution);
void add(const Distribution& more, Distribution& distribution);

/// In the order of their numbers, words last.
std::vector<std::pair<std::string, std::int64_t>> in_order(
    const std::map<std::string, std::int64_t>& counts);

}  // namespace kvconform
