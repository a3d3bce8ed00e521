// Which kvconform this is: the version of the project and the commit it was built from. Reports
// carry both, so that a recorded case can be run again by the very same code.
//
// The commit is read at build time (version.cmake) into one small source file: a new commit
// recompiles that file and relinks the program, nothing else.
#pragma once

namespace kvconform {

/// "kvconform 0.1.0 (commit 35f52db0c1d2…)", or "kvconform 0.1.0 (commit unknown)".
const char* version_text();

/// "0.1.0"
const char* version_number();

/// All 40 hex digits, with "-dirty" behind them if tracked files were changed; "" where it is not
/// known (no git, or sources that did not come with their history).
const char* commit();

}  // namespace kvconform
