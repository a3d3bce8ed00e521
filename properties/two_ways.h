// Two ways of a subject to compute one thing have come out differently: which of them parts from
// the implementation the subject is held against? Said of a failure that is certain already.
#pragma once

#include <string>

#include "properties/transcript_comparison.h"

namespace kvconform {

/// What the two ways are called in a report: "given at once", "given token by token".
struct WayNames {
  std::string called = "the calls of the case";  ///< as the case's calls compute it
  std::string asked = "each row alone";          ///< as the oracle was asked for it
};

/// Which of the two is within the error budget of the other implementation.
enum class RightWay { unknown, called, asked, both, neither };

/// Holds both ways against `judgement.against`; `unknown` where that cannot answer.
RightWay right_way(const Case& test_case, Judgement& judgement, const ModelConfig& config,
                   const Transcript& called, const Transcript& asked);

/// One sentence for a report; empty where it is not known.
std::string describe_ways(RightWay right, const WayNames& names, const std::string& against);

}  // namespace kvconform
