// A slow-down on purpose: the proof that a comparison of two builds can find one. A program built
// with PLANTED_SLOW_DOWN=N takes one of N decode steps twice, 100/N % more work; everywhere else
// this is nothing. To be seen by `bench compare --gate`, see gate_trial.sh.
#pragma once

namespace kvconform::bench {

#ifdef PLANTED_SLOW_DOWN
/// True for one of PLANTED_SLOW_DOWN steps; `step` counts them.
inline bool decodes_twice(long& step) {
  return ++step % PLANTED_SLOW_DOWN == 0;
}
#else
inline bool decodes_twice(long&) {
  return false;
}
#endif

}  // namespace kvconform::bench
