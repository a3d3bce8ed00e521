// Where the checkout that this program was built from keeps what a check needs at run time. In one
// small file: a path in the flags of every file would compile all of them again for each checkout.
#pragma once

namespace kvconform {

extern const char* const kRegressionsFolder;   ///< cases kept from earlier failures
extern const char* const kAdaptersFolder;      ///< adapters of other people's engines
extern const char* const kEnvironmentsFolder;  ///< their virtual environments, made when needed
extern const char* const kPluginHost;          ///< the program that subjects plugin:FILE.so run in

}  // namespace kvconform
