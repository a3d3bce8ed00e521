// Sections about what sharing keys and values brings; parts of report.h.
#pragma once

#include "bench/document.h"
#include "bench/results.h"

namespace kvconform::bench {

Section computed_sharing();
Section measured_sharing(const Results& results);

std::string bytes_text(double bytes);  ///< "1.5 MB"
std::string time_text(double nanoseconds);
std::string percent_text(double ratio);  ///< 0.25: "25 %"

}  // namespace kvconform::bench
