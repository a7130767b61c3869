# asmjit, xbyak and oneTBB: what lies in third_party/, which source distributions have (./dev sdist), else what is installed.
# TBB::tbb, asmjit::asmjit and XBYAK_INCLUDE_DIR are what is linked; FRAMEJIT_*_VERSION say what was found.

# Sets `result` to the version that the first match of `pattern` in `file` has in its groups.
function(framejit_read_version result file pattern)
  file(READ ${file} text)
  if(NOT text MATCHES "${pattern}")
    message(FATAL_ERROR "no version in ${file}")
  endif()
  set(${result} ${CMAKE_MATCH_1}.${CMAKE_MATCH_2} PARENT_SCOPE)
endfunction()

set(third_party ${PROJECT_SOURCE_DIR}/third_party)
if(EXISTS ${third_party})
  set(CMAKE_POLICY_VERSION_MINIMUM 3.10)  # theirs are older than what CMake 4 takes
  set(ASMJIT_STATIC ON)
  set(ASMJIT_NO_FOREIGN ON)
  add_subdirectory(${third_party}/asmjit ${CMAKE_BINARY_DIR}/third_party/asmjit EXCLUDE_FROM_ALL SYSTEM)
  set(ASMJIT_INCLUDE_DIR ${third_party}/asmjit/src)

  # Static, for one file to install. Nobody else in the process can take it for theirs: its names are hidden.
  foreach(option BUILD_SHARED_LIBS TBB_TEST TBB_STRICT TBBMALLOC_BUILD TBB_ENABLE_IPO)
    set(${option} OFF)
  endforeach()
  set(TBB_DISABLE_HWLOC_AUTOMATIC_SEARCH ON)
  set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)  # option() leaves these variables alone
  add_subdirectory(${third_party}/onetbb ${CMAKE_BINARY_DIR}/third_party/onetbb EXCLUDE_FROM_ALL SYSTEM)
  set(TBB_INCLUDE_DIR ${third_party}/onetbb/include)

  set(XBYAK_INCLUDE_DIR ${third_party}/xbyak)
else()
  find_package(TBB CONFIG QUIET)
  find_package(asmjit CONFIG QUIET)
  find_path(TBB_INCLUDE_DIR oneapi/tbb/version.h)
  find_path(ASMJIT_INCLUDE_DIR asmjit/core/api-config.h)
  find_path(XBYAK_INCLUDE_DIR xbyak/xbyak.h)
  if(NOT (TBB_FOUND AND asmjit_FOUND AND TBB_INCLUDE_DIR AND ASMJIT_INCLUDE_DIR AND XBYAK_INCLUDE_DIR))
    message(FATAL_ERROR " framejit is built with asmjit, xbyak and oneTBB, and not all of them are installed.\n"
      " On Debian: apt-get install libasmjit-dev libxbyak-dev libtbb-dev. Elsewhere: CMAKE_PREFIX_PATH is searched for them.\n"
      " A source distribution, as ./dev sdist makes it, has them inside.")
  endif()
endif()

framejit_read_version(FRAMEJIT_ASMJIT_VERSION ${ASMJIT_INCLUDE_DIR}/asmjit/core/api-config.h
                      "define ASMJIT_LIBRARY_VERSION 0x[0-9A-F]+ /\\* ([0-9]+)\\.([0-9.]+)")
framejit_read_version(FRAMEJIT_XBYAK_VERSION ${XBYAK_INCLUDE_DIR}/xbyak/xbyak.h "VERSION = 0x([0-9])([0-9][0-9])")
framejit_read_version(FRAMEJIT_TBB_VERSION ${TBB_INCLUDE_DIR}/oneapi/tbb/version.h
                      "define TBB_VERSION_MAJOR ([0-9]+).*define TBB_VERSION_MINOR ([0-9]+)")
