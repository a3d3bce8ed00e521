# Writes version.cpp with the commit of the sources; run at every build by the target `version_source`.
# configure_file leaves the file alone when nothing changed, so an unchanged commit recompiles nothing.
#
#   cmake -D SOURCE_DIR=… -D VERSION=… -D OUTPUT=… -P version.cmake
set(KVCONFORM_VERSION ${VERSION})
set(KVCONFORM_COMMIT "")

# The repository is named outright: sources unpacked inside somebody else's repository must not report that
# one's commit, and git's ownership check does not apply to a repository that is named.
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE_DIR}/.git)
  execute_process(
    COMMAND ${GIT} --git-dir=${SOURCE_DIR}/.git --work-tree=${SOURCE_DIR}
            describe --always --dirty --abbrev=40 --exclude=*
    OUTPUT_VARIABLE KVCONFORM_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()

set(KVCONFORM_COMMIT_TEXT ${KVCONFORM_COMMIT})
if(NOT KVCONFORM_COMMIT)
  set(KVCONFORM_COMMIT_TEXT unknown)
endif()
configure_file(${SOURCE_DIR}/cli/version.cpp.in ${OUTPUT} @ONLY)
