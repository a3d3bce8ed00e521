// exp, tanh, sin, cos, pow and sqrt with the same bits on every machine: SLEEF's deterministic
// scalar functions (`cinz`: no FMA, flush nothing), 1.0 ulp at worst. sqrt is IEEE's. Never the C
// library's, whose results change with its version and the processor.
#pragma once

#include <sleef.h>

#include <cmath>

namespace kvconform {

inline float exact_exp(float x) {
  return Sleef_cinz_expf1_u10purec(x);
}
inline double exact_exp(double x) {
  return Sleef_cinz_expd1_u10purec(x);
}
inline float exact_tanh(float x) {
  return Sleef_cinz_tanhf1_u10purec(x);
}
inline double exact_tanh(double x) {
  return Sleef_cinz_tanhd1_u10purec(x);
}
inline float exact_sin(float x) {
  return Sleef_cinz_sinf1_u10purec(x);
}
inline double exact_sin(double x) {
  return Sleef_cinz_sind1_u10purec(x);
}
inline float exact_cos(float x) {
  return Sleef_cinz_cosf1_u10purec(x);
}
inline double exact_cos(double x) {
  return Sleef_cinz_cosd1_u10purec(x);
}
inline float exact_pow(float x, float y) {
  return Sleef_cinz_powf1_u10purec(x, y);
}
inline double exact_pow(double x, double y) {
  return Sleef_cinz_powd1_u10purec(x, y);
}
inline double exact_log(double x) {
  return Sleef_cinz_logd1_u10purec(x);
}
inline float exact_sqrt(float x) {
  return std::sqrt(x);
}
inline double exact_sqrt(double x) {
  return std::sqrt(x);
}

}  // namespace kvconform
