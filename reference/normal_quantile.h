// Quantile of the standard normal distribution, Φ⁻¹(p), in double with the same bits everywhere.
// Algorithm AS 241, PPND16 (Wichura, Applied Statistics 37, 1988), relative error about 1e-16, over
// SLEEF's log. Checked against Boost.Math in normal_quantile_test.cpp.
#pragma once

namespace kvconform {

/// p in (0, 1); −infinity and +infinity at the ends.
double normal_quantile(double p);

}  // namespace kvconform
